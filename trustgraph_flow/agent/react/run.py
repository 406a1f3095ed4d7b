"""A run as its log tells it: the events folded into what the loop needs to take the next step."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from trustgraph_flow.schema.events import RunEvent


@dataclass(slots=True)
class Turn:
    """One step as the prompt shows it. ``arguments`` keep their JSON types; None where no call was read."""

    thought: str
    action: str | None = None
    arguments: dict[str, Any] | None = None
    observation: str | None = None
    is_error: bool = False


@dataclass(slots=True)
class Usage:
    """Token counts of all model calls; None as soon as one call did not report them."""

    in_token: int | None = 0
    out_token: int | None = 0
    model: str | None = None

    def add(self, body: dict[str, Any]) -> None:
        self.in_token = _sum(self.in_token, body.get("in_token"))
        self.out_token = _sum(self.out_token, body.get("out_token"))
        self.model = body.get("model") or self.model


def _sum(total: int | None, more: int | None) -> int | None:
    return None if total is None or more is None else total + more


@dataclass(slots=True)
class Run:
    """One question on its way. Nothing here is decided: it is what the events say."""

    run_id: str
    seq: int = 0
    workspace: str | None = None
    started_at: float = 0.0
    question: str = ""
    agent: str | None = None
    session_id: str | None = None
    groups: list[str] | None = None
    state: str | None = None
    deadline: float = 0.0
    """Times are in Unix seconds."""
    vain_resumes: int = 0
    """How often the run was taken up since its last step forward."""
    prompted: int = 0
    """The number of the event of the newest model call."""
    final: str | None = None
    """Why the newest model call wanted the answer alone, if it did."""
    turns: list[Turn] = field(default_factory=list)
    steps: int = 0
    """Model calls that have been answered."""
    format_faults: int = 0
    """Replies in a row that held no step."""
    refusals: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    """How often each pair of call and result has come, by its key."""
    last_outcome: str | None = None
    reply: dict[str, Any] = field(default_factory=dict)
    """The body of the last reply."""
    tokens: int = 0
    """All tokens that were reported, in and out."""
    final_reply: str | None = None
    """What ``final`` was for the last reply."""
    open_call: dict[str, Any] | None = None
    """A call that went out and has no result in the log."""
    answer: str | None = None
    ended: dict[str, Any] | None = None
    usage: Usage = field(default_factory=Usage)
    used_tools: set[str] = field(default_factory=set)

    def apply(self, events: Iterable[RunEvent]) -> None:
        for event in events:
            self.seq = event.seq
            if event.kind == "started":
                self.started_at = event.at
            _APPLY[event.kind](self, event.body)

    @property
    def repeats(self) -> int:
        """How often the last call has come back with the result that it has just brought."""
        return self.outcomes.get(self.last_outcome, 0) if self.last_outcome else 0


def call_key(action: str, arguments: dict[str, Any]) -> str:
    """Equal for equal calls, whatever the order of keys."""
    return f"{action}\n{json.dumps(arguments, sort_keys=True, ensure_ascii=False)}"


def _started(run: Run, body: dict[str, Any]) -> None:
    run.workspace = body.get("workspace")
    run.question = body["question"]
    run.agent = body.get("agent")
    run.session_id = body.get("session_id")
    run.groups = body.get("group")
    run.state = body.get("state")
    run.deadline = body["deadline"]
    run.turns = [Turn(**turn) for turn in body.get("history") or []]


def _resumed(run: Run, body: dict[str, Any]) -> None:
    del body
    run.vain_resumes += 1


def _prompted(run: Run, body: dict[str, Any]) -> None:
    run.prompted = run.seq
    run.final = body.get("final")


def _replied(run: Run, body: dict[str, Any]) -> None:
    run.steps += 1
    run.vain_resumes = 0
    run.usage.add(body)
    run.tokens += (body.get("in_token") or 0) + (body.get("out_token") or 0)
    run.reply = body
    run.final_reply = run.final


def _refused(run: Run, body: dict[str, Any]) -> None:
    action = body.get("action")
    if action is None:
        run.format_faults += 1
    else:
        run.format_faults = 0
        key = f"{call_key(action, body.get('arguments') or {})}\n{body['message']}"
        run.refusals[key] = run.refusals.get(key, 0) + 1
    run.turns.append(
        Turn(run.reply.get("thought", ""), action, body.get("arguments"), body["message"], is_error=True)
    )


def _called(run: Run, body: dict[str, Any]) -> None:
    run.format_faults = 0
    run.open_call = body
    run.used_tools.add(body["tool"])


def _returned(run: Run, body: dict[str, Any]) -> None:
    call = run.open_call or {}
    run.open_call = None
    run.vain_resumes = 0
    run.last_outcome = f"{call_key(call['tool'], call['arguments'])}\n{body['text']}"
    run.outcomes[run.last_outcome] = run.outcomes.get(run.last_outcome, 0) + 1
    run.state = body.get("state") or run.state
    run.turns.append(
        Turn(
            run.reply.get("thought", ""),
            call["tool"],
            call["arguments"],
            body["text"] + (f"\n{body['advice']}" if body.get("advice") else ""),
            is_error=bool(body.get("is_error")),
        )
    )


def _answered(run: Run, body: dict[str, Any]) -> None:
    run.answer = body["answer"]


def _ended(run: Run, body: dict[str, Any]) -> None:
    run.ended = body


_APPLY = {
    "started": _started,
    "resumed": _resumed,
    "prompted": _prompted,
    "replied": _replied,
    "refused": _refused,
    "called": _called,
    "returned": _returned,
    "answered": _answered,
    "ended": _ended,
}
