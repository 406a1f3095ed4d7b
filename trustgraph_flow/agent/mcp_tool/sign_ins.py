"""Sign-ins by a person that are under way: the page to open, and what the browser brings back.

The browser comes to the gateway, which may know another process of ours than the one that waits; so what it
brings is told to all, and taken by the one that knows its ``state``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import structlog
from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import AuthorizationCodeResult

from trustgraph_flow.bus import Bus, Listening
from trustgraph_flow.schema.mcp import SIGN_IN_CHANNEL, SignInReturn

from . import faults
from .faults import McpFault
from .oauth import Ask
from .target import Target

log = structlog.get_logger(__name__)

SignIn = Callable[[Ask], Awaitable[None]]
"""Connects to a server, asking a person on the way if need be. Raises McpFault."""
PERSON_SECONDS = 600.0
"""For a person to open the page and agree."""


@dataclass(slots=True)
class _UnderWay:
    task: asyncio.Task[None]
    page: asyncio.Future[str] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class SignIns:
    """One sign-in at a time for each server."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._under_way: dict[Target, _UnderWay] = {}
        self._waiting: dict[str, asyncio.Future[AuthorizationCodeResult]] = {}
        self._listening: Listening | None = None

    async def start(self) -> None:
        self._listening = await self._bus.listen(SIGN_IN_CHANNEL, self._returned)

    async def close(self) -> None:
        if self._listening is not None:
            await self._listening.close()
        tasks = [one.task for one in self._under_way.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def page(self, target: Target, sign_in: SignIn) -> str | None:
        """The page that a person has to open, which starts or goes on with a sign-in; None where none is
        needed any more. Raises McpFault for one that failed, once: the next begins anew."""
        one = self._under_way.get(target)
        if one is None:

            async def run() -> None:
                try:
                    async with asyncio.timeout(PERSON_SECONDS):
                        await sign_in(ask)
                except TimeoutError:
                    why = f"nobody agreed within {PERSON_SECONDS:g} s"
                    raise faults.sign_in_failed(target.label, why) from None

            async def ask(page: str) -> AuthorizationCodeResult:
                assert one is not None
                return await self._answer(one, page)

            one = self._under_way[target] = _UnderWay(asyncio.create_task(run()))
            one.task.add_done_callback(lambda task: self._ended(target, task))
        shown: list[asyncio.Future[Any]] = [one.task, one.page]
        await asyncio.wait(shown, return_when=asyncio.FIRST_COMPLETED)
        if not one.task.done():
            return one.page.result()
        self._under_way.pop(target, None)
        await one.task
        return None

    def _ended(self, target: Target, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        if (error := task.exception()) is None:
            self._under_way.pop(target, None)
        else:
            why = error.message if isinstance(error, McpFault) else type(error).__name__
            log.warning("sign-in at mcp server failed", server=target.label, why=why)

    async def _answer(self, one: _UnderWay, page: str) -> AuthorizationCodeResult:
        state = parse_qs(urlsplit(page).query).get("state", [""])[0]
        waiting: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
        self._waiting[state] = waiting
        try:
            if not one.page.done():
                one.page.set_result(page)
            return await waiting
        finally:
            del self._waiting[state]

    async def _returned(self, body: dict[str, Any]) -> None:
        brought = SignInReturn.model_validate(body)
        waiting = self._waiting.get(brought.state)
        if waiting is None or waiting.done():
            return
        if brought.code is None:
            waiting.set_exception(OAuthFlowError(f"the sign-in was refused ({brought.error or 'no code'})"))
        else:
            waiting.set_result(
                AuthorizationCodeResult(code=brought.code, state=brought.state, iss=brought.iss)
            )
