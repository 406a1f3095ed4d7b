"""The messages of the mcp-tool service."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from .base import Message


class McpToolRequest(Message):
    """One call. ``name`` is the key of an ``mcp`` item; ``parameters`` go out as one dict, as they are.

    ``discover`` lists the tools of the server of an ``mcp`` or ``mcp-server`` item, and ``sign-in`` begins
    a sign-in at it or tells how the one that was begun stands. ``artifact`` sends the artifact whose id is
    ``name``, in frames.
    ``call_id`` names this call for the journal; a second request with the same id never runs the tool again.
    ``timeout`` is in seconds.
    """

    operation: Literal["call", "discover", "sign-in", "artifact"] = "call"
    name: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict)
    call_id: str | None = None
    run_id: str | None = None
    timeout: float | None = None


FaultKind = Literal[
    "tool-error",
    "invalid-params",
    "timed-out",
    "outcome-unknown",
    "not-reached",
    "credentials-refused",
    "no-longer-offered",
    "invalid-result",
    "cancelled",
    "invalid-arguments",
]


class McpToolResponse(Message):
    """What came of a call: exactly one of ``text`` and ``object`` for older clients, and the parts for ours.

    ``text`` is what the model reads. ``fault`` is None for a success; a tool's own error has
    ``is_error`` and ``fault == "tool-error"``. ``duration_ms`` is wall time in the service. An interim
    frame has ``progress`` alone: ``{"progress", "total"?, "message"?}``. ``sign_in_page`` is the page that a
    person has to open; absent when there is nothing left to do.

    A part of ``content`` whose bytes, or whose whole, are kept has the id under ``artifact``. The frames of
    an artifact have base64 ``data`` each, and the first says ``{"id", "mime_type", "name", "size"}``.
    """

    text: str | None = None
    object: Any = None
    structured: Any = None
    content: list[dict[str, Any]] = Field(default_factory=list)
    is_error: bool = False
    fault: FaultKind | None = None
    duration_ms: float | None = None
    tools: list[dict[str, Any]] | None = None
    progress: dict[str, Any] | None = None
    sign_in_page: str | None = None
    artifact: dict[str, Any] | None = None
    data: str | None = None


SIGN_IN_CHANNEL = "mcp-sign-in"


class SignInReturn(Message):
    """What a browser brought back from a sign-in page. The ``code`` is worth nothing without the verifier,
    which stays with the process that began the sign-in."""

    state: str = Field(max_length=500)
    code: str | None = Field(default=None, max_length=8000)
    iss: str | None = Field(default=None, max_length=2000)
    error: str | None = Field(default=None, max_length=500)
