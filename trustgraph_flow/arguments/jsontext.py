"""JSON as we accept it: finite numbers, each key once, whole characters, a bounded depth."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

MAX_DEPTH = 64
# Python writes and reads integers of up to 4,300 digits; this many bits always fit.
MAX_INTEGER_BITS = 14_000


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:40]} is too large for a number")
    return number


def _refused(word: str) -> float:
    raise ValueError(f"{word} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"the key {json.dumps(name[:80])} is there twice")
            seen.add(name)
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_refused)


def loads(text: str) -> Any:
    """The value of a JSON text. Raises ValueError, and nothing else, for what is not strict JSON."""
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def sound(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Whether ``value`` is made of JSON values that can be sent: see ``unsound`` for what is wrong."""
    kind = type(value)
    if kind is str:
        return value.isascii() or _whole(value)
    if kind is int:
        return bool(value.bit_length() <= MAX_INTEGER_BITS)
    if kind is bool or value is None:
        return True
    if kind is float:
        return math.isfinite(value)
    if depth <= 0:
        return False
    if kind is dict:
        for name, item in value.items():
            if type(name) is not str or not (name.isascii() or _whole(name)) or not sound(item, depth - 1):
                return False
        return True
    return kind is list and all(sound(item, depth - 1) for item in value)


def unsound(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Path and reason of each part of ``value`` that is no JSON value, or none that can be sent."""
    if isinstance(value, dict | list) and len(path) >= MAX_DEPTH:
        yield path, f"nested more than {MAX_DEPTH} levels deep"
    elif type(value) is dict:
        for name, item in value.items():
            if type(name) is not str:
                yield path, f"a key of type {type(name).__name__}, where only text is JSON"
            elif not _whole(name):
                yield path, "a key with half a character (a lone surrogate)"
            else:
                yield from unsound(item, (*path, name))
    elif type(value) is list:
        for index, item in enumerate(value):
            yield from unsound(item, (*path, index))
    elif not sound(value):
        yield path, _reason(value)


def _reason(value: Any) -> str:
    if type(value) is float:
        return "not a finite number"
    if type(value) is int:
        return "an integer of more than 4,200 digits"
    if type(value) is str:
        return "text with half a character (a lone surrogate)"
    return f"a {type(value).__name__}, which is no JSON value"


def _whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
