"""Schemas in plain words, for the model: types, required or optional, allowed values, defaults, limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .text import one_line, quote_block, shorten, show_name, show_value
from .walk import References, Schema, mapping, names, types_of

OPEN = "(any; none are declared)"
_UNLISTED = "(none are listed; any names are passed on)"
NONE = "(none)"

_MAX_TEXT = 60_000
_MAX_DESCRIPTION = 4_000
_MAX_INNER_DESCRIPTION = 1_000
_MAX_VALUE = 200
_MAX_ALLOWED = 2_000
_RECURSION_DEPTH = 3
_DEPTH = 8
_FORMATS = {
    "date": "format date, as 2030-01-31",
    "date-time": "format date-time, as 2030-01-31T09:00:00Z",
    "time": "format time, as 09:00:00Z",
    "duration": "format duration, as P1DT2H",
}


class Describer:
    """Puts the schemas of one document into words; about ``_MAX_TEXT`` characters, then "…"."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._room = _MAX_TEXT

    def arguments(self, root: Schema) -> str:
        """One line for each argument; a description of several lines follows in a quoted block."""
        node = self._references.flat(root)
        lines = [
            line for name, sub, required in _members(node) for line in self._argument(name, sub, required)
        ]
        extra = node.get("additionalProperties", True)
        if isinstance(extra, dict) and extra:
            lines.append(f"- (other names are passed on, each {self._with_facts(extra, 0, ())})")
        elif extra is not False:
            lines.append("- (other names are passed on)" if lines else _UNLISTED)
        return "\n".join(lines) or NONE

    def _argument(self, name: str, sub: Any, required: bool) -> Iterator[str]:
        node = self._references.flat(sub)
        need = "required" if required else "optional"
        words, facts = self._kind(sub, 0, (), drop_null=not required), self._facts(node)
        line = ", ".join([f"- {show_name(name)}: {words} ({need})", *facts])
        text = shorten(_description(node), _MAX_DESCRIPTION)
        self._room -= len(line) + len(text)
        if "\n" in text or "\r" in text:
            yield f"{line}."
            yield quote_block(text, "    | ")
        else:
            yield f"{line}. {one_line(text)}" if text else line

    def phrase(self, schema: Any) -> str:
        """Type and limits of one schema, such as ``integer, at least 1``."""
        self._room = _MAX_TEXT
        return ", ".join([self._kind(schema, 0, ()), *_limits(self._references.flat(schema))])

    def _kind(self, schema: Any, depth: int, above: tuple[str, ...], drop_null: bool = False) -> str:
        if schema is False:
            return "nothing"
        if not isinstance(schema, dict) or self._room < 0:
            return "any value" if schema is True else "…"
        reference = _reference(schema)
        if depth > _DEPTH or (reference in above and depth >= _RECURSION_DEPTH):
            return "…"
        if reference is not None:
            above = (*above, reference)
        node = self._references.flat(schema)
        words = list(dict.fromkeys(self._kinds(node, depth, above)))
        if drop_null and len(words) > 1 and "null" in words:
            words.remove("null")
        self._room -= sum(map(len, words))
        if not words:
            return "any value"
        if len(words) == 1:
            return words[0]
        if len(words) == 2 and "null" in words:
            return f"{next(word for word in words if word != 'null')} or null"
        return f"any of {', '.join(words)}"

    def _kinds(self, node: Schema, depth: int, above: tuple[str, ...]) -> Iterator[str]:
        types = types_of(node)
        if not types:
            if "const" in node:
                yield show_value(node["const"], _MAX_VALUE)
                return
            for key in ("anyOf", "oneOf"):
                if isinstance(node.get(key), list):
                    for branch in node[key]:
                        yield self._with_facts(branch, depth, above)
                    return
            if isinstance(node.get("enum"), list):
                yield from (_type_word(value) for value in node["enum"])
                return
            types = ("object",) if "properties" in node else ("array",) if "items" in node else ()
        for kind in types:
            if kind == "array":
                yield self._array(node, depth, above)
            elif kind == "object":
                yield self._object(node, depth, above)
            else:
                yield kind

    def _array(self, node: Schema, depth: int, above: tuple[str, ...]) -> str:
        items = node.get("items")
        prefix = items if isinstance(items, list) else node.get("prefixItems")
        if isinstance(prefix, list):
            return f"list with {', '.join(self._with_facts(sub, depth + 1, above) for sub in prefix)}"
        if isinstance(items, dict) and items:
            return f"list of {self._with_facts(items, depth + 1, above)}"
        return "list"

    def _object(self, node: Schema, depth: int, above: tuple[str, ...]) -> str:
        members = []
        for name, sub, required in _members(node):
            inner = self._references.flat(sub)
            words = [self._kind(sub, depth + 1, above, drop_null=not required)]
            text = one_line(_description(inner), _MAX_INNER_DESCRIPTION)
            words += ["required"] if required else []
            words += self._facts(inner)
            member = f"{show_name(name)} ({', '.join(words)}{': ' + text if text else ''})"
            self._room -= len(member) - len(words[0])
            members.append(member)
            if self._room < 0:
                members.append("…")
                break
        for pattern, sub in mapping(node, "patternProperties").items():
            words = [
                f"keys matching {show_value(pattern, _MAX_VALUE)}",
                self._with_facts(sub, depth + 1, above),
            ]
            members.append(", each ".join(words))
        extra = node.get("additionalProperties")
        if isinstance(extra, dict) and extra:
            members.append(f"any keys, each {self._with_facts(extra, depth + 1, above)}")
        elif members and extra is True:
            members.append("any other keys")
        if members:
            return f"object with {', '.join(members)}"
        return "object without keys" if extra is False else "object, any keys"

    def _with_facts(self, schema: Any, depth: int, above: tuple[str, ...]) -> str:
        words = self._kind(schema, depth, above)
        facts = self._facts(self._references.flat(schema)) if words != "…" else []
        return f"{words} ({', '.join(facts)})" if facts else words

    def _facts(self, node: Schema) -> list[str]:
        facts = list(_facts(node))
        self._room -= sum(map(len, facts))
        return facts


def _members(node: Schema) -> Iterator[tuple[str, Any, bool]]:
    """Name, schema and whether required, of each property; required names without a schema come last."""
    properties, required = mapping(node, "properties"), dict.fromkeys(names(node))
    for name, sub in properties.items():
        yield name, sub, name in required
    for name in required:
        if name not in properties:
            yield name, True, True


def _description(node: Schema) -> str:
    text = node.get("description")
    return text.strip() if isinstance(text, str) else ""


def _reference(node: Schema) -> str | None:
    """What a schema refers to, also through an ``allOf`` of one part, as older generators write it."""
    parts = node.get("allOf")
    if "$ref" not in node and isinstance(parts, list) and len(parts) == 1 and isinstance(parts[0], dict):
        node = parts[0]
    reference = node.get("$ref")
    return reference if isinstance(reference, str) else None


def _facts(node: Schema) -> Iterator[str]:
    yield from _limits(node)
    if "default" in node:
        yield f"default {show_value(node['default'], _MAX_VALUE)}"
    if isinstance(node.get("examples"), list) and node["examples"]:
        yield f"for example {show_value(node['examples'][0], _MAX_VALUE)}"


def _limits(node: Schema) -> Iterator[str]:
    if isinstance(node.get("enum"), list):
        yield f"one of {', '.join(show_value(value, _MAX_ALLOWED) for value in node['enum'])}"
    if "const" in node and types_of(node):
        yield f"always {show_value(node['const'], _MAX_VALUE)}"
    yield from _range(node)
    for noun, low, high in (
        ("characters", "minLength", "maxLength"),
        ("items", "minItems", "maxItems"),
        ("keys", "minProperties", "maxProperties"),
    ):
        yield from _between(node.get(low), node.get(high), " " + noun)
    if node.get("uniqueItems") is True:
        yield "no item twice"
    if "multipleOf" in node:
        yield f"a multiple of {show_value(node['multipleOf'], _MAX_VALUE)}"
    if isinstance(node.get("pattern"), str):
        yield f"matching the pattern {show_value(node['pattern'], _MAX_VALUE)}"
    if isinstance(node.get("format"), str):
        yield _FORMATS.get(node["format"], f"format {one_line(node['format'], _MAX_VALUE)}")


def _range(node: Schema) -> Iterator[str]:
    yield from _between(node.get("minimum"), node.get("maximum"), "")
    for key, words in (("exclusiveMinimum", "more than"), ("exclusiveMaximum", "less than")):
        if _is_number(node.get(key)):
            yield f"{words} {show_value(node[key])}"


def _between(low: Any, high: Any, noun: str) -> Iterator[str]:
    if _is_number(low) and _is_number(high):
        yield f"{show_value(low)}{noun}" if low == high else f"{show_value(low)} to {show_value(high)}{noun}"
    elif _is_number(low):
        yield f"at least {show_value(low)}{noun}"
    elif _is_number(high):
        yield f"at most {show_value(high)}{noun}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _type_word(value: Any) -> str:
    words = {str: "string", bool: "boolean", int: "integer", float: "number", list: "list", dict: "object"}
    return words.get(type(value), "null")
