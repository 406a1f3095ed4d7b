"""``tg-invoke-agent``."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from trustgraph_flow.cli.agent import invoke_agent

RUN = [
    {"message_type": "thought", "content": "I look ", "message_id": "t", "end_of_message": False},
    {"message_type": "thought", "content": "it up.", "message_id": "t", "end_of_message": True},
    {
        "message_type": "action",
        "content": "get_time",
        "action": "get_time",
        "arguments": {"zone": "Asia/Tokyo"},
        "call_id": "c",
        "message_id": "a",
    },
    {
        "message_type": "observation",
        "content": "12:00",
        "call_id": "c",
        "message_id": "o",
        "is_error": False,
        "duration_ms": 3.2,
    },
    {
        "message_type": "answer",
        "content": "Noon.",
        "message_id": "f",
        "end_of_message": True,
        "end_of_dialog": True,
        "in_token": 1200,
        "out_token": 34,
        "model": "m",
    },
]
DIALOG = """\
Thought: I look it up.
Call: get_time {"zone": "Asia/Tokyo"}
Observation: (3 ms) 12:00
Answer: Noon.
"""


def test_a_script_reads_the_answer_alone(run: Any, gateway: Any) -> None:
    gateway.frames = RUN
    outcome = run(invoke_agent, "-q", "What time is it?")
    assert (outcome.status, outcome.out, outcome.err) == (0, "Noon.\n", "")


def test_verbose_shows_every_step(run: Any, gateway: Any) -> None:
    gateway.frames = RUN
    assert run(invoke_agent, "-q", "What time is it?", "-v").out == DIALOG


def test_a_person_sees_every_step(run: Any, gateway: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway.frames = RUN
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    assert run(invoke_agent, "-q", "What time is it?").out == DIALOG


@pytest.mark.parametrize(
    "words", [("-g", "a", "b", "-s", "open"), ("-g", "a", "--group", "b", "--state", "open")]
)
def test_groups_and_state_reach_the_agent_in_either_form(
    run: Any, gateway: Any, words: tuple[str, ...]
) -> None:
    gateway.frames = RUN
    run(invoke_agent, "-q", "What time is it?", *words, "--no-streaming")
    [(service, request)] = gateway.requests
    assert service == "agent"
    assert request["group"] == ["a", "b"]
    assert request["state"] == "open"
    assert request["streaming"] is False


def test_usage_is_told_beside_the_answer(run: Any, gateway: Any) -> None:
    gateway.frames = RUN
    outcome = run(invoke_agent, "-q", "What time is it?", "--show-usage")
    assert outcome.out == "Noon.\n"
    assert outcome.err == "Input tokens: 1,200  Output tokens: 34  Model: m\n"


def test_a_run_that_ends_without_an_answer_is_a_failure(run: Any, gateway: Any) -> None:
    gateway.frames = [
        *RUN[:2],
        {
            "message_type": "error",
            "content": "the step limit is reached",
            "message_id": "e",
            "end_of_dialog": True,
        },
    ]
    outcome = run(invoke_agent, "-q", "x")
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err == "Fault: the step limit is reached\n"


def test_a_connection_that_breaks_is_a_failure_after_what_was_shown(run: Any, gateway: Any) -> None:
    gateway.frames = [*RUN[:2], {**RUN[4], "end_of_message": False, "end_of_dialog": False}]
    outcome = run(invoke_agent, "-q", "x")
    assert outcome.status == 1
    assert outcome.out == "Noon.\n"
