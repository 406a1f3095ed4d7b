"""A whole agent on the real broker, with a scripted model; the test answers the calls."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable
from typing import Any

from trustgraph_flow.agent.react.service import AgentService
from trustgraph_flow.bus import Bus, Request
from trustgraph_flow.config import ConfigView
from trustgraph_flow.llm.scripted import ScriptedModel
from trustgraph_flow.schema.agent import AgentMessage, AgentRequest
from trustgraph_flow.schema.config import NOTICE_CHANNEL, ConfigNotice, ConfigRequest, ConfigResponse
from trustgraph_flow.schema.events import RunEvent
from trustgraph_flow.schema.mcp import McpToolRequest, McpToolResponse
from trustgraph_flow.store import ConfigChange, Store

FIXTURE_TOOLS: dict[str, dict[str, Any]] = {
    "get_forecast": {
        "description": "Weather outlook",
        "arguments": [
            {"name": "place", "type": "string", "description": "Town", "required": True},
            {"name": "days", "type": "integer", "description": "How many days", "default": 3},
            {"name": "units", "type": "string", "enum": ["metric", "imperial"]},
            {"name": "detailed", "type": "boolean"},
        ],
    },
    "list_servers": {"description": "No input needed", "arguments": []},
    "transfer": {
        "description": "Moves an amount; has a side effect",
        "arguments": [
            {"name": "account_id", "type": "integer", "required": True},
            {"name": "amount", "type": "number", "minimum": 0, "required": True},
            {"name": "dry_run", "type": "boolean", "default": False},
        ],
    },
}

Answer = Callable[[McpToolRequest], McpToolResponse | Awaitable[McpToolResponse]]
PATIENCE = 0.2
"""Seconds after which the worker of a run in the log is taken for dead."""


def text_result(_: McpToolRequest) -> McpToolResponse:
    return McpToolResponse(text="done")


class WatchedAgent(AgentService):
    """Tells when a config change has been taken up."""

    def __init__(self, bus: Bus, store: Store, *, concurrency: int = 256) -> None:
        super().__init__(bus, store, concurrency=concurrency, patience=PATIENCE)
        self.reloaded = asyncio.Event()

    async def reload(self, view: ConfigView) -> None:
        await super().reload(view)
        self.reloaded.set()


class HeldCall:
    """A tool that does not answer before it is let go. ``here`` is set when a call has come."""

    def __init__(self, text: str = "done") -> None:
        self.text = text
        self.here = asyncio.Event()
        self.go = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def __call__(self, _: McpToolRequest) -> McpToolResponse:
        self.here.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return McpToolResponse(text=self.text)


class World:
    """One agent service with its model and tools. ``sent`` is what arrived on the mcp-tool request topic."""

    def __init__(self, bus: Bus, store: Store, model: ScriptedModel, agent: WatchedAgent) -> None:
        self.bus = bus
        self.store = store
        self.model = model
        self.agent = agent
        self.sent: list[McpToolRequest] = []
        self.answer: Answer = text_result

    async def on_call(self, request: Request) -> McpToolResponse:
        call = request.parse(McpToolRequest)
        self.sent.append(call)
        answer = self.answer(call)
        return await answer if inspect.isawaitable(answer) else answer

    async def ask(
        self, question: str = "What now?", *, workspace: str = "default", **fields: Any
    ) -> list[AgentMessage]:
        request = AgentRequest(question=question, **fields)
        stream = self.bus.stream("agent", request, AgentMessage, workspace=workspace, timeout=30)
        return [message async for message in stream]

    async def put(self, kind: str, key: str, value: Any, *, workspace: str = "default") -> None:
        text = value if isinstance(value, str) else json.dumps(value)
        item = {"type": kind, "key": key, "value": text, "workspace": workspace}
        body = ConfigRequest.model_validate({"operation": "put", "values": [item]})
        await self.bus.request("config", body, ConfigResponse, timeout=10)

    async def put_unchecked(self, kind: str, key: str, text: str) -> None:
        """Writes past the checks of the config service, as an older release would have."""
        version = await self.store.config.write([ConfigChange("default", kind, key, text)])
        await self.bus.broadcast(NOTICE_CHANNEL, ConfigNotice(version=version))

    async def events(self, run_id: str) -> list[RunEvent]:
        return await self.store.runs.read(run_id)

    @property
    def prompts(self) -> list[str]:
        return [request.prompt for request in self.model.requests]


MakeWorld = Callable[..., Awaitable[World]]


async def replace_items(world: World, tools: dict[str, Any], items: dict[str, dict[str, Any]]) -> None:
    stored = await world.bus.request(
        "config", ConfigRequest(operation="list", type="tool"), ConfigResponse, timeout=10
    )
    await world.bus.request(
        "config",
        ConfigRequest.model_validate(
            {"operation": "delete", "keys": [{"type": "tool", "key": key} for key in stored.directory or []]}
        ),
        ConfigResponse,
        timeout=10,
    )
    for key, tool in tools.items():
        if isinstance(tool, str):
            await world.put_unchecked("tool", key, tool)
        else:
            await world.put("tool", key, {"type": "mcp-tool", "name": key, "mcp-tool": key, **tool})
    for kind, values in items.items():
        for key, value in values.items():
            await world.put(kind, key, value)


def call(action: str, thought: str = "look", **arguments: Any) -> str:
    return f"Thought: {thought}\nAction: {action}\nArgs: {json.dumps(arguments)}"


def final(answer: str, thought: str = "enough") -> str:
    return f"Thought: {thought}\nFinal Answer: {answer}"
