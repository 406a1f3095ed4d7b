"""A real gateway on a free port, and small services of the bus for it to find: what its tests share."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest_asyncio

from trustgraph_flow.bus import Bus, Request
from trustgraph_flow.gateway import Gateway, GatewaySettings
from trustgraph_flow.schema.agent import AgentMessage, AgentRequest
from trustgraph_flow.schema.config import ConfigRequest, ConfigResponse, ConfigValue
from trustgraph_flow.schema.mcp import McpToolRequest, McpToolResponse

SECONDS = 20
"""After which a test that waits has failed."""

StartGateway = Callable[..., Awaitable[Gateway]]


@dataclass
class Items:
    """A config service on a dict: ``{(workspace, type, key): value}``."""

    kept: dict[tuple[str, str, str], str] = field(default_factory=dict)
    version: int = 1
    writers: set[str | None] = field(default_factory=set)

    async def serve(self, request: Request) -> ConfigResponse:
        asked = request.parse(ConfigRequest)
        workspace = asked.workspace or "default"
        mine = {(kind, key): text for (space, kind, key), text in self.kept.items() if space == workspace}
        match asked.operation:
            case "get":
                wanted = [(each.type, each.key) for each in asked.keys]
            case "getvalues":
                wanted = [name for name in mine if name[0] == asked.type]
            case "list":
                directory = [key for kind, key in mine if kind == asked.type]
                return ConfigResponse(version=self.version, directory=directory)
            case "config":
                config: dict[str, dict[str, str]] = {}
                for (kind, key), text in mine.items():
                    config.setdefault(kind, {})[key] = text
                return ConfigResponse(version=self.version, config=config)
            case _:
                self._write(workspace, asked)
                return ConfigResponse(version=self.version)
        values = [ConfigValue(type=kind, key=key, value=mine.get((kind, key))) for kind, key in wanted]
        return ConfigResponse(version=self.version, values=values)

    def _write(self, workspace: str, asked: ConfigRequest) -> None:
        self.version += 1
        self.writers.add(asked.who)
        for item in asked.values:
            assert item.value is not None
            self.kept[workspace, item.type, item.key] = item.value
        for item in asked.keys:
            self.kept.pop((workspace, item.type, item.key), None)


@dataclass
class ScriptedAgent:
    """Plays ``messages``, the last being the end; a question ``wait`` waits until it is cancelled."""

    messages: list[AgentMessage] = field(default_factory=list)
    asked: list[tuple[str, AgentRequest]] = field(default_factory=list)
    started: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event | None = None
    """Waited for before the last message, where it is given."""

    async def serve(self, request: Request) -> AgentMessage:
        asked = request.parse(AgentRequest)
        self.asked.append((request.workspace, asked))
        try:
            if asked.question == "wait":
                self.started.set()
                await asyncio.Event().wait()
            for message in self.messages[:-1]:
                await request.send(message)
            if self.go_on is not None:
                await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return self.messages[-1]


async def echo_tool(request: Request) -> McpToolResponse:
    """Answers with the parameters: as text where there is a ``text`` among them."""
    asked = request.parse(McpToolRequest)
    if "text" in asked.parameters:
        return McpToolResponse(text=asked.parameters["text"])
    return McpToolResponse(object={"workspace": request.workspace, **asked.parameters})


def answer(content: str, **fields: Any) -> AgentMessage:
    return AgentMessage(
        message_type="answer", content=content, message_id="m2", end_of_dialog=True, in_token=3, **fields
    )


def thought(content: str, **fields: Any) -> AgentMessage:
    return AgentMessage(message_type="thought", content=content, message_id="m1", **fields)


@pytest_asyncio.fixture
async def start_gateway(bus: Bus) -> AsyncIterator[StartGateway]:
    """Starts gateways with the settings given, on free ports, and ends them after the test."""
    started: list[Gateway] = []

    async def start(**settings: Any) -> Gateway:
        gateway = Gateway(bus, GatewaySettings(**{"port": 0, **settings}))
        await gateway.start()
        started.append(gateway)
        return gateway

    yield start
    for gateway in started:
        await gateway.close()


@pytest_asyncio.fixture
async def gateway(start_gateway: StartGateway) -> Gateway:
    return await start_gateway()


@pytest_asyncio.fixture
async def http(gateway: Gateway) -> AsyncIterator[aiohttp.ClientSession]:
    """A plain HTTP client of ``gateway``."""
    async with aiohttp.ClientSession(gateway.url) as session:
        yield session


@pytest_asyncio.fixture
async def items(bus: Bus) -> Items:
    kept = Items()
    await bus.serve("config", kept.serve)
    return kept


@pytest_asyncio.fixture
async def agent(bus: Bus) -> ScriptedAgent:
    scripted = ScriptedAgent([thought("hm"), answer("42")])
    await bus.serve("agent", scripted.serve)
    return scripted


def stored(item: dict[str, Any]) -> str:
    return json.dumps(item)
