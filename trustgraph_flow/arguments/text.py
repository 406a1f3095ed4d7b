"""Text from outside, made safe to stand in a prompt: nothing is lost, and nothing can imitate a step."""

from __future__ import annotations

import json
import re
from typing import Any

LABELS = frozenset({"thought", "action", "args", "action input", "observation", "final answer", "question"})

# Control characters but newline and tab; marks that reorder or break lines; invisible tags; half characters.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f\ud800-\udfff]"
)
_PLAIN_NAME = re.compile(r"[\w$][\w$.@/+-]*")
_MARKS = "_.@/+-$ "


def escape(text: str) -> str:
    """``text`` with ``\\n`` line ends, and its unsafe characters written as JSON escapes."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _UNSAFE.sub(lambda found: json.dumps(found[0])[1:-1], text)


def quote_block(text: str, prefix: str = "| ") -> str:
    """``text`` with ``prefix`` before each of its lines, so that no line of it begins with a label of ours.

    The words stay exactly as they are; only control and reordering characters are written as escapes.
    """
    return prefix + escape(text).replace("\n", "\n" + prefix)


def one_line(text: str, limit: int | None = None) -> str:
    """``text`` on one line, its line breaks written as ``\\n``; cut to about ``limit`` characters."""
    if limit is not None:
        text = shorten(text, limit)
    return escape(text).replace("\n", "\\n")


def shorten(text: str, limit: int) -> str:
    """``text``, or its first ``limit`` characters and a note of how many are missing."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit:,} characters left out)"


def show_value(value: Any, limit: int | None = None) -> str:
    """A JSON value as the model would write it, on one line; cut to about ``limit`` characters."""
    if limit is not None and isinstance(value, str) and len(value) > limit:
        return one_line(json.dumps(value[:limit], ensure_ascii=False)[:-1]) + (
            f'…" ({len(value) - limit:,} characters left out)'
        )
    try:
        words = json.dumps(value, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        # An integer longer than Python writes, or no JSON value at all.
        words = f"a value of type {type(value).__name__}"
    return one_line(words, limit)


def show_name(name: str) -> str:
    """A name letter for letter; in JSON quotes where it is not a plain word or reads like a label of ours."""
    if _PLAIN_NAME.fullmatch(name) and name.strip(_MARKS).casefold() not in LABELS:
        return name
    return show_value(name)


def show_path(path: tuple[str | int, ...]) -> str:
    """``query.tags[0]`` for ``("query", "tags", 0)``; "" for the arguments as a whole."""
    shown = ""
    for part in path:
        if isinstance(part, int):
            shown += f"[{part}]"
        else:
            shown += ("." if shown else "") + (one_line(part) if part else '""')
    return shown
