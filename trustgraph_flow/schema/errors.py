"""The one base of every error that this product raises on purpose, and the kinds that cross the bus."""

from __future__ import annotations

from typing import Any


class TrustGraphError(Exception):
    """An error with a machine-readable kind and a message that names the place and the fix.

    ``type`` travels on the bus and through the gateway; ``message`` is for people and is never empty;
    ``data`` holds JSON values for programs.
    """

    type = "internal-error"

    def __init__(self, message: str, *, type: str | None = None, data: dict[str, Any] | None = None) -> None:
        super().__init__(message or self.type)
        self.message = message or self.type
        if type is not None:
            self.type = type
        self.data = data or {}


class BadRequest(TrustGraphError):
    """The request itself is wrong; sending it again changes nothing."""

    type = "bad-request"


class NotFound(TrustGraphError):
    """What was asked for does not exist in this workspace."""

    type = "not-found"


class Conflict(TrustGraphError):
    """Somebody else has written since the caller read."""

    type = "conflict"


class DeadlineExceeded(TrustGraphError):
    """The caller's time is over; whether the work was done is not known here."""

    type = "deadline-exceeded"


class Cancelled(TrustGraphError):
    """The caller, or an operator, has cancelled the work."""

    type = "cancelled"


class Unavailable(TrustGraphError):
    """A part that the work needs can't be reached now; a later try may succeed."""

    type = "unavailable"


class SetupError(TrustGraphError):
    """The machine or the configuration does not let us start; the message says how to mend it."""

    type = "setup-error"


KINDS: dict[str, type[TrustGraphError]] = {
    kind.type: kind
    for kind in (BadRequest, NotFound, Conflict, DeadlineExceeded, Cancelled, Unavailable, SetupError)
}


def to_wire(error: BaseException) -> dict[str, Any]:
    """``{"type", "message", "data"?}``; what is not ours is named by its class and keeps no traceback."""
    if isinstance(error, TrustGraphError):
        body: dict[str, Any] = {"type": error.type, "message": error.message}
        if error.data:
            body["data"] = error.data
        return body
    return {
        "type": "internal-error",
        "message": f"{type(error).__name__}: {error}" if str(error) else type(error).__name__,
    }


def from_wire(body: dict[str, Any]) -> TrustGraphError:
    """The error that ``to_wire`` wrote, as the most exact class known for its type."""
    kind = str(body.get("type") or "internal-error")
    cls = KINDS.get(kind, TrustGraphError)
    return cls(str(body.get("message") or kind), type=kind, data=body.get("data"))
