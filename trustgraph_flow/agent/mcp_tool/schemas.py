"""Writes what servers say of their tools into the config, where signatures are made from it."""

from __future__ import annotations

import asyncio
import json
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
        self._written: dict[tuple[str, str], str] = {}

    async def write(self, workspace: str, tools: dict[str, Tool]) -> None:
        """``tools`` by the key of their ``mcp`` item. A failure is logged; the next listing tries again."""
        async with self._lock:
            values = {key: schema_item(tool) for key, tool in tools.items()}
            news = {key: text for key, text in values.items() if self._written.get((workspace, key)) != text}
            if not news:
                return
            try:
                await self._put(workspace, news)
            except TrustGraphError as error:
                log.warning("mcp schemas not written", workspace=workspace, why=error.message)
            else:
                self._written.update({(workspace, key): text for key, text in news.items()})

    async def _put(self, workspace: str, news: dict[str, str]) -> None:
        keys = [ConfigKey(type=ITEM_TYPE, key=key) for key in news]
        stored = await self._ask(workspace, ConfigRequest(operation="get", workspace=workspace, keys=keys))
        same = {item.key for item in stored.values or [] if item.value == news.get(item.key)}
        values = [
            ConfigValue(type=ITEM_TYPE, key=key, value=text) for key, text in news.items() if key not in same
        ]
        if values:
            await self._ask(workspace, ConfigRequest(operation="put", workspace=workspace, values=values))

    async def _ask(self, workspace: str, request: ConfigRequest) -> ConfigResponse:
        return await self._bus.request(
            "config", request, ConfigResponse, workspace=workspace, timeout=_REQUEST_SECONDS
        )

    def forget(self, keys: set[tuple[str, str]]) -> None:
        """Keeps only what was written for these workspaces and keys."""
        self._written = {place: text for place, text in self._written.items() if place in keys}
