"""Runs a call once, however often it is asked for: it is journaled before it is sent, and its outcome after.

A call that was begun by a process which did not live to see the outcome is repeated only where that is
harmless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import structlog

from trustgraph_flow.schema.errors import TrustGraphError
from trustgraph_flow.schema.mcp import McpToolResponse
from trustgraph_flow.store import CallJournal

from . import faults

log = structlog.get_logger(__name__)

Run = Callable[[], Awaitable[McpToolResponse]]


@dataclass(frozen=True, slots=True)
class JournaledCall:
    """``repeatable`` says, when it is asked, whether running the tool twice does no harm."""

    call_id: str
    run_id: str | None
    server: str
    tool: str
    arguments: dict[str, Any]
    repeatable: Callable[[], Awaitable[bool]]


class Once:
    """The calls of this process that have an id."""

    def __init__(self, journal: CallJournal) -> None:
        self._journal = journal
        self._running: dict[str, asyncio.Task[McpToolResponse]] = {}
        self._waiting: dict[str, int] = {}

    async def run(self, call: JournaledCall, run: Run) -> McpToolResponse:
        """What ``run`` answers, or has answered. Who asks for a call that is under way here waits for that
        one; it is cancelled when nobody waits for it any more."""
        task = self._running.get(call.call_id)
        while task is not None and task.cancelling():  # it ends, and leaves its outcome in the journal
            await asyncio.wait([task])
            task = self._running.get(call.call_id)
        if task is None:
            task = asyncio.create_task(self._journaled(call, run))
            self._running[call.call_id] = task
            task.add_done_callback(lambda _: self._forget(call.call_id))
        self._waiting[call.call_id] = self._waiting.get(call.call_id, 0) + 1
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if self._waiting.get(call.call_id) == 1 and not task.done():
                task.cancel()
                await asyncio.wait([task])
            raise
        finally:
            if call.call_id in self._waiting:
                self._waiting[call.call_id] -= 1

    def _forget(self, call_id: str) -> None:
        self._running.pop(call_id, None)
        self._waiting.pop(call_id, None)

    async def _journaled(self, call: JournaledCall, run: Run) -> McpToolResponse:
        entry = await self._journal.begin(
            call.call_id, run_id=call.run_id, server=call.server, tool=call.tool, arguments=call.arguments
        )
        if entry is not None and entry.outcome is not None:
            return McpToolResponse.model_validate(entry.outcome)
        if entry is not None and not await call.repeatable():
            fault = faults.outcome_unknown(call.server, "the call was begun and its answer never came")
            return await self._finished(call, faults.response(fault))
        try:
            answer = await run()
        except asyncio.CancelledError:
            await self._finished(call, faults.response(faults.cancelled(call.server)))
            raise
        return await self._finished(call, answer)

    async def _finished(self, call: JournaledCall, answer: McpToolResponse) -> McpToolResponse:
        """An outcome that can't be kept is still an answer: only a repetition will not know it."""
        try:
            await self._journal.finish(call.call_id, answer.model_dump(mode="json", exclude_none=True))
        except TrustGraphError as error:
            log.error("the outcome of a call is not in the journal", call=call.call_id, why=error.message)
        return answer
