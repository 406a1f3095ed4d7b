"""The service runner: takes requests of one service, runs its handler, sends the frames back.

A persistent request is acknowledged when its handler has ended, so that another worker gets it when this one
dies. Requests that came too often that way go to a dead-letter topic with the reason. Of a request that is
here already only one handler runs, however often it is delivered.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from typing import Any

import structlog
from prometheus_client import Counter, Gauge, Histogram

from trustgraph_flow.schema.errors import (
    Cancelled,
    DeadlineExceeded,
    TrustGraphError,
    Unavailable,
)

from .dead_letters import DeadLetters
from .frames import encode, integer, moment
from .inlet import Inlet
from .link import Link
from .request import Handler, ReplyPath, Request
from .topics import WORKERS, Topics, is_persistent
from .trace import enter

log = structlog.get_logger(__name__)

ALIVE_SECONDS = 1.0
MAX_QUEUED = 20_000
REMEMBERED_CANCELS = 10_000

HANDLED = Histogram("tg_bus_handler_seconds", "Time in the handler", ["service", "outcome"])
IN_FLIGHT = Gauge("tg_bus_in_flight", "Requests queued or being handled here", ["service"])
POISON = Counter("tg_bus_poison_total", "Messages that could be neither handled nor answered", ["service"])


class Job:
    """One request that is here. ``stop`` says why its task was cancelled, if it was."""

    __slots__ = ("message", "path", "request", "stop", "task", "timer")

    def __init__(self, request: Request, path: ReplyPath, message: Any) -> None:
        self.request = request
        self.path = path
        self.message = message
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.stop: TrustGraphError | None = None


class Serving:
    """A running service. Made by ``Bus.serve``; ``close`` drains it."""

    def __init__(
        self,
        link: Link,
        topics: Topics,
        service: str,
        handler: Handler,
        *,
        concurrency: int,
        redeliveries: int,
    ) -> None:
        self.service = service
        self._link = link
        self._topics = topics
        self._handler = handler
        self._concurrency = concurrency
        self._redeliveries = redeliveries
        self._persistent = is_persistent(service)
        self._jobs: dict[str, Job] = {}
        self._queue: deque[Job] = deque()
        self._running = 0
        self._changed = asyncio.Event()
        self._closing = False
        self.closed = False
        self._cancelled: dict[str, None] = {}
        self._burials: set[asyncio.Task[None]] = set()
        self._dead_letters = DeadLetters(link, topics, service)
        self._in_flight = IN_FLIGHT.labels(service)
        self._answered = HANDLED.labels(service, "answered")
        self._failed = HANDLED.labels(service, "failed")
        self.inlet = Inlet(
            link,
            topics.request(service),
            WORKERS,
            self._received,
            shared=True,
            gate=self._free_slot if self._persistent else None,
        )

    async def open(self) -> None:
        await self.inlet.open()

    async def close(self, grace: float = 10.0) -> None:
        """Take no more requests, let those here end within ``grace`` seconds, then cancel them.

        A persistent request that did not end is left for another worker.
        """
        if self._closing:
            return
        self._closing = True
        if self._persistent:
            # The consumer stays: without it the broker would hand running work to somebody else now.
            self.inlet.stop()
        else:
            await self.inlet.close()
        end = self._link.loop.time() + grace
        while self._jobs and (left := end - self._link.loop.time()) > 0:
            await self._change(left)
        tasks = [job.task for job in self._jobs.values() if job.task is not None]
        for job in list(self._queue):
            self._turn_away(job)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._burials, return_exceptions=True)
        await self.inlet.close()
        self.closed = True

    def cancel(self, request_id: str) -> None:
        """The asker no longer waits."""
        job = self._jobs.get(request_id)
        if job is not None:
            self._stop(job, Cancelled(f"{self.service}: the request was cancelled by its sender"))
        elif self._persistent:
            # It may still lie with the broker and come here later.
            self._cancelled[request_id] = None
            if len(self._cancelled) > REMEMBERED_CANCELS:
                del self._cancelled[next(iter(self._cancelled))]

    def tick(self, now: float) -> None:
        """Tell askers of slow requests that their request is here."""
        if self._persistent:
            return
        for job in self._jobs.values():
            if now - job.path.last_sent >= ALIVE_SECONDS:
                job.path.alive()

    def _received(self, message: Any) -> None:
        properties = message.properties()
        request_id = properties.get("id")
        reply_to = properties.get("reply-to")
        if not request_id or not reply_to:
            POISON.labels(self.service).inc()
            log.warning("a message without id or reply-to is dropped", service=self.service)
            self.inlet.acknowledge(message)
            return
        outlet = self._link.outlet(reply_to)
        attempt = integer(properties.get("attempt"))
        known = self._jobs.get(request_id)
        if known is not None:
            known.message = message
            known.path.turn(outlet, attempt)
            if not self._persistent:
                known.path.alive()
            return
        path = ReplyPath(self._link, outlet, request_id, attempt)
        request = Request(
            service=self.service,
            id=request_id,
            body=message.data(),
            workspace=properties.get("workspace") or "default",
            deadline=moment(properties.get("deadline")),
            redelivered=message.redelivery_count() if self._persistent else 0,
            traceparent=properties.get("traceparent"),
            path=path,
        )
        self._take(Job(request, path, message), properties)

    def _take(self, job: Job, properties: dict[str, str]) -> None:
        request = job.request
        if request.redelivered > self._redeliveries:
            reason = f"{self.service}: given up after {request.redelivered} deliveries that nobody finished"
            self._keep(self._bury(job, properties, reason))
            return
        if request.id in self._cancelled:
            del self._cancelled[request.id]
            self._answer_unrun(job, Cancelled(f"{self.service}: the request was cancelled by its sender"))
            return
        if len(self._queue) >= MAX_QUEUED:
            self._answer_unrun(
                job, Unavailable(f"{self.service}: {MAX_QUEUED:,} requests are waiting here already")
            )
            return
        self._jobs[request.id] = job
        self._in_flight.inc()
        if request.deadline is not None:
            job.timer = self._link.loop.call_later(request.deadline - time.time(), self._expire, job)
        if self._running < self._concurrency:
            self._start(job)
        else:
            self._queue.append(job)

    def _start(self, job: Job) -> None:
        self._running += 1
        job.task = self._link.loop.create_task(self._run(job))

    async def _run(self, job: Job) -> None:
        request = job.request
        started = time.perf_counter()
        finished = True
        error: BaseException | None = None
        enter(request.traceparent)
        try:
            job.path.frame(encode(await self._handler(request)), end=True)
        except TrustGraphError as fault:
            error = fault
        except asyncio.CancelledError:
            finished = job.stop is not None or not self._persistent
            error = job.stop or Unavailable(f"{self.service}: this worker is stopping")
        except Exception as fault:
            log.exception("handler failed", service=self.service, request=request.id)
            error = fault
        (self._answered if error is None else self._failed).observe(time.perf_counter() - started)
        if error is not None and finished:
            job.path.error(error)
        self._running -= 1
        self._end(job, acknowledge=finished)

    def _end(self, job: Job, *, acknowledge: bool) -> None:
        if self._jobs.pop(job.request.id, None) is not None:
            self._in_flight.dec()
        if job.timer is not None:
            job.timer.cancel()
        if acknowledge and self._persistent:
            self.inlet.acknowledge(job.message)
        self._changed.set()
        while self._queue and self._running < self._concurrency:
            self._start(self._queue.popleft())

    def _expire(self, job: Job) -> None:
        self._stop(job, DeadlineExceeded(f"{self.service}: the deadline of the request is over"))

    def _stop(self, job: Job, why: TrustGraphError) -> None:
        if job.stop is not None:
            return
        job.stop = why
        if job.task is not None:
            job.task.cancel()
        else:
            self._queue.remove(job)
            job.path.error(why)
            self._end(job, acknowledge=True)

    def _turn_away(self, job: Job) -> None:
        self._queue.remove(job)
        if not self._persistent:
            job.path.error(Unavailable(f"{self.service}: this worker is stopping"))
        self._end(job, acknowledge=False)

    def _answer_unrun(self, job: Job, error: TrustGraphError) -> None:
        job.path.error(error)
        if self._persistent:
            self.inlet.acknowledge(job.message)

    async def _bury(self, job: Job, properties: dict[str, str], reason: str) -> None:
        try:
            await self._dead_letters.bury(job.request.body, properties, reason)
        except TrustGraphError as error:
            log.error("a dead letter can't be kept, so it stays with the broker", fault=error.message)
            self.inlet.refuse(job.message)
            return
        self._answer_unrun(job, TrustGraphError(reason, type="dead-lettered"))

    def _keep(self, burial: Any) -> None:
        task = self._link.loop.create_task(burial)
        self._burials.add(task)
        task.add_done_callback(self._burials.discard)

    async def _free_slot(self) -> None:
        while self._running >= self._concurrency or self._closing:
            await self._change(None)

    async def _change(self, seconds: float | None) -> None:
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
