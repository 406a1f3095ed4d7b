from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from config_helpers import Client

from trustgraph_flow.bus import Bus
from trustgraph_flow.config import ConfigService
from trustgraph_flow.store import Store


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with await Store.open("sqlite://") as opened:
        yield opened


@pytest.fixture
async def service(bus: Bus, store: Store) -> AsyncIterator[ConfigService]:
    service = ConfigService(bus, store)
    await service.start()
    yield service
    await service.close()


@pytest.fixture
def client(bus: Bus, service: ConfigService) -> Client:
    return Client(bus)
