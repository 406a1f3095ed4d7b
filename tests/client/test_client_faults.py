"""What a person reads when the other end is not what it should be."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web
from behind_gateway import Items, StartGateway

from trustgraph_flow.bus import Bus
from trustgraph_flow.client import AsyncClient, ClientSettings, CredentialsRefused
from trustgraph_flow.schema.errors import (
    BadRequest,
    DeadlineExceeded,
    NotFound,
    SetupError,
    TrustGraphError,
    Unavailable,
)


@asynccontextmanager
async def raw_server(answer: bytes) -> AsyncIterator[str]:
    """Something that answers every connection with ``answer`` and hangs up; b"" only listens."""
    serving: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.current_task())  # type: ignore[arg-type]
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await (reader.readuntil(b"\r\n\r\n") if answer else reader.read())
            writer.write(answer)
            await writer.drain()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    await asyncio.gather(*serving)


def response(status: str, body: str, kind: str = "text/html", more: str = "") -> bytes:
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n{body}"
    ).encode()


async def both_ways(url: str, token: str | None = None) -> list[TrustGraphError]:
    """The errors of an HTTP request and of a socket."""
    errors: list[TrustGraphError] = []
    async with AsyncClient(url, token) as client:
        for call in (client.values("tool"), anext(client.invoke_agent("?"))):
            with pytest.raises(TrustGraphError) as raised:
                await call
            errors.append(raised.value)
    return errors


async def test_nobody_at_the_address_asks_whether_it_runs() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    for error in await both_ways(url):
        assert isinstance(error, Unavailable)
        assert error.message.startswith(f"no gateway answers at {url}: is `tg up` running?")


@pytest.mark.parametrize(("token", "fix"), [(None, "asks for a token"), ("wrong", "refuses this token")])
async def test_a_refused_token_names_the_option_and_the_variable(
    start_gateway: StartGateway, token: str | None, fix: str
) -> None:
    gateway = await start_gateway(token="right")
    for error in await both_ways(gateway.url, token):
        assert isinstance(error, CredentialsRefused)
        assert error.type == "credentials-refused"
        assert fix in error.message
        assert "--token or TRUSTGRAPH_TOKEN" in error.message
        assert "wrong" not in error.message


@pytest.mark.parametrize(
    "answer",
    [
        response("200 OK", "<html>router login</html>"),
        response("502 Bad Gateway", "<html>bad gateway</html>"),
        response("404 Not Found", "not here", "text/plain"),
        response("200 OK", "[1]", "application/json"),
        response("200 OK", '{"version": "many"}', "application/json"),
        response("500 Oops", '{"error": {"no": "text"}}', "application/json"),
        response("301 Moved", "", more="Location: https://elsewhere.example/\r\n"),
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ],
)
async def test_something_else_at_the_address_is_called_no_gateway(answer: bytes) -> None:
    async with raw_server(answer) as url:
        for error in await both_ways(url):
            assert isinstance(error, SetupError)
            assert error.message.startswith(f"what answers at {url} is no TrustGraph gateway: ")
            assert "--url" in error.message


async def test_a_connection_that_breaks_off_is_told() -> None:
    async with (
        raw_server(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{") as url,
        AsyncClient(url) as client,
    ):
        with pytest.raises(Unavailable, match="broke"):
            await client.values("tool")


async def test_an_answer_that_does_not_come_ends_after_the_timeout() -> None:
    async with raw_server(b"") as url, AsyncClient(url, timeout=0.05) as client:
        with pytest.raises(DeadlineExceeded, match=r"0\.05 s"):
            await client.values("tool")


@pytest.mark.parametrize(
    "frames",
    [
        ['{"hello": 1}'],
        ["hello"],
        ['{"type": "auth-ok"}', '{"id": "1"}'],
        ['{"type": "auth-ok"}', '{"id": "1", "error": "text"}'],
        ['{"type": "auth-ok"}', '{"id": "1", "response": {"message_type": "song"}}'],
    ],
)
async def test_a_socket_that_speaks_otherwise_is_no_gateway(frames: list[str]) -> None:
    async def handler(request: web.Request) -> web.WebSocketResponse:
        client = web.WebSocketResponse()
        await client.prepare(request)
        for frame in frames:
            await client.receive()
            await client.send_str(frame)
        return client

    app = web.Application()
    app.router.add_get("/api/v1/socket", handler)
    async with serving(app) as url, AsyncClient(url) as client:
        with pytest.raises(SetupError, match="no TrustGraph gateway"):
            await anext(client.invoke_agent("?"))


async def test_a_gateway_that_goes_away_in_the_middle_of_a_run_is_told() -> None:
    async def handler(request: web.Request) -> web.WebSocketResponse:
        client = web.WebSocketResponse()
        await client.prepare(request)
        await client.receive()
        await client.send_str('{"type": "auth-ok"}')
        await client.receive()
        return client

    app = web.Application()
    app.router.add_get("/api/v1/socket", handler)
    async with serving(app) as url, AsyncClient(url) as client:
        with pytest.raises(Unavailable, match="before the answer was complete"):
            await anext(client.invoke_agent("?"))


@asynccontextmanager
async def serving(app: web.Application) -> AsyncIterator[str]:
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_statuses_of_the_gateway_become_kinds(start_gateway: StartGateway, items: Items) -> None:
    gateway = await start_gateway(max_body=2000)
    async with AsyncClient(gateway.url) as client:
        with pytest.raises(BadRequest, match="over the limit"):
            await client.put_item("x", "a", "v" * 2000)
        with pytest.raises(NotFound, match="nothing at"):
            await client._transport.get_text("nothing")


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8888", "ftp://h", "http://", "http://h:99999", "http://[", "tok en"]
)
def test_an_address_of_another_form_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(SetupError, match=r"must look like http://127\.0\.0\.1:8888"):
        ClientSettings(url)


def test_settings_come_from_the_environment() -> None:
    assert ClientSettings.from_env({}) == ClientSettings()
    full = {"TRUSTGRAPH_URL": "https://h/", "TRUSTGRAPH_TOKEN": "tok-1", "TRUSTGRAPH_WORKSPACE": "north"}
    settings = ClientSettings.from_env(full)
    assert settings == ClientSettings("https://h/", "tok-1", "north")
    assert "tok-1" not in repr(settings)
    assert ClientSettings.from_env(dict.fromkeys(full, "")) == ClientSettings()


def test_unused_clients_leave_nothing_open(recwarn: pytest.WarningsRecorder) -> None:
    make: Callable[[], AsyncClient] = AsyncClient
    make()
    assert [str(warning.message) for warning in recwarn] == []


async def test_the_gateway_tells_which_service_does_not_answer(
    start_gateway: StartGateway, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trustgraph_flow.gateway.readiness.PROBE_SECONDS", 0.2)
    gateway = await start_gateway()
    async with AsyncClient(gateway.url) as client:
        state = await client.ready()
    assert state["ready"] is False
    assert "config" in state["services"]
