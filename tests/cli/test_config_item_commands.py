"""Config items from the command line."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest

from trustgraph_flow.cli.config_items import (
    delete_config_item,
    get_config_item,
    list_config_items,
    put_config_item,
    show_config,
)

ITEM = ("--type", "prompt", "--key", "system")
SECRET = "canary-7f3a"


def test_an_item_is_put_listed_read_and_deleted(run: Any, gateway: Any) -> None:
    assert run(put_config_item, *ITEM, "--value", '"Be <b>brief</b>."').status == 0
    assert gateway.kept("prompt") == {"system": '"Be <b>brief</b>."'}
    assert run(list_config_items, "--type", "prompt").out == "system\n"
    assert run(list_config_items, "--type", "prompt", "--json").json() == ["system"]
    assert run(get_config_item, *ITEM).out == '"Be <b>brief</b>."\n'
    assert run(get_config_item, *ITEM, "--format", "json").json() == '"Be <b>brief</b>."'
    assert run(delete_config_item, *ITEM).status == 0
    assert gateway.kept("prompt") == {}


def test_a_value_comes_from_standard_input(run: Any, gateway: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("line one\nline two\n"))
    assert run(put_config_item, *ITEM, "--stdin").status == 0
    assert gateway.kept("prompt")["system"] == "line one\nline two\n"


@pytest.mark.parametrize("words", [(), ("--value", "x", "--stdin")])
def test_a_value_has_one_source(run: Any, gateway: Any, words: tuple[str, ...]) -> None:
    outcome = run(put_config_item, *ITEM, *words)
    assert outcome.status == 1
    assert "--stdin" in outcome.err
    assert gateway.requests == []


@pytest.mark.parametrize("command", [get_config_item, delete_config_item])
def test_an_item_that_is_not_there_is_an_error(run: Any, command: Any) -> None:
    outcome = run(command, *ITEM)
    assert (outcome.status, outcome.out) == (1, "")
    assert "system" in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_workspace_is_kept_apart_from_others(
    run: Any, gateway: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(put_config_item, *ITEM, "--value", "a", "-w", "blue")
    monkeypatch.setenv("TRUSTGRAPH_WORKSPACE", "green")
    run(put_config_item, *ITEM, "--value", "b")
    assert gateway.kept("prompt", "blue") == {"system": "a"}
    assert gateway.kept("prompt", "green") == {"system": "b"}


def test_the_whole_config_is_shown_with_its_version(run: Any, gateway: Any) -> None:
    gateway.kept("prompt")["system"] = "北镇\x1b[2J"
    gateway.version = 7
    outcome = run(show_config)
    first, rest = outcome.out.split("\n", 1)
    assert first == "Version: 7"
    assert "北镇" in rest
    assert "\x1b" not in rest
    assert json.loads(rest) == {"prompt": {"system": "北镇\x1b[2J"}}
    assert run(show_config, "--json").json() == {
        "version": 7,
        "config": {"prompt": {"system": "北镇\x1b[2J"}},
    }


@pytest.mark.parametrize(
    "value", [json.dumps({"url": "http://h/", "auth-token": SECRET}), '{"auth-token": "' + SECRET]
)
def test_a_secret_is_printed_by_no_command(run: Any, gateway: Any, value: str) -> None:
    gateway.kept("mcp")["a"] = value
    for command, *words in (
        (show_config,),
        (show_config, "--json"),
        (get_config_item, "--type", "mcp", "--key", "a"),
        (get_config_item, "--type", "mcp", "--key", "a", "--format", "json"),
    ):
        outcome = run(command, *words)
        assert outcome.status == 0
        assert SECRET not in outcome.out + outcome.err
