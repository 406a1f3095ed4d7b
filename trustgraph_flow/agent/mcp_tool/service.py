"""The mcp-tool service: calls tools on MCP servers, for agents and for whoever asks straight from outside."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

import structlog
from mcp_types import Tool

from trustgraph_flow.bus import Bus, Request, Serving
from trustgraph_flow.config import ConfigView, ConfigWatcher
from trustgraph_flow.schema.errors import BadRequest, NotFound
from trustgraph_flow.schema.mcp import McpToolRequest, McpToolResponse
from trustgraph_flow.store import Store

from . import faults, metrics
from .artifacts import Shelf, send_artifact
from .catalogue import Catalogue
from .checks import Checks
from .connection import Connection
from .directory import TYPES, Directory, Entry, ItemFault
from .faults import McpFault
from .guard import ChildGuard
from .http import keep_urls_out_of_logs
from .journal import JournaledCall, Once
from .limits import Limits
from .oauth import Ask, SignInAuth
from .progress import ProgressFrames
from .results import NotAResult, read_result
from .schemas import SchemaWriter, schema_item
from .sign_ins import PERSON_SECONDS, SignIns
from .target import Target

log = structlog.get_logger(__name__)

_MARGIN = 0.25
"""Seconds by which an answer about a call that took too long comes before its asker stops waiting."""
_DISCOVERY_PAUSE = (5.0, 60.0)
"""Between attempts to list the tools of a server that is not there: the first, and the longest, in
seconds."""


class McpToolService:
    """Follows the config; holds one connection for each server that an ``mcp`` item leads to."""

    def __init__(
        self, bus: Bus, store: Store, *, limits: Limits | None = None, concurrency: int = 256
    ) -> None:
        self._bus = bus
        self._limits = limits or Limits()
        self._concurrency = concurrency
        self._store = store
        self._once = Once(store.calls)
        self._schemas = SchemaWriter(bus)
        self._guard = ChildGuard()
        self._directory = Directory()
        self._checks = Checks(self._directory)
        self._reported: set[tuple[str, str, str]] = set()
        self._connections: dict[Target, Connection] = {}
        self._retiring: set[Connection] = set()
        self._discoveries: dict[Target, asyncio.Task[None]] = {}
        self._chores: set[asyncio.Task[Any]] = set()
        self._sign_ins = SignIns(bus)
        self._watcher = ConfigWatcher(bus, TYPES, self._apply)
        self._serving: Serving | None = None

    async def start(self) -> None:
        keep_urls_out_of_logs()
        await self._sign_ins.start()
        await self._watcher.start()
        self._serving = await self._bus.serve("mcp-tool", self._handle, concurrency=self._concurrency)

    async def close(self) -> None:
        """Ends calls under way in their own time, then every connection and child process."""
        await self._watcher.close()
        if self._serving is not None:
            await self._serving.close()
        await self._sign_ins.close()
        tasks = [*self._discoveries.values(), *self._chores]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        connections = [*self._connections.values(), *self._retiring]
        await asyncio.gather(*(connection.close() for connection in connections))
        await self._guard.close()

    # -- config --------------------------------------------------------------------------------------------

    async def _apply(self, view: ConfigView) -> None:
        """A new state of the config. Calls in flight go on over the connection that they began on."""
        directory = Directory.read(view)
        wrong = {(workspace, key, str(fault)) for workspace, key, fault in directory.faults()}
        for workspace, key, why in wrong - self._reported:
            log.warning("mcp item disabled", workspace=workspace, key=key, why=why)
        self._reported = wrong
        wanted = directory.targets()
        self._directory, self._checks = directory, Checks(directory)
        for target in self._connections.keys() - wanted:
            self._spawn(self._retire(self._connections.pop(target)))
            if (discovery := self._discoveries.pop(target, None)) is not None:
                discovery.cancel()
        for target in wanted - self._connections.keys():
            self._connections[target] = self._connect(target)
            self._discoveries[target] = asyncio.create_task(self._discover(target))
        for target in wanted:
            if (known := self._connections[target].known) is not None:
                self._spawn(self._listed(target, known))
        metrics.CONNECTIONS.set(len(self._connections))

    async def _retire(self, connection: Connection) -> None:
        self._retiring.add(connection)
        await connection.retire()
        self._retiring.discard(connection)

    def _connect(self, target: Target) -> Connection:
        async def listed(catalogue: Catalogue) -> None:
            await self._listed(target, catalogue)

        return Connection(target, self._limits, self._guard, listed, self._auth(target))

    def _auth(self, target: Target, ask: Ask | None = None) -> SignInAuth | None:
        return SignInAuth(target, self._store.sign_ins, ask) if target.oauth is not None else None

    async def _discover(self, target: Target) -> None:
        """Lists a server's tools once, however long it takes to be there. The listing tells ``_listed``."""
        pause, longest = _DISCOVERY_PAUSE
        while True:
            try:
                await self._connections[target].catalogue()
                return
            except McpFault as fault:
                log.info("mcp server not discovered yet", server=target.label, why=fault.message)
            await asyncio.sleep(pause)
            pause = min(pause * 2, longest)

    async def _listed(self, target: Target, catalogue: Catalogue) -> None:
        """Stores what is new in a listing."""
        workspace, directory = target.workspace, self._directory
        here = [
            entry for entry in directory.entries() if entry.target == target and entry.tool in catalogue.tools
        ]
        items = {entry.key: schema_item(catalogue.tools[entry.tool]) for entry in here}
        news = {key: text for key, text in items.items() if directory.schema(workspace, key) != text}
        if news:
            await self._schemas.write(workspace, news, {entry.key for entry in here if entry.pinned})

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    # -- requests ------------------------------------------------------------------------------------------

    async def _handle(self, request: Request) -> McpToolResponse:
        body = request.parse(McpToolRequest)
        try:
            if body.operation == "discover":
                return await self._tools_of(self._server(request.workspace, body.name))
            if body.operation == "artifact":
                return await send_artifact(self._store.artifacts, request, body.name)
            if body.operation == "sign-in":
                return await self._sign_in(self._server(request.workspace, body.name))
            entry = self._directory.find(request.workspace, body.name)
        except ItemFault as fault:
            return faults.response(
                McpFault(
                    "not-reached",
                    f'The MCP tool "{body.name}" is disabled, its config item is wrong: {fault}',
                )
            )
        if entry is None:
            raise NotFound(f'there is no mcp item "{body.name}" in the workspace "{request.workspace}"')
        started = time.perf_counter()
        response = await self._call(request, body, entry)
        took = time.perf_counter() - started
        metrics.CALLS.labels(entry.target.label, response.fault or "ok").inc()
        metrics.SECONDS.labels(entry.target.label).observe(took)
        response.duration_ms = round(took * 1000, 3)
        return response

    async def _call(self, request: Request, body: McpToolRequest, entry: Entry) -> McpToolResponse:
        async def run() -> McpToolResponse:
            return await self._run(request, body, entry)

        if body.call_id is None:
            return await run()

        call = JournaledCall(
            call_id=body.call_id,
            run_id=body.run_id,
            server=entry.target.label,
            tool=entry.tool,
            arguments=body.parameters,
            repeatable=partial(self._repeatable, entry),
        )
        return await self._once.run(call, run)

    async def _repeatable(self, entry: Entry) -> bool:
        """Whether the server says that running the tool twice does no harm."""
        connection = self._connections.get(entry.target)
        if connection is None:
            return False
        try:
            catalogue = await connection.catalogue()
        except McpFault:
            return False
        tool = catalogue.tools.get(entry.tool) if catalogue is not None else None
        hints = tool.annotations if tool is not None else None
        return hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)

    async def _run(self, request: Request, body: McpToolRequest, entry: Entry) -> McpToolResponse:
        """Sends the call and reads what came of it."""
        left = request.remaining(float("inf"))
        left -= min(_MARGIN, left / 4)
        seconds = min(entry.timeout or self._limits.call, body.timeout or float("inf"), left)
        hard = min(max(self._limits.hard, seconds), body.timeout or float("inf"), left)
        checks = self._checks

        def check(tool: Tool | None) -> dict[str, Any]:
            return checks.apply(entry, tool, body.parameters)

        connection = self._connections.get(entry.target)
        if connection is None:
            return faults.response(faults.not_reached(entry.target.label, "its config item has just changed"))
        try:
            raw = await connection.call(
                entry.tool, check, seconds=seconds, hard_seconds=hard, on_progress=ProgressFrames(request)
            )
            shelf = Shelf(request.workspace, body.run_id, body.call_id)
            response = read_result(raw, self._limits.result, shelf)
            if not await shelf.store(self._store.artifacts):
                response = read_result(raw, self._limits.result)
        except McpFault as fault:
            return faults.response(fault)
        except NotAResult as why:
            return faults.response(faults.invalid_result(entry.target.label, str(why)))
        catalogue = connection.known
        if not response.is_error and catalogue is not None:
            wrong = catalogue.output_fault(entry.tool, raw.get("structuredContent"))
            if wrong is not None:
                return _unfit(response, entry, wrong)
        return response

    def _server(self, workspace: str, name: str) -> Target:
        """The server that an ``mcp`` item, or an ``mcp-server`` item, leads to."""
        entry = self._directory.find(workspace, name)
        target = entry.target if entry is not None else self._directory.server(workspace, name)
        if target is None:
            raise NotFound(f'there is no mcp or mcp-server item "{name}" in the workspace "{workspace}"')
        return target

    async def _sign_in(self, target: Target) -> McpToolResponse:
        if target.oauth is None:
            raise BadRequest(f'the config item of "{target.label}" has no "oauth" to sign in by')

        async def sign_in(ask: Ask) -> None:
            limits = replace(self._limits, connect=PERSON_SECONDS)
            connection = Connection(target, limits, self._guard, auth=self._auth(target, ask))
            try:
                await connection.catalogue()
            finally:
                await connection.close()
            if (held := self._connections.get(target)) is not None:
                held.try_again()

        try:
            page = await self._sign_ins.page(target, sign_in)
        except McpFault as fault:
            return faults.response(fault.masked(target.secrets))
        if page is None:
            return McpToolResponse(text=f'Signed in at "{target.label}".')
        return McpToolResponse(
            text=f'Open this page to sign in at "{target.label}": {page}', sign_in_page=page
        )

    async def _tools_of(self, target: Target) -> McpToolResponse:
        connection = self._connections.get(target)
        passing = connection is None
        connection = connection or Connection(target, self._limits, self._guard, auth=self._auth(target))
        try:
            catalogue = await connection.catalogue()
        except McpFault as fault:
            return faults.response(fault.masked(target.secrets))
        finally:
            if passing:
                await connection.close()
        tools = catalogue.tools.values() if catalogue is not None else ()
        return McpToolResponse(tools=[tool.model_dump(by_alias=True, exclude_none=True) for tool in tools])


def _unfit(response: McpToolResponse, entry: Entry, wrong: str) -> McpToolResponse:
    """The tool ran, but what it returned is not what it promised: the model is told, and sees it."""
    text = (
        f'The tool of the server "{entry.target.label}" ran, but its result does not fit its output schema '
        f"({wrong}). What it returned:\n{response.text}"
    )
    return response.model_copy(update={"is_error": True, "fault": "invalid-result", "text": text})
