"""One WebSocket: a greeting with the token, then requests side by side, each ended with the socket."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import structlog
from aiohttp import WSCloseCode, WSMsgType, web
from prometheus_client import Gauge

from trustgraph_flow.schema.config import DEFAULT_WORKSPACE
from trustgraph_flow.schema.errors import BadRequest, NotFound, TrustGraphError, Unavailable, to_wire

from .access import token_fits
from .dispatch import Dispatcher, workspace_of
from .services import SERVICES, Service
from .settings import GatewaySettings
from .wire import read_object, write

log = structlog.get_logger()

SOCKETS = Gauge("tg_gateway_sockets", "Open sockets")
UNDER_WAY = Gauge("tg_gateway_socket_requests", "Requests under way on sockets")


class SocketSession:
    """``run`` returns when the socket is closed and all that it had asked for is cancelled."""

    def __init__(
        self, dispatcher: Dispatcher, settings: GatewaySettings, socket: web.WebSocketResponse
    ) -> None:
        self._dispatcher = dispatcher
        self._settings = settings
        self._socket = socket
        self._tasks: dict[str | int, asyncio.Task[None]] = {}

    async def run(self) -> None:
        with SOCKETS.track_inprogress():
            try:
                if await self._greeted():
                    async for message in self._socket:
                        if message.type is WSMsgType.TEXT:
                            await self._take(message.data)
                        elif message.type is WSMsgType.BINARY:
                            await self._refuse(None, BadRequest("frames are JSON text, not binary"))
            finally:
                tasks = list(self._tasks.values())
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _greeted(self) -> bool:
        """Whether the first frame has let the client in."""
        seconds = self._settings.body_seconds
        try:
            message = await self._socket.receive(seconds)
            if message.type is not WSMsgType.TEXT:
                return False
            fault = self._greeting_fault(read_object(message.data, "the first frame"))
        except TimeoutError:
            fault = f"no frame came within {seconds:g} s"
        except BadRequest as error:
            fault = error.message
        if fault is None:
            await self._send({"type": "auth-ok", "default_workspace": DEFAULT_WORKSPACE})
            return True
        await self._send({"type": "auth-failed", "error": fault})
        await self._socket.close(code=WSCloseCode.POLICY_VIOLATION)
        return False

    def _greeting_fault(self, frame: dict[str, Any]) -> str | None:
        if frame.get("type") != "auth":
            return 'the first frame must be {"type": "auth", "token": "…"}'
        token = frame.get("token")
        if not token_fits(self._settings, token if isinstance(token, str) else ""):
            return "the token is not right"
        return None

    async def _take(self, text: str) -> None:
        """Starts what a frame asks for."""
        key: str | int | None = None
        try:
            frame = read_object(text, "the frame")
            key = _key(frame)
            if key in self._tasks:
                raise BadRequest(f"id: {key!r} is under way already")
            if len(self._tasks) >= self._settings.max_socket_requests:
                raise Unavailable(
                    f"{len(self._tasks)} requests are under way on this socket, which is the limit"
                )
            service, request = _service(frame), _request(frame)
            workspace = workspace_of(frame, request)
        except TrustGraphError as error:
            await self._refuse(key, error)
            return
        task = asyncio.create_task(self._answer(key, service, request, workspace))
        self._tasks[key] = task
        UNDER_WAY.inc()
        task.add_done_callback(lambda _: self._done(key))

    def _done(self, key: str | int) -> None:
        del self._tasks[key]
        UNDER_WAY.dec()

    async def _answer(
        self, key: str | int, service: Service, request: dict[str, Any], workspace: str
    ) -> None:
        last = False
        try:
            async with aclosing(self._dispatcher.stream(service, request, workspace)) as frames:
                async for frame, last in frames:
                    await self._send({"id": key, "response": frame, "complete": last})
            if not last:
                raise TrustGraphError(f"{service.name} ended without a last message")
        except TrustGraphError as error:
            await self._refuse(key, error)
        except ConnectionError:
            return
        except Exception as error:
            log.exception("request on a socket failed", service=service.name)
            await self._refuse(key, error)

    async def _refuse(self, key: str | int | None, error: Exception) -> None:
        await self._send({"id": key, "error": to_wire(error), "complete": True})

    async def _send(self, frame: dict[str, Any]) -> None:
        await self._socket.send_str(write(frame).decode())


def _key(frame: dict[str, Any]) -> str | int:
    key = frame.get("id")
    if not isinstance(key, (str, int)) or isinstance(key, bool) or key == "":
        raise BadRequest("id: must be a string that names the request")
    return key


def _service(frame: dict[str, Any]) -> Service:
    name = frame.get("service")
    if not isinstance(name, str):
        raise BadRequest("service: must be a string")
    if name not in SERVICES:
        raise NotFound(f"service: there is no {name!r}; there are {', '.join(SERVICES)}")
    return SERVICES[name]


def _request(frame: dict[str, Any]) -> dict[str, Any]:
    request = frame.get("request")
    if not isinstance(request, dict):
        raise BadRequest("request: must be a JSON object")
    return request
