"""The whole MCP service on a bus and a store of its own."""

from __future__ import annotations

import asyncio
import json

from mcp_world import QUICK

from trustgraph_flow.agent.mcp_tool import McpToolService
from trustgraph_flow.bus import Bus
from trustgraph_flow.config import ConfigService
from trustgraph_flow.schema.config import NOTICE_CHANNEL, ConfigNotice, ConfigRequest, ConfigResponse
from trustgraph_flow.schema.mcp import McpToolRequest, McpToolResponse
from trustgraph_flow.store import ConfigChange, Store


class World:
    """A config service and an MCP service on one bus and one store."""

    def __init__(self, bus: Bus, store: Store) -> None:
        self.bus = bus
        self.store = store
        self.config = ConfigService(bus, store)
        self.service = McpToolService(bus, store, limits=QUICK)

    async def put(self, workspace: str = "default", **types) -> None:
        """``put(mcp={key: item})``; the service has applied it when this returns.

        The items go straight to the store, as if they had been saved before anybody checked them.
        """
        changes = [
            ConfigChange(
                workspace, kind.replace("_", "-"), key, item if isinstance(item, str) else json.dumps(item)
            )
            for kind, items in types.items()
            for key, item in items.items()
        ]
        await self.changed(await self.store.config.write(changes))

    async def delete(self, kind: str, key: str) -> None:
        await self.changed(await self.store.config.write([ConfigChange("default", kind, key, None)]))

    async def changed(self, version: int) -> None:
        """Tells the watchers, and waits until the service's has applied this version."""
        watcher = self.service._watcher
        await self.bus.broadcast(NOTICE_CHANNEL, ConfigNotice(version=version))
        async with asyncio.timeout(10):
            while (watcher.version or 0) < version or not watcher._applied:
                await asyncio.wait([asyncio.create_task(asyncio.sleep(0))])

    async def schema(self, key: str) -> dict:
        """The ``mcp-schema`` item of a key, as soon as there is one."""
        keys = [{"type": "mcp-schema", "key": key}]
        request = ConfigRequest(operation="get", workspace="default", keys=keys)
        async with asyncio.timeout(10):
            while True:
                found = await self.bus.request("config", request, ConfigResponse, timeout=10)
                if found.values and found.values[0].value is not None:
                    return json.loads(found.values[0].value)

    async def call(
        self, name: str, workspace: str = "default", wait: float = 20, **parameters
    ) -> McpToolResponse:
        return await self.ask(McpToolRequest(name=name, parameters=parameters), workspace, wait)

    async def ask(
        self, request: McpToolRequest, workspace: str = "default", wait: float = 20
    ) -> McpToolResponse:
        return await self.bus.request("mcp-tool", request, McpToolResponse, workspace=workspace, timeout=wait)
