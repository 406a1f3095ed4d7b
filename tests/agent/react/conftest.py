from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from react_world import FIXTURE_TOOLS, MakeWorld, WatchedAgent, World, replace_items

from trustgraph_flow.bus import Bus
from trustgraph_flow.config import ConfigService, default_folder, load_defaults
from trustgraph_flow.llm import LlmService
from trustgraph_flow.llm.scripted import Script, ScriptedModel
from trustgraph_flow.store import Store


@pytest.fixture
async def make_world(bus: Bus) -> AsyncIterator[MakeWorld]:
    """``await make_world(replies, tools={…})``; a tool is named as its key and is an MCP tool by default;
    one given as text is stored as it is."""
    async with AsyncExitStack() as stack:

        async def make(
            replies: Script,
            *,
            tools: dict[str, Any] | None = None,
            items: dict[str, dict[str, Any]] | None = None,
            constrained: bool = False,
            context_tokens: int | None = None,
            concurrency: int = 256,
        ) -> World:
            store = await Store.open("sqlite://")
            stack.push_async_callback(store.close)
            await load_defaults(store, default_folder())
            model = ScriptedModel(replies, constrained=constrained, context_tokens=context_tokens)
            agent = WatchedAgent(bus, store, concurrency=concurrency)
            world = World(bus, store, model, agent)
            config = ConfigService(bus, store)
            await config.start()
            stack.push_async_callback(config.close)
            await replace_items(world, FIXTURE_TOOLS if tools is None else tools, items or {})
            llm = LlmService(bus, model)
            await llm.start()
            stack.push_async_callback(llm.close)
            calls = await bus.serve("mcp-tool", world.on_call)
            stack.push_async_callback(calls.close)
            await agent.start()
            stack.push_async_callback(agent.close)
            return world

        yield make
