"""The service runner: takes requests of one service, runs its handler, sends the frames back.

A persistent request is acknowledged when its handler has ended, so that another worker gets it when this one
dies. Requests that came too often that way go to a dead-letter topic with the reason. Of a request that is
here already only one handler runs, however often it is delivered.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import deque
from typing import Any, TypeVar

import structlog
from prometheus_client import Counter, Gauge, Histogram

from trustgraph_flow.schema.errors import (
    Cancelled,
    DeadlineExceeded,
    TrustGraphError,
    Unavailable,
)

from .dead_letters import DeadLetters
from .frames import ALIVE, encode, encode_alive, integer, moment
from .inlet import Inlet
from .link import Link
from .request import GiveUp, Handler, ReplyPath, Request
from .topics import WORKERS, Topics, is_persistent
from .trace import enter

log = structlog.get_logger(__name__)

V = TypeVar("V")

ALIVE_SECONDS = 1.0
MAX_QUEUED = 20_000
OPEN_TRIES = 3
REMEMBERED_CANCELS = 10_000
REMEMBERED_ANSWERS = 1_000
REMEMBERED_BYTES = 16 * 1024
"""The largest answer that is remembered."""

HANDLED = Histogram("tg_bus_handler_seconds", "Time in the handler", ["service", "outcome"])
IN_FLIGHT = Gauge("tg_bus_in_flight", "Requests queued or being handled here", ["service"])
POISON = Counter("tg_bus_poison_total", "Messages that could be neither handled nor answered", ["service"])


class _LeaveToOthers(Exception):
    """The request stays unacknowledged, so that the broker gives it to another worker."""


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
        # For a request that comes once more because its reply, or our ack, got lost.
        self._answers: dict[str, bytes] = {}
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

    @property
    def in_flight(self) -> int:
        """How many requests are here, queued or being handled."""
        return len(self._jobs)

    async def open(self) -> None:
        """Tries a few times, since a worker that was killed may still stand in our place for a moment.

        Raises Unavailable where the broker does not let us.
        """
        for left in reversed(range(OPEN_TRIES)):
            try:
                await self.inlet.open()
            except Unavailable as error:
                if not left:
                    raise
                log.warning("subscribing is tried again", service=self.service, error=error.message)
            else:
                return

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
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.inlet.close()
        self.closed = True

    def cancel(self, request_id: str) -> None:
        """The asker no longer waits."""
        job = self._jobs.get(request_id)
        if job is not None:
            self._stop(job, Cancelled(f"{self.service}: the request was cancelled by its sender"))
        elif self._persistent:
            # It may still lie with the broker and come here later.
            remember(self._cancelled, request_id, None, REMEMBERED_CANCELS)

    def tick(self, now: float) -> None:
        """Tell askers of slow requests that their request is here."""
        if not self._persistent:
            self._say_alive([job for job in self._jobs.values() if now - job.path.last_sent >= ALIVE_SECONDS])

    def _say_alive(self, jobs: list[Job]) -> None:
        """One message to each asker, however many requests it has here."""
        askers: dict[str, list[tuple[str, int]]] = {}
        for job in jobs:
            job.path.last_sent = self._link.loop.time()
            askers.setdefault(job.path.reply_to, []).append((job.request.id, job.path.attempt))
        for reply_to, requests in askers.items():
            with contextlib.suppress(Unavailable):
                self._link.outlet(reply_to).post(encode_alive(requests), {"kind": ALIVE})

    def _received(self, message: Any) -> None:
        properties = message.properties()
        request_id = properties.get("id")
        reply_to = properties.get("reply-to")
        if not request_id or not reply_to:
            POISON.labels(self.service).inc()
            log.warning("a message without id or reply-to is dropped", service=self.service)
            self.inlet.acknowledge(message)
            return
        attempt = integer(properties.get("attempt"))
        known = self._jobs.get(request_id)
        if known is not None:
            known.message = message
            known.path.turn(reply_to, attempt)
            if not self._persistent:
                self._say_alive([known])
            return
        path = ReplyPath(self._link, reply_to, request_id, attempt, last_only="last-only" in properties)
        answer = self._answers.get(request_id)
        if answer is not None:
            path.frame(answer, end=True)
            self.inlet.acknowledge(message)
            return
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
        self._take(Job(request, path, message))

    def _take(self, job: Job) -> None:
        request = job.request
        if request.id in self._cancelled:
            del self._cancelled[request.id]
            self._answer_unrun(job, Cancelled(f"{self.service}: the request was cancelled by its sender"))
            return
        if len(self._queue) >= MAX_QUEUED:
            self._answer_unrun(
                job, Unavailable(f"{self.service}: {MAX_QUEUED:,} requests are waiting here already")
            )
            return
        left = request.remaining(math.inf)
        if not left:
            self._answer_unrun(job, DeadlineExceeded(f"{self.service}: the request came after its deadline"))
            return
        self._jobs[request.id] = job
        self._in_flight.inc()
        if left < math.inf:
            job.timer = self._link.loop.call_later(left, self._expire, job)
        if self._running < self._concurrency:
            self._start(job)
        else:
            self._queue.append(job)

    def _start(self, job: Job) -> None:
        self._running += 1
        job.task = self._link.loop.create_task(self._run(job))

    async def _run(self, job: Job) -> None:
        started = time.perf_counter()
        enter(job.request.traceparent)
        acknowledge = False
        try:
            error = await self._handle(job)
            acknowledge = True
            if error is not None:
                job.path.error(error)
            (self._answered if error is None else self._failed).observe(time.perf_counter() - started)
        except _LeaveToOthers:
            pass
        finally:
            self._running -= 1
            self._end(job, acknowledge=acknowledge)

    async def _handle(self, job: Job) -> BaseException | None:
        """Run the handler and send its last frame, or return the error that is to be answered."""
        request = job.request
        try:
            if request.redelivered > self._redeliveries:
                raise GiveUp(f"{self.service}: given up after {request.redelivered} deliveries in vain")
            answer = encode(await self._handler(request))
            job.path.frame(answer, end=True)
            # Of a stream the last frame alone would be no answer.
            if job.path.sent == 1 and len(answer) <= REMEMBERED_BYTES:
                remember(self._answers, request.id, answer, REMEMBERED_ANSWERS)
        except GiveUp as error:
            job.stop = error
            await self._bury(job, error)
            return error
        except TrustGraphError as error:
            return error
        except asyncio.CancelledError:
            if job.stop is not None:
                return job.stop
            if self._persistent:
                raise _LeaveToOthers from None
            return Unavailable(f"{self.service}: this worker is stopping")
        except Exception as error:
            log.exception("handler failed", service=self.service, request=request.id)
            return error
        return None

    async def _bury(self, job: Job, reason: GiveUp) -> None:
        try:
            await self._dead_letters.bury(job.request.body, job.message.properties(), reason.message)
        except TrustGraphError as error:
            log.error("a dead letter can't be kept, so it stays with the broker", fault=error.message)
            self.inlet.refuse(job.message)
            raise _LeaveToOthers from None

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
            # One turn later: a task that is cancelled before its first step runs nothing at all.
            self._link.loop.call_soon(job.task.cancel)
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

    async def _free_slot(self) -> None:
        while self._running >= self._concurrency or self._closing:
            await self._change(None)

    async def _change(self, seconds: float | None) -> None:
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()


def remember(memory: dict[str, V], key: str, value: V, limit: int) -> None:
    """Add an entry, and drop the oldest beyond the limit."""
    memory[key] = value
    if len(memory) > limit:
        del memory[next(iter(memory))]
