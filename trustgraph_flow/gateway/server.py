"""The gateway: listens, routes, and ends what is under way when it closes."""

from __future__ import annotations

import asyncio
import errno
import socket
from pathlib import Path
from typing import Any

from aiohttp import WSCloseCode, web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from trustgraph_flow import __version__
from trustgraph_flow.bus import Bus
from trustgraph_flow.schema.errors import SetupError
from trustgraph_flow.schema.mcp import SIGN_IN_CHANNEL, SignInReturn

from .access import HEALTH, SIGN_IN, SOCKET, add_headers, answer, guard
from .artifacts import ARTIFACT, download
from .dispatch import Dispatcher, workspace_of
from .readiness import Prober
from .services import CONFIG, FLOW_SERVICES, Service
from .settings import GatewaySettings
from .socket_session import SocketSession
from .wire import parse, read_object

PAGE = Path(__file__).parent / "static" / "index.html"
SHUTDOWN_SECONDS = 3.0
HEARTBEAT_SECONDS = 30.0
"""Between pings; a client that has vanished without closing is seen within one and a half of them."""


class Gateway:
    """HTTP and WebSocket in front of the bus. ``url`` is there after ``start``."""

    def __init__(self, bus: Bus, settings: GatewaySettings | None = None) -> None:
        self.settings = settings or GatewaySettings()
        self.url = ""
        self._bus = bus
        self._dispatcher = Dispatcher(bus)
        self._prober = Prober(bus)
        self._page = PAGE.read_bytes()
        self._sockets: set[web.WebSocketResponse] = set()
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Raises SetupError where the settings do not allow it or the port can't be had."""
        self.settings.check()
        runner = web.AppRunner(
            self._app(), access_log=None, handler_cancellation=True, shutdown_timeout=SHUTDOWN_SECONDS
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, self.settings.host, self.settings.port).start()
        except OSError as error:
            await runner.cleanup()
            raise SetupError(self._why_not(error)) from None
        self._runner = runner
        self.url = _url(self.settings.host, runner.addresses[0][1])

    async def close(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    def _app(self) -> web.Application:
        app = web.Application(middlewares=[guard(self.settings)], client_max_size=self.settings.max_body)
        app.on_response_prepare.append(add_headers)
        app.on_shutdown.append(self._close_sockets)
        app.router.add_get("/", self._index)
        app.router.add_get(HEALTH, self._health)
        app.router.add_get("/api/v1/ready", self._ready)
        app.router.add_get("/api/metrics", self._metrics)
        app.router.add_get(SOCKET, self._socket)
        app.router.add_get(SIGN_IN, self._signed_in)
        app.router.add_get(ARTIFACT, self._artifact)
        app.router.add_post("/api/v1/config", self._config)
        app.router.add_post("/api/v1/flow/{flow}/service/{service}", self._flow_service)
        return app

    async def _index(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._page, content_type="text/html", charset="utf-8")

    async def _health(self, _request: web.Request) -> web.Response:
        return answer({"status": "alive", "version": __version__})

    async def _ready(self, _request: web.Request) -> web.Response:
        readiness = await self._prober.readiness()
        return answer(readiness.body(), 200 if readiness.ready else 503)

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _signed_in(self, request: web.Request) -> web.Response:
        """Where the sign-in page of an MCP server sends the browser back to."""
        brought = parse(SignInReturn, dict(request.query))
        await self._bus.broadcast(SIGN_IN_CHANNEL, brought)
        text = "You can close this page." if brought.code else "The sign-in was refused; close this page."
        return web.Response(text=text)

    async def _artifact(self, request: web.Request) -> web.StreamResponse:
        return await download(self._bus, request)

    async def _config(self, request: web.Request) -> web.Response:
        return await self._ask(CONFIG, request)

    async def _flow_service(self, request: web.Request) -> web.Response:
        name = request.match_info["service"]
        service = FLOW_SERVICES.get(name)
        if service is None:
            raise web.HTTPNotFound(text=f"there is no service {name!r}; there are {', '.join(FLOW_SERVICES)}")
        return await self._ask(service, request)

    async def _ask(self, service: Service, request: web.Request) -> web.Response:
        body = await self._body(request)
        return answer(await self._dispatcher.ask(service, body, workspace_of({}, body)))

    async def _body(self, request: web.Request) -> dict[str, Any]:
        seconds, limit = self.settings.body_seconds, self.settings.max_body
        try:
            async with asyncio.timeout(seconds):
                content = await request.read()
        except TimeoutError:
            raise web.HTTPRequestTimeout(text=f"the body did not arrive within {seconds:g} s") from None
        except web.HTTPRequestEntityTooLarge:
            raise web.HTTPRequestEntityTooLarge(
                max_size=limit, actual_size=0, text=f"the body is over the limit of {limit:,} bytes"
            ) from None
        return read_object(content, "the body")

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        client = web.WebSocketResponse(heartbeat=HEARTBEAT_SECONDS, max_msg_size=self.settings.max_body)
        await client.prepare(request)
        self._sockets.add(client)
        try:
            await SocketSession(self._dispatcher, self.settings, client).run()
        except ConnectionError:
            pass  # the client has vanished while it was written to
        finally:
            self._sockets.discard(client)
        return client

    async def _close_sockets(self, _app: web.Application) -> None:
        closing = (
            client.close(code=WSCloseCode.GOING_AWAY, message=b"the gateway ends") for client in self._sockets
        )
        await asyncio.gather(*closing, return_exceptions=True)

    def _why_not(self, error: OSError) -> str:
        host, port = self.settings.host, self.settings.port
        if error.errno == errno.EADDRINUSE:
            return f"port {port} on {host} is in use by another program: end that one, or give another --port"
        if error.errno == errno.EACCES:
            return f"this user may not listen on port {port}: give a --port above 1023"
        if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
            return f"this machine has no address {host}: give another --host"
        return f"can't listen on {host} port {port}: {error.strerror or error}"


def _url(host: str, port: int) -> str:
    """An address for this machine, also where the gateway listens on all."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
