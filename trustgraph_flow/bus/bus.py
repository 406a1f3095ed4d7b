"""The bus of one process: requests, services, notices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Any, Self, TypeVar

import structlog
from pydantic import BaseModel

from trustgraph_flow.schema.errors import Unavailable

from .asker import Asker
from .frames import check_size, encode
from .inlet import Inlet
from .link import Link
from .notices import Callback, Listening
from .request import Handler
from .runner import Serving
from .settings import BusSettings
from .topics import CANCEL, Topics

log = structlog.get_logger(__name__)

M = TypeVar("M", bound=BaseModel)

TICK_SECONDS = 0.5
FLUSH_SECONDS = 2.0


class Bus:
    """One per process: ``async with Bus(settings) as bus``.

    Opening raises Unavailable where no broker answers. A broker that is lost later is waited for: requests
    end at their own deadlines, and everything works again when it is back.
    """

    def __init__(self, settings: BusSettings) -> None:
        self.settings = settings
        self.topics = Topics(settings.tenant)
        self._link: Link | None = None
        self._asker: Asker | None = None
        self._replies: Inlet | None = None
        self._cancels: Inlet | None = None
        self._servings: list[Serving] = []
        self._listenings: list[Listening] = []
        self._ticker: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        link = Link(self.settings)
        await link.open()
        self._link = link
        self._asker = Asker(link, self.topics)
        self._replies = Inlet(link, self._asker.reply_topic, "asker", self._asker.received)
        try:
            await self._replies.open()
        except BaseException:
            await link.close()
            raise
        self._ticker = link.loop.create_task(self._tick())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self, grace: float = 10.0) -> None:
        """Drain the services, then let go of the broker. What is still waited for ends as unavailable."""
        link, self._link = self._link, None
        if link is None:
            return
        await asyncio.gather(*(serving.close(grace) for serving in self._servings))
        await asyncio.gather(*(listening.close() for listening in self._listenings))
        self.asker.fail_all(Unavailable("the bus of this process is closed"))
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.gather(self._ticker, return_exceptions=True)
        await link.flush(FLUSH_SECONDS)
        for inlet in (self._replies, self._cancels):
            if inlet is not None:
                await inlet.close()
        await link.close()

    @property
    def link(self) -> Link:
        if self._link is None:
            raise Unavailable("the bus is not open")
        return self._link

    @property
    def asker(self) -> Asker:
        if self._asker is None:
            raise Unavailable("the bus is not open")
        return self._asker

    async def request(
        self,
        service: str,
        body: BaseModel | dict[str, Any],
        reply: type[M],
        *,
        workspace: str = "default",
        timeout: float | None = None,
        deadline: float | None = None,
    ) -> M:
        """Ask and return the last frame. Raises the service's error, or DeadlineExceeded, or Unavailable.

        ``timeout`` is in seconds, ``deadline`` in Unix seconds; the earlier counts, 300 s where neither is
        given. Cancelling the awaiting task cancels the work.
        """
        return await self.asker.request(
            service, body, reply, workspace=workspace, timeout=timeout, deadline=deadline
        )

    def stream(
        self,
        service: str,
        body: BaseModel | dict[str, Any],
        reply: type[M],
        *,
        workspace: str = "default",
        timeout: float | None = None,
        deadline: float | None = None,
    ) -> AsyncGenerator[M]:
        """Ask and yield every frame, the last included. Errors as ``request``; closing it cancels the work.

        Where a service falls silent after its first frame, this raises Unavailable and asks no second time:
        only the caller knows what to do with half a reply.
        """
        return self.asker.stream(
            service, body, reply, workspace=workspace, timeout=timeout, deadline=deadline
        )

    async def serve(
        self, service: str, handler: Handler, *, concurrency: int = 64, redeliveries: int = 5
    ) -> Serving:
        """Answer requests until ``Serving.close``. At most ``concurrency`` handlers run at a time.

        A persistent request that was delivered more than ``redeliveries`` times again is dead-lettered.
        """
        link = self.link
        if self._cancels is None:
            self._cancels = Inlet(link, self.topics.notice(CANCEL), self.asker.process, self._cancel)
            await self._cancels.open()
        serving = Serving(
            link, self.topics, service, handler, concurrency=concurrency, redeliveries=redeliveries
        )
        await serving.open()
        self._servings.append(serving)
        return serving

    async def broadcast(self, channel: str, body: BaseModel | dict[str, Any]) -> None:
        """Send a notice to every listening process. Raises Unavailable where the broker does not take it."""
        payload = encode(body)
        check_size(payload, f"the notice on {channel}")
        await self.link.outlet(self.topics.notice(channel)).send(payload, {})

    async def listen(self, channel: str, callback: Callback) -> Listening:
        """Call ``callback`` for each notice from now on. Notices sent while the broker is away are lost."""
        link = self.link
        subscription = f"{self.asker.process}-{len(self._listenings)}"
        listening = Listening(link, self.topics.notice(channel), subscription, callback)
        await listening.open()
        self._listenings.append(listening)
        return listening

    def _cancel(self, message: Any) -> None:
        request_id = message.properties().get("id", "")
        for serving in self._servings:
            serving.cancel(request_id)

    async def _tick(self) -> None:
        link = self.link
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = link.loop.time()
            try:
                link.watch(now)
                self._servings = [serving for serving in self._servings if not serving.closed]
                for serving in self._servings:
                    serving.tick(now)
                self.asker.tick(now)
            except Exception:
                log.exception("looking after the bus failed")
