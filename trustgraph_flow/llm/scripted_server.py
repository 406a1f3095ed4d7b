"""The scripted model behind the real OpenAI protocol, with the faults that model servers show.

async with scripted_server(ScriptedModel(["hello"])) as server:
    provider = OpenAICompatible(ServerSettings(server.url))
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from trustgraph_flow.schema.errors import TrustGraphError
from trustgraph_flow.schema.llm import TextCompletionRequest

from . import wire
from .scripted import Reply, ScriptedModel


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What the scripted server says instead of a completion."""

    status: int = 200
    body: str = ""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HangUp:
    """The scripted server drops the connection: at once, or after ``pieces`` pieces of a streamed reply."""

    pieces: int = 0


HTML = HttpAnswer(body="<!DOCTYPE html><html><body>Welcome</body></html>", content_type="text/html")
NOTHING = HttpAnswer()
UNAUTHORIZED = HttpAnswer(401, '{"error": {"message": "Incorrect API key provided"}}')
TOO_MANY = HttpAnswer(429, '{"error": {"message": "Rate limit reached"}}')


@dataclass(slots=True)
class ScriptedServer:
    """The running server. ``faults`` are given out in order before the script has its turn."""

    model: ScriptedModel
    faults: list[HttpAnswer | HangUp]
    refused_parameters: frozenset[str]
    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    """Every completion request as it came, the refused ones included."""
    headers: list[Mapping[str, str]] = field(default_factory=list)
    abandoned: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client has gone away in the middle of a request."""

    async def models(self, request: web.Request) -> web.Response:
        own = self.model.capabilities
        entry: dict[str, Any] = {"id": own.model, "object": "model"}
        if own.context_tokens is not None:
            entry["max_model_len"] = own.context_tokens
        return web.json_response({"object": "list", "data": [entry]})

    async def completions(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._completions(request)
        except asyncio.CancelledError:
            self.abandoned.set()
            raise

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        self.headers.append(request.headers)
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, HttpAnswer):
            return web.Response(
                status=fault.status, text=fault.body, content_type=fault.content_type, headers=fault.headers
            )
        if isinstance(fault, HangUp) and not fault.pieces:
            return _hang_up(request)
        if refused := sorted(self._refused() & body.keys()):
            return _error(400, f"Unsupported parameter: '{refused[0]}' is not supported", param=refused[0])
        asked = _request_of(body)
        if asked.response_schema == wire.PROBE.response_schema:
            return web.json_response(_completion(body, Reply('{"kind": "first", "ok": true}', 1, 1)))
        try:
            reply = await self.model.answer(asked)
        except TrustGraphError as error:
            return _error(400, error.message)
        if body.get("stream"):
            return await _stream(request, body, reply, fault)
        if reply.gate:
            await reply.gate.wait()
        return web.json_response(_completion(body, reply))

    def _refused(self) -> frozenset[str]:
        if self.model.capabilities.constrained:
            return self.refused_parameters
        return self.refused_parameters | {"response_format"}


@asynccontextmanager
async def scripted_server(
    model: ScriptedModel,
    *,
    faults: Iterable[HttpAnswer | HangUp] = (),
    refused_parameters: Iterable[str] = (),
    port: int = 0,
) -> AsyncIterator[ScriptedServer]:
    """Serve ``model`` on 127.0.0.1 until the block ends.

    A model that is not constrained refuses ``response_format``.

    ``faults`` are given out, one a completion request, before the script has its turn.
    ``refused_parameters`` are answered with 400.
    """
    server = ScriptedServer(model, list(faults), frozenset(refused_parameters))
    app = web.Application()
    app.add_routes(
        [web.get("/v1/models", server.models), web.post("/v1/chat/completions", server.completions)]
    )
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        yield server
    finally:
        await runner.cleanup()


def _request_of(body: dict[str, Any]) -> TextCompletionRequest:
    said = {message["role"]: message["content"] for message in body["messages"]}
    form = body.get("response_format") or {}
    return TextCompletionRequest(
        system=said.get("system", ""),
        prompt=said.get("user", ""),
        streaming=bool(body.get("stream")),
        model=body.get("model"),
        response_schema=form.get("json_schema", {}).get("schema"),
        stop=body.get("stop") or [],
        max_tokens=body.get("max_tokens") or body.get("max_completion_tokens"),
        temperature=body.get("temperature"),
    )


def _completion(body: dict[str, Any], reply: Reply) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.whole()}
    choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
    return _document(body, "chat.completion", [choice]) | _usage(reply)


async def _stream(
    request: web.Request, body: dict[str, Any], reply: Reply, fault: HangUp | None
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)

    async def send(choices: list[dict[str, Any]], extra: dict[str, Any] | None = None) -> None:
        event = _document(body, "chat.completion.chunk", choices) | (extra or {})
        await response.write(f"data: {json.dumps(event)}\n\n".encode())

    pieces = reply.pieces()
    for number, piece in enumerate(pieces):
        if fault and number == fault.pieces:
            return _hang_up(request, response)
        if reply.gate and number == len(pieces) - 1:
            await reply.gate.wait()
        await send([{"index": 0, "delta": {"content": piece}, "finish_reason": None}])
    await send([{"index": 0, "delta": {}, "finish_reason": reply.finish_reason}])
    if (body.get("stream_options") or {}).get("include_usage"):
        await send([], _usage(reply))
    await response.write(b"data: [DONE]\n\n")
    return response


def _document(body: dict[str, Any], kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {"id": "scripted", "object": kind, "created": 0, "model": body.get("model"), "choices": choices}


def _usage(reply: Reply) -> dict[str, Any]:
    if reply.in_token is None or reply.out_token is None:
        return {}
    total = reply.in_token + reply.out_token
    tokens = {"prompt_tokens": reply.in_token, "completion_tokens": reply.out_token, "total_tokens": total}
    return {"usage": tokens}


def _error(status: int, message: str, *, param: str | None = None) -> web.Response:
    fault = {"message": message, "type": "invalid_request_error", "param": param}
    return web.json_response({"error": fault}, status=status)


def _hang_up(request: web.Request, response: web.StreamResponse | None = None) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.close()
    return response or web.Response()
