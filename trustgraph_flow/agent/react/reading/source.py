"""The unread end of a reply, and what stands next in it."""

from __future__ import annotations

import re

from .labels import (
    CLOSING_TAG,
    FENCE,
    LABEL,
    LINE_BEGINNING,
    LONGEST_MARK,
    LONGEST_TAG,
    PLAIN_BRACKET,
    PLAIN_LINE,
    TAG,
    TAG_BEGINNING,
    Mark,
    label_of,
)

_SPACE = re.compile(r"\s+")
_INLINE = rf"(?:[^\n\r<]++|{PLAIN_BRACKET})*"
_PIECE = re.compile(rf"{_INLINE}(?:[\n\r]{PLAIN_LINE}{_INLINE})*[\n\r]?", re.IGNORECASE)
_LINE = re.compile(rf"{_INLINE}[\n\r]?", re.IGNORECASE)
_BRACKET = re.compile("<")
_SURROGATES = re.compile(r"[\ud800-\udfff]")
_LINE_MARKS = frozenset("\t #>*_`~•+-\u200b\u200c\u200d\u2060\ufeff0123456789tafoTAFO")


class Source:
    """Text that grows until ``is_complete``; what can't be decided yet is None, and stays unread.

    What they leave unread is never more than ``LONGEST_MARK`` characters.
    """

    def __init__(self) -> None:
        self.text = ""
        self.pos = 0
        self.at_line_start = True
        self.is_complete = False

    def add(self, chunk: str) -> None:
        """More text; halves of surrogate pairs, which nothing can carry on, become U+FFFD."""
        if not chunk.isascii():
            chunk = _SURROGATES.sub("\ufffd", chunk)
        self.text = self.text[self.pos :] + chunk
        self.pos = 0

    @property
    def is_read(self) -> bool:
        return self.pos == len(self.text)

    def next_is(self, char: str) -> bool:
        return self.text.startswith(char, self.pos)

    def read(self, *patterns: re.Pattern[str]) -> str | None:
        """What the first fitting pattern finds here."""
        for pattern in patterns:
            found = pattern.match(self.text, self.pos)
            if found and found.group():
                self.pos = found.end()
                return found.group()
        return None

    def skip_space(self) -> None:
        space = self.read(_SPACE)
        if space and not {"\r", "\n"}.isdisjoint(space):
            self.at_line_start = True

    def may_become(self, beginning: re.Pattern[str]) -> bool:
        """Whether all the unread text may be the beginning of a mark."""
        if self.is_complete or len(self.text) - self.pos > LONGEST_MARK:
            return False
        return beginning.fullmatch(self.text, self.pos) is not None

    def token(self, *, one_line: bool = False) -> tuple[Mark, str] | None:
        """The next mark, or the text up to where one may be; with a label, the markdown it left open."""
        if self.is_read:
            return None
        if self.at_line_start:
            char = self.text[self.pos]
            if char.isspace() and (space := self.read(_SPACE)):
                return Mark.TEXT, space
            if char in _LINE_MARKS:
                if label := LABEL.match(self.text, self.pos):
                    self.pos = label.end()
                    self.at_line_start = False
                    return label_of(label)
                if char in "`~" and (fence := self.read(FENCE)):
                    return Mark.FENCE, fence
                if self.may_become(LINE_BEGINNING):
                    return None
        if self.next_is("<") and (self.may_become(TAG_BEGINNING) or TAG.match(self.text, self.pos)):
            if tag := self.read(TAG):
                return Mark.CLOSE if tag[1] == "/" else Mark.OPEN, tag
            return None
        piece = self.read(_LINE if one_line else _PIECE, _BRACKET) or ""
        self.at_line_start = piece[-1:] in ("\n", "\r")
        return Mark.TEXT, piece

    def block(self) -> tuple[str, bool]:
        """The text up to the end of a think block, and whether that end has come."""
        start = self.pos
        if closing := CLOSING_TAG.search(self.text, start):
            self.pos = closing.end()
            return self.text[start : closing.start()], True
        end = len(self.text)
        last = self.text.rfind("<", max(start, end - LONGEST_TAG))
        if last >= 0 and not self.is_complete and TAG_BEGINNING.fullmatch(self.text, last):
            end = last
        self.pos = end
        return self.text[start:end], False
