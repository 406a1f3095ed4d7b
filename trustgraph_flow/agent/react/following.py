"""A run as one request sees it: told from the log, and followed there while somebody else drives it."""

from __future__ import annotations

import asyncio
import time

from trustgraph_flow.schema.agent import AgentMessage
from trustgraph_flow.schema.config import DEFAULT_WORKSPACE
from trustgraph_flow.schema.errors import BadRequest, Unavailable
from trustgraph_flow.schema.events import RunEvent
from trustgraph_flow.store import RunLog

from .messages import Told, retell
from .run import Run
from .runs_here import RunsHere

FIRST_PAUSE = 0.02
LONGEST_PAUSE = 1.0
"""Seconds between two looks at the log of a run that another process drives."""
SILENCE = 5.0
"""Seconds without an event after which another driver is asked whether it is still there."""


class Follower:
    """Reads on in the log of one run, and tells its client what is new there.

    The run must be of the client's ``workspace``; reading another one raises BadRequest and tells nothing.
    """

    def __init__(self, log: RunLog, here: RunsHere, run_id: str, workspace: str, told: Told) -> None:
        self.run = Run(run_id)
        self.workspace = workspace
        self.end: AgentMessage | None = None
        """The last message, which is not told: the request answers with it."""
        self._log = log
        self._here = here
        self._told = told

    async def read(self) -> bool:
        """Whether there was something new."""
        events = await self._log.read(self.run.run_id, self.run.seq)
        if not self.run.seq and events:
            self._check_workspace(events[0])
        for message in retell(self.run, events):
            if message.end_of_dialog:
                self.end = message
            else:
                await self._told.emit(message)
        return bool(events)

    def _check_workspace(self, started: RunEvent) -> None:
        if started.body.get("workspace", DEFAULT_WORKSPACE) != self.workspace:
            raise BadRequest(f"the run_id {self.run.run_id!r} can't be used here; choose another one")

    async def again(self, *, patient: bool = False) -> None:
        """Reads the log from its beginning, where what is known of the run may not stand in the log.

        ``patient`` waits until the log can be read.
        """
        self.run = Run(self.run.run_id)
        pause = FIRST_PAUSE
        while True:
            try:
                await self.read()
                return
            except Unavailable:
                if not patient:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def follow(self) -> None:
        """Returns when the run has ended, or nobody drives it any more."""
        run_id = self.run.run_id
        driven = self._here.get(run_id)
        if driven is not None:
            while self.run.ended is None and self._here.get(run_id) is driven:
                await driven.change(LONGEST_PAUSE)
                await self.read()
            await self.read()
            return
        pause, last_heard = FIRST_PAUSE, time.monotonic()
        while self.run.ended is None and self._here.get(run_id) is None:
            if await self.read():
                pause, last_heard = FIRST_PAUSE, time.monotonic()
            elif time.monotonic() - last_heard > SILENCE:
                if not await self._here.driven_elsewhere(run_id):
                    return
                last_heard = time.monotonic()
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
