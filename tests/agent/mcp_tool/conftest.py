from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from mcp_world import QUICK, RawHttp
from service_world import World

from trustgraph_flow.agent.mcp_tool import Connection, Limits
from trustgraph_flow.agent.mcp_tool.target import Target
from trustgraph_flow.bus import Bus
from trustgraph_flow.store import Store


@pytest_asyncio.fixture
async def raw_http() -> AsyncIterator[Callable[..., Awaitable[RawHttp]]]:
    """``await raw_http(call)`` starts a raw server that is stopped after the test."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(
            call: Callable[[web.Request, dict[str, Any]], Awaitable[Any]], **more: Any
        ) -> RawHttp:
            server = RawHttp(call, **more)
            await server.start()
            stack.push_async_callback(server.stop)
            return server

        yield start


@pytest_asyncio.fixture
async def connect() -> AsyncIterator[Callable[..., Connection]]:
    """``connect(target)`` makes a connection that is closed after the test."""
    connections: list[Connection] = []

    def make(target: Target | str, limits: Limits = QUICK, **options: Any) -> Connection:
        if isinstance(target, str):
            target = Target(workspace="default", label="demo", url=target)
        connections.append(Connection(target, limits, **options))
        return connections[-1]

    yield make
    for connection in connections:
        await connection.close()


@pytest.fixture
def unused_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest_asyncio.fixture
async def world(bus: Bus, tmp_path: Path) -> AsyncIterator[World]:
    async with await Store.open(f"sqlite:///{tmp_path}/tg.db") as store:
        world = World(bus, store)
        await world.config.start()
        await world.service.start()
        yield world
        await world.service.close()
        await world.config.close()
