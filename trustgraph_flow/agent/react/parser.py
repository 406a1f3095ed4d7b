"""Reads a model's reply, whole or while it arrives, into the one step that it holds.

One state machine serves both: however a reply is cut into chunks, the merged events and the result are the
same. A state is a method that reads from the source and returns whether the loop shall go on; what more text
could still turn into a label, a tag or an escape stays unread, never more than a few dozen characters.

Two rules are not obvious. What stands before a ``</think>`` that nothing opened was thinking, so the step of
a reply that begins with prose is believed only at the reply's end; the call of one that begins with a label
is believed as soon as another label follows. And labels inside a final answer are its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby
from typing import Any

from .reading.envelope import Envelope
from .reading.labels import FENCE, FENCE_BEGINNING, PLAIN_BRACKET, Mark, names_no_action, tool_name
from .reading.objects import Unreadable, arguments_in, load_object, too_deep
from .reading.scanner import ObjectScanner
from .reading.source import Source
from .reading.steps import (
    AnswerDelta,
    AnswerStep,
    CallStep,
    Event,
    FormatFault,
    Reply,
    ThoughtDelta,
    fault,
)
from .reading.stream import Stream

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

_NOT_INLINE = re.compile(r"[\n\r<\ud800-\udfff]")
_INTO_OBJECT = re.compile(r"(?:`{1,8}[A-Za-z]{0,12}|\*{1,3})[ \t]{0,3}(?=\{)")
_INTO_OBJECT_BEGINNING = re.compile(r"(?:`{1,8}[A-Za-z]{0,12}|\*{1,3})[ \t]{0,3}")
_ANSWER = re.compile(rf"(?:[^<]++|{PLAIN_BRACKET})++", re.IGNORECASE)
_ANSWER_TEXT = re.compile(rf"(?:[^<*_`~]++|{PLAIN_BRACKET})++", re.IGNORECASE)
_ANSWER_MARKS = re.compile(r"[*_`~]+")
_NOT_ANSWER = re.compile(r"[<\ud800-\udfff]")


class Parser:
    """Reads one reply: ``feed`` it the chunks, then ``finish``.

    ``constrained`` says that the model was held to one JSON object, so that faults show that form. A reply
    that begins with a brace is read as such an object in any case.
    """

    def __init__(self, *, constrained: bool = False) -> None:
        self._constrained = constrained
        self._source = Source()
        self._events: list[Event] = []
        self._thought = Stream(ThoughtDelta, self._events)
        self._answer = Stream(AnswerDelta, self._events)
        self._flow: Callable[[str], list[Event] | None] | None = None  # a way past the states for plain text
        self._state: Callable[[], bool] = self._read_prose
        self._resume: Callable[[], bool] = self._read_prose  # the state to go back to from a think block
        self._block: Stream | list[str] | None = None  # where the text of that block goes
        self._is_fresh = True  # nothing has come but space, fences and think blocks
        self._may_be_thinking = True  # all so far may turn out to stand in a block that the prompt opened
        self._open_marks = ""  # markdown opened before a label, to be closed after it or after its text
        self._closers: list[str] = []  # what may end an answer without belonging to it
        self._begin_call()

    @property
    def done(self) -> bool:
        """Whether nothing that may follow can change the result, so that the model can be stopped."""
        return self._state == self._skip

    def feed(self, chunk: str) -> list[Event]:
        """What the next chunk adds to thought and answer."""
        if self._flow is not None and chunk:
            events = self._flow(chunk)
            if events is not None:
                return events
        self._source.add(chunk)
        self._pull()
        return self._take()

    def finish(self, finish_reason: str | None = None) -> tuple[list[Event], Reply]:
        """The last events, and the step. ``"length"`` says that a token limit has cut the reply off."""
        self._source.is_complete = True
        self._pull()
        reply = self._conclude(is_cut=finish_reason == "length")
        return self._take(), reply

    def _take(self) -> list[Event]:
        events = self._events[:]
        self._events.clear()
        return events if len(events) < 2 else _merged(events)

    def _pull(self) -> None:
        while self._state():
            pass
        self._flow = self._flowing()

    def _flowing(self) -> Callable[[str], list[Event] | None] | None:
        if not self._source.is_read or self._open_marks:
            return None
        if self._state == self._read_answer and not self._closers:
            return self._flow_answer
        if self._state == self._read_prose and not self._is_fresh and not self._source.at_line_start:
            return self._flow_thought
        if self._state == self._read_object:
            return self._flow_string
        if self._state == self._skip or (self._state == self._read_rest and not self._source.at_line_start):
            return self._flow_rest
        return None

    def _flow_answer(self, chunk: str) -> list[Event] | None:
        return None if _NOT_ANSWER.search(chunk) else self._answer.more(chunk)

    def _flow_thought(self, chunk: str) -> list[Event] | None:
        return None if _NOT_INLINE.search(chunk) else self._thought.more(chunk)

    def _flow_string(self, chunk: str) -> list[Event] | None:
        return self._take() if self._scanner.more(chunk) else None

    def _flow_rest(self, chunk: str) -> list[Event] | None:
        return None if _NOT_INLINE.search(chunk) else []

    # Before a step

    def _read_prose(self) -> bool:
        if self._is_fresh:
            self._source.skip_space()
            if self._source.next_is("{"):
                return self._begin_object(Envelope(self._thought, self._answer))
        if self._open_marks and not self._close_marks():
            return False
        token = self._source.token()
        if token is None:
            return False
        mark, value = token
        if mark is Mark.TEXT:
            self._is_fresh = False
            self._thought.put(value)
        elif mark is Mark.FENCE:
            if self._is_fresh:
                self._closers.append(value.strip()[:3])
            elif self._thought.started:
                self._thought.soften(value)
        else:
            self._begin_step(mark, value)
        return True

    def _read_observation(self) -> bool:
        """An observation before any step is a tale of earlier ones."""
        token = self._source.token()
        if token is None:
            return False
        if token[0] not in (Mark.TEXT, Mark.FENCE):
            self._begin_step(*token)
        return True

    def _begin_step(self, mark: Mark, value: str) -> None:
        if mark in (Mark.OPEN, Mark.CLOSE):
            self._turn_block(mark, value)
            return
        if self._is_fresh:
            self._is_fresh = self._may_be_thinking = False
        if mark is Mark.THOUGHT:
            self._break_thought()
            self._open_marks = value
            self._state = self._read_prose
        elif mark is Mark.OBSERVATION:
            self._state = self._read_observation
        elif mark is Mark.ANSWER:
            self._open_marks = value
            self._answer.held = self._may_be_thinking
            self._state = self._read_answer
        elif mark is Mark.ACTION:
            self._begin_call()
            self._state = self._read_name
        else:
            self._settle(self._fault("no-action"))

    def _break_thought(self) -> None:
        if self._thought.started:
            self._thought.soften("\n")

    def _close_marks(self) -> bool:
        """Pass over the markdown that closes what opened before the label; False while that is open."""
        marks, source = self._open_marks, self._source
        given = source.text[source.pos : source.pos + len(marks)]
        if given == marks:
            source.pos += len(marks)
        elif not source.is_complete and len(given) < len(marks) and marks.startswith(given):
            return False
        elif self._state == self._read_answer:
            self._closers.append(marks)
        self._open_marks = ""
        return True

    # A call

    def _begin_call(self) -> None:
        self._name: list[str] = []
        self._bare: list[str] = []
        self._has_label = False
        self._has_stray_object = False
        self._scanner = ObjectScanner()
        self._envelope: Envelope | None = None
        self._reply: Reply | None = None

    def _read_name(self) -> bool:
        if not self._name:
            self._source.skip_space()
            if self._source.next_is("{"):
                return self._begin_object(Envelope(self._thought, self._answer))
        token = self._source.token(one_line=True)
        if token is None:
            return False
        mark, value = token
        if mark is Mark.TEXT:
            self._name.append(value)
            if self._source.at_line_start:
                self._state = self._read_value
        elif mark is not Mark.FENCE:
            self._end_value(mark, value)
        return True

    def _read_value(self) -> bool:
        """The way to the arguments: to the first thing after their label, or to a line that is an object."""
        if self._open_marks and not self._close_marks():
            return False
        self._source.skip_space()
        if self._has_label or self._source.at_line_start:
            if self._source.next_is("{"):
                return self._begin_object(None)
            if self._source.read(_INTO_OBJECT, FENCE):
                return True
            if self._source.may_become(_INTO_OBJECT_BEGINNING, FENCE_BEGINNING):
                return False
        token = self._source.token()
        if token is None:
            return False
        mark, value = token
        if mark is not Mark.TEXT:
            self._end_value(mark, value)
        elif self._has_label:
            self._bare.append(value)
            self._state = self._read_bare
        elif "{" in value:
            self._has_stray_object = True
        return True

    def _read_bare(self) -> bool:
        token = self._source.token()
        if token is None:
            return False
        mark, value = token
        if mark in (Mark.TEXT, Mark.FENCE):
            self._bare.append(value)
        else:
            self._end_value(mark, value)
        return True

    def _end_value(self, mark: Mark, value: str) -> None:
        """A mark inside a call: the label of its arguments, a think block, or the next step."""
        if mark in (Mark.OPEN, Mark.CLOSE):
            self._turn_block(mark, value)
        elif mark is Mark.ARGS and self._state != self._read_bare:
            self._has_label = True
            self._open_marks = value
            self._state = self._read_value
        else:
            self._settle(self._call())
            self._pass_label()

    def _call(self) -> Reply:
        """The call when no object is to come."""
        if self._has_stray_object and not self._has_label:
            return self._fault("no-args-label")
        try:
            return self._called(*arguments_in("".join(self._bare)))
        except Unreadable as error:
            return self._unreadable("Args", error)

    def _called(self, arguments: dict[str, Any], repaired: bool) -> Reply:
        name = tool_name("".join(self._name))
        if names_no_action(name):
            return self._fault("no-action")
        return CallStep(self._thought.end(), name, arguments, repaired)

    def _begin_object(self, envelope: Envelope | None) -> bool:
        if self._is_fresh:
            self._is_fresh = self._may_be_thinking = False
        if envelope is not None:
            self._break_thought()
        self._envelope = envelope
        self._scanner = ObjectScanner(envelope.add if envelope else None)
        self._state = self._read_object
        return True

    def _read_object(self) -> bool:
        source = self._source
        source.pos = self._scanner.scan(source.text, source.pos)
        if not self._scanner.ended:
            return False
        source.at_line_start = False
        try:
            reply = self._load()
        except Unreadable as error:
            reply = self._unreadable("The JSON object" if self._envelope else "Args", error)
        if reply is None:
            self._state = self._read_prose
            return True
        self._settle(reply)
        if self._envelope and (isinstance(reply, AnswerStep) or not self._may_be_thinking):
            self._state = self._skip
        return True

    def _load(self) -> Reply | None:
        if self._scanner.too_deep:
            raise too_deep()
        if self._envelope is None:
            return self._called(*load_object(self._scanner.text))
        reply = self._envelope.close(self._scanner.text, constrained=self._constrained)
        return reply or (self._fault("no-step") if self._constrained else None)

    # After a step

    def _settle(self, reply: Reply) -> None:
        self._reply = reply
        self._state = self._read_rest

    def _read_rest(self) -> bool:
        """What follows a step is dropped; only the end of a think block could still undo it."""
        token = self._source.token()
        if token is None:
            return False
        mark, value = token
        if mark in (Mark.OPEN, Mark.CLOSE):
            self._turn_block(mark, value)
        elif mark not in (Mark.TEXT, Mark.FENCE):
            self._pass_label()
        return True

    def _pass_label(self) -> None:
        if not self._may_be_thinking:
            self._state = self._skip

    def _skip(self) -> bool:
        self._source.pos = len(self._source.text)
        return False

    def _read_answer(self) -> bool:
        if self._open_marks and not self._close_marks():
            return False
        source = self._source
        if text := source.read(_ANSWER_TEXT if self._closers else _ANSWER):
            self._answer.put(text)
        elif marks := source.read(_ANSWER_MARKS) if self._closers else None:
            self._answer.soften(marks)
        else:
            source.at_line_start = False
            token = source.token()
            if token is None:
                return False
            mark, value = token
            if mark is Mark.TEXT:
                self._answer.put(value)
            else:
                self._turn_block(mark, value)
        return True

    # Think blocks

    def _turn_block(self, mark: Mark, tag: str) -> None:
        is_answer = self._state == self._read_answer
        if mark is Mark.OPEN:
            self._may_be_thinking = False
            self._answer.release()
            self._resume = self._state
            self._block = [tag] if is_answer else None
            if self._state == self._read_prose and "thought" in tag.lower():
                self._break_thought()
                self._block = self._thought
            self._state = self._read_block
        elif not is_answer or self._answer.held:
            self._restart()

    def _restart(self) -> None:
        """All that came so far was thinking: no step in it counts."""
        self._may_be_thinking = False
        self._is_fresh = self._source.at_line_start = True
        self._answer.clear()
        self._closers.clear()
        self._open_marks = ""
        self._break_thought()
        self._begin_call()
        self._state = self._read_prose

    def _read_block(self) -> bool:
        text, has_ended = self._source.block()
        if isinstance(self._block, Stream):
            self._block.put(text)
        elif self._block is not None:
            self._block.append(text)
        if has_ended:
            self._block = None
            self._state = self._resume
        return has_ended

    # The end

    def _conclude(self, *, is_cut: bool) -> Reply:
        state = self._resume if self._state == self._read_block else self._state
        if self._reply is not None and state in (self._read_rest, self._skip):
            return self._reply
        if is_cut or state == self._read_object:
            return self._fault("cut-off")
        if state == self._read_answer:
            if isinstance(self._block, list):
                self._answer.put("".join(self._block))
            answer = self._answer.end(self._closers, keep=True)
            return AnswerStep(self._thought.end(), answer) if answer else self._fault("empty-answer")
        if self._state == self._read_block:
            return self._fault("think-unclosed")
        if state in (self._read_name, self._read_value, self._read_bare):
            return self._call()
        return self._fault("no-step")

    def _fault(self, reason: str) -> FormatFault:
        return fault(self._thought.end(), reason, constrained=self._constrained)

    def _unreadable(self, noun: str, error: Unreadable) -> FormatFault:
        problem = f"{noun} {error.message}"
        return fault(self._thought.end(), error.reason, problem=problem, constrained=self._constrained)


def _merged(events: list[Event]) -> list[Event]:
    """The same events with neighbours of one kind joined."""
    return [kind("".join(event.text for event in run)) for kind, run in groupby(events, type)]


def read_reply(text: str, *, constrained: bool = False, finish_reason: str | None = None) -> Reply:
    """The step that a whole reply holds."""
    parser = Parser(constrained=constrained)
    parser.feed(text)
    return parser.finish(finish_reason)[1]
