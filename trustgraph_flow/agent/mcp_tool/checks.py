"""The arguments of a call against what its tool takes, whoever sends it."""

from __future__ import annotations

from typing import Any

import structlog
from mcp_types import Tool

from trustgraph_flow.arguments import ArgumentsError, Signature, compile_signature

from .directory import Declared, Directory, Entry
from .faults import McpFault
from .schemas import schema_item

log = structlog.get_logger(__name__)


class Checks:
    """Signatures of one state of the config, compiled when they are first needed."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._compiled: dict[tuple[str, str], tuple[Tool | None, list[Signature]]] = {}

    def apply(self, entry: Entry, tool: Tool | None, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments to send, coerced by their types. Raises McpFault that lists everything wrong with
        them.

        Where several tool items declare different arguments for one ``mcp`` item, any of them will do.
        """
        signatures = self._signatures(entry, tool)
        checked = [signature.check(arguments) for signature in signatures]
        for one in checked:
            if one.ok:
                return one.arguments
        raise McpFault("invalid-arguments", f"The call was not sent:\n{checked[0].text}")

    def _signatures(self, entry: Entry, tool: Tool | None) -> list[Signature]:
        workspace, key = entry.target.workspace, entry.key
        known = self._compiled.get((workspace, key))
        if known is not None and known[0] is tool:
            return known[1]
        if entry.pinned:
            self._hold_if_changed(entry, tool)
        schema = tool.input_schema if tool is not None else None
        declared = self._directory.declared(workspace, key) or [Declared(None, None)]
        signatures = []
        for one in declared:
            try:
                signatures.append(compile_signature(one.arguments, defs=one.defs, input_schema=schema))
            except ArgumentsError as error:
                log.warning(
                    "declared arguments that can't be used", workspace=workspace, key=key, why=str(error)
                )
        signatures = signatures or [compile_signature(None, input_schema=schema)]
        self._compiled[workspace, key] = (tool, signatures)
        return signatures

    def _hold_if_changed(self, entry: Entry, tool: Tool | None) -> None:
        accepted = self._directory.schema(entry.target.workspace, entry.key)
        if tool is not None and accepted not in (None, schema_item(tool)):
            raise McpFault(
                "no-longer-offered",
                f'The server "{entry.target.label}" describes the tool "{entry.tool}" otherwise than when it '
                "was accepted. It is held until an operator accepts the change by deleting its mcp-schema "
                "item.",
            )
