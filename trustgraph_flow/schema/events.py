"""The events of a run: the one record that everything else is read from."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from .base import Message

EventKind = Literal[
    "started",  # question, group, state, settings of the run
    "resumed",  # another worker goes on with the run
    "prompted",  # a model call is about to go out
    "replied",  # text, usage, what was read of it
    "refused",  # a reply that was no step, or a call that does not fit its signature
    "called",  # a call is about to go out: call_id, tool, arguments with their JSON types, what was coerced
    "returned",  # the observation of a call
    "answered",  # the final answer
    "ended",  # status and reason
]
EndStatus = Literal["answered", "error", "cancelled", "expired"]


class RunEvent(Message):
    """``seq`` counts from 1 within a run without gaps; ``at`` is Unix seconds."""

    seq: int = 0
    at: float = 0.0
    kind: EventKind
    body: dict[str, Any] = Field(default_factory=dict)
