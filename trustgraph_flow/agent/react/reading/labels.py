"""The marks that give a reply its shape: labels at line starts, code fences, think tags.

For each mark there is one pattern that finds it, and one for all of its beginnings.
Every quantifier is bounded, so that looking at a line's start costs the same however long the line is.
"""

from __future__ import annotations

import re
from enum import Enum

from trustgraph_flow.schema.items import RESERVED_NAMES


class Mark(Enum):
    """What a reader can meet in a line."""

    THOUGHT = "thought"
    ACTION = "action"
    ARGS = "args"
    ANSWER = "answer"
    OBSERVATION = "observation"
    TEXT = "text"
    FENCE = "fence"
    OPEN = "open"
    CLOSE = "close"


_PHRASES = {
    Mark.THOUGHT: ("thought",),
    Mark.ACTION: ("action",),
    Mark.ARGS: ("args", "arguments", "action input", "action args"),
    Mark.ANSWER: ("final answer",),
    Mark.OBSERVATION: ("observation",),
}

_INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"
_GAP = r"[ \t_-]{0,2}"
_BEFORE = rf"[ \t#>*_`•+{_INVISIBLE}-]{{0,12}}"
_NUMBER = r"\d{1,3}"
_AFTER_NUMBER = r"[.)][ \t*_`]{0,6}"
_AFTER = r"[ \t]{0,3}[*_`]{0,3}[ \t]{0,3}"


def _atoms(phrase: str) -> list[str]:
    return [_GAP if char == " " else re.escape(char) for char in phrase]


def _beginning(atoms: list[str]) -> str:
    """A pattern for every beginning of what the atoms match, the empty one excepted."""
    pattern = ""
    for atom in reversed(atoms):
        pattern = f"{atom}(?:{pattern})?" if pattern else atom
    return pattern


_WORDS = [_beginning(_atoms(phrase)) for phrases in _PHRASES.values() for phrase in phrases]

LABEL = re.compile(
    f"(?P<before>{_BEFORE}(?:{_NUMBER}{_AFTER_NUMBER})?)(?:"
    + "|".join(
        f"(?P<{mark.value}>{'|'.join(''.join(_atoms(phrase)) for phrase in phrases)})"
        for mark, phrases in _PHRASES.items()
    )
    + f")(?P<after>{_AFTER})[:：]",
    re.IGNORECASE,
)
FENCE = re.compile(r"(?:`{3,8}|~{3,8})[\w+.-]{0,20}[ \t]{0,4}(?:\r\n?|\n)")
FENCE_BEGINNING = r"`{1,2}|~{1,2}|(?:`{3,8}|~{3,8})[\w+.-]{0,20}[ \t]{0,4}"
LINE_BEGINNING = re.compile(
    f"{_BEFORE}(?:{_NUMBER}(?:{_AFTER_NUMBER})?)?(?:{'|'.join(_WORDS)})?{_AFTER}|{FENCE_BEGINNING}",
    re.IGNORECASE,
)

_FIRST_WORDS = "thought|action|arg|final|observation"
PLAIN_LINE = rf"(?![\s#>*_`~•+{_INVISIBLE}\d{{-]|{_FIRST_WORDS}|(?:{'|'.join(_WORDS)})\Z)"
"""Where a line begins that no label, fence or object begins; in a pattern that ignores case."""

_TAG_NAMES = "|".join(_beginning(_atoms(name)) for name in ("thinking", "thought"))
TAG = re.compile(r"</?(?:think|thinking|thought)>", re.IGNORECASE)
TAG_BEGINNING = re.compile(f"</?(?:{_TAG_NAMES})?", re.IGNORECASE)
PLAIN_BRACKET = rf"<(?!/?(?:think|thinking|thought)>|/?(?:{_TAG_NAMES})?\Z)"
"""A bracket that no tag begins; in a pattern that ignores case."""

CLOSING_TAG = re.compile(r"</(?:think|thinking|thought)>", re.IGNORECASE)
LONGEST_TAG = len("</thinking>")
LONGEST_MARK = 64

_OPEN_MARKS = re.compile(r"[*_`]+\Z")
_PAIRS = {"`": "`", '"': '"', "'": "'", "[": "]", "<": ">", "(": ")", "“": "”", "«": "»"}
_AROUND_NAME = f" \t\r\n*`{_INVISIBLE}"
_NO_ACTION = RESERVED_NAMES | {""}


def label_of(match: re.Match[str]) -> tuple[Mark, str]:
    """The label that ``LABEL`` found, and the markdown before it that no markdown has closed yet."""
    marks = _OPEN_MARKS.search(match["before"])
    is_open = marks is not None and not match["after"].strip()
    mark = next(mark for mark in _PHRASES if match[mark.value] is not None)
    return mark, marks.group() if marks and is_open else ""


def tool_name(text: str) -> str:
    """The name in an action line: as written, without the markdown, quotes or brackets around it."""
    name = text.strip(_AROUND_NAME)
    for _ in range(4):
        if len(name) < 2 or _PAIRS.get(name[0]) != name[-1]:
            break
        name = name[1:-1].strip(_AROUND_NAME)
    return name


def names_no_action(name: str) -> bool:
    """Whether the model said in the place of a name that it calls nothing."""
    return name.casefold().rstrip(".").replace("_", " ").strip() in _NO_ACTION
