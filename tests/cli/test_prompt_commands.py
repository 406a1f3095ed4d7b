"""Prompt templates from the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trustgraph_flow.cli.prompts import invoke_prompt, set_prompt, show_prompts


def test_a_template_is_set_with_its_index_and_shown(run: Any, gateway: Any) -> None:
    gateway.kept("prompt")["template-index"] = '["old"]'
    schema = '{"type": "object"}'
    assert (
        run(set_prompt, "--id", "q", "--prompt", "Say {{x}}", "--response", "json", "--schema", schema).status
        == 0
    )
    assert run(set_prompt, "--id", "q", "--prompt", "Say {{y}}").status == 0
    assert json.loads(gateway.kept("prompt")["template-index"]) == ["old", "q"]
    assert json.loads(gateway.kept("prompt")["template.q"]) == {
        "id": "q",
        "prompt": "Say {{y}}",
        "response-type": "text",
    }
    assert "q (answers text):\n    Say {{y}}\n" in run(show_prompts).out


def test_the_system_prompt_goes_alone(run: Any, gateway: Any) -> None:
    assert run(set_prompt, "--system", "Be brief.").status == 0
    assert json.loads(gateway.kept("prompt")["system"]) == "Be brief."
    assert "System prompt:\n    Be brief.\n" in run(show_prompts).out
    assert run(set_prompt, "--system", "x", "--id", "y").status == 1


@pytest.mark.parametrize(
    "words", [(), ("--id", "x"), ("--prompt", "x"), ("--id", "x", "--prompt", "y", "--schema", "{")]
)
def test_what_is_missing_or_broken_is_an_error(run: Any, gateway: Any, words: tuple[str, ...]) -> None:
    assert run(set_prompt, *words).status == 1
    assert gateway.requests == []


def test_a_bad_template_is_marked_and_hides_no_other(run: Any, gateway: Any) -> None:
    gateway.kept("prompt").update(
        {"template.bad": "{", "template.good": '{"prompt": "Hi <b>[red]x[/red]</b>"}'}
    )
    outcome = run(show_prompts)
    assert "bad (fault: " in outcome.out
    assert "Hi <b>[red]x[/red]</b>" in outcome.out
    shown = {one["id"]: one for one in run(show_prompts, "--json").json()["templates"]}
    assert shown["bad"]["fault"]
    assert shown["good"]["item"]["prompt"] == "Hi <b>[red]x[/red]</b>"


def test_a_template_is_invoked_with_its_variables(run: Any, gateway: Any) -> None:
    gateway.answers["prompt"] = {"text": "Hello\x1b[0m"}
    outcome = run(invoke_prompt, "q", "name=A=B", "empty=")
    assert (outcome.status, outcome.out) == (0, "Hello\n")
    [(service, request)] = gateway.requests
    assert service == "prompt"
    assert request["variables"] == {"name": "A=B", "empty": ""}


def test_an_answer_in_json_is_printed_as_json(run: Any, gateway: Any) -> None:
    gateway.answers["prompt"] = {"object": '{"a": 1}'}
    assert run(invoke_prompt, "q").json() == {"a": 1}


def test_a_variable_without_a_value_is_an_error(run: Any) -> None:
    outcome = run(invoke_prompt, "q", "name")
    assert outcome.status == 1
    assert "NAME=VALUE" in outcome.err
