"""Text from outside on its way to a terminal.

What a tool, a model or another operator wrote must not move the cursor, recolour, retitle or reorder what a
person reads. Escape sequences and control characters are taken out; JSON keeps them, as JSON escapes.
"""

from __future__ import annotations

import json
import re
from typing import Any

_STRINGS = r"\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
_SEQUENCES = re.compile(
    rf"{_STRINGS}|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-OQ-WYZ\\`-~]|\x9b[0-?]*[ -/]*[@-~]"
)
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_CONTROLS = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029{_BIDI}]")
_NOT_IN_JSON = re.compile(rf"[\x7f-\x9f\u2028\u2029{_BIDI}]|[\ud800-\udfff]")
_LONGEST_HELD = 256


def clean(text: str) -> str:
    """``text`` without escape sequences and control characters; newlines and tabs stay."""
    text = _SEQUENCES.sub("", text.replace("\r\n", "\n"))
    return _CONTROLS.sub("", text).encode("utf-8", "replace").decode("utf-8")


def one_line(text: str) -> str:
    """``text``, cleaned, on one line."""
    return " ".join(clean(text).split())


def shorten(text: str, limit: int) -> str:
    """``text``, cut at ``limit`` characters with a note of how much there is."""
    return text if len(text) <= limit else f"{text[:limit].rstrip()} … ({len(text):,} characters in all)"


def to_json(value: Any, *, indent: int | None = 2) -> str:
    """JSON with readable letters, and escapes for whatever could steer a terminal."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _NOT_IN_JSON.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


class Cleaner:
    """``clean`` for text that comes in chunks: a sequence that is cut in two is still taken out whole."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, chunk: str) -> str:
        text = self._held + chunk
        start = self._unfinished(text)
        self._held = text[start:]
        return clean(text[:start])

    def finish(self) -> str:
        held, self._held = self._held, ""
        return clean(held)

    def _unfinished(self, text: str) -> int:
        """Where an escape sequence begins that may go on in the next chunk; else the end of ``text``."""
        start = max(text.rfind("\x1b"), text.rfind("\x9b"))
        if text.endswith("\r"):
            return len(text) - 1
        if start < 0 or len(text) - start > _LONGEST_HELD or _SEQUENCES.match(text, start):
            return len(text)
        return start
