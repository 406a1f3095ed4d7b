"""W3C trace context: one trace through all hops of a question."""

from __future__ import annotations

import os
from contextvars import ContextVar

from opentelemetry import trace

_incoming: ContextVar[str | None] = ContextVar("traceparent", default=None)


def enter(parent: str | None) -> None:
    """What the current task sends from now on belongs to this trace."""
    _incoming.set(parent)


def traceparent() -> str:
    """For an outgoing message: the live span of the tracer, else a new span of the trace that we are in."""
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
    parent = _incoming.get()
    if parent is not None and len(parent) == 55:
        return f"{parent[:36]}{os.urandom(8).hex()}{parent[52:]}"
    return f"00-{os.urandom(16).hex()}-{os.urandom(8).hex()}-00"
