"""The messages of the prompt service."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from .base import Message


class PromptRequest(Message):
    """``variables`` are JSON values; ``terms``, of older clients, are JSON texts."""

    id: str
    variables: dict[str, Any] = Field(default_factory=dict)
    terms: dict[str, str] | None = None
    streaming: bool = False


class PromptResponse(Message):
    """``text`` or, for a template whose response-type is json, ``object``."""

    text: str | None = None
    object: Any = None
