"""Servers that others wrote, called as an agent would: ``tools/public-mcp-servers`` installs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from mcp_world import serve_process

from trustgraph_flow.arguments import compile_signature

INSTALLER = Path(__file__).parents[3] / "tools" / "public-mcp-servers"


@pytest.fixture(scope="module")
def servers() -> Path:
    """The folder of the installed servers. Where tests decide what lands, a missing one is a failure."""
    found = subprocess.run([sys.executable, INSTALLER, "--where"], capture_output=True, text=True, check=True)
    folder = Path(found.stdout.strip())
    if not (folder / "npm" / "ready").exists():  # they come last
        give_up = pytest.fail if os.environ.get("CI") else pytest.skip
        give_up(f"the public servers are not installed: run {INSTALLER}")
    return folder


def python_server(servers: Path, name: str, *arguments: str) -> dict[str, Any]:
    return {"command": str(servers / name / "bin" / name), "args": list(arguments)}


def node_server(servers: Path, name: str, *arguments: str) -> dict[str, Any]:
    script = servers / "npm" / "node_modules" / "@modelcontextprotocol" / name / "dist" / "index.js"
    return {"command": str(servers / "node" / "wheel" / "bin" / "node"), "args": [str(script), *arguments]}


@dataclass
class Case:
    """``shown`` are lines that the model's argument list begins with; the calls are arguments and what the
    answer holds."""

    item: dict[str, Any]
    tool: str
    shown: list[str]
    right: tuple[dict[str, Any], str]
    wrong: tuple[dict[str, Any], str]
    failing: tuple[dict[str, Any], str] | None
    timeout: float = 60.0


async def exercise(world: Any, case: Case) -> None:
    """Discovers the server, lists the tool with its arguments, and calls it rightly and wrongly."""
    await world.put(
        mcp_server={"public": {**case.item, "timeout": case.timeout}},
        mcp={
            "used": {"server": "public", "remote-name": case.tool},
            "unknown": {"server": "public", "remote-name": "no_such_tool"},
        },
    )
    item = await world.schema("used")
    text = compile_signature(None, input_schema=item["inputSchema"]).text
    for line in case.shown:
        assert line in text
    assert item["description"]

    arguments, expected = case.right
    answer = await world.call("used", wait=case.timeout, **arguments)
    assert (answer.fault, answer.is_error) == (None, False), answer.text
    assert expected in answer.text

    arguments, expected = case.wrong
    refused = await world.call("used", wait=case.timeout, **arguments)
    assert refused.fault == "invalid-arguments", refused.text
    assert refused.text.startswith("The call was not sent:")
    assert expected in refused.text

    if case.failing is not None:
        arguments, expected = case.failing
        failed = await world.call("used", wait=case.timeout, **arguments)
        assert failed.fault == "tool-error", failed.text
        assert expected in failed.text

    unknown = await world.call("unknown", wait=case.timeout)
    assert unknown.fault == "no-longer-offered"
    assert "no_such_tool" in unknown.text


async def test_the_time_server(world, servers):
    case = Case(
        item=python_server(servers, "mcp-server-time", "--local-timezone", "UTC"),
        tool="convert_time",
        shown=["- source_timezone: string (required)", "- time: string (required)"],
        right=(
            {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
            "21:00:00+09:00",
        ),
        wrong=({"source_timezone": "UTC", "time": "12:00", "target_zone": "Asia/Tokyo"}, "target_timezone"),
        failing=({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Mars/Base"}, "Mars/Base"),
    )
    await exercise(world, case)


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "hello.txt").write_text("hello\n")
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@localhost")
    for command in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "The first word")):
        subprocess.run(["git", *command], cwd=folder, check=True, env={**os.environ, "HOME": str(tmp_path)})
    return folder


async def test_the_git_server(world, servers, repository):
    case = Case(
        item=python_server(servers, "mcp-server-git", "--repository", str(repository)),
        tool="git_log",
        shown=["- repo_path: string (required)", "- max_count: integer (optional), default 10"],
        right=({"repo_path": str(repository), "max_count": "1"}, "The first word"),
        wrong=({"repo_path": str(repository), "max_count": "many"}, "max_count"),
        failing=({"repo_path": str(repository.parent)}, str(repository.parent)),
    )
    await exercise(world, case)


async def test_the_sqlite_server(world, servers, tmp_path):
    case = Case(
        item=python_server(servers, "mcp-server-sqlite", "--db-path", str(tmp_path / "data.db")),
        tool="read_query",
        shown=["- query: string (required). SELECT SQL query to execute"],
        right=({"query": "SELECT 6 * 7 AS answer"}, "'answer': 42"),
        wrong=({"sql": "SELECT 1"}, "query"),
        failing=None,
    )
    await exercise(world, case)
    # It reports what goes wrong as an ordinary result, which can't be told from one.
    answer = await world.call("used", wait=60, query="SELECT * FROM nowhere")
    assert "no such table: nowhere" in answer.text


async def test_the_fetch_server_on_a_page_of_our_own(world, servers):
    async def page(request: web.Request) -> web.Response:
        if request.path != "/page":
            raise web.HTTPNotFound
        return web.Response(text="<html><body><p>Twelve lemons</p></body></html>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/{path:.*}", page)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        here = f"http://127.0.0.1:{runner.addresses[0][1]}"
        case = Case(
            item=python_server(servers, "mcp-server-fetch", "--allow-private-ips"),
            tool="fetch",
            shown=[
                "- url: string (required)",
                "- max_length: integer (optional), 1 to 999999, default 5000",
            ],
            right=({"url": f"{here}/page", "raw": True}, "Twelve lemons"),
            wrong=({"url": f"{here}/page", "max_length": 0}, "max_length"),
            failing=({"url": f"{here}/missing"}, "404"),
        )
        await exercise(world, case)
    finally:
        await runner.cleanup()


def everything(item: dict[str, Any]) -> Case:
    return Case(
        item=item,
        tool="get-structured-content",
        shown=['- location: string (required), one of "New York", "Chicago", "Los Angeles"'],
        right=({"location": "Chicago"}, '"temperature"'),
        wrong=({"location": "Springfield"}, "location"),
        failing=None,
    )


async def test_the_everything_server(world, servers):
    await exercise(world, everything(node_server(servers, "server-everything", "stdio")))
    tools = ("echo", "get-sum", "get-tiny-image", "get-annotated-message", "trigger-long-running-operation")
    await world.put(mcp={tool: {"server": "public"} for tool in tools})
    assert (await world.call("echo", message="hello")).text == "Echo: hello"
    assert "The sum of 2 and 3.5 is 5.5" in (await world.call("get-sum", a="2", b=3.5)).text
    image = await world.call("get-tiny-image")
    assert "[image/png, " in image.text
    assert [part["type"] for part in image.content] == ["text", "image", "text"]
    both = await world.call("get-annotated-message", messageType="error", includeImage=True)
    assert len(both.content) == 2
    steps = await world.call("trigger-long-running-operation", wait=30, duration=0.2, steps=2)
    assert "completed" in steps.text


async def test_the_everything_server_over_http(world, servers, unused_port):
    item = node_server(servers, "server-everything", "streamableHttp")
    program, argv, env = item["command"], item["args"], {"PORT": str(unused_port)}
    async with serve_process(*argv, port=unused_port, program=program, env=env):
        await exercise(world, everything({"url": f"http://127.0.0.1:{unused_port}/mcp"}))


async def test_the_filesystem_server(world, servers, tmp_path):
    folder = tmp_path.resolve() / "files"
    folder.mkdir()
    (folder / "note.txt").write_text("first\nsecond\n")
    case = Case(
        item=node_server(servers, "server-filesystem", str(folder)),
        tool="read_text_file",
        shown=[
            "- path: string (required)",
            "- head: number (optional). If provided, returns only the first N lines",
        ],
        right=({"path": str(folder / "note.txt"), "head": 1}, "first"),
        wrong=({"path": str(folder / "note.txt"), "head": "one"}, "head"),
        failing=({"path": str(folder.parent / "secret")}, "Access denied"),
    )
    await exercise(world, case)
    answer = await world.call("used", path=str(folder / "note.txt"))
    assert json.dumps(answer.structured) == json.dumps({"content": "first\nsecond\n"})
