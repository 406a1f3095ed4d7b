"""JSON as it comes in and goes out: what other readers could not read is refused at the door."""

from __future__ import annotations

import json
from collections.abc import Iterable
from math import isfinite
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from trustgraph_flow.schema.base import faults_of
from trustgraph_flow.schema.errors import BadRequest

M = TypeVar("M", bound=BaseModel)

MAX_DEPTH = 100
"""Levels of arrays and objects in one another; serialisers down the way give up at 255."""


def read_object(text: bytes | str, what: str) -> dict[str, Any]:
    """The JSON object in ``text``. Raises BadRequest, naming ``what``, for anything else.

    NaN, infinities, numbers too large for a double, lone surrogates and too deep nesting are refused.
    """
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
        if not isinstance(value, dict):
            raise BadRequest(f"{what} must be a JSON object, not {_name(value)}")
        if _too_deep(value):
            raise BadRequest(f"{what} nests deeper than {MAX_DEPTH} levels")
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise BadRequest(f"{what} nests deeper than {MAX_DEPTH} levels") from None
    except UnicodeEncodeError:
        raise BadRequest(f"{what} holds half a surrogate pair, which is no text") from None
    except ValueError as error:
        raise BadRequest(f"{what} is not valid JSON: {error}") from None
    return value


def write(value: Any) -> bytes:
    """Compact JSON; a number that JSON lacks becomes null."""
    return to_json(value, inf_nan_mode="null")


def parse(model: type[M], body: dict[str, Any]) -> M:
    """``body`` without any conversion of types. Raises BadRequest with every fault and its path."""
    try:
        return model.model_validate(body, strict=True)
    except ValidationError as error:
        raise BadRequest(faults_of(error)) from None


def frame_body(reply: BaseModel) -> dict[str, Any]:
    """A reply as clients get it: absent fields are left out, since older ones ask whether a key is there."""
    return {key: value for key, value in reply.model_dump(mode="json").items() if value is not None}


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def _too_deep(value: Any) -> bool:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for each in level for inner in _children(each)]
        if not level:
            return False
    return True


def _children(value: Any) -> Iterable[Any]:
    children: Iterable[Any] = ()
    if isinstance(value, dict):
        children = value.values()
    elif isinstance(value, list):
        children = value
    return (child for child in children if isinstance(child, (dict, list)))


def _name(value: Any) -> str:
    match value:
        case list():
            return "an array"
        case str():
            return "a string"
        case None:
            return "null"
        case bool():
            return "a boolean"
    return "a number"
