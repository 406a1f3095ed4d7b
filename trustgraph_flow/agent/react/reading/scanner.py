"""Where a JSON object that arrives in pieces ends, and what its outermost strings say meanwhile."""

from __future__ import annotations

import re
from collections.abc import Callable

MAX_DEPTH = 100

_PLAIN = r"[^{}\[\]\"'/#]++"
_STRING = r'"(?:[^"\\]++|\\.)*"'
_SKIP = re.compile(
    rf"(?:{_PLAIN}|{_STRING}|\[(?:{_PLAIN}|{_STRING})*\]|\{{(?:{_PLAIN}|{_STRING})*\}})*", re.DOTALL
)
_MEMBERS = re.compile(r"[{}\[\]\"'/#,:]")
_RUN = {'"': re.compile(r'(?:[^"\\]++|\\.)*', re.DOTALL), "'": re.compile(r"(?:[^'\\]++|\\.)*", re.DOTALL)}
_NOT_IN_STRING = re.compile(r'["\\\ud800-\udfff]')
_CLOSES = {"}": "{", "]": "["}

_HIGH = r"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW = r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LOW_BEGINNING = r"(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?\Z"
_ESCAPE = (
    rf"{_HIGH}{_LOW}|{_HIGH}(?!{_LOW_BEGINNING})|(?!{_HIGH})\\u[0-9a-fA-F]{{4}}"
    r"|\\u(?=[0-9a-fA-F]{0,3}[^0-9a-fA-F])|\\[^u]"
)
_ESCAPE_IN_RUN = re.compile(rf"{_HIGH}{_LOW}|\\u(?:[0-9a-fA-F]{{4}})?|\\[^u]")
_DECODED_RUN = {quote: re.compile(rf"(?:[^{quote}\\]++|{_ESCAPE})*") for quote in "\"'"}
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "'": "'", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_REPLACEMENT = "\ufffd"


class ObjectScanner:
    """Follows an object from its first brace; knows strings in both quotes, and comments, outside of values.

    ``members(key, text)`` is told the text of the object's own string members as it arrives, decoded, one
    member after the other. ``scan`` is linear in what it is fed and keeps back no more than two escapes.
    """

    def __init__(self, members: Callable[[str, str], None] | None = None) -> None:
        self._members = members
        self._parts: list[str] = []
        self._open: list[str] = []
        self._quote = ""
        self._comment = ""
        self._last = ""
        self._key: list[str] = []
        self._decodes = False
        self._is_value = False
        self.closed = False
        self.broken = False
        self.too_deep = False

    @property
    def ended(self) -> bool:
        """Whether nothing more of this object is to come: closed, wrongly closed, or given up as too deep."""
        return self.closed or self.broken or self.too_deep

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def scan(self, text: str, pos: int = 0) -> int:
        """Read ``text`` from ``pos``; returns where the rest begins that the next call must see."""
        start = floor = pos
        end = len(text)
        while pos < end and not self.ended:
            before = pos
            if self._quote:
                pos = self._in_string(text, pos)
            elif self._comment:
                pos = floor = self._in_comment(text, pos)
            else:
                pos = self._outside(text, pos, floor)
            if pos == before:
                break
        if not self._quote and not self._comment:
            self._last = self._significant(text, pos, floor)
        self._parts.append(text[start:pos])
        return pos

    def more(self, text: str) -> bool:
        """Read ``text`` if it is all inside a string value; else False, and nothing is read."""
        if self._quote != '"' or (self._decodes and not self._is_value) or _NOT_IN_STRING.search(text):
            return False
        self._parts.append(text)
        if self._decodes:
            self._decode(text)
        return True

    def _outside(self, text: str, pos: int, floor: int) -> int:
        watches = self._members is not None and len(self._open) == 1
        if watches:
            found = _MEMBERS.search(text, pos)
            pos = found.start() if found else len(text)
        elif self._open and (skipped := _SKIP.match(text, pos)):
            pos = skipped.end()
        if pos == len(text):
            return pos
        char = text[pos]
        if char == '"' or (char == "'" and self._significant(text, pos, floor) in ("", *"{[,:")):
            self._quote = char
            self._decodes = watches
            if watches and not self._is_value:
                self._key.clear()
        elif char in "{[":
            self._open.append(char)
            self.too_deep = len(self._open) > MAX_DEPTH
            self._is_value = False
        elif char in "}]":
            self.broken = self._open.pop() != _CLOSES[char]
            self.closed = not self.broken and not self._open
        elif char == "#":
            self._begin_comment("\n", text, pos, floor)
        elif char == "/":
            if pos + 1 == len(text):
                return pos
            kind = {"//": "\n", "/*": "*/"}.get(text[pos : pos + 2])
            if kind:
                self._begin_comment(kind, text, pos, floor)
                return pos + 2
        elif watches:
            self._is_value = char == ":"
        return pos + 1

    def _begin_comment(self, end: str, text: str, pos: int, floor: int) -> None:
        self._last = self._significant(text, pos, floor)
        self._comment = end

    def _in_comment(self, text: str, pos: int) -> int:
        found = text.find(self._comment, pos)
        if found < 0:
            return len(text) - (self._comment == "*/" and text.endswith("*"))
        end = found + len(self._comment)
        self._comment = ""
        return end

    def _in_string(self, text: str, pos: int) -> int:
        runs = _DECODED_RUN if self._decodes else _RUN
        run = runs[self._quote].match(text, pos)
        end = run.end() if run else pos
        if self._decodes and end > pos:
            self._decode(text[pos:end])
        if end < len(text) and text[end] == self._quote:
            self._quote = ""
            return end + 1
        return end

    def _decode(self, run: str) -> None:
        decoded = _ESCAPE_IN_RUN.sub(_character, run) if "\\" in run else run
        if not self._is_value:
            self._key.append(decoded)
        elif self._members is not None:
            self._members("".join(self._key), decoded)

    def _significant(self, text: str, pos: int, floor: int) -> str:
        """The last character before ``pos`` that is neither space nor comment."""
        while pos > floor:
            pos -= 1
            if not text[pos].isspace():
                return text[pos]
        return self._last


def _character(escape: re.Match[str]) -> str:
    """What an escape stands for: what is no JSON escape for itself, half a surrogate pair for U+FFFD."""
    text = escape.group()
    if text[1] != "u":
        return _ESCAPES.get(text[1], text)
    if len(text) == 2:
        return text
    code = int(text[2:6], 16)
    if len(text) == 12:
        return chr(0x10000 + ((code - 0xD800) << 10) + int(text[8:], 16) - 0xDC00)
    return _REPLACEMENT if 0xD800 <= code <= 0xDFFF else chr(code)
