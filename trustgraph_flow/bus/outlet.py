"""The way out to one topic."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import _pulsar
import structlog
from prometheus_client import Counter

from trustgraph_flow.schema.errors import SetupError, Unavailable

from .calls import PulsarException, completed, quietly
from .client import Client

if TYPE_CHECKING:
    from .link import Link

log = structlog.get_logger(__name__)

WINDOW = 500
"""Messages in flight to the broker. Brokers drop non-persistent messages beyond 1,000 a connection."""
OPEN_RETRY_SECONDS = (0.1, 0.3, 1.0)

SEND_FAILURES = Counter("tg_bus_send_failures_total", "Messages that the broker did not take")

Settled = Callable[[str | None], None]
"""Called on the event loop with None, or with what went wrong."""


class Outlet:
    """The way to one topic. ``post`` never waits: what can't go out yet is kept in order."""

    def __init__(self, link: Link, topic: str) -> None:
        self.topic = topic
        self.used = 0.0
        self.backlog: deque[tuple[bytes, dict[str, str], Settled | None]] = deque()
        self._link = link
        self.client: Client | None = None
        self._producer: Any = None
        self._opening: asyncio.Task[None] | None = None

    def post(self, payload: bytes, properties: dict[str, str], settled: Settled | None = None) -> None:
        """Send without waiting for the receipt; ``settled`` hears of it."""
        self.used = self._link.loop.time()
        if self._producer is not None and not self.backlog and self._link.has_room():
            self._send(payload, properties, settled)
            return
        self._link.expect(self)
        self.backlog.append((payload, properties, settled))
        self.ensure_open()

    async def send(self, payload: bytes, properties: dict[str, str]) -> None:
        """Send and wait for the broker's receipt."""
        receipt: asyncio.Future[str | None] = self._link.loop.create_future()

        def settled(fault: str | None) -> None:
            if not receipt.done():
                receipt.set_result(fault)

        self.post(payload, properties, settled)
        fault = await receipt
        if fault is not None:
            raise Unavailable(f"the broker did not take a message for {self.topic}: {fault}")

    @property
    def is_open(self) -> bool:
        return self._producer is not None

    def send_next(self) -> None:
        """Send the oldest that waits; only for the link, which knows whether there is room."""
        self._send(*self.backlog.popleft())

    def ensure_open(self) -> None:
        if self._producer is None and self._opening is None:
            self._opening = self._link.loop.create_task(self._open())

    async def _open(self) -> None:
        fault: Exception | None = None
        try:
            for pause in (*OPEN_RETRY_SECONDS, None):
                self.client = self._link.client
                try:
                    self._producer = await self.client.create_producer(self.topic, max_pending=2 * WINDOW)
                except (PulsarException, SetupError) as error:
                    fault = error
                    if pause is not None:
                        await asyncio.sleep(pause)
                else:
                    break
        finally:
            self._opening = None
        if self._producer is None:
            log.warning("topic can't be opened for sending", topic=self.topic, fault=str(fault))
            self.fail_backlog(f"the topic can't be opened: {fault}")
        self._link.pump()

    def fail_backlog(self, fault: str) -> None:
        self._link.relieve(len(self.backlog))
        while self.backlog:
            _, _, settled = self.backlog.popleft()
            SEND_FAILURES.inc()
            if settled is not None:
                settled(fault)

    async def renew(self) -> None:
        """Where the producer has lost its broker, open the topic again on the link's present client."""
        producer = self._producer
        if producer is not None and not producer.is_connected():
            self._producer = None
            self.client = None
            await quietly(completed(producer.close_async))
        if self.backlog:
            self.ensure_open()

    async def close(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
        self.fail_backlog("the bus is closed")
        producer, self._producer = self._producer, None
        if producer is not None:
            await quietly(completed(producer.close_async))

    def _send(self, payload: bytes, properties: dict[str, str], settled: Settled | None) -> None:
        message = _pulsar.MessageBuilder().content(payload).properties(properties).build()
        self._producer.send_async(message, self._link.departing(settled))
