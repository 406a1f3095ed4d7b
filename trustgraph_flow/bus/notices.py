"""Notices: what every listening process gets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from .inlet import Inlet
from .link import Link

log = structlog.get_logger(__name__)

Callback = Callable[[dict[str, Any]], Awaitable[None]]


class Listening:
    """One listener of a channel: the callback runs for one notice after the other, in their order."""

    def __init__(self, link: Link, topic: str, subscription: str, callback: Callback) -> None:
        self._callback = callback
        self._notices: asyncio.Queue[bytes] = asyncio.Queue()
        self._topic = topic
        self._task: asyncio.Task[None] | None = None
        self._loop = link.loop
        self.inlet = Inlet(link, topic, subscription, self._received)

    async def open(self) -> None:
        await self.inlet.open()
        self._task = self._loop.create_task(self._follow())

    async def close(self) -> None:
        await self.inlet.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _received(self, message: Any) -> None:
        self._notices.put_nowait(message.data())

    async def _follow(self) -> None:
        while True:
            payload = await self._notices.get()
            try:
                notice = json.loads(payload)
                if not isinstance(notice, dict):
                    raise ValueError("not a JSON object")
            except ValueError as error:
                log.warning("a notice that can't be read is dropped", topic=self._topic, fault=str(error))
                continue
            try:
                await self._callback(notice)
            except Exception:
                log.exception("a listener failed", topic=self._topic)
