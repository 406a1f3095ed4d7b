"""Where the schemas inside a schema are, and what a local reference points at.

Only keywords that hold schemas are entered, so that arguments may be called ``type``, ``$ref``, ``items``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

Schema = dict[str, Any]
Change = Callable[[Schema, tuple[str, ...]], Schema]

_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_SINGLES = (
    "items",
    "additionalProperties",
    "additionalItems",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)

MAX_NODES = 20_000
MAX_CHARACTERS = 1_000_000
# References that refer to two more each would double at every step.
_MAX_PARTS = 500


def rewrite(schema: Any, change: Change, path: tuple[str, ...] = ()) -> Any:
    """A copy of ``schema`` with ``change(node, path)`` applied to each schema in it, innermost first."""
    if not isinstance(schema, dict):
        return schema
    node = dict(schema)
    for key in _MAPS:
        if isinstance(node.get(key), dict):
            node[key] = {name: rewrite(sub, change, (*path, name)) for name, sub in node[key].items()}
    for key in _LISTS:
        if isinstance(node.get(key), list):
            node[key] = [rewrite(sub, change, (*path, key)) for sub in node[key]]
    for key in _SINGLES:
        if isinstance(node.get(key), dict):
            node[key] = rewrite(node[key], change, (*path, key))
    return change(node, path)


def too_large(value: Any) -> str | None:
    """Why a schema is over our limits of nodes and characters, or None. ``value`` is sound JSON."""
    nodes = characters = 0
    for nodes, part in enumerate(parts(value), 1):
        characters += len(part) if isinstance(part, str) else 8
        if nodes > MAX_NODES:
            return f"more than {MAX_NODES:,} values"
        if characters > MAX_CHARACTERS:
            return f"more than {MAX_CHARACTERS:,} characters"
    return None


def parts(value: Any) -> Iterator[Any]:
    """A JSON value, and every name and value inside it."""
    yield value
    if isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from parts(item)
    elif isinstance(value, list):
        for item in value:
            yield from parts(item)


def types_of(node: Schema) -> tuple[str, ...]:
    """The declared JSON types, in order; () where any type may be."""
    kinds = node.get("type")
    if isinstance(kinds, str):
        return (kinds,)
    return tuple(kind for kind in kinds if isinstance(kind, str)) if isinstance(kinds, list) else ()


def mapping(node: Schema, key: str) -> Schema:
    """The schemas under ``key``, {} where there are none."""
    found = node.get(key)
    return found if isinstance(found, dict) else {}


def names(node: Schema, key: str = "required") -> list[str]:
    """The list of names under ``key``, [] where there is none."""
    found = node.get(key)
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def pointed_at(node: Any, step: str) -> Any:
    """What one step of a JSON pointer, as it is written in a reference, leads to; None if nothing."""
    step = unquote(step).replace("~1", "/").replace("~0", "~")
    if isinstance(node, dict):
        return node.get(step)
    if isinstance(node, list) and step.isdecimal() and len(step) < 9 and int(step) < len(node):
        return node[int(step)]
    return None


class References:
    """Looks up the local references of one document; remote ones are never fetched and count as unknown."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        # Keyed by identity; the node is kept so that the identity stays its own.
        self._flat: dict[int, tuple[Schema, Schema]] = {}
        self._room = 0

    def target(self, reference: Any) -> Any:
        """The schema that ``#`` or ``#/a/b`` names, or None."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        if reference == "#":
            return self.root
        if not reference.startswith("#/"):
            return None
        node: Any = self.root
        for step in reference[2:].split("/"):
            node = pointed_at(node, step)
        return node if isinstance(node, dict | bool) else None

    def flat(self, node: Any) -> Schema:
        """``node`` with its reference followed and its ``allOf`` parts laid into one object.

        What the node says beside its reference wins. An unknown reference leaves what stands beside it.
        """
        if not isinstance(node, dict):
            return {}
        if "$ref" not in node and "allOf" not in node:
            return node
        known = self._flat.get(id(node))
        if known is None:
            self._room = _MAX_PARTS
            known = self._flat[id(node)] = (node, self._flatten(node, frozenset()))
        return known[1]

    def _flatten(self, node: Schema, seen: frozenset[str]) -> Schema:
        reference = node.get("$ref")
        parts: list[Any] = []
        if isinstance(reference, str) and reference not in seen:
            parts.append((self.target(reference), seen | {reference}))
        if isinstance(node.get("allOf"), list):
            parts.extend((part, seen) for part in node["allOf"])
        result: Schema = {}
        for part, above in parts:
            self._room -= 1
            if isinstance(part, dict) and self._room > 0:
                result = _combine(result, self._flatten(part, above))
        own = {key: value for key, value in node.items() if key not in ("$ref", "allOf")}
        return _combine(result, own)


def _combine(first: Schema, second: Schema) -> Schema:
    """Both in one object; ``second`` wins, but properties and required names add up."""
    if not first:
        return second
    both = {**first, **second}
    if isinstance(first.get("properties"), dict) and isinstance(second.get("properties"), dict):
        both["properties"] = dict(first["properties"])
        for name, sub in second["properties"].items():
            known = first["properties"].get(name)
            both["properties"][name] = sub if known is None else {"allOf": [known, sub]}
    if isinstance(first.get("required"), list) and isinstance(second.get("required"), list):
        both["required"] = [
            *first["required"],
            *(n for n in second["required"] if n not in first["required"]),
        ]
    return both
