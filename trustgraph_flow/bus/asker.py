"""Requests that this process waits for.

A request to a service without persistent requests can get lost with a broker or a worker. So a worker says
``alive`` each second while it has one, and the asker that has heard nothing for three sends it again under
the same id, until its deadline. Whichever attempt answers first counts; a stream stays with the attempt that
began it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any, TypeVar

import structlog
from prometheus_client import Counter
from pydantic import BaseModel, ValidationError

from trustgraph_flow.schema.errors import DeadlineExceeded, TrustGraphError, Unavailable, from_wire

from .frames import ALIVE, ERROR, check_size, decode_alive, encode, integer
from .link import Link
from .outlet import Outlet
from .topics import CANCEL, Topics, is_persistent
from .trace import traceparent

log = structlog.get_logger(__name__)

M = TypeVar("M", bound=BaseModel)

DEFAULT_TIMEOUT_SECONDS = 300.0
SILENCE_SECONDS = 3.0

REQUESTS = Counter("tg_bus_requests_total", "Requests sent", ["service"])
RESENDS = Counter("tg_bus_resends_total", "Requests sent again after silence", ["service"])


class Waiter:
    """One request under way. ``frames`` holds (payload, end) that nobody has taken yet."""

    __slots__ = (
        "attempt",
        "error",
        "following",
        "frames",
        "heard",
        "id",
        "last_heard",
        "next_seq",
        "outlet",
        "payload",
        "persistent",
        "properties",
        "service",
        "streaming",
        "timer",
        "wake",
    )

    def __init__(
        self,
        request_id: str,
        service: str,
        outlet: Outlet,
        payload: bytes,
        properties: dict[str, str],
        now: float,
    ) -> None:
        self.id = request_id
        self.service = service
        self.outlet = outlet
        self.payload = payload
        self.properties = properties
        self.persistent = is_persistent(service)
        self.streaming = False
        self.attempt = 0
        self.following: int | None = None
        self.heard = False
        self.next_seq = 0
        self.last_heard = now
        self.frames: deque[tuple[bytes, bool]] = deque()
        self.error: TrustGraphError | None = None
        self.wake: asyncio.Future[None] | None = None
        self.timer: asyncio.TimerHandle | None = None

    def fail(self, error: TrustGraphError) -> None:
        if self.error is None:
            self.error = error
        self.rouse()

    def rouse(self) -> None:
        if self.wake is not None and not self.wake.done():
            self.wake.set_result(None)


class Asker:
    """The waiting table, and the one reply topic of this process."""

    def __init__(self, link: Link, topics: Topics) -> None:
        self.process = uuid.uuid4().hex[:16]
        self.reply_topic = topics.reply(self.process)
        self._link = link
        self._topics = topics
        self._waiting: dict[str, Waiter] = {}
        self._count = 0

    def __len__(self) -> int:
        """How many requests are being waited for."""
        return len(self._waiting)

    def waiter(self, request_id: str) -> Waiter:
        """The entry of a request that is being waited for; KeyError where there is none."""
        return self._waiting[request_id]

    async def request(
        self,
        service: str,
        body: BaseModel | dict[str, Any],
        reply: type[M],
        *,
        workspace: str,
        timeout: float | None,
        deadline: float | None,
    ) -> M:
        waiter = self._start(service, body, workspace, timeout, deadline, last_only=True)
        try:
            while True:
                payload, end = await self._next(waiter)
                if end:
                    return self._read(service, payload, reply)
        finally:
            self._finish(waiter)

    async def stream(
        self,
        service: str,
        body: BaseModel | dict[str, Any],
        reply: type[M],
        *,
        workspace: str,
        timeout: float | None,
        deadline: float | None,
    ) -> AsyncGenerator[M]:
        waiter = self._start(service, body, workspace, timeout, deadline)
        waiter.streaming = True
        try:
            while True:
                payload, end = await self._next(waiter)
                yield self._read(service, payload, reply)
                if end:
                    return
        finally:
            self._finish(waiter)

    def received(self, message: Any) -> None:
        """A message on our reply topic."""
        properties = message.properties()
        kind = properties.get("kind")
        if kind == ALIVE:
            for request_id, attempt in decode_alive(message.data()):
                self._hear(request_id, attempt)
            return
        attempt = integer(properties.get("attempt"))
        waiter = self._hear(properties.get("id", ""), attempt)
        if waiter is None:
            return
        if kind == ERROR:
            waiter.fail(self._read_error(waiter.service, message.data()))
            return
        end = "end" in properties
        if waiter.streaming and not waiter.persistent:
            waiter.following = attempt
            if integer(properties.get("seq")) != waiter.next_seq:
                waiter.fail(
                    Unavailable(f"{waiter.service}: a part of the reply got lost on the bus; ask again")
                )
                return
            waiter.next_seq += 1
        if end or waiter.streaming:
            waiter.frames.append((message.data(), end))
            waiter.rouse()

    def _hear(self, request_id: str, attempt: int) -> Waiter | None:
        """The waiter of a sign of life; None where it is of nobody that we wait for."""
        waiter = self._waiting.get(request_id)
        if waiter is None or waiter.following not in (None, attempt):
            return None
        waiter.last_heard = self._link.loop.time()
        waiter.heard = True
        return waiter

    def tick(self, now: float) -> None:
        """Look after requests that have heard nothing for a while."""
        for waiter in list(self._waiting.values()):
            if waiter.persistent or now - waiter.last_heard < SILENCE_SECONDS or not self._link.connected:
                continue
            if waiter.following is not None:
                waiter.fail(
                    Unavailable(f"{waiter.service} fell silent in the middle of its reply; ask again")
                )
                continue
            waiter.attempt += 1
            waiter.last_heard = now
            RESENDS.labels(waiter.service).inc()
            self._post(waiter)

    def fail_all(self, error: TrustGraphError) -> None:
        for waiter in self._waiting.values():
            waiter.fail(error)

    def _start(
        self,
        service: str,
        body: BaseModel | dict[str, Any],
        workspace: str,
        timeout: float | None,
        deadline: float | None,
        *,
        last_only: bool = False,
    ) -> Waiter:
        loop = self._link.loop
        payload = encode(body)
        check_size(payload, f"the request to {service}")
        outlet = self._link.outlet(self._topics.request(service))
        now = time.time()
        until = now + (DEFAULT_TIMEOUT_SECONDS if timeout is None else timeout)
        if deadline is not None:
            until = deadline if timeout is None else min(deadline, until)
        if until <= now:
            raise DeadlineExceeded(f"{service}: the deadline was over before the request was sent")
        self._count += 1
        request_id = f"{self.process}-{self._count:x}"
        properties = {
            "id": request_id,
            "reply-to": self.reply_topic,
            "workspace": workspace,
            "deadline": f"{until:.3f}",
            "traceparent": traceparent(),
        }
        if last_only:
            properties["last-only"] = "1"
        waiter = Waiter(request_id, service, outlet, payload, properties, loop.time())
        self._waiting[request_id] = waiter
        waiter.timer = loop.call_later(until - now, self._expire, waiter, until - now)
        REQUESTS.labels(service).inc()
        try:
            self._post(waiter)
        except BaseException:
            self._forget(waiter)
            raise
        return waiter

    def _post(self, waiter: Waiter) -> None:
        properties = {**waiter.properties, "attempt": str(waiter.attempt)}
        if not waiter.persistent:
            waiter.outlet.post(waiter.payload, properties)
            return

        def settled(fault: str | None) -> None:
            if fault is not None:
                waiter.fail(Unavailable(f"the broker did not take the request to {waiter.service}: {fault}"))

        waiter.outlet.post(waiter.payload, properties, settled)

    async def _next(self, waiter: Waiter) -> tuple[bytes, bool]:
        while not waiter.frames:
            if waiter.error is not None:
                raise waiter.error
            waiter.wake = self._link.loop.create_future()
            try:
                await waiter.wake
            finally:
                waiter.wake = None
        payload, end = waiter.frames.popleft()
        if end:
            self._forget(waiter)
        return payload, end

    def _finish(self, waiter: Waiter) -> None:
        """Leave the table; where the answer was still to come, tell the worker not to go on."""
        if waiter.id not in self._waiting:
            return
        self._forget(waiter)
        if waiter.error is None or isinstance(waiter.error, Unavailable):
            with contextlib.suppress(Unavailable):
                self._link.outlet(self._topics.notice(CANCEL)).post(b"", {"id": waiter.id})

    def _forget(self, waiter: Waiter) -> None:
        self._waiting.pop(waiter.id, None)
        if waiter.timer is not None:
            waiter.timer.cancel()

    def _expire(self, waiter: Waiter, seconds: float) -> None:
        why = ""
        if not self._link.connected:
            why = f": the broker at {self._link.settings.url} can't be reached"
        elif not waiter.heard:
            why = f": nobody has taken the request, is a {waiter.service} service running?"
        waiter.fail(DeadlineExceeded(f"{waiter.service}: no answer within {seconds:.3g} s{why}"))

    @staticmethod
    def _read(service: str, payload: bytes, reply: type[M]) -> M:
        try:
            return reply.model_validate_json(payload)
        except ValidationError as error:
            raise TrustGraphError(
                f"{service} sent a reply that is no {reply.__name__}: {error.error_count()} faults, "
                f"the first at {'.'.join(map(str, error.errors()[0]['loc'])) or 'the top'}"
            ) from None

    @staticmethod
    def _read_error(service: str, payload: bytes) -> TrustGraphError:
        try:
            return from_wire(_WireError.model_validate_json(payload).model_dump())
        except ValidationError:
            return TrustGraphError(f"{service} sent an error that can't be read")


class _WireError(BaseModel):
    type: str = "internal-error"
    message: str = ""
    data: dict[str, Any] | None = None
