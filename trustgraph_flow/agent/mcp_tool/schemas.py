"""Writes what servers say of their tools into the config, where signatures are made from it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Set
from typing import Any

import structlog
from mcp_types import Tool

from trustgraph_flow.bus import Bus
from trustgraph_flow.schema.config import ConfigKey, ConfigRequest, ConfigResponse, ConfigValue
from trustgraph_flow.schema.errors import TrustGraphError
from trustgraph_flow.schema.items import McpSchemaItem

log = structlog.get_logger(__name__)

ITEM_TYPE = "mcp-schema"
MAX_SCHEMA_CHARS = 256_000
"""A larger schema is left out of the item: the model could not be shown it."""
MAX_DESCRIPTION_CHARS = 20_000
_REQUEST_SECONDS = 10.0


def schema_item(tool: Tool) -> str:
    """The value of a tool's ``mcp-schema`` item."""
    item = McpSchemaItem(
        inputSchema=_bounded(tool.name, tool.input_schema),
        outputSchema=_bounded(tool.name, tool.output_schema),
        description=(tool.description or "")[:MAX_DESCRIPTION_CHARS] or None,
        annotations=tool.annotations.model_dump(by_alias=True, exclude_none=True)
        if tool.annotations
        else None,
    )
    return item.model_dump_json(by_alias=True, exclude_none=True)


def _bounded(name: str, schema: dict[str, Any] | None) -> dict[str, Any] | None:
    if schema is not None and len(json.dumps(schema)) > MAX_SCHEMA_CHARS:
        log.warning("mcp tool has a schema that is too large to be used", tool=name)
        return None
    return schema


class SchemaWriter:
    """One write at a time, and only of values that differ from those in the store."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._lock = asyncio.Lock()

    async def write(self, workspace: str, items: dict[str, str], pinned: Set[str]) -> None:
        """``items`` are values by the key of their ``mcp`` item.

        A change of what was stored before is logged; where the key is ``pinned``, the stored value stays. A
        failure is logged too, and the next listing or config change tries again.
        """
        async with self._lock:
            try:
                await self._put(workspace, items, pinned)
            except TrustGraphError as error:
                log.warning("mcp schemas not written", workspace=workspace, why=error.message)

    async def _put(self, workspace: str, items: dict[str, str], pinned: Set[str]) -> None:
        keys = [ConfigKey(type=ITEM_TYPE, key=key) for key in items]
        answer = await self._ask(workspace, ConfigRequest(operation="get", workspace=workspace, keys=keys))
        stored = {item.key: item.value for item in answer.values or [] if item.value is not None}
        news = {key: text for key, text in items.items() if stored.get(key) != text}
        for key in news.keys() & stored.keys():
            log.warning(
                "mcp tool has changed since it was first seen",
                workspace=workspace,
                key=key,
                changed=changed_fields(stored[key], news[key]),
                held=key in pinned,
            )
        values = [
            ConfigValue(type=ITEM_TYPE, key=key, value=text)
            for key, text in news.items()
            if not (key in pinned and key in stored)
        ]
        if values:
            request = ConfigRequest(operation="put", workspace=workspace, values=values, who="mcp-tool")
            await self._ask(workspace, request)

    async def _ask(self, workspace: str, request: ConfigRequest) -> ConfigResponse:
        return await self._bus.request(
            "config", request, ConfigResponse, workspace=workspace, timeout=_REQUEST_SECONDS
        )


def changed_fields(old: str, new: str) -> list[str]:
    """Which fields of two ``mcp-schema`` values differ."""
    try:
        before, after = json.loads(old), json.loads(new)
        return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    except (ValueError, AttributeError):
        return ["everything"]
