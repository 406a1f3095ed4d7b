"""Reads a model's reply, whole or while it arrives, into the one step that it holds.

However a reply is cut into chunks, the merged events and the step are the same. Nothing here knows which
tools there are: an action is a name as the model wrote it.
"""

from __future__ import annotations

from itertools import groupby

from .reading.machine import Machine
from .reading.steps import AnswerDelta, AnswerStep, CallStep, Event, FormatFault, Reply, ThoughtDelta

__all__ = [
    "AnswerDelta",
    "AnswerStep",
    "CallStep",
    "Event",
    "FormatFault",
    "Parser",
    "Reply",
    "ThoughtDelta",
    "read_reply",
]


class Parser:
    """Reads one reply: ``feed`` it the chunks, then ``finish``.

    ``constrained`` says that the model was held to one JSON object, so that faults show that form. A reply
    that begins with a brace is read as such an object in any case.
    """

    def __init__(self, *, constrained: bool = False) -> None:
        self._events: list[Event] = []
        self._machine = Machine(self._events, constrained=constrained)

    @property
    def done(self) -> bool:
        """Whether nothing that may follow can change the result, so that the model can be stopped."""
        return self._machine.is_done

    def feed(self, chunk: str) -> list[Event]:
        """What the next chunk adds to thought and answer."""
        if not chunk:
            return []
        machine = self._machine
        if machine.flow is None or not machine.flow(chunk):
            machine.source.add(chunk)
            machine.run()
        return self._take()

    def finish(self, finish_reason: str | None = None) -> tuple[list[Event], Reply]:
        """The last events, and the step. ``"length"`` says that a token limit has cut the reply off."""
        self._machine.source.is_complete = True
        self._machine.run()
        reply = self._machine.conclude(is_cut=finish_reason == "length")
        return self._take(), reply

    def _take(self) -> list[Event]:
        events = self._events[:]
        self._events.clear()
        return events if len(events) < 2 else _merged(events)


def _merged(events: list[Event]) -> list[Event]:
    """The same events with neighbours of one kind joined."""
    return [kind("".join(event.text for event in run)) for kind, run in groupby(events, type)]


def read_reply(text: str, *, constrained: bool = False, finish_reason: str | None = None) -> Reply:
    """The step that a whole reply holds."""
    parser = Parser(constrained=constrained)
    parser.feed(text)
    return parser.finish(finish_reason)[1]
