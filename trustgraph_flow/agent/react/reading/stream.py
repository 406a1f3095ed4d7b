"""A text that goes out while it arrives, trimmed at both ends."""

from __future__ import annotations

from collections.abc import Sequence

from .steps import AnswerDelta, Event, ThoughtDelta


class Stream:
    """Passes text on as deltas; what may turn out to be the end's trimmings waits until more text follows.

    The deltas joined always equal ``text``. While ``held`` is set, text is kept and nothing is passed on.
    """

    __slots__ = ("_delta", "_events", "_parts", "_pending", "held", "started")

    def __init__(self, delta: type[ThoughtDelta] | type[AnswerDelta], events: list[Event]) -> None:
        self._delta = delta
        self._events = events
        self.clear()

    def clear(self) -> None:
        """Forget everything; only sound while nothing has been passed on."""
        self._parts: list[str] = []
        self._pending: list[str] = []
        self.started = False
        self.held = False

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def more(self, text: str) -> bool:
        """``put``, always True: the short way for text that is not empty."""
        if self._pending or not self.started or self.held or text[-1].isspace():
            self.put(text)
        else:
            self._parts.append(text)
            self._events.append(self._delta(text))
        return True

    def put(self, text: str) -> None:
        if not text:
            return
        if text.isspace():
            if self.started or self._pending:
                self._pending.append(text)
            return
        if self._pending:
            text = "".join(self._pending) + text
            self._pending.clear()
        if not self.started:
            text = text.lstrip()
        body = text.rstrip()
        if not body:
            return
        if len(body) != len(text):
            self._pending.append(text[len(body) :])
        self._pass(body)

    def soften(self, text: str) -> None:
        """Add text that is dropped, as space is, if it comes last."""
        self._pending.append(text)

    def release(self) -> None:
        """Pass on what was held, and hold nothing more."""
        if self.held and self._parts:
            self._events.append(self._delta(self.text))
        self.held = False

    def end(self, closers: Sequence[str] = (), *, keep: bool = False) -> str:
        """The whole text, when nothing follows: held text goes out; space at the end is dropped.

        So is softened text, unless it is to be kept; then only the ``closers`` that it ends with are.
        """
        rest = "".join(self._pending).rstrip() if keep else ""
        self._pending.clear()
        for closer in closers:
            rest = rest.removesuffix(closer).rstrip()
        if not self.started:
            rest = rest.lstrip()
        if rest:
            self._pass(rest)
        self.release()
        return self.text

    def _pass(self, text: str) -> None:
        self.started = True
        self._parts.append(text)
        if not self.held:
            self._events.append(self._delta(text))
