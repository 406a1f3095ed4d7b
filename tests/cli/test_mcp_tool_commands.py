"""MCP tools from the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trustgraph_flow.cli import mcp_tools
from trustgraph_flow.cli.mcp_tools import delete_mcp_tool, invoke_mcp_tool, set_mcp_tool, show_mcp_tools

SECRET = "canary-7f3a"


def test_a_tool_is_set_shown_and_deleted(run: Any, gateway: Any) -> None:
    words = (
        "--id",
        "balance",
        "-r",
        "get_balance",
        "--tool-url",
        "http://h/mcp?k=" + SECRET,
        "--auth-token",
        SECRET,
    )
    assert run(set_mcp_tool, *words).status == 0
    assert json.loads(gateway.kept("mcp")["balance"]) == {
        "url": "http://h/mcp?k=" + SECRET,
        "remote-name": "get_balance",
        "auth-token": SECRET,
    }
    shown = run(show_mcp_tools)
    assert shown.out.splitlines()[1].split() == ["balance", "get_balance", "http://h/mcp?k=********", "set"]
    assert run(show_mcp_tools, "--json").json() == [
        {
            "id": "balance",
            "item": {
                "url": "http://h/mcp?k=********",
                "remote-name": "get_balance",
                "auth-token": "********",
            },
        }
    ]
    assert run(delete_mcp_tool, "--id", "balance").status == 0
    assert gateway.kept("mcp") == {}
    assert run(delete_mcp_tool, "--id", "balance").status == 1


def test_a_tool_on_a_shared_server_has_no_address_of_its_own(run: Any, gateway: Any) -> None:
    assert run(set_mcp_tool, "-i", "now", "--server", "time", "--timeout", "2.5").status == 0
    assert json.loads(gateway.kept("mcp")["now"]) == {"server": "time", "remote-name": "now", "timeout": 2.5}


@pytest.mark.parametrize(
    "words", [(), ("--tool-url", "http://h/", "--server", "s"), ("--tool-url", "h:80"), ("--tool-url", "")]
)
def test_where_the_tool_lives_must_be_said_once_and_rightly(
    run: Any, gateway: Any, words: tuple[str, ...]
) -> None:
    outcome = run(set_mcp_tool, "--id", "x", *words)
    assert outcome.status == 1
    assert "--tool-url" in outcome.err
    assert gateway.requests == []


def test_a_bad_item_is_marked_and_hides_no_other_and_no_secret(run: Any, gateway: Any) -> None:
    gateway.kept("mcp").update(
        {"bad": '{"auth-token": "' + SECRET, "good": '{"url": "http://h/"}', "list": "[1]"}
    )
    for words in ((), ("--json",)):
        outcome = run(show_mcp_tools, *words)
        assert outcome.status == 0
        assert "http://h/" in outcome.out
        assert SECRET not in outcome.out + outcome.err
    faults = {tool["id"]: tool.get("fault") for tool in outcome.json()}
    assert faults["good"] is None
    assert faults["bad"]
    assert faults["list"]


def test_without_tools_the_list_is_empty_and_says_how_to_make_one(run: Any) -> None:
    outcome = run(show_mcp_tools)
    assert (outcome.status, outcome.out) == (0, "")
    assert "tg-set-mcp-tool" in outcome.err
    assert run(show_mcp_tools, "--json").json() == []


def test_a_call_sends_its_arguments_with_their_json_types(run: Any, gateway: Any) -> None:
    gateway.answers["mcp-tool"] = {"text": "12.50\x1b[2J"}
    outcome = run(invoke_mcp_tool, "-n", "balance", "-P", '{"id": "00417", "n": 5, "x": [null, true]}')
    assert (outcome.status, outcome.out) == (0, "12.50\n")
    [(service, request)] = gateway.requests
    assert service == "mcp-tool"
    assert request["name"] == "balance"
    assert request["parameters"] == {"id": "00417", "n": 5, "x": [None, True]}


def test_an_object_is_printed_as_json(run: Any, gateway: Any) -> None:
    gateway.answers["mcp-tool"] = {"object": {"a": "北"}}
    outcome = run(invoke_mcp_tool, "-n", "balance")
    assert outcome.json() == {"a": "北"}
    assert "北" in outcome.out


@pytest.mark.parametrize(
    "answer",
    [
        {"text": "no such\naccount", "is_error": True, "fault": "tool-error"},
        {"text": "no such account", "is_error": True},
        {"text": "no such account", "fault": "timed-out"},
    ],
)
def test_a_result_that_is_an_error_is_a_failure(run: Any, gateway: Any, answer: dict[str, Any]) -> None:
    gateway.answers["mcp-tool"] = answer
    outcome = run(invoke_mcp_tool, "-n", "balance")
    assert (outcome.status, outcome.out) == (1, "")
    assert "no such account" in outcome.err
    assert outcome.err.count("\n") == 1
    with_json = run(invoke_mcp_tool, "-n", "balance", "--json")
    assert with_json.status == 1
    assert with_json.json()["text"] == answer["text"]


def test_a_service_that_fails_is_a_failure(run: Any, gateway: Any) -> None:
    gateway.answers["mcp-tool"] = {"error": {"type": "not-found", "message": "there is no MCP tool 'x'"}}
    outcome = run(invoke_mcp_tool, "-n", "x")
    assert outcome.status == 1
    assert "there is no MCP tool 'x'" in outcome.err


@pytest.mark.parametrize("parameters", ["{", "[1]", "5", ""])
def test_arguments_must_be_a_json_object(run: Any, gateway: Any, parameters: str) -> None:
    outcome = run(invoke_mcp_tool, "-n", "x", "-P", parameters)
    assert outcome.status == 1
    assert "JSON" in outcome.err
    assert gateway.requests == []


def test_a_sign_in_shows_its_page_once_and_ends_when_it_is_done(
    gateway: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_tools, "_SIGN_IN_POLL_SECONDS", 0)
    waiting = {"text": "Open this page: http://a", "sign_in_page": "http://a"}
    gateway.answers["mcp-tool"] = [waiting, waiting, {"text": "Signed in."}]
    outcome = run(mcp_tools.sign_in_mcp, "-n", "locked")
    assert outcome.out == "Open this page: http://a\nSigned in.\n"
    assert gateway.requests[0][1]["operation"] == "sign-in"
    gateway.answers["mcp-tool"] = {"text": "It failed.", "is_error": True, "fault": "credentials-refused"}
    failed = run(mcp_tools.sign_in_mcp, "-n", "locked")
    assert failed.status == 1
    assert "It failed." in failed.err
