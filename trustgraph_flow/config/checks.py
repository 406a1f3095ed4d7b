"""What must hold of an item before it is saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from trustgraph_flow.arguments import ArgumentsError, compile_signature, strict_json
from trustgraph_flow.schema.base import Item, faults_of
from trustgraph_flow.schema.errors import BadRequest
from trustgraph_flow.schema.items import (
    FOREIGN_TOOL_TYPES,
    SERVED_TOOL_TYPES,
    TOOL_LINKS,
    AgentProfileItem,
    McpItem,
    McpServerItem,
    ToolItem,
)
from trustgraph_flow.store import ConfigChange

MODELS: dict[str, type[Item]] = {
    "tool": ToolItem,
    "mcp": McpItem,
    "mcp-server": McpServerItem,
    "agent-profile": AgentProfileItem,
}
MAX_VALUE_BYTES = 1024 * 1024
MAX_NAME_CHARS = 1000


def check(changes: Iterable[ConfigChange], *, force: bool = False) -> None:
    """Raises BadRequest with every fault of every change; ``data["faults"]`` has them one by one.

    With ``force`` only what can't be stored at all is a fault; an item that can't be used then disables
    itself where it is read.
    """
    faults = [
        {"type": change.type, "key": change.key, "fault": fault}
        for change in changes
        for fault in faults_in(change, force=force)
    ]
    if faults:
        text = "; ".join(f"{fault['type']} {fault['key']!r}: {fault['fault']}" for fault in faults)
        raise BadRequest(f"Nothing was saved: {text}.", data={"faults": faults})


def check_names(changed: Iterable[str], values: Mapping[str, str | None]) -> None:
    """Raises BadRequest where a changed tool has the name of another. ``values``: all tools by their keys."""
    owners: dict[str, list[str]] = {}
    for key, value in values.items():
        if (name := _tool_name(value)) is not None:
            owners.setdefault(name, []).append(key)
    for key in sorted(changed):
        name = _tool_name(values.get(key))
        others = [other for other in owners.get(name, []) if other != key] if name is not None else []
        if others:
            raise BadRequest(
                f"Nothing was saved: tool {key!r}: the name {name!r} is taken by the tool {others[0]!r}; "
                "choose another name, or delete that tool first."
            )


def _tool_name(value: str | None) -> str | None:
    try:
        return ToolItem.model_validate(strict_json(value or "")).name
    except ValueError:
        return None


def faults_in(change: ConfigChange, *, force: bool = False) -> list[str]:
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
        faults += _value_faults(change.type, change.value, force)
    return faults


def unstorable(text: str) -> bool:
    """Whether a database would refuse the text or return another one."""
    return "\0" in text or any("\ud800" <= character <= "\udfff" for character in text)


def _value_faults(type_: str, value: str, force: bool) -> list[str]:
    if unstorable(value):
        return ["the value holds a NUL or half a surrogate pair; remove it"]
    size = len(value.encode())
    if size > MAX_VALUE_BYTES:
        return [f"the value is {size:,} bytes long; at most {MAX_VALUE_BYTES:,} are allowed"]
    model = MODELS.get(type_)
    if model is None or force:
        return []
    try:
        parsed = strict_json(value)
    except ValueError as error:
        return [f"the value must be a JSON object and is no JSON ({error})"]
    if not isinstance(parsed, dict):
        return [f"the value must be a JSON object, not {kind(parsed)}"]
    try:
        item = model.model_validate(parsed)
    except ValidationError as error:
        return [faults_of(error)]
    return _tool_faults(item) if isinstance(item, ToolItem) else []


def _tool_faults(item: ToolItem) -> list[str]:
    if item.type not in SERVED_TOOL_TYPES + FOREIGN_TOOL_TYPES:
        return [f"the tool type {item.type!r} is unknown; known are {', '.join(SERVED_TOOL_TYPES)}"]
    faults = []
    link = TOOL_LINKS.get(item.type)
    if link is not None and not getattr(item, link.replace("-", "_")):
        faults.append(f"{link!r} is missing; a tool of type {item.type!r} needs it")
    if item.type in TOOL_LINKS:
        try:
            compile_signature(item.arguments, defs=item.defs)
        except ArgumentsError as error:
            faults.append(error.message.replace("\n", " "))
    return faults


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
