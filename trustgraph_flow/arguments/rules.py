"""The coercion table: each row is one rule, keyed by the JSON type that was given and the one declared.

A rule returns the value to send, or ``UNFIT`` where its row says "refused". What has no row is not
coerced: ``true`` for an integer, ``0`` for a boolean, ``"red"`` for an array stay as they are, and
the validator refuses them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

from .jsontext import MAX_INTEGER_BITS, loads, sound

UNFIT: Final = object()
"""What a rule returns when the value does not fit."""

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?(?:[eE]([+-]?[0-9]+))?")
_MAX_DIGITS = 4_000


class Rule(NamedTuple):
    """``words`` is the record's name for what was done."""

    words: str
    apply: Callable[[Any], Any]


def integer_from_text(given: str) -> Any:
    """``"5"``, ``" 5 "``, ``"140.0"`` and ``"1e2"``; not ``"5.5"``, ``"five"``, ``"1,000"``, ``"007"``."""
    text = given.strip()
    shape = _NUMBER.fullmatch(text)
    if shape is None or len(text) > _MAX_DIGITS:
        return UNFIT
    fraction, exponent = shape.groups()
    if fraction is None and exponent is None:
        return int(text)
    if exponent is not None and (len(exponent) > 5 or abs(int(exponent)) > _MAX_DIGITS):
        return UNFIT
    number = Decimal(text)
    whole = int(number)
    return whole if whole == number and whole.bit_length() <= MAX_INTEGER_BITS else UNFIT


def integer_from_number(given: float) -> Any:
    """``5.0`` and ``1e2``; not ``5.5``."""
    return int(given) if given.is_integer() else UNFIT


def number_from_text(given: str) -> Any:
    """``"2.5"``, ``" 3 "``; not ``"NaN"``, ``"inf"``, ``"1e400"``."""
    text = given.strip()
    if _NUMBER.fullmatch(text) is None or len(text) > _MAX_DIGITS:
        return UNFIT
    number = loads(text) if "e" not in text.lower() else float(text)
    return number if sound(number) else UNFIT


def boolean_from_text(given: str) -> Any:
    """``"true"``, ``"True"``, ``"false"``, ``"False"`` and no other word."""
    return {"true": True, "True": True, "false": False, "False": False}.get(given, UNFIT)


def text_from_scalar(given: float | bool) -> str:
    """``417`` and ``true`` as JSON writes them."""
    return json.dumps(given)


def array_from_text(given: str) -> Any:
    """A JSON text of an array; not ``"red"``."""
    return _container(given, list)


def object_from_text(given: str) -> Any:
    """A JSON text of an object."""
    return _container(given, dict)


def _container(given: str, kind: type) -> Any:
    try:
        value = loads(given)
    except ValueError:
        return UNFIT
    return value if type(value) is kind and sound(value) else UNFIT


RULES: Mapping[tuple[str, str], Rule] = {
    ("string", "integer"): Rule("text read as integer", integer_from_text),
    ("number", "integer"): Rule("whole number sent as integer", integer_from_number),
    ("string", "number"): Rule("text read as number", number_from_text),
    ("string", "boolean"): Rule("text read as boolean", boolean_from_text),
    ("integer", "string"): Rule("integer written as text", text_from_scalar),
    ("number", "string"): Rule("number written as text", text_from_scalar),
    ("boolean", "string"): Rule("boolean written as text", text_from_scalar),
    ("string", "array"): Rule("text read as array", array_from_text),
    ("string", "object"): Rule("text read as object", object_from_text),
}

LEFT_OUT = "null left out"
"""The row for ``null`` given to an optional argument that is not nullable: see ``coerce``."""

JSON_TYPES: Mapping[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    list: "array",
    dict: "object",
}


def fit(value: Any, types: tuple[str, ...]) -> tuple[Any, str]:
    """``value`` as one of the declared ``types`` and the words of the rule used; unchanged, "" where none is.

    A value that has one of the types already stays as it is; else the types are tried in their order.
    """
    kind = JSON_TYPES[type(value)]
    if kind in types or (kind == "integer" and "number" in types):
        return value, ""
    for declared in types:
        rule = RULES.get((kind, declared))
        if rule is not None:
            fitted = rule.apply(value)
            if fitted is not UNFIT:
                return fitted, rule.words
    return value, ""
