"""JSON objects as models write them: strict first, then mended where no value can change by it."""

from __future__ import annotations

import json
import math
import re
import sys
from typing import Any

from trustgraph_flow.schema.errors import BadRequest

from .scanner import MAX_DEPTH, ObjectScanner

# Repeated groups are not possessive here and in the modules beside this one: before 3.11.5 Python matches
# them wrongly (gh-106052). Their branches exclude one another instead, so that giving back changes nothing.
_ANY_COMMENT = r"//[^\n]*+|/\*(?:[^*]++|\*(?!/))*\*/|\#[^\n]*+"
_DOUBLE = r'"(?:[^"\\]++|\\.)*"'
_TOKEN = re.compile(
    _DOUBLE
    + rf"|(?P<before>[{{\[,:](?:\s++|{_ANY_COMMENT})*)'(?P<single>(?:[^'\\]++|\\.)*)'"
    + rf"|(?P<comment>{_ANY_COMMENT})|\b(?P<word>True|False|None)\b|(?P<space>\\[nrt])",
    re.DOTALL,
)
_COMMENT = re.compile(_ANY_COMMENT, re.DOTALL)
_COMMA = re.compile(rf"{_DOUBLE}|(?P<comma>,)(?=\s*+[}}\]])", re.DOTALL)
_ESCAPE = re.compile(r'\\(?:u[0-9a-fA-F]{4}|.)|"', re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_STRING = re.compile(rf"{_DOUBLE}|'(?:[^'\\]++|\\.)*'", re.DOTALL)
_WORDS = {"True": "true", "False": "false", "None": "null"}
_NOTHING = ("", "null", "None")
_EXCERPT = 24


class Unreadable(BadRequest):
    """Text that is no step; ``reason`` is that of a ``FormatFault``.

    A message that JSON is wrong is a phrase for which the reader of a reply has the subject.
    """

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(message, type=reason)
        self.reason = reason


def load_object(text: str) -> tuple[dict[str, Any], bool]:
    """The object that ``text`` holds, and whether it had to be mended; raises ``Unreadable``.

    ``text`` must be balanced and of bounded depth, as ``ObjectScanner`` leaves it.
    """
    try:
        value, repaired = _strict.decode(text), False
    except json.JSONDecodeError:
        try:
            value, repaired = _lenient.decode(_mend(text)), True
        except json.JSONDecodeError as error:
            raise Unreadable("bad-json", _where(error)) from None
    if not isinstance(value, dict):
        raise _not_an_object(json.dumps(value))
    if _SURROGATE.search(text) and not _is_unicode(value):
        raise Unreadable("bad-unicode", "holds half of a \\u surrogate pair; write the character itself.")
    return value, repaired


def arguments_of(value: Any) -> tuple[dict[str, Any], bool]:
    """The arguments that a JSON value stands for, and whether it was mended; raises ``Unreadable``.

    Null and "" stand for none; an object inside a string is that object.
    """
    if isinstance(value, dict):
        return value, False
    if value is None:
        return {}, False
    if not isinstance(value, str):
        raise _not_an_object(json.dumps(value))
    text = value.strip()
    if not text:
        return {}, False
    if not text.startswith("{"):
        raise _not_an_object(value)
    scanner = ObjectScanner()
    end = scanner.scan(text)
    if scanner.too_deep:
        raise too_deep()
    if not scanner.closed or text[end:].strip():
        raise Unreadable("bad-json", f"is a string that holds not one object but {excerpt(value)}.")
    return load_object(text[:end])[0], True


def arguments_in(text: str) -> tuple[dict[str, Any], bool]:
    """``arguments_of`` what a model wrote in the place of an object."""
    bare = text.strip().strip("`").strip()
    if bare in _NOTHING:
        return {}, False
    if bare[0] not in "\"'":
        raise _not_an_object(bare)
    string = _STRING.match(bare)
    if string is None:
        raise Unreadable("cut-off")
    try:
        value = _lenient.decode(_mend(f"[{string.group()}]"))[0]
    except json.JSONDecodeError as error:
        raise Unreadable("bad-json", _where(error)) from None
    return arguments_of(value)


def too_deep() -> Unreadable:
    return Unreadable("too-deep", f"is nested more than {MAX_DEPTH} levels deep.")


def _not_an_object(given: str) -> Unreadable:
    return Unreadable(
        "not-an-object", f'must be a JSON object such as {{"name": "value"}}, not {excerpt(given)}.'
    )


def excerpt(text: str) -> str:
    """Text for a message: on one line, shortened in its middle, in quotes."""
    short = text if len(text) <= 2 * _EXCERPT else f"{text[:_EXCERPT]} … {text[-_EXCERPT:]}"
    return json.dumps(short, ensure_ascii=False)


def _where(error: json.JSONDecodeError) -> str:
    near = error.doc[max(0, error.pos - _EXCERPT) : error.pos + _EXCERPT]
    return f"is not valid JSON near {excerpt(near)} ({error.msg})."


def _is_unicode(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _integer(digits: str) -> int:
    limit = sys.get_int_max_str_digits()
    if limit and len(digits.lstrip("-")) > limit:
        raise Unreadable("number-too-long", f"holds a number of more than {limit} digits.")
    return int(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise _not_finite(digits)
    return value


def _not_finite(word: str) -> Unreadable:
    return Unreadable("not-finite", f"holds {excerpt(word)}, which is not a finite number.")


def _constant(word: str) -> Any:
    raise _not_finite(word)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                break
            seen.add(key)
        raise Unreadable("duplicate-keys", f"names {excerpt(key)} twice; give each name once.")
    return value


def _decoder(*, strict: bool) -> json.JSONDecoder:
    return json.JSONDecoder(
        strict=strict,
        parse_int=_integer,
        parse_float=_float,
        parse_constant=_constant,
        object_pairs_hook=_pairs,
    )


_strict = _decoder(strict=True)
_lenient = _decoder(strict=False)


def _mend(text: str) -> str:
    """Comments, Python's words and quotes, bad escapes and trailing commas turned into JSON."""
    return _COMMA.sub(lambda match: "" if match["comma"] else match.group(), _TOKEN.sub(_mend_token, text))


def _mend_token(match: re.Match[str]) -> str:
    if match["word"]:
        return _WORDS[match["word"]]
    if match["comment"] or match["space"]:
        return " "
    if match["before"]:
        return f"{_COMMENT.sub(' ', match['before'])}{_mend_string(match['single'])}"
    return _mend_string(match.group()[1:-1])


def _mend_string(body: str) -> str:
    """A string literal with every backslash that begins no JSON escape doubled.

    Where a string holds both ``\\p`` and ``\\n``, its writer may have meant the second one as two characters
    too; that is not ours to decide.
    """
    if "\\" not in body and '"' not in body:
        return f'"{body}"'
    kinds: set[str] = set()

    def mend(match: re.Match[str]) -> str:
        escape = match.group()
        if escape == '"':
            return '\\"'
        if escape == "\\'":
            return "'"
        if len(escape) > 2 or escape[1] in '"\\/':
            return escape
        if escape[1] in "bfnrt":
            kinds.add("control")
            return escape
        if escape[1].isalnum():
            kinds.add("bad")
        return f"\\{escape}"

    mended = _ESCAPE.sub(mend, body)
    if len(kinds) > 1:
        raise Unreadable("bad-json", f"is not valid JSON: backslashes in {excerpt(body)} must be doubled.")
    return f'"{mended}"'
