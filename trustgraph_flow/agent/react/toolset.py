"""The tools of a workspace, made from its config items; a bad item disables itself and says so."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from trustgraph_flow.arguments import Signature, compile_signature
from trustgraph_flow.schema.base import faults_of
from trustgraph_flow.schema.errors import TrustGraphError
from trustgraph_flow.schema.items import FOREIGN_TOOL_TYPES, SERVED_TOOL_TYPES, McpSchemaItem, ToolItem

from .tools import (
    TEXT_COMPLETION_ARGUMENTS,
    McpToolImpl,
    PromptToolImpl,
    TextCompletionToolImpl,
    ToolServiceImpl,
)
from .types import ToolContext, ToolImpl

Items = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class LoadedTool:
    """One tool that can be offered."""

    key: str
    item: ToolItem
    signature: Signature
    impl: ToolImpl
    source: tuple[str | None, ...]
    """The config texts that it was made from; equal texts need no second making."""
    description: str

    @property
    def name(self) -> str:
        return self.item.name


@dataclass(frozen=True, slots=True)
class ToolProblem:
    """Why the item at ``key`` is not offered as it now stands. ``kept``: its last good version still is."""

    key: str
    message: str
    kept: bool = False
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class Toolset:
    """All tools of a workspace at one version of its config."""

    tools: tuple[LoadedTool, ...] = ()
    problems: tuple[ToolProblem, ...] = ()
    _by_key: dict[str, LoadedTool] = field(default_factory=dict, compare=False, repr=False)

    def get(self, key: str) -> LoadedTool | None:
        return self._by_key.get(key)

    def offered(self, groups: Iterable[str] | None, state: str | None) -> list[LoadedTool]:
        """The tools that a run in this state, asking for these groups, may call."""
        wanted = set(groups) if groups is not None else {"default"}
        current = state or "undefined"
        return [
            tool
            for tool in self.tools
            if ("*" in wanted or wanted & set(tool.item.group))
            and ("*" in tool.item.applicable_states or current in tool.item.applicable_states)
        ]


def load_toolset(context: ToolContext, items: Items, previous: Toolset | None = None) -> Toolset:
    """Makes the tools of one workspace; what has not changed since ``previous`` is taken over."""
    loaded: dict[str, LoadedTool] = {}
    problems: list[ToolProblem] = []
    for key, text in items.get("tool", {}).items():
        old = previous.get(key) if previous else None
        try:
            loaded[key] = _load(context, key, text, items, old)
        except _Foreign as reason:
            problems.append(ToolProblem(key, str(reason), foreign=True))
        except TrustGraphError as error:
            problems.append(ToolProblem(key, error.message, kept=old is not None))
            if old is not None:
                loaded[key] = old
    owners = _owners(loaded, previous)
    tools = [tool for tool in loaded.values() if owners[tool.name] == tool.key]
    problems += [
        ToolProblem(tool.key, f"the name {tool.name!r} is taken by the tool item {owners[tool.name]!r}")
        for tool in loaded.values()
        if owners[tool.name] != tool.key
    ]
    return Toolset(tuple(tools), tuple(problems), {tool.key: tool for tool in tools})


def _owners(loaded: Mapping[str, LoadedTool], previous: Toolset | None) -> dict[str, str]:
    """Whose each name is: that of the item that had it before, else of the first that asks for it."""
    owners = {tool.name: tool.key for tool in reversed(list(loaded.values()))}
    for tool in previous.tools if previous else ():
        now = loaded.get(tool.key)
        if now is not None and now.name == tool.name:
            owners[tool.name] = tool.key
    return owners


def resolve(name: str, offered: list[LoadedTool]) -> LoadedTool | str:
    """The tool of that name, or the observation that says what names there are.

    A name that differs in case alone, with only one such tool, is that tool; no other likeness is run.
    """
    for tool in offered:
        if tool.name == name:
            return tool
    folded = [tool for tool in offered if tool.name.casefold() == name.casefold()]
    if len(folded) == 1:
        return folded[0]
    known = [tool.name for tool in offered]
    shown = name if len(name) <= 80 else name[:77] + "..."
    if not known:
        return f"There is no tool {shown!r}: no tools are available here. Give a Final Answer instead."
    near = get_close_matches(name[:200], known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    listed = ", ".join(known[:50]) + (f" and {len(known) - 50} more" if len(known) > 50 else "")
    return f"There is no tool {shown!r}.{hint} The tools are: {listed}."


class _Foreign(Exception):
    pass


def _load(context: ToolContext, key: str, text: str, items: Items, old: LoadedTool | None) -> LoadedTool:
    item = None if old is None or old.source[0] != text else old.item
    if item is None:
        item = _parse(key, text)
    if item.type in FOREIGN_TOOL_TYPES:
        raise _Foreign(f"type {item.type!r} belongs to another TrustGraph service and is not served here")
    if item.type not in SERVED_TOOL_TYPES:
        raise TrustGraphError(
            f"tool item {key!r}: unknown type {item.type!r}; known are {', '.join(SERVED_TOOL_TYPES)}"
        )
    related = _related(item, items)
    source = (text, related)
    if old is not None and old.source == source:
        return old
    live = _live_schema(related) if item.type == "mcp-tool" and related else None
    signature = compile_signature(
        TEXT_COMPLETION_ARGUMENTS if item.type == "text-completion" else item.arguments,
        defs=item.defs,
        input_schema=live.input_schema if live is not None else None,
    )
    description = item.description or (live.description if live and live.description else "")
    return LoadedTool(key, item, signature, _implementation(context, key, item, related), source, description)


def _parse(key: str, text: str) -> ToolItem:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise TrustGraphError(f"tool item {key!r} is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise TrustGraphError(f"tool item {key!r} must be a JSON object, not {type(value).__name__}")
    try:
        return ToolItem.model_validate(value)
    except ValidationError as error:
        raise TrustGraphError(f"tool item {key!r}: {faults_of(error)}") from None


def _related(item: ToolItem, items: Items) -> str | None:
    """The text of the other item that this tool is made from, if there is one."""
    if item.type == "mcp-tool" and item.mcp_tool:
        return items.get("mcp-schema", {}).get(item.mcp_tool)
    if item.type == "tool-service" and item.service:
        return items.get("tool-service", {}).get(item.service)
    return None


def _live_schema(text: str) -> McpSchemaItem | None:
    try:
        return McpSchemaItem.model_validate_json(text)
    except ValidationError:
        return None


def _implementation(context: ToolContext, key: str, item: ToolItem, related: str | None) -> ToolImpl:
    if item.type == "mcp-tool":
        return McpToolImpl(context, _needed(key, item.mcp_tool, "mcp-tool"), item.arguments)
    if item.type == "prompt":
        return PromptToolImpl(context, _needed(key, item.template, "template"), item.arguments)
    if item.type == "text-completion":
        return TextCompletionToolImpl(context)
    service = _needed(key, item.service, "service")
    if related is None:
        raise TrustGraphError(f"tool item {key!r}: there is no tool-service item {service!r}")
    try:
        described = json.loads(related)
        queue = str(described["request-queue"])
        params = [param["name"] for param in described.get("config-params") or []]
    except (ValueError, TypeError, KeyError):
        raise TrustGraphError(f"tool-service item {service!r} names no request-queue") from None
    extra: dict[str, Any] = item.model_extra or {}
    return ToolServiceImpl(context, queue, {name: extra.get(name) for name in params}, item.arguments)


def _needed(key: str, value: str | None, field_name: str) -> str:
    if not value:
        raise TrustGraphError(f"tool item {key!r}: {field_name!r} is missing")
    return value
