"""The messages of the agent service."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from .base import Message

RETRACTED = "retracted"
"""The ``reason`` on the last chunk of an answer that turned out to be none."""
AgentMessageType = Literal["thought", "action", "observation", "answer", "error"]


class AgentRequest(Message):
    """One question. ``group`` [] means no tools; ``["*"]`` all. ``timeout`` is in seconds.

    With the ``run_id`` of a run that has begun the request attaches to that run, and its other fields do not
    count.
    """

    question: str
    state: str | None = None
    group: list[str] | None = None
    history: list[dict[str, Any]] | None = None
    streaming: bool = False
    session_id: str | None = Field(default=None, pattern=r"^[^\x00]{0,256}$")
    collection: str | None = None
    user: str | None = None
    agent: str | None = None
    run_id: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._-]{1,128}$")
    timeout: float | None = Field(default=None, gt=0)


class AgentMessage(Message):
    """What a client sees of a run.

    Chunks of one thought or answer share ``message_id``, the last has ``end_of_message``; a dialog ends with
    exactly one ``end_of_dialog``. Token counts are None where the provider did not report them.
    """

    message_type: AgentMessageType
    content: str = ""
    end_of_message: bool = True
    end_of_dialog: bool = False
    message_id: str = ""
    run_id: str | None = None
    step: int | None = None
    action: str | None = None
    arguments: dict[str, Any] | None = None
    call_id: str | None = None
    is_error: bool | None = None
    duration_ms: float | None = None
    status: str | None = None
    reason: str | None = None
    in_token: int | None = None
    out_token: int | None = None
    model: str | None = None
    error: dict[str, Any] | None = None
