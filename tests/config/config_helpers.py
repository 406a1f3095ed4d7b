"""What the tests of the config room share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from trustgraph_flow.bus import Bus
from trustgraph_flow.config import ConfigView
from trustgraph_flow.schema.config import ConfigResponse


class Client:
    """Asks the config service as anybody does: over the bus."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus

    async def ask(self, operation: str, **fields: Any) -> ConfigResponse:
        body = {"operation": operation, **fields}
        return await self.bus.request("config", body, ConfigResponse, timeout=20)

    async def put(self, **tools: str) -> int:
        values = [{"type": "mcp", "key": key, "value": value} for key, value in tools.items()]
        return (await self.ask("put", values=values)).version

    async def delete(self, type: str, key: str) -> int:
        return (await self.ask("delete", keys=[{"type": type, "key": key}])).version


class Seen:
    """An ``on_change`` that keeps what it is given and lets a test wait for it."""

    def __init__(self) -> None:
        self.views: list[ConfigView] = []
        self._more = asyncio.Condition()

    async def __call__(self, view: ConfigView) -> None:
        async with self._more:
            self.views.append(view)
            self._more.notify_all()

    @property
    def tools(self) -> dict[str, str]:
        return dict(self.views[-1].of("default", "mcp"))

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20), self._more:
            await self._more.wait_for(condition)
