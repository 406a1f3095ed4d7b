"""Reading what was declared: the ``arguments`` list of a tool, and the schema that an MCP server gives.

Mistakes in a declared list are errors, named entry by entry, because its author can mend them. Mistakes in a
server's schema are warnings, because ours can't.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import jsonschema_rs as engine

from trustgraph_flow.schema.errors import BadRequest

from .document import Document
from .jsontext import unsound
from .text import one_line, show_path, show_value
from .walk import References, Schema, mapping, rewrite, too_large

TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})
ALIASES = {
    "str": "string",
    "text": "string",
    "int": "integer",
    "float": "number",
    "double": "number",
    "bool": "boolean",
    "list": "array",
    "tuple": "array",
    "dict": "object",
    "map": "object",
    "json": "object",
}
ANY = "any"
_EXAMPLE = '{"name": "place", "type": "string", "required": true}'
_MAX_REPORTED = 20
# Base addresses would give the references inside another meaning; our documents have one base.
_BASES = ("$id", "id", "$schema")


class ArgumentsError(BadRequest):
    """A tool's argument list can't be used. ``data["entries"]`` lists ``{"index", "name", "fault"}``;
    ``index`` is None for a fault of the list as a whole."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One declared argument. ``required`` is None where the entry does not say."""

    name: str
    schema: Schema
    required: bool | None


@dataclass(frozen=True, slots=True)
class Declared:
    """A tool's argument list, read and valid, with the schemas that its entries refer to."""

    entries: tuple[Entry, ...]
    defs: Schema
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Mistake:
    index: int | None
    name: str | None
    fault: str

    def __str__(self) -> str:
        if self.index is None:
            return self.fault
        named = "" if self.name is None else f" {show_value(self.name, 80)}"
        return f"arguments[{self.index}]{named}: {self.fault}"


def read_declared(arguments: Any, defs: Any = None) -> Declared:
    """The declared list. Raises ArgumentsError that names every bad entry and its fix."""
    if not isinstance(arguments, list):
        raise _error(
            [_Mistake(None, None, f"arguments must be a list such as [{_EXAMPLE}], not {_kind(arguments)}")]
        )
    if defs is not None and not isinstance(defs, dict):
        raise _error([_Mistake(None, None, f"$defs must be an object of schemas, not {_kind(defs)}")])
    mistakes = list(_unusable(arguments, defs))
    unusable = {mistake.index for mistake in mistakes}
    if None in unusable:
        raise _error(mistakes)
    warnings: list[str] = []
    shared = {
        name: tidy(sub, f"$defs {show_value(name, 80)}", warnings) for name, sub in (defs or {}).items()
    }
    entries: list[tuple[int, Entry]] = []
    first_use: dict[str, int] = {}
    for index, raw in enumerate(arguments):
        if index in unusable:
            continue
        read = _read_entry(index, raw, first_use, warnings)
        if isinstance(read, Entry):
            entries.append((index, read))
        else:
            mistakes.append(read)
    shared_fault = _fault({"$defs": shared}) if shared else None
    if shared_fault is not None:
        mistakes.append(_Mistake(None, None, f"$defs: {shared_fault}"))
    else:
        mistakes.extend(islice(_invalid(entries, shared), _MAX_REPORTED))
    if mistakes:
        raise _error(sorted(mistakes, key=lambda one: -1 if one.index is None else one.index))
    return Declared(tuple(entry for _, entry in entries), shared, tuple(warnings))


def object_schema(
    entries: Iterable[tuple[str, Any, bool]],
    defs: Schema,
    extra: Any = False,
    definitions: Schema | None = None,
) -> Schema:
    """The schema of a tool's arguments as one object, from (name, schema, required)."""
    properties: Schema = {}
    required = []
    for name, schema, needed in entries:
        properties[name] = schema
        if needed:
            required.append(name)
    root: Schema = {"type": "object", "properties": properties}
    if required:
        root["required"] = required
    root["additionalProperties"] = extra
    if defs:
        root["$defs"] = defs
    if definitions:
        root["definitions"] = definitions
    return root


def read_discovered(schema: Any, warnings: list[str]) -> Document | None:
    """What an MCP server says a tool takes; None where it says nothing that can be used. Never raises."""
    if schema is None or schema is True:
        return None
    reason = _why_not_usable(schema)
    if reason is None:
        root = tidy(_own_base(schema), "the server's schema", warnings)
        root.setdefault("type", "object")
        _close(root)
        try:
            if root["type"] == "object":
                return _document(root, warnings)
            reason = "it does not describe an object"
        except ValueError as error:
            reason = _message(error)
    warnings.append(f"the server's schema is not used, any arguments pass: {reason}")
    return None


def _document(root: Schema, warnings: list[str]) -> Document:
    try:
        return Document(root)
    except ValueError:
        return Document(_without_lost_references(root, warnings))


def tidy(schema: Any, where: str, warnings: list[str]) -> Any:
    """``schema`` in standard words: type aliases, ``required`` marks inside objects, no null keywords."""

    def change(node: Schema, path: tuple[str, ...]) -> Schema:
        node = {key: value for key, value in node.items() if value is not None or key in ("const", "default")}
        if "type" in node:
            place = ".".join([where, *map(one_line, path)]) if path else where
            _standard_type(node, place, warnings)
        _lift_required(node)
        return node

    return rewrite(schema, change)


def _standard_type(node: Schema, where: str, warnings: list[str]) -> None:
    kinds = node["type"]
    words = kinds if isinstance(kinds, list) else [kinds]
    if not all(isinstance(word, str) for word in words):
        return
    standard: list[str] = []
    for word in words:
        lowered = word.strip().lower()
        known = ALIASES.get(lowered, lowered)
        if known == ANY:
            del node["type"]
            return
        if known not in TYPES:
            warnings.append(f"{where}: unknown type {show_value(word, 80)}, treated as string")
            known = "string"
        standard.append(known)
    node["type"] = list(dict.fromkeys(standard)) if isinstance(kinds, list) else standard[0]


def _lift_required(node: Schema) -> None:
    """Inside objects, ``required: true`` on a property means what it means on an argument."""
    for name, sub in mapping(node, "properties").items():
        if isinstance(sub, dict) and isinstance(sub.get("required"), bool):
            needed = sub.pop("required")
            listed = node.get("required", [])
            if needed and isinstance(listed, list) and name not in listed:
                node["required"] = [*listed, name]


def _read_entry(index: int, raw: Any, first_use: dict[str, int], warnings: list[str]) -> Entry | _Mistake:
    if not isinstance(raw, dict):
        return _Mistake(index, None, f"must be an object such as {_EXAMPLE}, not {_kind(raw)}")
    name = raw.get("name")
    if not isinstance(name, str):
        problem = "has no name" if name is None else f"its name must be text, not {_kind(name)}"
        return _Mistake(index, None, f"{problem}; give it one, such as {_EXAMPLE}")
    if name in first_use:
        return _Mistake(
            index, name, f"the name is taken by arguments[{first_use[name]}]; rename or remove one of them"
        )
    first_use[name] = index
    required = raw.get("required")
    schema = {key: value for key, value in raw.items() if key not in ("name", *_BASES)}
    if required is None or isinstance(required, bool):
        schema.pop("required", None)
    elif isinstance(required, list):
        # JSON Schema's own keyword: the names that an object must have.
        required = None
    else:
        return _Mistake(index, name, f"required must be true or false, not {show_value(required, 80)}")
    return Entry(name, tidy(schema, f"argument {show_value(name, 80)}", warnings), required)


def _invalid(entries: list[tuple[int, Entry]], defs: Schema) -> Iterator[_Mistake]:
    """The entries whose schemas are not valid; halves the list, so that many good ones cost little."""
    fault = _fault(object_schema(((entry.name, entry.schema, False) for _, entry in entries), defs))
    if fault is None:
        return
    if len(entries) > 1:
        middle = len(entries) // 2
        yield from _invalid(entries[:middle], defs)
        yield from _invalid(entries[middle:], defs)
    else:
        index, entry = entries[0]
        yield _Mistake(index, entry.name, fault)


def _fault(schema: Schema) -> str | None:
    try:
        Document(schema)
    except ValueError as error:
        return f"not a valid schema: {_message(error)}"
    return None


def _message(error: ValueError) -> str:
    """What the engine says, with the place inside the schema but not inside our own frame."""
    message = one_line(error.message if isinstance(error, engine.ValidationError) else str(error), 200)
    path = error.instance_path if isinstance(error, engine.ValidationError) else []
    frame = 2 if path[:1] in (["properties"], ["$defs"]) else 0
    place = show_path(tuple(path[frame:]))
    if "does not exist" in message or "not present in a registry" in message:
        message = message.split(" and retrieving")[0] + "; put what $ref names into the tool's $defs"
    return f"{place}: {message}" if place else message


def _unusable(arguments: list[Any], defs: Any) -> Iterator[_Mistake]:
    """What no part of our reading may meet: values that are not JSON, and sizes over the limits."""
    sound = True
    for path, reason in unsound(defs):
        sound = False
        yield _Mistake(None, None, f"$defs: {show_path(path)} is {reason}")
    for index, raw in enumerate(arguments):
        name = raw.get("name") if isinstance(raw, dict) else None
        shown = name if isinstance(name, str) else None
        for path, reason in unsound(raw):
            yield _Mistake(index, shown, f"{show_path(path) or 'it'} is {reason}")
            sound = False
            break
    size = too_large([arguments, defs]) if sound else None
    if size:
        yield _Mistake(None, None, f"arguments hold {size}; make them smaller")


def _why_not_usable(schema: Any) -> str | None:
    if not isinstance(schema, dict):
        return f"it is {_kind(schema)}, not an object"
    for path, why in unsound(schema):
        return f"{show_path(path) or 'it'} is {why}"
    size = too_large(schema)
    return f"it holds {size}" if size else None


def _close(root: Schema) -> None:
    """A root that lists its properties and is silent about others takes no others."""
    composed = ("$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties", "unevaluatedProperties")
    if (
        "properties" in root
        and "additionalProperties" not in root
        and not any(key in root for key in composed)
    ):
        root["additionalProperties"] = False


def _own_base(schema: Schema) -> Schema:
    """``schema`` without its address, and with the references to that address made local."""
    address = schema.get("$id", schema.get("id"))
    root = {key: value for key, value in schema.items() if key not in ("$id", "id")}
    if not isinstance(address, str) or not address:
        return root
    address = address.rstrip("#") + "#"

    def local(node: Schema, path: tuple[str, ...]) -> Schema:
        reference = node.get("$ref")
        if isinstance(reference, str) and reference.startswith(address):
            return {**node, "$ref": reference[len(address) - 1 :]}
        return node

    changed: Schema = rewrite(root, local)
    return changed


def _without_lost_references(root: Schema, warnings: list[str]) -> Schema:
    references = References(root)

    def change(node: Schema, path: tuple[str, ...]) -> Schema:
        for key in ("$ref", "$dynamicRef"):
            if key in node and references.target(node[key]) is None:
                warnings.append(
                    f"the server's schema: {show_value(node[key], 80)} is not known, anything passes there"
                )
                node = {other: value for other, value in node.items() if other != key}
        return node

    root = {
        key: value for key, value in root.items() if key != "$schema" or "json-schema.org/draft" in str(value)
    }
    changed: Schema = rewrite(root, change)
    return changed


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "text", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")


def _error(mistakes: list[_Mistake]) -> ArgumentsError:
    entries = [{"index": one.index, "name": one.name, "fault": one.fault} for one in mistakes]
    return ArgumentsError("\n".join(map(str, mistakes)), data={"entries": entries})
