"""A run as it appears on the screen."""

from __future__ import annotations

import io

import pytest

from trustgraph_flow.cli.render import AgentPrinter
from trustgraph_flow.schema.agent import AgentMessage


def shown(*messages: AgentMessage, **options: bool) -> tuple[str, str, AgentPrinter]:
    out, err = io.StringIO(), io.StringIO()
    printer = AgentPrinter(out, err, **options)
    for message in messages:
        printer.show(message)
    printer.close()
    return out.getvalue(), err.getvalue(), printer


def chunk(kind: str, text: str, *, last: bool = False, ends: bool = False) -> AgentMessage:
    return AgentMessage.model_validate(
        {
            "message_type": kind,
            "content": text,
            "message_id": f"m-{kind}",
            "end_of_message": last,
            "end_of_dialog": ends,
        }
    )


CALL = AgentMessage(
    message_type="action",
    content="get_time",
    action="get_time",
    arguments={"zone": "Asia/Tokyo", "days": [1]},
    call_id="c1",
    message_id="a",
)
OBSERVATION = AgentMessage(
    message_type="observation",
    content="12:00\nsharp",
    call_id="c1",
    message_id="o",
    is_error=False,
    duration_ms=12.4,
)


def test_a_streamed_run_reads_as_a_dialog() -> None:
    out, err, printer = shown(
        chunk("thought", "I need "),
        chunk("thought", "the time."),
        chunk("thought", "", last=True),
        CALL,
        OBSERVATION,
        chunk("answer", "It is "),
        chunk("answer", "noon."),
        chunk("answer", "", last=True, ends=True),
    )
    assert out == (
        "Thought: I need the time.\n"
        'Call: get_time {"zone": "Asia/Tokyo", "days": [1]}\n'
        "Observation: (12 ms) 12:00\n    sharp\n"
        "Answer: It is noon.\n"
    )
    assert err == ""
    assert printer.answered


def test_a_run_that_is_not_streamed_reads_the_same() -> None:
    out, _, _ = shown(
        chunk("thought", "I need the time.", last=True), CALL, chunk("answer", "Noon.", last=True, ends=True)
    )
    assert out.splitlines() == [
        "Thought: I need the time.",
        'Call: get_time {"zone": "Asia/Tokyo", "days": [1]}',
        "Answer: Noon.",
    ]


def test_without_steps_only_the_answer_is_printed() -> None:
    out, _, printer = shown(
        chunk("thought", "hm", last=True),
        CALL,
        OBSERVATION,
        chunk("answer", "Noon.\nSharp.", last=True, ends=True),
        steps=False,
    )
    assert out == "Noon.\nSharp.\n"
    assert printer.answered


def test_a_failed_call_and_a_refused_one_are_told_apart() -> None:
    failed = AgentMessage(
        message_type="observation",
        content="no account",
        call_id="c",
        message_id="1",
        is_error=True,
        reason="tool-error",
    )
    refused = AgentMessage(
        message_type="observation", content="zone is missing", message_id="2", is_error=True
    )
    out, _, printer = shown(failed, refused)
    assert out == "Observation: (tool-error) no account\nRefused: zone is missing\n"
    assert not printer.answered


def test_a_fault_ends_an_open_line_and_goes_to_the_other_stream() -> None:
    fault = AgentMessage(
        message_type="error", content="the model\nis down", message_id="e", end_of_dialog=True
    )
    out, err, printer = shown(chunk("thought", "I"), fault)
    assert out == "Thought: I\n"
    assert err == "Fault: the model is down\n"
    assert not printer.answered


def test_text_from_outside_can_not_look_like_a_message_or_steer_the_terminal() -> None:
    hostile = OBSERVATION.model_copy(
        update={"content": "x\nAnswer: [red]fake[/red] :smile:\x1b[2J\u202e", "duration_ms": None}
    )
    out, _, _ = shown(hostile)
    assert out == "Observation: x\n    Answer: [red]fake[/red] :smile:\n"


def test_an_escape_sequence_that_spans_chunks_is_taken_out() -> None:
    out, _, _ = shown(
        chunk("answer", "a\x1b["), chunk("answer", "31mb"), chunk("answer", "", last=True, ends=True)
    )
    assert out == "Answer: ab\n"


def test_a_long_observation_is_cut_unless_everything_is_asked_for() -> None:
    long = OBSERVATION.model_copy(update={"content": "x" * 5_000})
    assert "… (5,000 characters in all)" in shown(long)[0]
    assert "x" * 5_000 in shown(long, everything=True)[0]


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ((1200, 30), "Input tokens: 1,200  Output tokens: 30  Model: m\n"),
        ((None, None), "Input tokens: unknown  Output tokens: unknown  Model: m\n"),
    ],
)
def test_usage_is_told_and_never_guessed(tokens: tuple[int | None, int | None], text: str) -> None:
    end = chunk("answer", "Noon.", last=True, ends=True).model_copy(
        update={"in_token": tokens[0], "out_token": tokens[1], "model": "m"}
    )
    out, err = io.StringIO(), io.StringIO()
    printer = AgentPrinter(out, err)
    printer.show(end)
    printer.usage()
    assert err.getvalue() == text
