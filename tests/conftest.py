"""What all tests share: a real broker, and a bus of one's own on it.

``--pulsar-host`` and ``--pulsar-admin`` put the same tests on an Apache Pulsar that is running already.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from trustgraph_flow.bus import Bus, BusSettings, EmbeddedBroker


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--pulsar-host", default=None, help="URL of a running Pulsar instead of the embedded broker"
    )
    parser.addoption(
        "--pulsar-admin", default=None, help="URL of its admin API, to make a tenant for each test"
    )


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def broker_url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[str]:
    """The broker that the tests of this run share."""
    host = request.config.getoption("--pulsar-host")
    if host:
        yield host
        return
    async with EmbeddedBroker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker.url


@pytest_asyncio.fixture
async def bus_settings(request: pytest.FixtureRequest, broker_url: str) -> BusSettings:
    """Settings with a tenant that no other test uses."""
    settings = BusSettings(url=broker_url, tenant=f"t{uuid.uuid4().hex[:12]}")
    admin = request.config.getoption("--pulsar-admin")
    if admin:
        from trustgraph_flow.bus.admin import prepare

        await prepare(admin, settings)
    return settings


@pytest_asyncio.fixture
async def bus(bus_settings: BusSettings) -> AsyncIterator[Bus]:
    async with Bus(bus_settings) as bus:
        yield bus
