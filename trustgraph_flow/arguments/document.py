"""A compiled JSON Schema document: exact checks of the whole and of its parts. Nothing is ever fetched."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

import jsonschema_rs as engine

from .coerce import IsValid
from .walk import References, Schema, pointed_at, rewrite

_URI = "https://signature.invalid/"


class Document:
    """One root schema and its validator. Raises ValueError if it is no valid schema."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self.references = References(root)
        self._whole = _validator(root)
        self.is_valid: IsValid = self._whole.is_valid

    def part(self, node: Any) -> engine.Validator:
        """The validator of a schema of this document, or of one put together from its parts."""
        if node is self.root:
            return self._whole
        if not isinstance(node, dict):
            return _validator(node is not False)
        outside: Schema = rewrite(node, _absolute)
        if "$schema" in self.root:
            outside.setdefault("$schema", self.root["$schema"])
        try:
            return _validator(outside, registry=self._registry)
        except ValueError:
            # A part with an address of its own may be valid in its place and not outside of it.
            return _validator(True)

    def check(self, node: Any) -> IsValid:
        return self.part(node).is_valid

    @cached_property
    def _registry(self) -> engine.Registry:
        return engine.Registry([(_URI, self.root)])

    @cached_property
    def guarded(self) -> Document:
        """This document with each union behind a double ``not``.

        Listing the errors of a recursive union takes exponential time, because each branch lists its own;
        behind ``not`` the engine only asks whether a value is valid, and remembers the answer.
        """
        root: Schema = rewrite(self.root, _guard)
        try:
            return Document(rewrite(root, lambda node, _: _follow_guarded(root, node)))
        except ValueError:
            return self


def guarded_union(node: Schema) -> list[Any] | None:
    """The branches of a union that ``guarded`` has put behind a double ``not``."""
    inner = node.get("not")
    inner = inner.get("not") if isinstance(inner, dict) else None
    if isinstance(inner, dict) and len(inner) == 1:
        ((key, branches),) = inner.items()
        if key in ("anyOf", "oneOf") and isinstance(branches, list):
            return branches
    return None


def _guard(node: Schema, path: tuple[str, ...]) -> Schema:
    unions = [key for key in ("anyOf", "oneOf") if isinstance(node.get(key), list)]
    if not unions:
        return node
    rest = {key: value for key, value in node.items() if key not in unions}
    behind = [{"not": {"not": {key: node[key]}}} for key in unions]
    return {**rest, "allOf": [*rest.get("allOf", []), *behind]}


def _follow_guarded(root: Schema, node: Schema) -> Schema:
    """``node`` with a reference into a branch of a union led to where that branch is now."""
    reference = node.get("$ref")
    if not isinstance(reference, str) or not re.search("/(any|one)Of/", reference):
        return node
    steps: list[str] = []
    place: Any = root
    for step in reference.removeprefix("#/").split("/"):
        if step in ("anyOf", "oneOf") and isinstance(place, dict) and step not in place:
            for index, part in enumerate(place.get("allOf", [])):
                if guarded_union(part) is not None and step in part["not"]["not"]:
                    steps += ["allOf", str(index), "not", "not"]
                    place = part["not"]["not"]
                    break
        steps.append(step)
        place = pointed_at(place, step)
    return {**node, "$ref": "#/" + "/".join(steps)}


def _absolute(node: Schema, path: tuple[str, ...]) -> Schema:
    changed = {
        key: _URI + node[key]
        for key in ("$ref", "$dynamicRef")
        if isinstance(node.get(key), str) and node[key].startswith("#")
    }
    return {**node, **changed} if changed else node


def _validator(schema: Schema | bool, registry: engine.Registry | None = None) -> engine.Validator:
    if isinstance(schema, dict) and "$schema" in schema:
        return engine.validator_for(schema, offline=True, validate_formats=True, registry=registry)
    return engine.Draft202012Validator(schema, offline=True, validate_formats=True, registry=registry)
