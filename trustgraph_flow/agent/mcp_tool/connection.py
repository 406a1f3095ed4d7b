"""The one connection to an MCP server: opened on first use, closed when idle, opened again after a loss.

Many calls run side by side on it, each with its own deadline. Only a call that certainly did not run is sent
again by itself, and once.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import Tool

from . import faults
from .catalogue import Catalogue
from .faults import McpFault
from .guard import ChildGuard
from .limits import Limits
from .link import Link
from .target import Target

OnCatalogue = Callable[[Catalogue], Awaitable[None]]
Arguments = dict[str, Any] | Callable[[Tool | None], dict[str, Any]]
"""What to send, or what makes it from the tool's listed entry (None where it is not known) or raises
McpFault."""

_ATTEMPTS = 3
"""Connection gone, then connecting refused, then connected: more than that is a server that is down."""


async def _nobody(_: Catalogue) -> None:
    pass


class Connection:
    """``on_catalogue`` is told every new listing of the server's tools."""

    def __init__(
        self,
        target: Target,
        limits: Limits | None = None,
        guard: ChildGuard | None = None,
        on_catalogue: OnCatalogue = _nobody,
        auth: httpx2.Auth | None = None,
    ) -> None:
        self.target = target
        self._limits = limits or Limits()
        self._guard = guard if guard is not None else ChildGuard()
        self._guard_is_ours = guard is None
        self._on_catalogue = on_catalogue
        self._auth = auth
        self._slots = asyncio.Semaphore(self._limits.calls_at_once)
        self._link: Link | None = None
        self._old: set[Link] = set()
        self._mode = target.mode
        self._retired = False
        self._failures = 0
        self._last_fault: McpFault | None = None
        self._not_before = -math.inf

    async def call(
        self,
        tool: str,
        arguments: Arguments,
        *,
        seconds: float | None = None,
        hard_seconds: float | None = None,
        on_progress: ProgressFnT | None = None,
    ) -> dict[str, Any]:
        """The raw result of a tool, within ``seconds``, which progress extends up to ``hard_seconds``.

        Raises McpFault. When the caller is cancelled, so is the call on the server.
        """
        limit = seconds if seconds is not None else self._limits.call
        loop = asyncio.get_running_loop()
        started = loop.time()
        end = started + max(limit, hard_seconds if hard_seconds is not None else self._limits.hard)
        sending: list[Link] = []
        over = False

        async def extend(progress: float, total: float | None, message: str | None) -> None:
            if over or clock.expired():
                return
            clock.reschedule(min(loop.time() + limit, end))
            if on_progress is not None:
                await on_progress(progress, total, message)

        clock = asyncio.timeout(limit)
        try:
            async with clock, self._slots:
                return await self._attempts(tool, arguments, extend, sending)
        except McpFault as fault:
            raise fault.masked(self.target.secrets) from None
        except TimeoutError:
            if sending:
                sending[-1].no_answer()
            waited = round(loop.time() - started, 1)
            raise faults.timed_out(self.target.label, waited, sent=bool(sending)) from None
        finally:
            over = True

    async def _attempts(
        self, tool: str, arguments: Arguments, progress: ProgressFnT, sending: list[Link]
    ) -> dict[str, Any]:
        for attempt in range(1, _ATTEMPTS + 1):
            sending.clear()
            link = await self._open_link()
            catalogue = await link.listing(self._limits.await_listing)
            if catalogue is not None and catalogue.lacks(tool):
                catalogue = await link.relist()
                if catalogue is not None and catalogue.lacks(tool):
                    raise faults.no_longer_offered(self.target.label, tool)
            known = catalogue.tools.get(tool) if catalogue is not None else None
            ready = arguments(known) if callable(arguments) else arguments
            sending.append(link)
            try:
                return await link.call(tool, ready, progress)
            except McpFault as fault:
                if fault.resend == "fresh" and attempt < _ATTEMPTS:
                    self._drop(link)
                elif fault.resend == "relist" and attempt == 1:
                    await link.relist()
                elif fault.kind == "invalid-params":
                    raise await self._reconsidered(link, tool, fault) from None
                else:
                    raise
        raise AssertionError("unreachable")

    async def _reconsidered(self, link: Link, tool: str, fault: McpFault) -> McpFault:
        """Servers that don't know a tool answer "invalid params" too: the listing tells which it was."""
        catalogue = await link.relist()
        if catalogue is not None and catalogue.lacks(tool):
            return faults.no_longer_offered(self.target.label, tool)
        return fault

    async def catalogue(self) -> Catalogue | None:
        """The server's tools, connecting if need be; None where it does not list any. Raises McpFault."""
        link = await self._open_link()
        return await link.listing(self._limits.listing)

    @property
    def known(self) -> Catalogue | None:
        """The last listing, without any waiting."""
        return self._link.catalogue if self._link is not None else None

    async def _open_link(self) -> Link:
        if self._retired:
            raise faults.not_reached(self.target.label, "its config item has just changed")
        link = self._link
        if link is not None and link.usable:
            if link.ready.done():
                return link
        else:
            if link is not None:
                self._drop(link)
            self._respect_pause()
            link = self._link = Link(
                self.target, self._mode, self._limits, self._guard, self._on_catalogue, self._auth
            )
        try:
            await asyncio.shield(link.ready)
        except McpFault as fault:
            if link.lost_by_probe and self._mode == "auto":
                self._mode = "legacy"
                self._drop(link)
                return await self._open_link()
            self._count_failure(link, fault)
            raise McpFault(fault.kind, fault.message) from None
        self.try_again()
        return link

    def _respect_pause(self) -> None:
        if self._last_fault is not None and asyncio.get_running_loop().time() < self._not_before:
            raise McpFault(self._last_fault.kind, self._last_fault.message)

    def try_again(self) -> None:
        """Ends the pause after a failure: what was in the way is mended."""
        self._failures = 0
        self._last_fault = None

    def _count_failure(self, link: Link, fault: McpFault) -> None:
        if self._link is not link:
            return
        self._drop(link)
        self._last_fault = fault
        pause = min(self._limits.reconnect_first * 2**self._failures, self._limits.reconnect_last)
        self._not_before = asyncio.get_running_loop().time() + pause
        self._failures += 1

    def _drop(self, link: Link) -> None:
        if self._link is link:
            self._link = None
        link.retire()
        if not link.owner.done():
            self._old.add(link)
            link.owner.add_done_callback(lambda _: self._old.discard(link))

    async def retire(self) -> None:
        """Takes no new calls, and returns when those in flight have ended and the connection is closed."""
        self._retired = True
        if self._link is not None:
            self._drop(self._link)
        owners = [link.owner for link in self._old]
        if owners:
            await asyncio.wait(owners)

    async def close(self) -> None:
        """Closes now; calls in flight end as lost."""
        self._retired = True
        if self._link is not None:
            self._drop(self._link)
        await asyncio.gather(*(link.close() for link in list(self._old)))
        if self._guard_is_ours:
            await self._guard.close()
