"""Tools from the command line."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from trustgraph_flow.cli.tools import delete_tool, set_tool, show_tools

BANK = {
    "type": "mcp-tool",
    "name": "get_bank_balance",
    "description": "Get bank account balance",
    "mcp-tool": "get_bank_balance",
    "arguments": [
        {"name": "account_id", "type": "string", "description": "Bank account identifier"},
        {
            "name": "date",
            "type": "string",
            "description": "Date for balance query (optional, format: YYYY-MM-DD)",
        },
    ],
    "group": ["default"],
    "state": "next",
    "applicable-states": ["*"],
}
FORECAST = {
    "type": "mcp-tool",
    "name": "get_forecast",
    "mcp-tool": "forecast",
    "arguments": [
        {"name": "city", "type": "string", "required": True, "description": "x" * 20_000},
        {"name": "unit", "type": "string", "enum": ["metric", "imperial"], "default": "metric"},
        {"name": "days", "type": "integer", "minimum": 1, "maximum": 14},
    ],
}


def put(gateway: Any, **items: Any) -> None:
    gateway.kept("tool").update(
        {key: item if isinstance(item, str) else json.dumps(item) for key, item in items.items()}
    )


def test_the_bank_tool_is_stored_word_for_word(run: Any, gateway: Any) -> None:
    outcome = run(
        set_tool,
        *("--id", "bank", "--name", "get_bank_balance", "--description", "Get bank account balance"),
        *("--type", "mcp-tool", "--mcp-tool", "get_bank_balance", "--argument"),
        "account_id:string:Bank account identifier",
        "date:string:Date for balance query (optional, format: YYYY-MM-DD)",
        *("--group", "default", "--state", "next", "--applicable-states", "*"),
    )
    assert (outcome.status, outcome.err) == (0, "")
    assert json.loads(gateway.kept("tool")["bank"]) == BANK


def test_lists_come_in_one_option_or_in_many(run: Any, gateway: Any) -> None:
    words = (
        "--group",
        "a",
        "b",
        "--group",
        "c",
        "--applicable-states",
        "x",
        "y",
        "--argument",
        "n:integer",
        "-w",
        "w",
    )
    assert run(set_tool, "--id", "t", "--template", "p", *words).status == 0
    item = json.loads(gateway.kept("tool", "w")["t"])
    assert item["group"] == ["a", "b", "c"]
    assert item["applicable-states"] == ["x", "y"]
    assert item["arguments"] == [{"name": "n", "type": "integer"}]
    assert item["type"] == "prompt"


@pytest.mark.parametrize(("words", "arguments"), [((), None), (("--no-arguments",), [])])
def test_no_arguments_and_any_arguments_differ(run: Any, gateway: Any, words: Any, arguments: Any) -> None:
    assert run(set_tool, "--id", "t", "--mcp-tool", "m", *words).status == 0
    assert json.loads(gateway.kept("tool")["t"]).get("arguments") == arguments


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ((), "--type"),
        (("--mcp-tool", "a", "--template", "b"), "--type"),
        (("--type", "no-such-kind"), "no-such-kind"),
        (("--type", "mcp-tool"), "--mcp-tool"),
        (("--type", "prompt"), "--template"),
        (("--type", "tool-service"), "--service"),
        (("--mcp-tool", "m", "--argument", "name-only"), "name-only"),
        (("--mcp-tool", "m", "--argument", "a:string", "a:string"), "a"),
        (("--mcp-tool", "m", "--argument", '{"name": "n", "minimum": "low", "type": "integer"}'), "minimum"),
        (("--mcp-tool", "m", "--argument", "a:string", "--no-arguments"), "--no-arguments"),
    ],
)
def test_a_tool_that_could_not_work_is_not_stored(run: Any, gateway: Any, words: Any, named: str) -> None:
    outcome = run(set_tool, "--id", "t", *words)
    assert outcome.status == 1
    assert named in outcome.err
    assert gateway.requests == []


def test_every_argument_is_shown_with_what_it_allows(run: Any, gateway: Any) -> None:
    put(gateway, forecast=FORECAST)
    lines = [line.split(maxsplit=2) for line in run(show_tools).out.splitlines()]
    rows = {line[0]: line[1:] for line in lines if line}
    assert rows["city"][0] == "required"
    assert "(20,000 characters in all)" in rows["city"][1]
    assert rows["unit"][0] == "optional"
    assert rows["unit"][1].split("  ")[:2] == ['string, one of "metric", "imperial"', '"metric"']
    assert "1 to 14" in rows["days"][1]


def test_long_text_is_there_in_full_and_in_json(run: Any, gateway: Any) -> None:
    put(gateway, forecast=FORECAST)
    assert "x" * 20_000 in run(show_tools, "--full").out
    [shown] = run(show_tools, "--json").json()
    assert shown["item"] == FORECAST
    assert shown["schema"]["properties"]["city"]["description"] == "x" * 20_000


def test_on_a_terminal_long_text_is_wrapped(run: Any, gateway: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    put(gateway, forecast=FORECAST)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(show_tools).out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("required" in line and "xxxx" in line for line in lines)


def test_a_bad_item_is_marked_and_hides_no_other(run: Any, gateway: Any) -> None:
    put(
        gateway,
        good=BANK,
        cut='{"type":"mcp-tool",',
        text='"just text"',
        listless={"type": "mcp-tool", "name": "x", "mcp-tool": "m", "arguments": {"a": 1}},
        nameless={"type": "mcp-tool", "name": "y", "mcp-tool": "m", "arguments": [{"type": "string"}]},
        kind={"type": "no-such-kind", "name": "z"},
        none="null",
        foreign={"type": "knowledge-query", "name": "Knowledge query"},
        old={"type": "mcp-tool", "name": "old", "mcp-tool": "m"},
    )
    shown = {tool["id"]: tool for tool in run(show_tools, "--json").json()}
    states = {key: tool["state"] for key, tool in shown.items()}
    assert states == {
        "good": "offered",
        "old": "offered",
        "foreign": "not served here",
        **dict.fromkeys(("cut", "text", "listless", "nameless", "kind", "none"), "faulty"),
    }
    assert all(bool(tool["fault"]) == (tool["state"] == "faulty") for tool in shown.values())
    out = run(show_tools).out
    assert "good  offered" in out
    assert "cut  faulty" in out
    assert "not declared: any pass" in out


def test_what_the_live_server_says_is_shown_beside_what_is_declared(run: Any, gateway: Any) -> None:
    put(gateway, bank=BANK)
    gateway.kept("mcp")["get_bank_balance"] = '{"url": "http://h/"}'
    live = {
        "type": "object",
        "properties": {"account_id": {"type": "string"}, "pin": {}},
        "required": ["pin"],
    }
    gateway.kept("mcp-schema")["get_bank_balance"] = json.dumps({"inputSchema": live})
    [shown] = run(show_tools, "--json").json()
    assert shown["origin"] == {"account_id": "both", "date": "declared"}
    assert any("pin" in note for note in shown["notes"])
    assert any("date" in note for note in shown["notes"])


def test_a_tool_that_points_nowhere_says_so(run: Any, gateway: Any) -> None:
    put(gateway, bank=BANK, ask={"type": "prompt", "name": "ask", "template": "gone"})
    notes = {tool["id"]: tool["notes"] for tool in run(show_tools, "--json").json()}
    assert "tg-set-mcp-tool" in notes["bank"][0]
    assert "tg-set-prompt" in notes["ask"][0]


def test_names_and_texts_from_outside_are_shown_as_text(run: Any, gateway: Any) -> None:
    hostile = "<img src=x> &lt;b&gt; [red]x[/red] :smile:"
    item = {
        **BANK,
        "description": hostile + "\x1b[2J\u202e",
        "arguments": [{"name": "\x1b[2Ja", "enum": [hostile]}],
    }
    put(gateway, **{"k\x1b[2J": item})
    out = run(show_tools).out
    assert hostile in out
    assert f'one of "{hostile}"' in out
    assert not {"\x1b", "\u202e"} & set(out)
    assert run(show_tools, "--json").json()[0]["item"] == item


def test_a_tool_is_deleted_and_one_that_is_not_there_is_an_error(run: Any, gateway: Any) -> None:
    put(gateway, bank=BANK)
    assert run(delete_tool, "--id", "bank").status == 0
    assert gateway.kept("tool") == {}
    outcome = run(delete_tool, "--id", "bank")
    assert outcome.status == 1
    assert "bank" in outcome.err
