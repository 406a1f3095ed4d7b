"""Real servers for the MCP client: the official SDK's, and raw ones for what that can't produce."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from aiohttp import web

from trustgraph_flow.agent.mcp_tool import Limits
from trustgraph_flow.agent.mcp_tool.stdio import Command
from trustgraph_flow.agent.mcp_tool.target import Target

SERVERS = Path(__file__).parent / "servers"
sys.path.insert(0, str(SERVERS))

QUICK = Limits(call=10.0, connect=20.0, close=0.5, reconnect_first=0.0, reconnect_last=0.0)
"""Limits for tests: long enough for a busy machine, and no pause after a failure."""


def script(name: str, *arguments: str, env: dict[str, str] | None = None) -> Target:
    """A stdio server of the folder ``servers``."""
    argv = (sys.executable, str(SERVERS / f"{name}.py"), *arguments)
    command = Command(argv=argv, env=tuple((env or {}).items()))
    return Target(workspace="default", label=name, command=command)


@asynccontextmanager
async def serve_asgi(app: Any, port: int = 0) -> AsyncIterator[int]:
    """An ASGI app on a free port, or again on ``port``, for the time of the block."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=0)
        server = uvicorn.Server(config)
        task = asyncio.create_task(server._serve([listener]))
        while not server.started:
            assert not task.done()
            await asyncio.sleep(0)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            server.force_exit = True
            await task


class RawHttp:
    """A hand-written streamable HTTP server. ``call`` answers ``tools/call``; ``seen`` holds every message.

    ``call`` gets the message and returns a result, an aiohttp response, or raises what ends the request.
    """

    def __init__(
        self,
        call: Callable[[web.Request, dict[str, Any]], Awaitable[Any]],
        delete: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None,
    ) -> None:
        self.call = call
        self.delete = delete
        self.seen: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.tools: list[dict[str, Any]] = [{"name": "t", "inputSchema": {"type": "object"}}]
        self.guard: Callable[[web.Request, dict[str, Any]], web.Response | None] = lambda request, message: (
            None
        )
        self.cancelled = asyncio.Event()
        self.arrived = asyncio.Event()
        self.port = 0
        self.routes: list[web.RouteDef] = []
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def methods(self, method: str = "tools/call") -> list[dict[str, Any]]:
        return [message for message in self.seen if message.get("method") == method]

    async def start(self, port: int = 0) -> None:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/mcp", self._post)
        app.add_routes(self.routes)
        if self.delete is not None:
            app.router.add_delete("/mcp", self.delete)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _post(self, request: web.Request) -> web.StreamResponse:
        message = await request.json()
        self.seen.append(message)
        self.headers.append(dict(request.headers))
        refusal = self.guard(request, message)
        if refusal is not None:
            return refusal
        match message.get("method"):
            case "initialize":
                result = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "raw", "version": "1"},
                }
                return reply(message, result, headers={"mcp-session-id": "s1"})
            case "tools/list":
                return reply(message, {"tools": self.tools})
            case "tools/call":
                self.arrived.set()
                answer = await self.call(request, message)
                return answer if isinstance(answer, web.StreamResponse) else reply(message, answer)
            case "notifications/cancelled":
                self.cancelled.set()
                return web.Response(status=202)
            case str() as method if "id" in message:
                return rpc_error(message, -32601, f"no {method}")
            case _:
                return web.Response(status=202)


def reply(message: dict[str, Any], result: Any, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": result}, headers=headers)


def rpc_error(message: dict[str, Any], code: int, text: str, status: int = 200) -> web.Response:
    body = {"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": code, "message": text}}
    return web.json_response(body, status=status)


def text_result(text: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], **more}


@asynccontextmanager
async def serve_process(
    *argv: str, port: int, program: str = sys.executable, env: dict[str, str] | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A server of its own process that listens on ``port``; it is ended with the block. ``env`` comes on top
    of ours."""
    process = await asyncio.create_subprocess_exec(
        program,
        *argv,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **(env or {})},
    )
    try:
        async with asyncio.timeout(30):
            while not await _listening(port):
                assert process.returncode is None
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def _listening(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
