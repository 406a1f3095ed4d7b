"""The commands, as a shell runs them, on the whole product."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trustgraph_flow.app import App


@dataclass(frozen=True)
class Done:
    status: int | None
    out: str
    err: str


async def command(app: App, name: str, *words: str) -> Done:
    assert app.gateway_url is not None
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).parent / name,
        *words,
        env={**os.environ, "TRUSTGRAPH_URL": app.gateway_url},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return Done(process.returncode, out.decode(), err.decode())


async def test_a_tool_is_declared_shown_called_by_an_agent_and_deleted(start_app: Any) -> None:
    app = await start_app(
        [
            'Thought: look it up\nAction: clock\nArgs: {"timezone": "Asia/Tokyo"}',
            "Thought: known\nFinal Answer: It is late.",
        ]
    )
    declared = await command(
        app,
        "tg-set-tool",
        *("--id", "clock", "--description", "The time somewhere", "--mcp-tool", "get_current_time"),
        *("--argument", "timezone:string:IANA name: Asia/Tokyo, say", "--group", "clocks", "default"),
    )
    assert (declared.status, declared.err) == (0, "")
    shown = await command(app, "tg-show-tools", "--json")
    [clock] = [tool for tool in json.loads(shown.out) if tool["id"] == "clock"]
    assert clock["state"] == "offered"
    assert clock["notes"] == []
    assert clock["item"]["arguments"][0]["description"] == "IANA name: Asia/Tokyo, say"
    asked = await command(app, "tg-invoke-agent", "-q", "What time is it in Tokyo?", "-g", "clocks", "-v")
    assert (asked.status, asked.err) == (0, "")
    lines = asked.out.splitlines()
    assert lines[0] == "Thought: look it up"
    assert lines[1] == 'Call: clock {"timezone": "Asia/Tokyo"}'
    assert lines[2].startswith("Observation: (")
    assert "Asia/Tokyo" in asked.out.partition("Observation")[2]
    assert lines[-1] == "Answer: It is late."
    assert (await command(app, "tg-delete-tool", "--id", "clock")).status == 0
    assert (await command(app, "tg-delete-tool", "--id", "clock")).status == 1


async def test_a_tool_that_fails_fails_its_command(start_app: Any) -> None:
    app = await start_app([])
    right = await command(
        app, "tg-invoke-mcp-tool", "-n", "get_current_time", "-P", '{"timezone": "Asia/Tokyo"}'
    )
    assert (right.status, right.err) == (0, "")
    assert "Asia/Tokyo" in right.out
    wrong = await command(
        app, "tg-invoke-mcp-tool", "-n", "get_current_time", "-P", '{"timezone": "Nowhere"}'
    )
    assert (wrong.status, wrong.out) == (1, "")
    assert "Nowhere" in wrong.err
    unknown = await command(app, "tg-invoke-mcp-tool", "-n", "no_such_tool")
    assert (unknown.status, unknown.out) == (1, "")
    assert "no_such_tool" in unknown.err


async def test_what_was_masked_can_be_stored_again_without_losing_the_secret(start_app: Any) -> None:
    app = await start_app([])
    words = ("--id", "far", "--tool-url", "http://127.0.0.1:9/mcp?key=canary-1", "--auth-token", "canary-2")
    assert (await command(app, "tg-set-mcp-tool", *words)).status == 0
    read = await command(app, "tg-get-config-item", "--type", "mcp", "--key", "far")
    assert read.status == 0
    assert "canary" not in read.out
    stored = await command(app, "tg-put-config-item", "--type", "mcp", "--key", "far", "--value", read.out)
    assert stored.status == 0, stored.err
    shown = await command(app, "tg-show-mcp-tools")
    assert "canary" not in shown.out
    assert "far" in shown.out


async def test_a_bad_item_is_refused_by_the_config_service(start_app: Any) -> None:
    app = await start_app([])
    refused = await command(
        app, "tg-put-config-item", "--type", "tool", "--key", "bad", "--value", '{"type":'
    )
    assert (refused.status, refused.out) == (1, "")
    assert "bad" in refused.err
    assert refused.err.count("\n") == 1
