"""One Pulsar client, and the way around a fault of the embedded broker.

A client numbers its consumers from 0. The embedded broker takes these numbers for its own: of two consumers
of one subscription that come from different clients with the same number, the second never gets through
and has its whole connection closed again and again. So each bus on such a broker has a slot, and the
consumers with which it shares a subscription get only numbers of that slot.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable
from typing import Any

import _pulsar
import pulsar

from .calls import completed, quietly
from .settings import BusSettings
from .slots import SLOTS
from .topics import durable_subscription

CONNECT_SECONDS = 5
OPERATION_SECONDS = 10
PUSH_QUEUE = 5_000
NACK_DELAY_MS = 200

Listener = Callable[[Any, Any], None]


class Client:
    """A connection pool to the broker. ``slot`` tells ours, or None where numbers do not matter."""

    def __init__(self, settings: BusSettings, slot: Callable[[], int | None]) -> None:
        level = pulsar.LoggerLevel.Info if settings.client_log else pulsar.LoggerLevel.Error
        self._pulsar = pulsar.Client(
            settings.url,
            authentication=pulsar.AuthenticationToken(settings.token) if settings.token else None,
            operation_timeout_seconds=OPERATION_SECONDS,
            connection_timeout_ms=CONNECT_SECONDS * 1000,
            stats_interval_in_seconds=0,
            logger=pulsar.FileLogger(level, settings.client_log or os.devnull),
        )._client
        self._slot = slot
        self._number = 0
        self._one_at_a_time = asyncio.Lock()

    async def look_up(self, topic: str) -> None:
        """Return when the broker has answered. Raises PulsarException or TimeoutError."""
        async with asyncio.timeout(CONNECT_SECONDS):
            await completed(lambda callback: self._pulsar.get_topic_partitions_async(topic, callback))

    async def create_producer(self, topic: str, *, max_pending: int) -> Any:
        """A ``_pulsar.Producer`` that refuses, and does not block, beyond ``max_pending`` messages.

        On a persistent topic the subscription that keeps its messages is there afterwards. Raises
        PulsarException.
        """
        subscription = durable_subscription(topic)
        if subscription is not None:
            # It prefetches nothing, so it takes no message from anybody.
            consumer = await self.subscribe(topic, subscription, shared=True)
            await completed(consumer.close_async)
        conf = _pulsar.ProducerConfiguration()
        conf.batching_enabled(False)
        conf.block_if_queue_full(False)
        conf.max_pending_messages(max_pending)
        return await completed(lambda callback: self._pulsar.create_producer_async_v2(topic, conf, callback))

    async def subscribe(
        self, topic: str, subscription: str, *, shared: bool, listener: Listener | None = None
    ) -> Any:
        """A ``_pulsar.Consumer``.

        ``listener`` is called on a thread of the client. Without one the consumer prefetches nothing and
        starts at the oldest message. Raises PulsarException, and SetupError where no slot is left.
        """
        conf = _configuration(shared)
        if listener is None:
            conf.receiver_queue_size(0)
            conf.subscription_initial_position(pulsar.InitialPosition.Earliest)
        else:
            conf.receiver_queue_size(PUSH_QUEUE)
            conf.message_listener(listener)
        async with self._one_at_a_time:
            slot = self._slot() if shared else None
            if slot is not None:
                await self._skip((slot - self._number) % SLOTS, topic)
            return await self._subscribe(topic, subscription, conf)

    async def close(self) -> None:
        await quietly(completed(self._pulsar.close_async))

    def shut_down(self) -> None:
        """Close at once, without an event loop."""
        self._pulsar.shutdown()

    async def _skip(self, count: int, topic: str) -> None:
        namespace = topic.partition("://")[2].rpartition("/")[0]
        throwaway = f"non-persistent://{namespace}/skip-{uuid.uuid4().hex}"
        conf = _configuration(shared=True)
        skipped = await asyncio.gather(*(self._subscribe(throwaway, "skip", conf) for _ in range(count)))
        await asyncio.gather(*(completed(consumer.close_async) for consumer in skipped))

    async def _subscribe(self, topic: str, subscription: str, conf: Any) -> Any:
        self._number += 1
        return await completed(
            lambda callback: self._pulsar.subscribe_async_v2(topic, subscription, conf, callback)
        )


def _configuration(shared: bool) -> Any:
    conf = _pulsar.ConsumerConfiguration()
    conf.consumer_type(pulsar.ConsumerType.Shared if shared else pulsar.ConsumerType.Exclusive)
    conf.negative_ack_redelivery_delay_ms(NACK_DELAY_MS)
    return conf
