"""Requests over HTTP: what reaches the services, and what comes back."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from behind_gateway import SECONDS, Items, ScriptedAgent, echo_tool

from trustgraph_flow.bus import Bus, Request
from trustgraph_flow.schema.agent import AgentMessage
from trustgraph_flow.schema.errors import BadRequest, NotFound
from trustgraph_flow.schema.prompt import PromptResponse

AGENT = "/api/v1/flow/default/service/agent"
TOOL = "/api/v1/flow/default/service/mcp-tool"
PROMPT = "/api/v1/flow/any/service/prompt"
CONFIG = "/api/v1/config"


async def post(http: aiohttp.ClientSession, path: str, body: Any) -> tuple[int, Any]:
    async with http.post(path, json=body) as response:
        return response.status, await response.json()


async def test_a_tool_call_is_answered_with_its_text_and_no_empty_fields(
    bus: Bus, http: aiohttp.ClientSession
) -> None:
    await bus.serve("mcp-tool", echo_tool)
    status, body = await post(http, TOOL, {"name": "echo", "parameters": {"text": "hello"}})
    assert (status, body["text"]) == (200, "hello")
    assert None not in body.values()
    assert "object" not in body


async def test_a_tool_call_is_answered_with_its_object_as_it_is(
    bus: Bus, http: aiohttp.ClientSession
) -> None:
    await bus.serve("mcp-tool", echo_tool)
    parameters = {"big": 2**70, "none": None, "ratio": 0.1, "emoji": "\U0001f916"}
    _, body = await post(http, TOOL, {"name": "echo", "parameters": parameters, "workspace": "north"})
    assert body["object"] == {"workspace": "north", **parameters}


async def test_an_agent_request_waits_for_the_run_and_is_answered_with_its_last_message(
    agent: ScriptedAgent, http: aiohttp.ClientSession
) -> None:
    status, body = await post(http, AGENT, {"question": "6 x 7?", "streaming": True, "group": []})
    assert status == 200
    assert body["content"] == body["answer"] == "42"
    assert body["message_type"] == "answer"
    assert body["end_of_message"] is body["end_of_dialog"] is True
    workspace, asked = agent.asked[0]
    assert (workspace, asked.question, asked.group, asked.streaming) == ("default", "6 x 7?", [], False)


async def test_a_run_that_fails_is_answered_with_its_error(
    agent: ScriptedAgent, http: aiohttp.ClientSession
) -> None:
    agent.messages = [AgentMessage(message_type="error", content="no steps left", end_of_dialog=True)]
    status, body = await post(http, AGENT, {"question": "?"})
    assert status == 200
    assert body["error"] == {"type": "agent-error", "message": "no steps left"}


async def test_an_error_of_the_service_is_answered_with_200_type_and_message(
    bus: Bus, http: aiohttp.ClientSession
) -> None:
    async def handler(request: Request) -> dict[str, Any]:
        raise NotFound("no tool 'x'")

    await bus.serve("mcp-tool", handler)
    status, body = await post(http, TOOL, {"name": "x"})
    assert (status, body) == (200, {"error": {"type": "not-found", "message": "no tool 'x'"}})


async def test_a_request_that_the_service_finds_wrong_is_a_bad_request(
    bus: Bus, http: aiohttp.ClientSession
) -> None:
    async def handler(request: Request) -> dict[str, Any]:
        raise BadRequest("values.0: no JSON")

    await bus.serve("config", handler)
    status, body = await post(http, CONFIG, {"operation": "put", "values": []})
    assert (status, body) == (400, {"error": "values.0: no JSON"})


async def test_a_prompt_s_object_is_sent_as_json_text(bus: Bus, http: aiohttp.ClientSession) -> None:
    async def handler(request: Request) -> PromptResponse:
        return PromptResponse(object={"a": [1, None]})

    await bus.serve("prompt", handler)
    _, body = await post(http, PROMPT, {"id": "extract", "variables": {"text": "x"}})
    assert json.loads(body["object"]) == {"a": [1, None]}
    assert "text" not in body


async def test_a_missing_config_item_has_the_value_null(items: Items, http: aiohttp.ClientSession) -> None:
    items.kept["north", "tool", "a"] = "{}"
    keys = [{"type": "tool", "key": "a"}, {"type": "tool", "key": "b"}]
    _, body = await post(http, CONFIG, {"operation": "get", "workspace": "north", "keys": keys})
    assert body == {
        "version": 1,
        "values": [
            {"workspace": "north", "type": "tool", "key": "a", "value": "{}"},
            {"workspace": "north", "type": "tool", "key": "b", "value": None},
        ],
    }


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        (AGENT, {}, ["question"]),
        (AGENT, {"question": 1, "group": "default", "timeout": "5", "streaming": 1},
         ["question", "group", "timeout", "streaming"]),
        (AGENT, {"question": "q", "timeout": -1}, ["timeout"]),
        (AGENT, {"question": "q", "run_id": "a/b"}, ["run_id"]),
        (AGENT, {"question": "q", "run_id": "r" * 129}, ["run_id"]),
        (TOOL, {"name": "t", "parameters": []}, ["parameters"]),
        (TOOL, {"name": "t", "call_id": "c"}, ["call_id"]),
        (PROMPT, {"variables": {}}, ["id"]),
        (CONFIG, {"operation": "drop"}, ["operation"]),
        (CONFIG, {"operation": "snapshot"}, ["snapshot"]),
        (CONFIG, {"operation": "put", "values": [{"type": "t", "value": 1}]},
         ["values.0.key", "values.0.value"]),
        (CONFIG, {"operation": "put", "values": [{"type": "t", "key": "k", "value": "v", "workspace": "x"}]},
         ["values.0.workspace"]),
        (CONFIG, {"operation": "list", "workspace": 1}, ["workspace"]),
        (CONFIG, {"operation": "list", "workspace": "_system"}, ["workspace"]),
        (CONFIG, ["operation"], ["the body must be a JSON object, not an array"]),
        (CONFIG, "list", ["a string"]),
    ],
)  # fmt: skip
async def test_a_bad_request_is_refused_with_every_fault_named(
    http: aiohttp.ClientSession, path: str, body: Any, named: list[str]
) -> None:
    status, answer = await post(http, path, body)
    assert status == 400
    assert [name for name in named if name not in answer["error"]] == []


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"null",
        b"\xff\xfe",
        b'{"question": NaN}',
        b'{"question": -Infinity}',
        b'{"question": 1e999}',
        b'{"question": "\\ud800"}',
        b'{"question": ' + b"[" * 100_000,
        b'{"question": ' + b"[" * 150 + b"]" * 150 + b"}",
        b'{"question": ' + b"9" * 5000 + b"}",
    ],
)
async def test_a_body_that_is_no_json_is_refused_with_a_reason(
    http: aiohttp.ClientSession, text: bytes
) -> None:
    async with http.post(AGENT, data=text) as response:
        assert response.status == 400
        assert (await response.json())["error"].startswith("the body ")


async def test_an_unknown_service_is_not_found_and_the_known_ones_are_named(
    http: aiohttp.ClientSession,
) -> None:
    status, body = await post(http, "/api/v1/flow/default/service/graph-rag", {})
    assert status == 404
    assert "agent, mcp-tool, prompt, text-completion" in body["error"]


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nothing", 404), ("GET", CONFIG, 405)])
async def test_a_wrong_path_or_method_is_answered_in_json(
    http: aiohttp.ClientSession, method: str, path: str, status: int
) -> None:
    async with http.request(method, path) as response:
        assert response.status == status
        assert path in (await response.json())["error"]


async def test_a_body_over_the_limit_is_refused_with_the_limit_named(start_gateway: Any) -> None:
    gateway = await start_gateway(max_body=1000)
    async with aiohttp.ClientSession(gateway.url) as http:
        status, body = await post(http, AGENT, {"question": "x" * 1000})
    assert status == 413
    assert "1,000 bytes" in body["error"]


async def test_a_body_that_does_not_arrive_is_given_up(start_gateway: Any) -> None:
    gateway = await start_gateway(body_seconds=0.05)

    async def half() -> Any:
        yield b'{"question":'
        await asyncio.Event().wait()

    async with (
        aiohttp.ClientSession(gateway.url) as http,
        http.post(AGENT, data=half()) as response,
    ):
        assert response.status == 408
        assert "0.05 s" in (await response.json())["error"]


async def test_a_client_that_vanishes_cancels_its_run(
    agent: ScriptedAgent, http: aiohttp.ClientSession
) -> None:
    asking = asyncio.create_task(post(http, AGENT, {"question": "wait"}))
    await asyncio.wait_for(agent.started.wait(), SECONDS)
    asking.cancel()
    await asyncio.wait_for(agent.cancelled.wait(), SECONDS)


async def test_requests_are_counted_by_service_and_outcome(bus: Bus, http: aiohttp.ClientSession) -> None:
    await bus.serve("mcp-tool", echo_tool)
    await post(http, TOOL, {"name": "echo"})
    await post(http, TOOL, {"name": 1})
    async with http.get("/api/metrics") as response:
        text = await response.text()
    assert 'tg_gateway_requests_total{outcome="ok",service="mcp-tool"}' in text
    assert 'tg_gateway_requests_total{outcome="bad-request",service="mcp-tool"}' in text
