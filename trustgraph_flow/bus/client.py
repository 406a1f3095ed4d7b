"""One Pulsar client: ``pulsar.asyncio`` with listeners, and around a fault of the embedded broker.

A client numbers its consumers from 0. The embedded broker takes these numbers for its own: of two consumers
of one subscription that come from different clients with the same number, the second never gets through and has
its whole connection closed again and again. So each bus on such a broker has a slot, and the consumers
with which it shares a subscription get only numbers of that slot.
"""

from __future__ import annotations

import asyncio
import functools
import os
import uuid
from collections.abc import Callable
from typing import Any

import _pulsar
import pulsar
import pulsar.asyncio as pulsar_asyncio
import structlog

from .settings import BusSettings
from .slots import SLOTS
from .topics import durable_subscription

log = structlog.get_logger(__name__)

CONNECT_SECONDS = 5
OPERATION_SECONDS = 10
CLOSE_SECONDS = 5
PUSH_QUEUE = 5_000
NACK_DELAY_MS = 200

Listener = Callable[[Any, Any], None]


class Client:
    """A connection pool to the broker. Without a ``slot`` the numbers of its consumers do not matter."""

    def __init__(self, settings: BusSettings, slot: int | None) -> None:
        level = pulsar.LoggerLevel.Info if settings.client_log else pulsar.LoggerLevel.Error
        self._pulsar = pulsar_asyncio.Client(
            settings.url,
            authentication=pulsar.AuthenticationToken(settings.token) if settings.token else None,
            operation_timeout_seconds=OPERATION_SECONDS,
            connection_timeout_ms=CONNECT_SECONDS * 1000,
            stats_interval_in_seconds=0,
            logger=pulsar.FileLogger(level, settings.client_log or os.devnull),
        )
        self._slot = slot
        self._number = 0
        self._one_at_a_time = asyncio.Lock()

    async def look_up(self, topic: str) -> None:
        """Return when the broker has answered. Raises PulsarException or TimeoutError."""
        await asyncio.wait_for(self._pulsar.get_topic_partitions(topic), CONNECT_SECONDS)

    async def create_producer(self, topic: str, *, max_pending: int) -> Any:
        """A ``pulsar.asyncio.Producer`` that refuses, and does not block, beyond ``max_pending`` messages.

        On a persistent topic the subscription that keeps its messages is there afterwards. Raises
        PulsarException.
        """
        subscription = durable_subscription(topic)
        if subscription is not None:
            # It prefetches nothing, so it takes no message from anybody.
            consumer = await self.subscribe(topic, subscription, shared=True)
            await consumer.close()
        return await self._pulsar.create_producer(
            topic, batching_enabled=False, block_if_queue_full=False, max_pending_messages=max_pending
        )

    async def subscribe(
        self, topic: str, subscription: str, *, shared: bool, listener: Listener | None = None
    ) -> Any:
        """A ``pulsar.asyncio.Consumer``.

        ``listener`` is called on a thread of the client. Without one the consumer prefetches nothing and
        starts at the oldest message. Raises PulsarException.
        """
        conf = _configuration(shared)
        if listener is None:
            conf.receiver_queue_size(0)
            conf.subscription_initial_position(pulsar.InitialPosition.Earliest)
        else:
            conf.receiver_queue_size(PUSH_QUEUE)
            conf.message_listener(listener)
        async with self._one_at_a_time:
            if shared and self._slot is not None:
                await self._skip((self._slot - self._number) % SLOTS, topic)
            return await self._subscribe(topic, subscription, conf)

    async def close(self) -> None:
        await quietly(self._pulsar.close())

    def shut_down(self) -> None:
        """Close at once, without an event loop."""
        self._pulsar.shutdown()

    async def _skip(self, count: int, topic: str) -> None:
        namespace = topic.partition("://")[2].rpartition("/")[0]
        throwaway = f"non-persistent://{namespace}/skip-{uuid.uuid4().hex}"
        conf = _configuration(shared=True)
        skipped = await asyncio.gather(*(self._subscribe(throwaway, "skip", conf) for _ in range(count)))
        await asyncio.gather(*(consumer.close() for consumer in skipped))

    async def _subscribe(self, topic: str, subscription: str, conf: Any) -> Any:
        subscribed: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._number += 1
        self._pulsar._client.subscribe_async_v2(
            topic, subscription, conf, functools.partial(pulsar_asyncio._set_future_v2, subscribed)
        )
        return pulsar_asyncio.Consumer(await subscribed, pulsar.schema.BytesSchema())


def _configuration(shared: bool) -> Any:
    conf = _pulsar.ConsumerConfiguration()
    conf.consumer_type(pulsar.ConsumerType.Shared if shared else pulsar.ConsumerType.Exclusive)
    conf.negative_ack_redelivery_delay_ms(NACK_DELAY_MS)
    return conf


async def quietly(closing: Any) -> None:
    """Close something of the client library; that it is closed or gone already is no fault."""
    try:
        await asyncio.wait_for(closing, CLOSE_SECONDS)
    except (TimeoutError, pulsar_asyncio.PulsarException) as error:
        log.debug("close did not end well", fault=fault_text(error))


def fault_text(error: BaseException) -> str:
    return str(error) or type(error).__name__
