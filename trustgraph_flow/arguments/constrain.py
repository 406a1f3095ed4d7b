"""Schemas that steer a model while it writes: one object, in the order thought, action, args.

Only the keywords that OpenAI-style ``json_schema`` response formats and llama.cpp's grammars share are kept.
What is dropped still counts: every call is checked afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .document import Document
from .walk import References, Schema, mapping, names, types_of

if TYPE_CHECKING:
    from .signature import Signature

THOUGHT_CHARACTERS = 300
"""Small models that may think without end do so."""

_MAX_NODES = 2_000
_MAX_DEPTH = 10
_RECURSION_DEPTH = 3
_MAX_COUNT = 500
_MAX_INTEGER = 2**53
_FORMATS = frozenset({"date", "time", "date-time", "uuid"})
_ALL_TYPES = ["string", "number", "boolean", "object", "array", "null"]


def response_schema(
    tools: Sequence[tuple[str, Signature]], *, final: bool = True, only_final: bool = False
) -> Schema:
    """The schema of one reply: thought, then action and args of one of ``tools``, or the final answer.

    ``final=False`` leaves the answer out; ``only_final`` (and an empty ``tools``) leaves the tools out.
    """
    offered = () if only_final else tools
    branches = [
        _reply({"action": {"type": "string", "const": name}, "args": signature.response})
        for name, signature in offered
    ]
    if final or not branches:
        branches.append(_reply({"final_answer": {"type": "string", "minLength": 1}}))
    return branches[0] if len(branches) == 1 else {"anyOf": branches}


def _reply(rest: Schema) -> Schema:
    properties = {"thought": {"type": "string", "maxLength": THOUGHT_CHARACTERS}, **rest}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def narrow(document: Document) -> Schema:
    """The root of ``document`` in the shared keywords, without references; free-form where too large."""
    return _Narrower(document.references).object(document.references.flat(document.root), 0, (), closed=True)


class _Narrower:
    def __init__(self, references: References) -> None:
        self._references = references
        self._room = _MAX_NODES

    def schema(self, schema: Any, depth: int, above: tuple[str, ...]) -> Schema:
        self._room -= 1
        if not isinstance(schema, dict) or self._room < 0 or depth > _MAX_DEPTH:
            return {"type": _ALL_TYPES}
        reference = schema.get("$ref")
        if isinstance(reference, str):
            if above.count(reference) >= _RECURSION_DEPTH:
                return {"type": types_of(self._references.flat(schema)) or _ALL_TYPES}
            above = (*above, reference)
        node = self._references.flat(schema)
        return self._alternatives(node, depth, above)

    def _alternatives(self, node: Schema, depth: int, above: tuple[str, ...]) -> Schema:
        types = types_of(node)
        if "const" in node:
            return _text_type([node["const"]]) | {"const": node["const"]}
        if isinstance(node.get("enum"), list) and node["enum"]:
            return _text_type(node["enum"]) | {"enum": node["enum"]}
        for key in ("anyOf", "oneOf"):
            if not types and isinstance(node.get(key), list) and node[key]:
                return {"anyOf": [self.schema(branch, depth + 1, above) for branch in node[key]]}
        if not types:
            types = ("object",) if "properties" in node else ("array",) if "items" in node else ()
        one = [self._typed(kind, node, depth, above) for kind in types]
        if not one:
            return {"type": _ALL_TYPES}
        return one[0] if len(one) == 1 else {"anyOf": one}

    def _typed(self, kind: str, node: Schema, depth: int, above: tuple[str, ...]) -> Schema:
        if kind == "object":
            return self.object(node, depth, above)
        if kind == "array":
            return self._array(node, depth, above)
        kept: Schema = {"type": kind}
        if kind == "string":
            kept |= _counts(node, "minLength", "maxLength")
            if node.get("format") in _FORMATS and len(kept) == 1:
                kept["format"] = node["format"]
        if kind == "integer":
            for key in ("minimum", "maximum"):
                if type(node.get(key)) is int and abs(node[key]) < _MAX_INTEGER:
                    kept[key] = node[key]
        return kept

    def _array(self, node: Schema, depth: int, above: tuple[str, ...]) -> Schema:
        kept: Schema = {"type": "array"}
        if isinstance(node.get("items"), dict) and "prefixItems" not in node:
            kept["items"] = self.schema(node["items"], depth + 1, above)
            kept |= _counts(node, "minItems", "maxItems")
        return kept

    def object(self, node: Schema, depth: int, above: tuple[str, ...], closed: bool = False) -> Schema:
        members = mapping(node, "properties")
        extra = node.get("additionalProperties")
        kept: Schema = {"type": "object"}
        if members or closed:
            kept["properties"] = {name: self.schema(sub, depth + 1, above) for name, sub in members.items()}
            kept["required"] = [name for name in names(node) if name in members]
            kept["additionalProperties"] = False
        elif extra is False:
            kept |= {"properties": {}, "additionalProperties": False}
        elif isinstance(extra, dict) and extra:
            kept["additionalProperties"] = self.schema(extra, depth + 1, above)
        return kept


def _text_type(values: list[Any]) -> Schema:
    """The type of values that are all text, which some servers want beside them."""
    return {"type": "string"} if all(isinstance(value, str) for value in values) else {}


def _counts(node: Schema, low: str, high: str) -> Schema:
    """The two bounds where both are small enough for a grammar to spell out."""
    kept = {}
    for key in (low, high):
        if type(node.get(key)) is int and 0 <= node[key] <= _MAX_COUNT:
            kept[key] = node[key]
    return kept
