"""A gateway of a few lines that keeps config items and answers as told, and a way to run commands on it."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web


@dataclass
class StubGateway:
    """``items`` by workspace, type and key; ``answers`` by service, those of a list in turn; ``frames`` for a
    socket, to its end."""

    url: str = ""
    token: str | None = None
    items: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    frames: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    version: int = 0

    def kept(self, type_: str, workspace: str = "default") -> dict[str, str]:
        return self.items.setdefault(workspace, {}).setdefault(type_, {})

    async def config(self, request: web.Request) -> web.Response:
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.json_response({"error": "no"}, status=401)
        body = await request.json()
        self.requests.append(("config", body))
        workspace = body.get("workspace", "default")
        answer: dict[str, Any] = {}
        match body["operation"]:
            case "get":
                answer["values"] = [
                    {**key, "value": self.kept(key["type"], workspace).get(key["key"])}
                    for key in body["keys"]
                ]
            case "getvalues":
                stored = self.kept(body["type"], workspace)
                answer["values"] = [
                    {"type": body["type"], "key": key, "value": value} for key, value in stored.items()
                ]
            case "list":
                answer["directory"] = list(self.kept(body["type"], workspace))
            case "config":
                answer["config"] = self.items.get(workspace, {})
            case "put":
                self.version += 1
                for item in body["values"]:
                    self.kept(item["type"], workspace)[item["key"]] = item["value"]
            case "delete":
                self.version += 1
                for key in body["keys"]:
                    del self.kept(key["type"], workspace)[key["key"]]
        return web.json_response({"version": self.version, **answer})

    async def service(self, request: web.Request) -> web.Response:
        service = request.match_info["service"]
        self.requests.append((service, await request.json()))
        answer = self.answers[service]
        return web.json_response(answer.pop(0) if isinstance(answer, list) else answer)

    async def socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive_json()
        await socket.send_json({"type": "auth-ok", "default_workspace": "default"})
        asked = await socket.receive_json()
        self.requests.append((asked["service"], asked["request"]))
        for frame in self.frames:
            last = frame is self.frames[-1]
            await socket.send_json({"id": asked["id"], "response": frame, "complete": last})
        await socket.close()
        return socket


@pytest.fixture
def gateway() -> Iterator[StubGateway]:
    stub = StubGateway()
    loop = asyncio.new_event_loop()
    app = web.Application()
    app.router.add_post("/api/v1/config", stub.config)
    app.router.add_post("/api/v1/flow/{flow}/service/{service}", stub.service)
    app.router.add_get("/api/v1/socket", stub.socket)
    runner = web.AppRunner(app, shutdown_timeout=0.1)

    async def start() -> None:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        stub.url = f"http://127.0.0.1:{runner.addresses[0][1]}"

    loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield stub
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Outcome]


@pytest.fixture
def run(gateway: StubGateway, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command as its console script does, against the stub unless ``--url`` is among the words."""
    for name in ("TRUSTGRAPH_TOKEN", "TRUSTGRAPH_WORKSPACE", "TRUSTGRAPH_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRUSTGRAPH_URL", gateway.url)

    def run_command(command: Callable[[], object], *words: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["tg-command", *words])
        with pytest.raises(SystemExit) as ended:
            command()
        captured = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return Outcome(code, captured.out, captured.err)

    return run_command
