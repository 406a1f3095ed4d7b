"""What must hold of an item before it is saved."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trustgraph_flow.arguments import strict_json
from trustgraph_flow.schema.errors import BadRequest
from trustgraph_flow.store import ConfigChange

OBJECT_TYPES = frozenset({"tool", "mcp", "mcp-server", "agent-profile"})
MAX_VALUE_BYTES = 1024 * 1024
MAX_NAME_CHARS = 1000


def check(changes: Iterable[ConfigChange]) -> None:
    """Raises BadRequest with every fault of every change; ``data["faults"]`` has them one by one."""
    faults = [
        {"type": change.type, "key": change.key, "fault": fault}
        for change in changes
        for fault in faults_in(change)
    ]
    if faults:
        text = "; ".join(f"{fault['type']} {fault['key']!r}: {fault['fault']}" for fault in faults)
        raise BadRequest(f"Nothing was saved: {text}.", data={"faults": faults})


def faults_in(change: ConfigChange) -> list[str]:
    """The faults in plain words; [] for a change that may be saved."""
    faults = []
    if change.workspace.startswith("_"):
        faults.append(f"the workspace name {change.workspace!r} is reserved; use one without the underscore")
    for what, name in (("workspace", change.workspace), ("type", change.type), ("key", change.key)):
        if not name:
            faults.append(f"the {what} is empty; give it a name")
        elif len(name) > MAX_NAME_CHARS:
            faults.append(f"the {what} is longer than {MAX_NAME_CHARS} characters; give it a shorter name")
        elif unstorable(name):
            faults.append(f"the {what} holds a NUL or half a surrogate pair; remove it")
    if change.value is not None:
        faults += _value_faults(change.type, change.value)
    return faults


def unstorable(text: str) -> bool:
    """Whether a database would refuse the text or return another one."""
    return "\0" in text or any("\ud800" <= character <= "\udfff" for character in text)


def _value_faults(type_: str, value: str) -> list[str]:
    if unstorable(value):
        return ["the value holds a NUL or half a surrogate pair; remove it"]
    size = len(value.encode())
    if size > MAX_VALUE_BYTES:
        return [f"the value is {size:,} bytes long; at most {MAX_VALUE_BYTES:,} are allowed"]
    if type_ not in OBJECT_TYPES:
        return []
    try:
        parsed = strict_json(value)
    except ValueError as error:
        return [f"the value must be a JSON object and is no JSON ({error})"]
    if not isinstance(parsed, dict):
        return [f"the value must be a JSON object, not {kind(parsed)}"]
    return []


def kind(value: Any) -> str:
    """The JSON kind of a value, with its article."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "an object"
