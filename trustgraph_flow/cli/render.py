"""A run on the screen as it happens: thought, call, observation, answer, fault.

On a pipe it is the same text without colour. Lines after the first of a message are indented, so that a
tool's text can't look like a message of its own.
"""

from __future__ import annotations

import sys
from typing import TextIO

from rich.console import Console
from rich.text import Text

from trustgraph_flow.cli.text import Cleaner, clean, one_line, shorten, to_json
from trustgraph_flow.schema.agent import RETRACTED, AgentMessage

LONGEST_OBSERVATION = 2_000
"""Characters shown of one observation unless all was asked for."""

_INDENT = "    "
_STYLES = {"Thought": "cyan", "Call": "yellow", "Observation": "green", "Refused": "red", "Answer": "bold"}


class AgentPrinter:
    """Prints the messages of one run, streamed or whole.

    ``steps=False`` prints the answer alone, bare, for scripts. Faults go to ``err``; ``answered`` says
    whether the run has ended with an answer.
    """

    def __init__(
        self,
        out: TextIO | None = None,
        err: TextIO | None = None,
        *,
        steps: bool = True,
        everything: bool = False,
    ) -> None:
        self._out = plain_console(out or sys.stdout)
        self._err = plain_console(err or sys.stderr)
        self._steps = steps
        self._limit = None if everything else LONGEST_OBSERVATION
        self._open: str | None = None
        self._cleaner = Cleaner()
        self.last: AgentMessage | None = None
        """The message that ended the dialog; it carries the usage of the run."""

    @property
    def answered(self) -> bool:
        return self.last is not None and self.last.message_type == "answer"

    def show(self, message: AgentMessage) -> None:
        match message.message_type:
            case "thought":
                if self._steps:
                    self._chunk(message, "Thought")
            case "action":
                if self._steps:
                    self._whole("Call", _call(message))
            case "observation":
                if self._steps:
                    self._whole(*self._observation(message))
            case "answer":
                self._chunk(message, "Answer")
            case "error":
                self.close()
                fault = message.content or str((message.error or {}).get("message") or "the run failed")
                self._write(self._err, f"Fault: {one_line(fault)}\n", "red")
        if message.end_of_dialog:
            self.last = message

    def close(self) -> None:
        """Ends the line of a message that was cut off."""
        if self._open is not None:
            self._text(self._cleaner.finish())
            self._write(self._out, "\n")
            self._open = None

    def usage(self) -> None:
        """The tokens of the run, on ``err``."""
        if self.last is not None:
            tokens = [
                "unknown" if count is None else f"{count:,}"
                for count in (self.last.in_token, self.last.out_token)
            ]
            model = one_line(self.last.model or "unknown")
            self._write(
                self._err, f"Input tokens: {tokens[0]}  Output tokens: {tokens[1]}  Model: {model}\n", "dim"
            )

    def _observation(self, message: AgentMessage) -> tuple[str, str]:
        text = clean(message.content)
        if self._limit is not None:
            text = shorten(text, self._limit)
        if message.is_error and message.call_id is None:
            return "Refused", text
        notes = [one_line(message.reason or "failed")] if message.is_error else []
        if message.duration_ms is not None:
            notes.append(f"{message.duration_ms:,.0f} ms")
        return "Observation", f"({', '.join(notes)}) {text}" if notes else text

    def _chunk(self, message: AgentMessage, label: str) -> None:
        if self._open != message.message_id:
            if not message.content:
                return  # the empty end of what has been shown, or of nothing
            self.close()
            self._open = message.message_id
            self._label(label)
        self._text(self._cleaner.feed(message.content))
        if message.end_of_message:
            self.close()
            if message.reason == RETRACTED:
                self._write(self._err, "Retracted: this answer was cut off, and is not the answer.\n", "red")

    def _whole(self, label: str, text: str) -> None:
        self.close()
        self._label(label)
        self._text(text)
        self._write(self._out, "\n")

    def _label(self, label: str) -> None:
        if self._steps:
            self._write(self._out, f"{label}: ", _STYLES[label])

    def _text(self, text: str) -> None:
        if text:
            self._write(self._out, text.replace("\n", "\n" + _INDENT) if self._steps else text)

    def _write(self, console: Console, text: str, style: str = "") -> None:
        console.print(Text(text, style=style), end="", soft_wrap=True)


def plain_console(stream: TextIO) -> Console:
    """A console that takes text as text: no markup, no emoji names, no guessing of colours."""
    return Console(file=stream, markup=False, emoji=False, highlight=False)


def _call(message: AgentMessage) -> str:
    return f"{one_line(message.action or message.content)} {to_json(message.arguments or {}, indent=None)}"
