"""The states of reading one reply, from its first mark to its step.

A state is a method that reads from the source and returns whether the next one shall go on; what more text
could still turn into a label, a tag or an escape stays unread, never more than a few dozen characters.

Two rules are not obvious. What stands before a ``</think>`` that nothing opened was thinking, so the step of
a reply that begins with prose is believed only at the reply's end; the call of one that begins with a label
is believed as soon as another label follows. And labels inside a final answer are its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from .call import CallDraft
from .envelope import Envelope
from .labels import FENCE, FENCE_BEGINNING, PLAIN_BRACKET, Mark
from .objects import Unreadable, too_deep
from .scanner import ObjectScanner
from .source import Source
from .steps import AnswerDelta, AnswerStep, Event, FormatFault, Reply, ThoughtDelta, fault
from .stream import Stream

R = TypeVar("R")

_NOT_INLINE = re.compile(r"[\n\r<\ud800-\udfff]")
_INTO_OBJECT = re.compile(r"(?:`{1,8}[A-Za-z]{0,12}|\*{1,3})[ \t]{0,3}(?=\{)")
_VALUE_BEGINNING = re.compile(rf"(?:`{{1,8}}[A-Za-z]{{0,12}}|\*{{1,3}})[ \t]{{0,3}}|{FENCE_BEGINNING}")
_ANSWER = re.compile(rf"(?:[^<]++|{PLAIN_BRACKET})+", re.IGNORECASE)
_ANSWER_TEXT = re.compile(rf"(?:[^<*_`~]++|{PLAIN_BRACKET})+", re.IGNORECASE)
_ANSWER_MARKS = re.compile(r"[*_`~]+")
_NOT_ANSWER = re.compile(r"[<\ud800-\udfff]")


class Machine:
    """Reads what its ``source`` is given; thought and answer go to ``events`` as they become certain."""

    def __init__(self, events: list[Event], *, constrained: bool) -> None:
        self._constrained = constrained
        self.source = Source()
        self._thought = Stream(ThoughtDelta, events)
        self._answer = Stream(AnswerDelta, events)
        self._state: Callable[[], bool] = self._read_prose
        self._resume: Callable[[], bool] = self._read_prose  # the state to go back to from a think block
        self._block: Stream | list[str] | None = None  # where the text of that block goes
        self._is_fresh = True  # nothing has come but space, fences and think blocks
        self._may_be_thinking = True  # all so far may turn out to stand in a block that the prompt opened
        self._open_marks = ""  # markdown opened before a label, to be closed after it or after its text
        self._closers: list[str] = []  # what may end an answer without belonging to it
        self.flow: Callable[[str], bool] | None = None  # see ``run``
        self._begin_call()

    @property
    def is_done(self) -> bool:
        return self._state == self._skip

    def run(self) -> None:
        """Read all that can be decided.

        Afterwards ``flow`` is a shorter way for the next chunk, if there is one. It takes a chunk that holds
        no mark; else it is False, and has read nothing.
        """
        while self._state():
            pass
        self.flow = self._flowing()

    def _flowing(self) -> Callable[[str], bool] | None:
        if not self.source.is_read or self._open_marks:
            return None
        if self._state == self._read_answer and not self._closers:
            return self._flow_answer
        if self._state == self._read_prose and not self._is_fresh and not self.source.at_line_start:
            return self._flow_thought
        if self._state == self._read_object:
            return self._flow_object
        if self._state == self._skip or (self._state == self._read_rest and not self.source.at_line_start):
            return self._flow_rest
        return None

    def _flow_answer(self, chunk: str) -> bool:
        return not _NOT_ANSWER.search(chunk) and self._answer.more(chunk)

    def _flow_thought(self, chunk: str) -> bool:
        return not _NOT_INLINE.search(chunk) and self._thought.more(chunk)

    def _flow_object(self, chunk: str) -> bool:
        if self._scanner.more(chunk):
            return True
        if not chunk.isascii():
            return False
        pos = self._scanner.scan(chunk)
        if pos < len(chunk) or self._scanner.ended:
            self.source.add(chunk)
            self.source.pos = pos
            self.run()
        return True

    def _flow_rest(self, chunk: str) -> bool:
        return not _NOT_INLINE.search(chunk)

    # Before a step

    def _read_prose(self) -> bool:
        if self._is_fresh:
            self.source.skip_space()
            if self.source.next_is("{"):
                return self._begin_object(Envelope(self._thought, self._answer))
        if self._open_marks and not self._close_marks():
            return False
        token = self.source.token()
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
        token = self.source.token()
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
        marks, source = self._open_marks, self.source
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
        self._draft = CallDraft()
        self._scanner = ObjectScanner()
        self._envelope: Envelope | None = None
        self._reply: Reply | None = None

    def _read_name(self) -> bool:
        if not self._draft.name:
            self.source.skip_space()
            if self.source.next_is("{"):
                return self._begin_object(Envelope(self._thought, self._answer))
        token = self.source.token(one_line=True)
        if token is None:
            return False
        mark, value = token
        if mark is Mark.TEXT:
            self._draft.name.append(value)
            if self.source.at_line_start:
                self._state = self._read_value
        elif mark is not Mark.FENCE:
            self._end_value(mark, value)
        return True

    def _read_value(self) -> bool:
        """The way to the arguments: to the first thing after their label, or to a line that is an object."""
        if self._open_marks and not self._close_marks():
            return False
        self.source.skip_space()
        if self._draft.has_label or self.source.at_line_start:
            if self.source.next_is("{"):
                return self._begin_object(None)
            if self.source.read(_INTO_OBJECT, FENCE):
                return True
            if self.source.may_become(_VALUE_BEGINNING):
                return False
        token = self.source.token()
        if token is None:
            return False
        mark, value = token
        if mark is not Mark.TEXT:
            self._end_value(mark, value)
        elif self._draft.has_label:
            self._draft.bare.append(value)
            self._state = self._read_bare
        elif "{" in value:
            self._draft.has_stray_object = True
        return True

    def _read_bare(self) -> bool:
        token = self.source.token()
        if token is None:
            return False
        mark, value = token
        if mark in (Mark.TEXT, Mark.FENCE):
            self._draft.bare.append(value)
        else:
            self._end_value(mark, value)
        return True

    def _end_value(self, mark: Mark, value: str) -> None:
        """A mark inside a call: the label of its arguments, a think block, or the next step."""
        if mark in (Mark.OPEN, Mark.CLOSE):
            self._turn_block(mark, value)
        elif mark is Mark.ARGS and self._state != self._read_bare:
            self._draft.has_label = True
            self._open_marks = value
            self._state = self._read_value
        else:
            self._settle(self._call())
            self._pass_label()

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
        source = self.source
        source.pos = self._scanner.scan(source.text, source.pos)
        if not self._scanner.ended:
            return False
        source.at_line_start = False
        reply = self._believed(self._load)
        if reply is None and not self._constrained:
            self._state = self._read_prose
            return True
        self._settle(reply or self._fault("no-step"))
        if self._envelope and (isinstance(reply, AnswerStep) or not self._may_be_thinking):
            self._state = self._skip
        return True

    def _load(self) -> Reply | None:
        if self._scanner.too_deep:
            raise too_deep()
        if self._envelope is None:
            return self._draft.step(self._thought.end(), self._scanner.text)
        return self._envelope.step(self._scanner.text)

    def _call(self) -> Reply:
        """The call, when no object is to come."""
        return self._believed(lambda: self._draft.step(self._thought.end()))

    def _believed(self, read: Callable[[], R]) -> R | FormatFault:
        """What is read, or the fault that it turns out to be."""
        try:
            return read()
        except Unreadable as error:
            noun = "The JSON object" if self._envelope else "Args"
            return self._fault(error.reason, f"{noun} {error.message}")

    # After a step

    def _settle(self, reply: Reply) -> None:
        self._reply = reply
        self._state = self._read_rest

    def _read_rest(self) -> bool:
        """What follows a step is dropped; only the end of a think block could still undo it."""
        token = self.source.token()
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
        self.source.pos = len(self.source.text)
        return False

    def _read_answer(self) -> bool:
        if self._open_marks and not self._close_marks():
            return False
        source = self.source
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
        self._is_fresh = self.source.at_line_start = True
        self._answer.clear()
        self._closers.clear()
        self._open_marks = ""
        self._break_thought()
        self._begin_call()
        self._state = self._read_prose

    def _read_block(self) -> bool:
        text, has_ended = self.source.block()
        if isinstance(self._block, Stream):
            self._block.put(text)
        elif self._block is not None:
            self._block.append(text)
        if has_ended:
            self._block = None
            self._state = self._resume
        return has_ended

    # The end

    def conclude(self, *, is_cut: bool) -> Reply:
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

    def _fault(self, reason: str, problem: str = "") -> FormatFault:
        return fault(self._thought.end(), reason, problem, constrained=self._constrained)
