"""``--argument`` on the command line: ``name:type:description``, or JSON with any schema keyword."""

from __future__ import annotations

import json
from typing import Any

from trustgraph_flow.schema.errors import BadRequest

_FORMS = "name:type:description (the description may hold colons) or a JSON object with a name"


def parse_arguments(given: list[str]) -> list[dict[str, Any]]:
    """The argument list of a tool item, in the order given. Raises BadRequest naming what can't be read."""
    arguments: list[dict[str, Any]] = []
    for text in given:
        if text.lstrip().startswith(("{", "[")):
            arguments.extend(_from_json(text))
        else:
            arguments.append(_from_words(text))
    return arguments


def _from_json(text: str) -> list[dict[str, Any]]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise BadRequest(f"--argument {text!r} is not valid JSON ({error}); give {_FORMS}") from None
    entries = value if isinstance(value, list) else [value]
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise BadRequest(f"--argument {json.dumps(entry, ensure_ascii=False)} has no name; give {_FORMS}")
    return entries


def _from_words(text: str) -> dict[str, Any]:
    name, separator, rest = text.partition(":")
    type_, _, description = rest.partition(":")
    if not separator or not type_.strip():
        raise BadRequest(f"--argument {text!r} has no type; give {_FORMS}")
    entry = {"name": name, "type": type_.strip()}
    if description:
        entry["description"] = description
    return entry
