"""The tools of a workspace for an operator: as the agent reads them, with what is wrong beside each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from trustgraph_flow.agent.react.toolset import LoadedTool, Toolset, load_toolset
from trustgraph_flow.agent.react.types import ToolContext
from trustgraph_flow.arguments import Signature
from trustgraph_flow.arguments.show import Describer
from trustgraph_flow.arguments.text import show_name, show_value
from trustgraph_flow.arguments.walk import References
from trustgraph_flow.bus import Bus
from trustgraph_flow.cli import tables
from trustgraph_flow.cli.tables import show, table
from trustgraph_flow.cli.text import clean, one_line, shorten

_INDENT = (0, 0, 0, 4)
_ARGUMENT_COLUMNS = [
    tables.Column(title)
    for title in ("argument", "", "type and limits", "default", "known from", "description")
]

Items = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class ToolView:
    """One ``tool`` item. ``state``: offered, faulty or not served here; ``signature`` only if offered."""

    key: str
    state: str
    item: Any
    """The stored value; its text where it is no JSON."""
    fault: str | None = None
    notes: list[str] = field(default_factory=list)
    signature: Signature | None = None

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "id": self.key,
            "state": self.state,
            "fault": self.fault,
            "notes": self.notes,
        }
        if self.signature is not None:
            shown["schema"] = self.signature.schema
            shown["origin"] = self.signature.origin
        return {**shown, "item": self.item}


def view_tools(items: Items) -> list[ToolView]:
    """Every ``tool`` item of a workspace's config, by key; a bad one changes nothing for the others."""
    # The tools are looked at and never called, so nothing will ask this context for its bus.
    toolset = load_toolset(ToolContext(cast(Bus, None), ""), items)
    return [_view(key, text, toolset, items) for key, text in sorted(items.get("tool", {}).items())]


def print_tools(views: Sequence[ToolView], *, limit: int | None) -> None:
    """Prints a block a tool; texts are cut at ``limit`` characters."""
    if not views:
        show(Text("no tools; tg-set-tool makes one"))
    for view in views:
        show(*_block(view, limit))


def _view(key: str, text: str, toolset: Toolset, items: Items) -> ToolView:
    try:
        item = json.loads(text)
    except ValueError:
        item = text
    loaded = toolset.get(key)
    problem = next((problem for problem in toolset.problems if problem.key == key), None)
    if loaded is None:
        foreign = problem is not None and problem.foreign
        fault = problem.message if problem is not None else "it can't be read"
        return ToolView(key, "not served here" if foreign else "faulty", item, None if foreign else fault)
    signature = loaded.signature
    notes = [*_missing(loaded, items), *signature.warnings, *signature.drift]
    return ToolView(key, "offered", item, notes=notes, signature=signature)


def _missing(tool: LoadedTool, items: Items) -> Iterator[str]:
    """What the tool needs and the config has not; it is offered all the same, and its calls fail."""
    item = tool.item
    if item.type == "mcp-tool" and item.mcp_tool not in items.get("mcp", {}):
        yield f"there is no MCP tool {item.mcp_tool!r}; tg-set-mcp-tool makes it"
    if item.type == "prompt" and f"template.{item.template}" not in items.get("prompt", {}):
        yield f"there is no template {item.template!r}; tg-set-prompt makes it"


def _block(view: ToolView, limit: int | None) -> Iterator[RenderableType]:
    heading = Text(one_line(view.key), style="bold")
    heading.append(f"  {view.state}", style="green" if view.state == "offered" else "red")
    yield heading
    lines = Table.grid(
        Column("name", style="dim", no_wrap=True), Column("text", overflow="fold"), padding=(0, 2)
    )
    for name, text, style in _lines(view):
        lines.add_row(name, Text(_cut(one_line(text), limit), style=style))
    yield Padding(lines, _INDENT)
    rows = list(_arguments(view.signature, limit)) if view.signature is not None else []
    if rows:
        yield Padding(table(_ARGUMENT_COLUMNS, rows), _INDENT)
    yield Text()


def _lines(view: ToolView) -> Iterator[tuple[str, str, str]]:
    """Name, text and style of each line of a block."""
    item = view.item if isinstance(view.item, dict) else {}
    for name in (
        "name",
        "type",
        "mcp-tool",
        "template",
        "service",
        "description",
        "group",
        "applicable-states",
    ):
        value = item.get(name)
        if value is not None:
            yield name, ", ".join(map(str, value)) if isinstance(value, list) and value else str(value), ""
    if item.get("state"):
        yield "state", f"moves to {item['state']}", ""
    if view.fault is not None:
        yield "fault", view.fault, "red"
    for note in view.notes:
        yield "note", note, "yellow"
    if view.signature is not None and view.signature.schema is None:
        yield "arguments", "not declared: any pass", ""
    elif view.signature is not None and not view.signature.origin:
        yield "arguments", "none", ""


def _arguments(signature: Signature, limit: int | None) -> Iterator[Sequence[str]]:
    """A row an argument, in the words that the model reads."""
    schema = signature.schema or {}
    required = schema.get("required") or []
    words = Describer(References(schema))
    for name, sub in (schema.get("properties") or {}).items():
        facts = sub if isinstance(sub, dict) else {}
        yield (
            show_name(name),
            "required" if name in required else "optional",
            words.phrase(sub),
            show_value(facts["default"], limit) if "default" in facts else "",
            signature.origin.get(name, ""),
            _cut(str(facts.get("description") or ""), limit),
        )


def _cut(text: str, limit: int | None) -> str:
    text = clean(text)
    return text if limit is None else shorten(text, limit)
