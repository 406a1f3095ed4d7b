"""What holds for every command: where the gateway is, and how a failure is told."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from trustgraph_flow.cli.agent import invoke_agent
from trustgraph_flow.cli.config_items import list_config_items, put_config_item
from trustgraph_flow.cli.tools import set_tool


def failed_in_one_line(outcome: Any, status: int = 1) -> str:
    assert outcome.status == status
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
    assert outcome.err.startswith("tg-")
    assert "Traceback" not in outcome.err
    return str(outcome.err)


@pytest.mark.parametrize("option", ["-u", "--url", "--api-url"])
def test_a_gateway_that_is_not_there_is_named_with_the_fix(run: Any, option: str) -> None:
    error = failed_in_one_line(run(list_config_items, "--type", "tool", option, "http://127.0.0.1:9"))
    assert "http://127.0.0.1:9" in error
    assert "TRUSTGRAPH_URL" in error


def test_an_address_that_is_none_is_an_error(run: Any) -> None:
    assert "no-address" in failed_in_one_line(run(list_config_items, "--type", "tool", "-u", "no-address"))


def test_a_token_is_asked_for_and_taken_from_option_or_environment(
    run: Any, gateway: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.token = "tok-1"
    assert "TRUSTGRAPH_TOKEN" in failed_in_one_line(run(list_config_items, "--type", "tool"))
    assert run(list_config_items, "--type", "tool", "-t", "tok-1").status == 0
    monkeypatch.setenv("TRUSTGRAPH_TOKEN", "tok-1")
    assert run(list_config_items, "--type", "tool").status == 0


def test_a_wrong_option_is_one_line_too(run: Any) -> None:
    assert "--type" in failed_in_one_line(run(list_config_items), 2)
    assert "--help" in failed_in_one_line(run(list_config_items, "--no-such"), 2)


def test_an_error_from_outside_can_not_steer_the_terminal(run: Any, gateway: Any) -> None:
    gateway.answers["agent"] = {}
    gateway.frames = [{"message_type": "error", "content": "bad\x1b[2J\nworse", "end_of_dialog": True}]
    outcome = run(invoke_agent, "-q", "x")
    assert outcome.status == 1
    assert outcome.err == "Fault: bad worse\n"


def test_a_fault_of_our_own_is_one_line(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("oh")

    monkeypatch.setattr("trustgraph_flow.client.AsyncClient.put_items", broken)
    error = failed_in_one_line(run(put_config_item, "--type", "a", "--key", "b", "--value", "c"))
    assert "internal error" in error


def test_help_shows_neither_the_token_nor_a_traceback(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUSTGRAPH_TOKEN", "tok-1")
    outcome = run(set_tool, "--help")
    assert outcome.status == 0
    assert "TRUSTGRAPH_TOKEN" in outcome.out
    assert "tok-1" not in outcome.out


def test_every_console_command_is_there_and_has_help() -> None:
    script = (
        "import importlib.metadata as m, sys\n"
        "for e in m.distribution('trustgraph-flow-react').entry_points:\n"
        "    if e.group != 'console_scripts': continue\n"
        "    sys.argv = [e.name, '--help']\n"
        "    try: e.load()()\n"
        "    except SystemExit as end: assert not end.code, e.name\n"
        "    print(e.name)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert {"tg", "tg-set-tool", "tg-invoke-agent"} <= set(done.stdout.split())
