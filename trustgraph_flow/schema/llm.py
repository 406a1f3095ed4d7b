"""The messages of the text-completion service."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from .base import Message


class TextCompletionRequest(Message):
    """One prompt. ``describe`` asks what the model can do and runs nothing.

    ``response_schema`` is a JSON Schema that the reply must fit; it is passed on only where the model
    server can constrain its replies, and ``constrained`` in the response says whether it was.
    """

    operation: Literal["complete", "describe"] = "complete"
    system: str = ""
    prompt: str = ""
    streaming: bool = False
    model: str | None = None
    response_schema: dict[str, Any] | None = None
    stop: list[str] = Field(default_factory=list)
    max_tokens: int | None = None
    temperature: float | None = None


class TextCompletionResponse(Message):
    """A chunk while streaming, else the whole reply. The last frame carries usage; None means unknown.

    ``finish_reason`` is the provider's own word, ``length`` where the reply was cut off.
    """

    response: str = ""
    model: str | None = None
    in_token: int | None = None
    out_token: int | None = None
    finish_reason: str | None = None
    constrained: bool = False
    context_tokens: int | None = None
