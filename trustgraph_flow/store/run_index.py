"""How runs are found: by workspace, session and time. What is told of them is read from their events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, bindparam, func, select, tuple_

from .tables import run, run_event
from .text import load


@dataclass(frozen=True, slots=True)
class RunSummary:
    """``status`` and ``reason`` are None while the run has not ended. Times are in Unix seconds.

    ``last_at`` is the time of the newest event.
    """

    run_id: str
    session_id: str | None
    question: str
    started_at: float
    last_at: float
    status: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and its answer."""

    question: str
    answer: str


_first = run_event.alias("first")
_last = run_event.alias("last")
_inner = run_event.alias("inner_event")
_answered = run_event.alias("answered")
_newest = select(func.max(_inner.c.seq)).where(_inner.c.run_id == run.c.run_id).scalar_subquery()


STARTED_AT = select(run.c.started_at).where(run.c.run_id == bindparam("before"))


def recent(*, session: bool, before: bool) -> Select[Any]:
    """Newest first. Takes ``workspace``, ``limit``; if wanted ``session_id``; ``before`` and its ``at``."""
    query = (
        select(run.c.run_id, run.c.session_id, run.c.started_at, _first.c.body, _last.c.at, _last.c.kind,
               _last.c.body)
        .join(_first, (_first.c.run_id == run.c.run_id) & (_first.c.seq == 1))
        .join(_last, (_last.c.run_id == run.c.run_id) & (_last.c.seq == _newest))
        .where(run.c.workspace == bindparam("workspace"))
        .order_by(run.c.started_at.desc(), run.c.run_id.desc())
        .limit(bindparam("limit"))
    )  # fmt: skip
    if session:
        query = query.where(run.c.session_id == bindparam("session_id"))
    if before:
        query = query.where(
            tuple_(run.c.started_at, run.c.run_id) < tuple_(bindparam("at"), bindparam("before"))
        )
    return query


def summary(row: Any) -> RunSummary:
    """One row of ``recent``."""
    run_id, session_id, started_at, first, last_at, kind, last = row
    end = load(last) if kind == "ended" else {}
    return RunSummary(
        run_id, session_id, load(first)["question"], started_at, last_at, end.get("status"), end.get("reason")
    )


SESSION = (
    select(_first.c.body, _answered.c.body)
    .select_from(run)
    .join(_first, (_first.c.run_id == run.c.run_id) & (_first.c.seq == 1))
    .join(_answered, (_answered.c.run_id == run.c.run_id) & (_answered.c.kind == "answered"))
    .where(
        run.c.workspace == bindparam("workspace"),
        run.c.session_id == bindparam("session_id"),
        run.c.started_at < bindparam("before"),
    )
    .order_by(run.c.started_at.desc())
    .limit(bindparam("limit"))
)
