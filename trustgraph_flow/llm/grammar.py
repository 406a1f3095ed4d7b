"""JSON schemas in the form that grammar-based model servers take.

They are turned into grammars by converters that know a part of JSON Schema: one keyword out of that part
makes the server refuse the schema, or allow anything in its place. A reply is checked after it was read,
so nothing is lost by asking for less here.
"""

from __future__ import annotations

import re
from typing import Any

SCHEMA_MAPS = ("properties", "$defs", "definitions", "patternProperties")
SCHEMA_LISTS = ("anyOf", "oneOf", "prefixItems")
SCHEMAS = ("items", "additionalProperties")

CLASSES = {"d": "0-9", "w": "A-Za-z0-9_", "s": " \\t\\n\\r"}
UNREADABLE = re.compile(r"\\[A-Za-z0-9]|\(\?(?!:)|\[\[:|[^\x20-\x7e]")
"""What a grammar can't hold of a regular expression, once the classes by letter are spelled out."""


def portable(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema that converters can read and that allows no less than ``schema``; keys keep their order."""
    out = dict(schema)
    if isinstance(every := out.get("allOf"), list):
        del out["allOf"]
        out = _merged([out, *every])
    for key in SCHEMA_MAPS:
        if isinstance(named := out.get(key), dict):
            out[key] = {name: _sub(value) for name, value in named.items() if value is not False}
    for key in SCHEMA_LISTS:
        if isinstance(listed := out.get(key), list):
            out[key] = [_sub(value) for value in listed if value is not False]
    for key in SCHEMAS:
        value = out.get(key)
        if isinstance(value, dict):
            out[key] = portable(value)
        elif key == "items" and isinstance(value, bool):
            del out[key]
    if isinstance(pattern := out.pop("pattern", None), str) and (plain := plain_pattern(pattern)):
        out["pattern"] = plain
    return out


def _sub(value: Any) -> Any:
    return portable(value) if isinstance(value, dict) else {}


def _merged(schemas: list[Any]) -> dict[str, Any]:
    """The keywords of all; of two that say different things neither, which allows more."""
    merged: dict[str, Any] = {}
    clashing = set()
    for schema in schemas:
        for key, value in schema.items() if isinstance(schema, dict) else ():
            if merged.setdefault(key, value) != value:
                clashing.add(key)
    return {key: value for key, value in merged.items() if key not in clashing}


def plain_pattern(pattern: str) -> str | None:
    """The pattern without classes by letter, for converters that have none; None where that can't be done.

    Only a pattern of the whole string has a meaning in a grammar.
    """
    if not (pattern.startswith("^") and pattern.endswith("$")):
        return None
    plain = _spelled_out(pattern)
    return None if UNREADABLE.search(plain) else plain


def _spelled_out(pattern: str) -> str:
    out = []
    bracketed = False
    for token in re.findall(r"\\.|.", pattern, re.S):
        if token == "[" and not bracketed:
            bracketed = True
        elif token == "]":
            bracketed = False
        members = CLASSES.get(token[1:]) if token.startswith("\\") else None
        if members is not None:
            out.append(members if bracketed else f"[{members}]")
        elif token in ("\\/", "\\-") and not bracketed:
            out.append(token[1])
        else:
            out.append(token)
    return "".join(out)
