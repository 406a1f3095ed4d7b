"""The way in from one topic.

Two kinds. A *push* inlet takes each message from the client's thread the moment that it is there, because
brokers drop non-persistent messages for a reader that is behind. A *pull* inlet asks for one message at a
time and prefetches none, so that a busy worker keeps nothing from an idle one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from trustgraph_flow.schema.errors import Unavailable

from .calls import PulsarException, call_threadsafe, completed, fault_text, quietly
from .client import Client
from .link import Link

log = structlog.get_logger(__name__)

BATCH = 100
"""Messages handed on before other work of the event loop gets its turn."""
PULL_RETRY_SECONDS = 0.5

OnMessage = Callable[[Any], None]
Gate = Callable[[], Awaitable[None]]


class Inlet:
    """One consumer. ``on_message`` runs on the event loop and must not raise.

    With a ``gate`` the inlet pulls: it awaits the gate before it asks for each message.
    """

    def __init__(
        self,
        link: Link,
        topic: str,
        subscription: str,
        on_message: OnMessage,
        *,
        shared: bool = False,
        gate: Gate | None = None,
    ) -> None:
        self.topic = topic
        self._link = link
        self._subscription = subscription
        self._on_message = on_message
        self._shared = shared
        self._gate = gate
        self.client: Client | None = None
        self._consumer: Any = None
        self._arrived: deque[Any] = deque()
        self._scheduled = False
        self._pulling: asyncio.Task[None] | None = None
        self._paused = False
        self._closed = False

    async def open(self) -> None:
        """Subscribe on the link's present client. A second call replaces the consumer.

        Raises Unavailable where the broker does not let us.
        """
        old, self._consumer = self._consumer, None
        if old is not None:
            await quietly(completed(old.close_async))
        try:
            self.client = self._link.client
            self._consumer = await self.client.subscribe(
                self.topic,
                self._subscription,
                shared=self._shared,
                listener=self._listener if self._gate is None else None,
            )
        except PulsarException as error:
            raise Unavailable(f"can't receive from {self.topic}: {fault_text(error)}") from None
        if self._closed:
            await self.close()
            return
        self._link.inlets[self] = None
        if self._gate is not None and self._pulling is None:
            self._pulling = self._link.loop.create_task(self._pull(self._gate))

    @property
    def is_connected(self) -> bool:
        return self._consumer is not None and bool(self._consumer.is_connected())

    def acknowledge(self, message: Any) -> None:
        """Does not wait. An ack that is lost means a redelivery, for which workers must be ready anyway."""
        if self._consumer is not None:
            self._consumer.acknowledge_async(message, _ignore)

    def refuse(self, message: Any) -> None:
        """Ask the broker to give the message to another worker soon."""
        if self._consumer is not None:
            self._consumer.negative_acknowledge(message)

    def stop(self) -> None:
        """Ask for no more messages; those taken can still be acknowledged."""
        self._paused = True

    async def close(self) -> None:
        self._paused = self._closed = True
        self._link.inlets.pop(self, None)
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await quietly(completed(consumer.close_async))
        if self._pulling is not None:
            self._pulling.cancel()
            await asyncio.gather(self._pulling, return_exceptions=True)

    def _listener(self, _consumer: Any, message: Any) -> None:
        self._arrived.append(message)
        if not self._scheduled:
            self._scheduled = True
            call_threadsafe(self._link.loop, self._hand_on)

    def _hand_on(self) -> None:
        self._scheduled = False
        arrived = self._arrived
        for _ in range(min(len(arrived), BATCH)):
            self._on_message(arrived.popleft())
        if arrived and not self._scheduled:
            self._scheduled = True
            self._link.loop.call_soon(self._hand_on)

    async def _pull(self, gate: Gate) -> None:
        while True:
            await gate()
            consumer = self._consumer
            if consumer is None:
                await asyncio.sleep(PULL_RETRY_SECONDS)
                continue
            try:
                message = await completed(consumer.receive_async)
            except PulsarException as error:
                if self._paused:
                    return
                if consumer is self._consumer:
                    log.debug("receiving failed", topic=self.topic, fault=fault_text(error))
                    await asyncio.sleep(PULL_RETRY_SECONDS)
                continue
            if self._paused:
                self.refuse(message)
                return
            self._on_message(message)


def _ignore(_result: Any) -> None:
    """The client library wants a callback."""
