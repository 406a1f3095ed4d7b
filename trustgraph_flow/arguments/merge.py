"""Declared arguments meet the schema that the MCP server gives: declared facts win, differences are drift."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from .declare import Declared, Entry, object_schema
from .text import show_name
from .walk import References, Schema, mapping, names, types_of

Origin = Literal["declared", "discovered", "both"]

_SHAPE = frozenset({"type", "anyOf", "oneOf", "allOf", "$ref", "enum", "const", "not", "if"})
_COMPOSED = _SHAPE - {"type", "enum"}


@dataclass(frozen=True, slots=True)
class Merged:
    """``plain`` is the declared list alone, for a server whose schema does not combine with it."""

    schema: Schema
    plain: Schema
    drift: list[str]
    origin: dict[str, Origin]


def merge(declared: Declared, server: References | None) -> Merged:
    """The schema of the arguments of one tool. ``server`` is None where nothing is known of it."""
    plain = object_schema(((e.name, e.schema, e.required is True) for e in declared.entries), declared.defs)
    if server is None:
        return Merged(plain, plain, [], {entry.name: "declared" for entry in declared.entries})
    root = server.flat(server.root)
    theirs, required = mapping(root, "properties"), set(names(root))
    origin: dict[str, Origin] = {
        entry.name: "both" if entry.name in theirs else "declared" for entry in declared.entries
    }
    schema = object_schema(
        (
            (
                entry.name,
                _property(entry.schema, theirs.get(entry.name), server),
                entry.name in required if entry.required is None else entry.required,
            )
            for entry in declared.entries
        ),
        {**mapping(server.root, "$defs"), **declared.defs},
        _extra(root, declared),
        mapping(server.root, "definitions"),
    )
    hidden = [name for name in theirs if name not in origin]
    if hidden and schema["additionalProperties"] is not False:
        # What the server knows and the list leaves out is not taken, even where the server takes other names.
        schema["propertyNames"] = {"not": {"enum": hidden}}
    return Merged(schema, plain, list(_drift(declared.entries, theirs, required, root, server)), origin)


def _extra(root: Schema, declared: Declared) -> Any:
    extra = root.get("additionalProperties", False)
    return extra if declared.entries and (extra is True or isinstance(extra, dict)) else False


def _property(own: Schema, theirs: Any, server: References) -> Schema:
    """The declared schema, with what the server adds where both speak of the same type."""
    if not isinstance(theirs, dict):
        return own
    if not own.keys() & _SHAPE:
        return {**theirs, **own}
    known = server.flat(theirs)
    if _plain(own) and _plain(known) and set(types_of(own)) == set(types_of(known)):
        return {**known, **own}
    description = known.get("description")
    return {"description": description, **own} if isinstance(description, str) else own


def _plain(node: Schema) -> bool:
    return "type" in node and not node.keys() & _COMPOSED


def _drift(
    entries: tuple[Entry, ...], theirs: Schema, required: set[str], root: Schema, server: References
) -> Iterator[str]:
    listed = {entry.name for entry in entries}
    open_ended = root.get("additionalProperties", "properties" not in root) is not False
    for entry in entries:
        name = show_name(entry.name)
        if entry.name not in theirs:
            if not open_ended:
                yield f"argument {name} is declared, but the server does not know it"
            continue
        if entry.required is False and entry.name in required:
            yield f"argument {name} is declared optional, but the server requires it"
        ours, known = _types(entry.schema, None), _types(theirs[entry.name], server)
        if ours and known and not _overlap(ours, known):
            yield f"argument {name} is declared {' or '.join(ours)}, but the server says {' or '.join(known)}"
    for name in root.get("required", []) if isinstance(root.get("required"), list) else []:
        if name not in listed:
            yield f"argument {show_name(name)} is required by the server, but not declared"


def _types(node: Any, server: References | None) -> tuple[str, ...]:
    return types_of(server.flat(node) if server else node) if isinstance(node, dict) else ()


def _overlap(ours: tuple[str, ...], known: tuple[str, ...]) -> bool:
    """Whether every declared type but null is one that the server takes."""
    taken = {*known, "integer"} if "number" in known else {*known}
    return all(kind in taken for kind in ours if kind != "null")
