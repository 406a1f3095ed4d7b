"""Alive and ready are two questions."""

from __future__ import annotations

from collections.abc import Iterator

import aiohttp
import pytest

from trustgraph_flow.bus import Bus, Request
from trustgraph_flow.gateway import readiness
from trustgraph_flow.schema.agent import AgentMessage, AgentRequest
from trustgraph_flow.schema.config import ConfigRequest
from trustgraph_flow.schema.llm import TextCompletionRequest
from trustgraph_flow.schema.mcp import McpToolRequest
from trustgraph_flow.schema.prompt import PromptRequest

REQUESTS = {
    "agent": AgentRequest,
    "config": ConfigRequest,
    "mcp-tool": McpToolRequest,
    "prompt": PromptRequest,
    "text-completion": TextCompletionRequest,
}


@pytest.fixture(autouse=True)
def _short_probes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(readiness, "PROBE_SECONDS", 0.5)
    return


async def serve(bus: Bus, *services: str) -> list[str]:
    """Serves them; the list holds the services whose handler went on past the check of the request."""
    worked: list[str] = []

    async def handler(request: Request) -> AgentMessage:
        request.parse(REQUESTS[request.service])
        worked.append(request.service)
        return AgentMessage(message_type="answer")

    for service in services:
        await bus.serve(service, handler)
    return worked


async def test_ready_when_every_service_answers_and_none_has_worked_for_it(
    bus: Bus, http: aiohttp.ClientSession
) -> None:
    worked = await serve(bus, *REQUESTS)
    async with http.get("/api/v1/ready") as response:
        assert response.status == 200
        assert await response.json() == {"ready": True, "services": dict.fromkeys(REQUESTS, "answers")}
    assert worked == []


async def test_not_ready_but_alive_when_a_service_is_missing(bus: Bus, http: aiohttp.ClientSession) -> None:
    await serve(bus, *(REQUESTS.keys() - {"agent"}))
    async with http.get("/api/v1/ready") as response:
        assert response.status == 503
        body = await response.json()
    assert body["ready"] is False
    assert "agent" in body["services"].pop("agent")
    assert set(body["services"].values()) == {"answers"}
    async with http.get("/api/v1/health") as response:
        assert response.status == 200
