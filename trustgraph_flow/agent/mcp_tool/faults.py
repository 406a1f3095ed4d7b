"""What can go wrong with a call, each kind with its own text for the model.

A text names the server, says whether the call can have taken effect, and what to do. It never holds a
stack trace, a page of HTML or a credential.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal

from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
)

from trustgraph_flow.schema.errors import TrustGraphError
from trustgraph_flow.schema.mcp import FaultKind, McpToolResponse

MAX_REASON_CHARS = 500
"""How much of a server's own words goes into a fault."""

Resend = Literal["fresh", "relist"]
"""How a call that certainly did not run can be sent once more: on a fresh connection, or after a new
listing."""

_UNKNOWN = "outcome unknown, check before trying again"
_TAG = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]{0,400}>", re.IGNORECASE | re.DOTALL)


class McpFault(TrustGraphError):
    """A call that brought no result. ``kind`` is the label of metrics and replies; ``resend`` says that
    nothing ran and how one more try may help."""

    type = "mcp-fault"

    def __init__(self, kind: FaultKind, message: str, *, resend: Resend | None = None) -> None:
        super().__init__(message)
        self.kind: FaultKind = kind
        self.resend = resend

    def masked(self, secrets: Iterable[str]) -> McpFault:
        return McpFault(self.kind, mask(self.message, secrets), resend=self.resend)


def not_reached(server: str, why: str, *, resend: Resend | None = None) -> McpFault:
    return McpFault(
        "not-reached",
        f'The server "{server}" was not reached: {why}. The call was not sent; it may work later.',
        resend=resend,
    )


def credentials_refused(server: str, status: int) -> McpFault:
    return McpFault(
        "credentials-refused",
        f'The server "{server}" refused the credentials (HTTP {status}). The call did not run; an operator '
        'has to correct the token, headers or "oauth" in the server\'s config item.',
    )


def oauth_wanted(server: str) -> McpFault:
    return McpFault(
        "credentials-refused",
        f'The server "{server}" asks for a sign-in by OAuth. The call did not run; an operator has to give '
        'its config item an "oauth", or an "auth-token".',
    )


def sign_in_needed(server: str) -> McpFault:
    return McpFault(
        "credentials-refused",
        f'The server "{server}" asks for a sign-in by a person. The call did not run; an operator has to '
        "sign in with tg-sign-in-mcp.",
    )


def sign_in_failed(server: str, why: str) -> McpFault:
    return McpFault(
        "credentials-refused",
        f'The sign-in at the server "{server}" failed: {short(why)}. The call did not run; an operator has '
        'to correct "oauth" in the server\'s config item.',
    )


def outcome_unknown(server: str, why: str) -> McpFault:
    return McpFault("outcome-unknown", f'The server "{server}": {why}: {_UNKNOWN}.')


def timed_out(server: str, seconds: float, *, sent: bool) -> McpFault:
    if not sent:
        return McpFault(
            "timed-out",
            f'The server "{server}" was not ready to take the call within {seconds:g} s. '
            "The call was not sent.",
        )
    return McpFault(
        "timed-out",
        f'The server "{server}" gave no answer within {seconds:g} s and was told to stop. Whether the call '
        "took effect is not known: check before trying again.",
    )


def no_longer_offered(server: str, tool: str) -> McpFault:
    return McpFault(
        "no-longer-offered",
        f'The tool "{tool}" is no longer offered by the server "{server}". Use another one.',
    )


def invalid_result(server: str, why: str) -> McpFault:
    return McpFault(
        "invalid-result",
        f'The server "{server}" answered with something that is not a valid result ({why}). The call may '
        "have taken effect: check before trying again.",
    )


def cancelled(server: str) -> McpFault:
    return McpFault(
        "cancelled",
        f'The call was cancelled and the server "{server}" was told to stop; it may have taken effect in '
        "part.",
    )


def says_connection_lost(error: MCPError) -> bool:
    """Whether the SDK itself reports a lost connection; servers use its code for errors of their own."""
    ours = error.message == "Connection closed" or error.message.startswith("SSE stream ")
    return error.code == CONNECTION_CLOSED and ours


def from_rpc_error(server: str, error: MCPError, *, lists_tools: bool = False) -> McpFault:
    """The fault that a JSON-RPC error stands for.

    A server that ``lists_tools`` and knows no method means another one than ours: one that it asked us for.
    """
    said = short(error.message)
    if says_connection_lost(error):
        return outcome_unknown(server, "the connection was lost before the answer came")
    if error.code == INVALID_PARAMS:
        return McpFault("invalid-params", f'The server "{server}" refused the call as invalid: {said}')
    if error.code == METHOD_NOT_FOUND and not lists_tools:
        return McpFault("no-longer-offered", f'The server "{server}" does not offer tools: {said}')
    if error.code == HEADER_MISMATCH:
        return McpFault("invalid-params", f'The server "{server}" refused the call: {said}', resend="relist")
    if error.code == PARSE_ERROR:
        return invalid_result(server, "not JSON-RPC")
    if error.code == INVALID_REQUEST and error.message.startswith("Redirect to "):
        return not_reached(server, f"{said.split(';')[0]}. The config item needs the final URL")
    return McpFault("tool-error", f'The server "{server}" answered with error {error.code}: {said}')


def short(text: Any, limit: int = MAX_REASON_CHARS) -> str:
    """A server's words as one short line: no markup, no line breaks, no control characters."""
    plain = text if isinstance(text, str) else str(text)
    plain = plain[: limit * 20]
    if "<" in plain:
        plain = _TAG.sub(" ", plain)
    plain = " ".join("".join(c if c.isprintable() else " " for c in plain).split())
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


def mask(text: str, secrets: Iterable[str]) -> str:
    """``text`` without the given credentials."""
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, "***")
    return text


def response(fault: McpFault) -> McpToolResponse:
    """The fault as the answer to a call."""
    return McpToolResponse(text=fault.message, is_error=True, fault=fault.kind)
