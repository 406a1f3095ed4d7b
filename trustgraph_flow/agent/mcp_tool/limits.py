"""How long, how much and how many: the bounds of the MCP service, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass, field

from .results import ResultLimits


@dataclass(frozen=True, slots=True)
class Limits:
    """Times are in seconds."""

    calls_at_once: int = 16
    """Calls that one server works on at a time; others wait."""
    call: float = 30.0
    """How long a call may take, where neither tool nor server says so."""
    hard: float = 300.0
    """How far progress can extend that."""
    connect: float = 20.0
    """From the start of a connection, or a child process, until the handshake is done."""
    idle: float = 300.0
    """After which a connection without calls is closed."""
    close: float = 2.0
    """For a child to end by itself once its stdin is closed, and again after SIGTERM."""
    listing: float = 10.0
    """For the whole of ``tools/list``."""
    await_listing: float = 2.0
    """How long a call waits for a listing that is under way."""
    reconnect_first: float = 0.25
    reconnect_last: float = 10.0
    """The pause after a failed connection doubles from the first to the last; calls in it fail at once."""
    tools: int = 1000
    """Tools of one server that are kept."""
    pages: int = 100
    result: ResultLimits = field(default_factory=ResultLimits)
