"""Which runs are driven in this process, and the channel on which processes speak of runs.

Notices on the channel: ``{"run_id", "who": true}`` asks who drives a run, ``{"run_id", "here": true}`` says
that somebody does, ``{"run_id", "workspace", "cancel": true}`` cancels one wherever it is driven.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from trustgraph_flow.bus import Bus, Listening
from trustgraph_flow.schema.config import DEFAULT_WORKSPACE
from trustgraph_flow.schema.errors import Conflict, TrustGraphError, Unavailable

CHANNEL = "runs"


async def cancel_run(bus: Bus, run_id: str, workspace: str = DEFAULT_WORKSPACE) -> None:
    """Cancels a run that some process drives. Its log tells when it has ended; nobody answers this notice."""
    await bus.broadcast(CHANNEL, {"run_id": run_id, "workspace": workspace, "cancel": True})


class Driven:
    """A run that this process drives."""

    def __init__(self, workspace: str, task: asyncio.Task[None]) -> None:
        self.workspace = workspace
        self.task = task
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """Wakes those who follow the log of this run here."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def change(self, seconds: float) -> None:
        """Returns when the log has grown, or after so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()


class RunsHere:
    """``patience`` is how many seconds the driver of a run has to say that it is alive."""

    def __init__(self, bus: Bus, patience: float) -> None:
        self.leaving = False
        """Whether this process is ending, so that runs are left to other workers as they stand."""
        self._bus = bus
        self._patience = patience
        self._driven: dict[str, Driven] = {}
        self._asking: dict[str, set[asyncio.Event]] = {}
        self._listening: Listening | None = None

    async def start(self) -> None:
        self._listening = await self._bus.listen(CHANNEL, self._noticed)

    async def close(self) -> None:
        if self._listening is not None:
            await self._listening.close()

    def get(self, run_id: str) -> Driven | None:
        return self._driven.get(run_id)

    def changed(self, run_id: str) -> None:
        """The log of this run has grown."""
        if (driven := self._driven.get(run_id)) is not None:
            driven.changed()

    async def drive(
        self,
        run_id: str,
        workspace: str,
        work: Coroutine[Any, Any, None],
        stop: Callable[[], Awaitable[None]],
    ) -> None:
        """Runs ``work`` as the driver of this run. Raises Conflict where the run has one here already.

        ``stop`` ends the run when ``work`` was cancelled by a notice, or with the request that awaits this.
        Raises what ``work`` raises, and CancelledError only in the latter case.
        """
        if run_id in self._driven:
            work.close()
            raise Conflict(f"Run {run_id} is driven in this process already.")
        task = asyncio.create_task(work)
        driven = self._driven[run_id] = Driven(workspace, task)
        try:
            await task
        except asyncio.CancelledError:
            own = asyncio.current_task()
            ours = own is not None and own.cancelling() > 0
            try:
                if not self.leaving:
                    await asyncio.shield(stop())
            except TrustGraphError:
                if not ours:
                    raise
            if ours:
                raise
        finally:
            del self._driven[run_id]
            driven.changed()

    async def driven_elsewhere(self, run_id: str) -> bool:
        """Whether another process says that it drives the run, or nobody can be asked now."""
        answered = asyncio.Event()
        asking = self._asking.setdefault(run_id, set())
        asking.add(answered)
        try:
            await self._bus.broadcast(CHANNEL, {"run_id": run_id, "who": True})
            async with asyncio.timeout(self._patience):
                await answered.wait()
        except TimeoutError:
            return False
        except Unavailable:
            return True
        finally:
            asking.discard(answered)
            if not asking:
                self._asking.pop(run_id, None)
        return True

    async def _noticed(self, notice: dict[str, Any]) -> None:
        run_id = str(notice.get("run_id"))
        if notice.get("here"):
            for answered in self._asking.get(run_id, ()):
                answered.set()
            return
        driven = self._driven.get(run_id)
        if driven is None:
            return
        if notice.get("who"):
            await self._bus.broadcast(CHANNEL, {"run_id": run_id, "here": True})
        elif notice.get("cancel") and notice.get("workspace", DEFAULT_WORKSPACE) == driven.workspace:
            driven.task.cancel()
