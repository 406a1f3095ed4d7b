"""The WebSocket: greeting, requests side by side, and what happens when it vanishes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from behind_gateway import SECONDS, Items, ScriptedAgent, StartGateway, answer, echo_tool, thought

from trustgraph_flow.bus import Bus, Request
from trustgraph_flow.gateway import Gateway
from trustgraph_flow.schema.errors import NotFound
from trustgraph_flow.schema.llm import TextCompletionRequest, TextCompletionResponse

Socket = aiohttp.ClientWebSocketResponse


@asynccontextmanager
async def connected(gateway: Gateway, token: str | None = "") -> AsyncIterator[Socket]:
    """A socket that has been greeted; ``token`` None leaves the greeting to the test."""
    async with (
        aiohttp.ClientSession(gateway.url) as http,
        http.ws_connect("/api/v1/socket") as socket,
    ):
        if token is not None:
            await socket.send_json({"type": "auth", "token": token})
            assert await receive(socket) == {"type": "auth-ok", "default_workspace": "default"}
        yield socket


async def receive(socket: Socket) -> dict[str, Any]:
    body: dict[str, Any] = await socket.receive_json(timeout=SECONDS)
    return body


async def ask(socket: Socket, id: Any, service: str, request: Any, **frame: Any) -> None:
    await socket.send_json({"id": id, "service": service, "flow": "default", "request": request, **frame})


@pytest.mark.parametrize(
    "frame",
    [
        '{"type": "auth", "token": "wrong"}',
        '{"type": "auth", "token": 1}',
        '{"type": "auth"}',
        '{"id": "1", "service": "agent", "request": {}}',
        "{",
        "[]",
    ],
)
async def test_a_first_frame_that_does_not_fit_is_answered_and_ends_the_socket(
    start_gateway: StartGateway, frame: str
) -> None:
    async with connected(await start_gateway(token="right"), None) as socket:
        await socket.send_str(frame)
        refusal = await receive(socket)
        assert refusal["type"] == "auth-failed"
        assert refusal["error"]
        assert (await socket.receive(SECONDS)).type is aiohttp.WSMsgType.CLOSE


async def test_a_client_that_does_not_greet_is_let_go(start_gateway: StartGateway) -> None:
    async with connected(await start_gateway(body_seconds=0.05), None) as socket:
        assert "0.05 s" in (await receive(socket))["error"]


async def test_the_token_is_asked_for_in_the_first_frame(start_gateway: StartGateway, items: Items) -> None:
    async with connected(await start_gateway(token="right"), "right") as socket:
        await ask(socket, "1", "config", {"operation": "list", "type": "tool"})
        assert await receive(socket) == {
            "id": "1",
            "response": {"version": 1, "directory": []},
            "complete": True,
        }


async def test_a_message_that_a_second_worker_tells_again_is_sent_once(
    gateway: Gateway, agent: ScriptedAgent
) -> None:
    whole = thought("let me see")
    agent.messages = [whole, whole, thought("let me see", end_of_message=False), answer("42")]
    async with connected(gateway) as socket:
        await ask(socket, "q", "agent", {"question": "?", "run_id": "mine.1"})
        frames = [await receive(socket) for _ in range(2)]
    assert [frame["response"]["content"] for frame in frames] == ["let me see", "42"]
    assert agent.asked[0][1].run_id == "mine.1"


async def test_each_agent_message_is_sent_when_it_comes(gateway: Gateway, agent: ScriptedAgent) -> None:
    agent.go_on = asyncio.Event()
    agent.messages = [
        thought("let ", end_of_message=False),
        thought("me see"),
        answer("4", end_of_message=False).model_copy(update={"end_of_dialog": False}),
        answer("2"),
    ]
    async with connected(gateway) as socket:
        await ask(socket, "q", "agent", {"question": "?", "streaming": True}, workspace="north")
        early = [await receive(socket) for _ in range(3)]
        agent.go_on.set()
        last = await receive(socket)
    assert [(f["response"]["content"], f["complete"]) for f in early] == [
        ("let ", False),
        ("me see", False),
        ("4", False),
    ]
    assert last == {
        "id": "q",
        "response": {
            "message_type": "answer",
            "content": "2",
            "end_of_message": True,
            "end_of_dialog": True,
            "message_id": "m2",
            "in_token": 3,
        },
        "complete": True,
    }
    assert agent.asked[0][0] == "north"


async def test_streamed_text_ends_with_one_complete_frame(gateway: Gateway, bus: Bus) -> None:
    async def handler(request: Request) -> TextCompletionResponse:
        assert request.parse(TextCompletionRequest).streaming
        await request.send(TextCompletionResponse(response="a"))
        await request.send(TextCompletionResponse(response="b"))
        return TextCompletionResponse(response="", in_token=1)

    await bus.serve("text-completion", handler)
    async with connected(gateway) as socket:
        await ask(socket, "1", "text-completion", {"prompt": "x", "streaming": True})
        frames = [await receive(socket) for _ in range(3)]
    assert [(f["response"]["response"], f["complete"]) for f in frames] == [
        ("a", False),
        ("b", False),
        ("", True),
    ]


async def test_requests_on_one_socket_run_side_by_side(
    gateway: Gateway, bus: Bus, agent: ScriptedAgent
) -> None:
    agent.go_on = asyncio.Event()
    await bus.serve("mcp-tool", echo_tool)
    async with connected(gateway) as socket:
        await ask(socket, "slow", "agent", {"question": "?"})
        assert (await receive(socket))["id"] == "slow"
        await ask(socket, 7, "mcp-tool", {"name": "echo", "parameters": {"text": "quick"}})
        quick = await receive(socket)
        assert (quick["id"], quick["response"]["text"]) == (7, "quick")
        agent.go_on.set()
        assert (await receive(socket))["response"]["content"] == "42"


async def test_an_error_of_the_service_ends_its_request_alone(gateway: Gateway, bus: Bus) -> None:
    async def handler(request: Request) -> dict[str, Any]:
        raise NotFound("no tool 'x'")

    await bus.serve("mcp-tool", handler)
    async with connected(gateway) as socket:
        for id in ("1", "2"):
            await ask(socket, id, "mcp-tool", {"name": "x"})
            assert await receive(socket) == {
                "id": id,
                "error": {"type": "not-found", "message": "no tool 'x'"},
                "complete": True,
            }


@pytest.mark.parametrize(
    ("frame", "id", "named"),
    [
        ("{", None, "not valid JSON"),
        ("[]", None, "must be a JSON object"),
        ('{"service": "agent", "request": {}}', None, "id"),
        ('{"id": true, "service": "agent", "request": {}}', None, "id"),
        ('{"id": "1", "request": {}}', "1", "service"),
        ('{"id": "1", "service": "graph-rag", "request": {}}', "1", "'graph-rag'"),
        ('{"id": "1", "service": "agent"}', "1", "request"),
        ('{"id": "1", "service": "agent", "request": {"question": NaN}}', None, "NaN"),
        ('{"id": "1", "service": "agent", "request": {}}', "1", "question"),
        ('{"id": "1", "service": "agent", "workspace": 3, "request": {"question": "q"}}', "1", "workspace"),
        ('{"id": "1", "service": "agent", "workspace": "a", "request": {"question": "q", "workspace": "b"}}',
         "1", "workspace"),
    ],
)  # fmt: skip
async def test_a_bad_frame_is_answered_and_the_socket_goes_on(
    gateway: Gateway, agent: ScriptedAgent, frame: str, id: str | None, named: str
) -> None:
    async with connected(gateway) as socket:
        await socket.send_str(frame)
        refusal = await receive(socket)
        assert (refusal["id"], refusal["complete"]) == (id, True)
        assert named in refusal["error"]["message"]
        await ask(socket, "next", "agent", {"question": "?"})
        assert (await receive(socket))["id"] == "next"


async def test_a_binary_frame_is_refused(gateway: Gateway) -> None:
    async with connected(gateway) as socket:
        await socket.send_bytes(b"{}")
        assert "binary" in (await receive(socket))["error"]["message"]


async def test_an_id_that_is_under_way_and_one_request_too_many_are_refused(
    start_gateway: StartGateway, agent: ScriptedAgent
) -> None:
    gateway = await start_gateway(max_socket_requests=1)
    async with connected(gateway) as socket:
        await ask(socket, "1", "agent", {"question": "wait"})
        await asyncio.wait_for(agent.started.wait(), SECONDS)
        await ask(socket, "1", "agent", {"question": "?"})
        assert "under way already" in (await receive(socket))["error"]["message"]
        await ask(socket, "2", "agent", {"question": "?"})
        assert (await receive(socket))["error"]["type"] == "unavailable"


async def test_a_frame_over_the_limit_closes_the_socket(start_gateway: StartGateway) -> None:
    async with connected(await start_gateway(max_body=1000)) as socket:
        await ask(socket, "1", "agent", {"question": "x" * 1000})
        assert (await socket.receive(SECONDS)).data == aiohttp.WSCloseCode.MESSAGE_TOO_BIG


async def test_a_socket_that_vanishes_cancels_what_it_had_asked_for(
    gateway: Gateway, agent: ScriptedAgent
) -> None:
    async with connected(gateway) as socket:
        await ask(socket, "1", "agent", {"question": "wait"})
        await asyncio.wait_for(agent.started.wait(), SECONDS)
        socket._response.connection.transport.abort()  # type: ignore[union-attr]
        await asyncio.wait_for(agent.cancelled.wait(), SECONDS)


async def test_a_gateway_that_ends_closes_its_sockets_and_leaves_no_task(
    start_gateway: StartGateway, agent: ScriptedAgent
) -> None:
    gateway = await start_gateway()
    before = asyncio.all_tasks()
    async with connected(gateway) as socket:
        await ask(socket, "1", "agent", {"question": "wait"})
        await asyncio.wait_for(agent.started.wait(), SECONDS)
        closing = asyncio.create_task(gateway.close())
        message = await socket.receive(SECONDS)
        assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, aiohttp.WSCloseCode.GOING_AWAY)
        await closing
    await asyncio.wait_for(agent.cancelled.wait(), SECONDS)
    names = [task.get_coro().__qualname__ for task in asyncio.all_tasks() - before]  # type: ignore[union-attr]
    assert [name for name in names if "Socket" in name or "Gateway" in name] == []


async def test_what_a_socket_is_sent_is_json_whatever_a_tool_says(gateway: Gateway, bus: Bus) -> None:
    await bus.serve("mcp-tool", echo_tool)
    text = '</script>\u202e\x1b[31m"\\\u0000\U0001f916'
    async with connected(gateway) as socket:
        await ask(socket, "1", "mcp-tool", {"name": "echo", "parameters": {"text": text}})
        raw = await socket.receive_str(timeout=SECONDS)
    assert json.loads(raw)["response"]["text"] == text
