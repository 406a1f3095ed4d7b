"""What tools a server offers, as it said last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs
import structlog
from mcp.client.session import ClientSession
from mcp_types import PaginatedRequestParams, Tool
from pydantic import ValidationError

from .limits import Limits

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """``complete`` is False when a bound ended the listing; ``malformed`` names tools whose entry can't be
    read (they can still be called)."""

    tools: Mapping[str, Tool]
    complete: bool = True
    malformed: frozenset[str] = frozenset()
    _outputs: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def lacks(self, name: str) -> bool:
        """Whether the server certainly does not offer the tool."""
        return self.complete and name not in self.tools and name not in self.malformed

    def output_fault(self, name: str, structured: Any) -> str | None:
        """Why a structured value does not fit the tool's output schema; None when it does, or there is
        none."""
        tool = self.tools.get(name)
        if tool is None or tool.output_schema is None:
            return None
        if structured is None:
            return "the structured value that its output schema promises is missing"
        if name not in self._outputs:
            self._outputs[name] = _compile(name, tool.output_schema)
        validator = self._outputs[name]
        if validator is None:
            return None
        error = next(validator.iter_errors(structured), None)
        if error is None:
            return None
        path = "/".join(str(step) for step in error.instance_path) or "the whole value"
        return f"{path}: {error.message[:300]}"


def _compile(name: str, schema: dict[str, Any]) -> jsonschema_rs.Validator | None:
    try:
        return jsonschema_rs.validator_for(schema, offline=True)
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        log.warning("mcp tool has an output schema that can't be used", tool=name, why=str(error)[:300])
        return None


def salvage(raw: dict[str, Any]) -> list[str]:
    """Takes the entries that are no tools out of a ``tools/list`` result, in place; returns their names."""
    entries = raw.get("tools")
    if not isinstance(entries, list):
        raw["tools"] = []
        return []
    good, lost = [], []
    for entry in entries:
        try:
            Tool.model_validate(entry, by_name=False)
        except ValidationError:
            name = entry.get("name") if isinstance(entry, dict) else None
            lost.append(name if isinstance(name, str) else "")
        else:
            good.append(entry)
    raw["tools"] = good
    return lost


async def list_tools(session: ClientSession, malformed: set[str], limits: Limits) -> Catalogue:
    """Every page of the listing, within bounds. ``malformed`` is filled by ``salvage`` on the way.

    Raises what the session raises.
    """
    tools: dict[str, Tool] = {}
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(limits.pages):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        for tool in page.tools:
            if len(tools) >= limits.tools:
                return Catalogue(tools, complete=False, malformed=frozenset(malformed))
            tools.setdefault(tool.name, tool)
        cursor = page.next_cursor
        if not cursor:
            return Catalogue(tools, malformed=frozenset(malformed))
        if cursor in seen:
            break
        seen.add(cursor)
    return Catalogue(tools, complete=False, malformed=frozenset(malformed))
