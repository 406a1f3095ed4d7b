"""The process's one connection to the broker, and the way out through it.

This and ``inlet.py`` are the only modules that know the Pulsar client. Sending goes beneath
``pulsar.asyncio``: a future and a loop wake-up for every message cost more than the message.
"""

from __future__ import annotations

import asyncio
import atexit
import os
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import _pulsar
import pulsar
import pulsar.asyncio as pulsar_asyncio
import structlog
from prometheus_client import Counter, Gauge

from trustgraph_flow.schema.errors import Unavailable

from .settings import BusSettings
from .topics import durable_subscription

if TYPE_CHECKING:
    from .inlet import Inlet

log = structlog.get_logger(__name__)

WINDOW = 500
"""Messages in flight to the broker. Brokers drop non-persistent messages beyond 1,000 a connection."""
MAX_BACKLOG = 100_000
CONNECT_SECONDS = 5.0
OPERATION_SECONDS = 10
CLOSE_SECONDS = 5.0
MAX_REPLY_OUTLETS = 256
REPLY_IDLE_SECONDS = 300.0
LOST_SECONDS = 2.0
"""How long the client library may try by itself; its back-off then grows, so we connect anew."""
OPEN_RETRY_SECONDS = (0.1, 0.3, 1.0)

CONNECTED = Gauge("tg_bus_connected", "1 while the broker can be reached")
SEND_FAILURES = Counter("tg_bus_send_failures_total", "Messages that the broker did not take")

OK = _pulsar.Result.Ok

_open: set[Link] = set()
"""Links that nobody has closed yet; see ``_shut_down``."""

Settled = Callable[[str | None], None]
"""Called on the event loop with None, or with what went wrong."""


class Outlet:
    """The way to one topic. ``post`` never waits: what can't go out yet is kept in order."""

    def __init__(self, link: Link, topic: str) -> None:
        self.topic = topic
        self.used = 0.0
        self.backlog: deque[tuple[bytes, dict[str, str], Settled | None]] = deque()
        self._link = link
        self.client: Any = None
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
                    self._producer = await self._link.create_producer(self.topic)
                except pulsar_asyncio.PulsarException as error:
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
            await quietly(producer.close())
        if self.backlog:
            self.ensure_open()

    async def close(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
        self.fail_backlog("the bus is closed")
        producer, self._producer = self._producer, None
        if producer is not None:
            await quietly(producer.close())

    def _send(self, payload: bytes, properties: dict[str, str], settled: Settled | None) -> None:
        message = _pulsar.MessageBuilder().content(payload).properties(properties).build()
        self._producer._producer.send_async(message, self._link.departing(settled))


class Link:
    """One Pulsar client, its outlets, and the count of what is under way."""

    def __init__(self, settings: BusSettings) -> None:
        self.settings = settings
        self.loop = asyncio.get_running_loop()
        self.connected = False
        self.client: Any = None
        self.inlets: dict[Inlet, None] = {}
        self._clients: list[Any] = []
        self._lost_at: float | None = None
        self._tried_at = 0.0
        self._renewing = False
        self._background: set[asyncio.Task[None]] = set()
        self._outlets: dict[str, Outlet] = {}
        self._crowd: dict[Outlet, None] = {}
        self._room = asyncio.Event()
        self._room.set()
        self._waiting = 0
        self._posted = 0
        # Receipts come on the client's own thread: a deque is safe between threads where `+= 1` is not.
        self._receipts: deque[Any] = deque()
        self._pump_scheduled = False

    async def open(self) -> None:
        """Raises Unavailable where no broker answers a lookup within a few seconds."""
        url = self.settings.url
        if not await self.answers():
            raise Unavailable(f"no broker answers at {url}: is it running, and is --pulsar-host right?")
        self.client = self.new_client()
        self._clients = [self.client]
        probe = f"persistent://{self.settings.tenant}/request/lookup"
        try:
            await asyncio.wait_for(self.client.get_topic_partitions(probe), CONNECT_SECONDS)
        except (TimeoutError, pulsar_asyncio.PulsarException) as error:
            await quietly(self.client.close())
            raise Unavailable(f"{url} takes connections but answers no lookup: {fault_text(error)}") from None
        _open.add(self)
        self.mark_connected(True)

    def new_client(self) -> Any:
        settings = self.settings
        level = pulsar.LoggerLevel.Info if settings.client_log else pulsar.LoggerLevel.Error
        return pulsar_asyncio.Client(
            settings.url,
            authentication=pulsar.AuthenticationToken(settings.token) if settings.token else None,
            operation_timeout_seconds=OPERATION_SECONDS,
            connection_timeout_ms=int(CONNECT_SECONDS * 1000),
            stats_interval_in_seconds=0,
            logger=pulsar.FileLogger(level, settings.client_log or os.devnull),
        )

    async def answers(self) -> bool:
        """Whether one of the brokers takes a connection."""
        for host, port in hosts(self.settings.url):
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    _, writer = await asyncio.open_connection(host, port)
            except (OSError, TimeoutError):
                continue
            writer.close()
            return True
        return False

    def outlet(self, topic: str) -> Outlet:
        outlet = self._outlets.get(topic)
        if outlet is None:
            outlet = self._outlets[topic] = Outlet(self, topic)
        return outlet

    async def create_producer(self, topic: str) -> Any:
        subscription = durable_subscription(topic)
        if subscription is not None:
            # A consumer that prefetches nothing, so that it takes no message from anybody.
            consumer = await self.client.subscribe(
                topic,
                subscription,
                consumer_type=pulsar.ConsumerType.Shared,
                receiver_queue_size=0,
                initial_position=pulsar.InitialPosition.Earliest,
            )
            await consumer.close()
        return await self.client.create_producer(
            topic, batching_enabled=False, block_if_queue_full=False, max_pending_messages=2 * WINDOW
        )

    def has_room(self) -> bool:
        if self._posted < WINDOW:
            return True
        self._settle()
        return self._posted < WINDOW

    def expect(self, outlet: Outlet) -> None:
        """Note that one more message of this outlet waits."""
        if self._waiting >= MAX_BACKLOG:
            raise Unavailable(f"{MAX_BACKLOG:,} messages wait already for the broker at {self.settings.url}")
        self._crowd[outlet] = None
        self._waiting += 1
        if self._waiting >= WINDOW:
            self._room.clear()

    def relieve(self, count: int) -> None:
        """Note that so many messages wait no longer."""
        self._waiting -= count
        if self._waiting < WINDOW:
            self._room.set()

    async def room(self) -> None:
        """Wait while so much is under way that a sender of many frames had better pause."""
        if not self._room.is_set():
            await self._room.wait()

    def departing(self, settled: Settled | None) -> Callable[[Any, Any], None]:
        """Count one message as under way; the returned function takes its receipt, on another thread."""
        self._posted += 1
        if settled is None:
            return self._received
        return lambda result, _id: self._report(settled, result)

    def _received(self, result: Any, _id: Any) -> None:
        self._receipts.append(result)
        if self._crowd and not self._pump_scheduled:
            self._pump_scheduled = True
            call_threadsafe(self.loop, self.pump)

    def _report(self, settled: Settled, result: Any) -> None:
        self._received(result, None)
        call_threadsafe(self.loop, settled, None if result == OK else result.name)

    def _settle(self) -> None:
        receipts = self._receipts
        count = len(receipts)
        for _ in range(count):
            if receipts.popleft() != OK:
                SEND_FAILURES.inc()
        self._posted -= count

    def pump(self) -> None:
        """Send what waits, as far as there is room."""
        self._pump_scheduled = False
        self._settle()
        for outlet in list(self._crowd):
            while outlet.backlog and outlet.is_open and self._posted < WINDOW:
                outlet.send_next()
                self.relieve(1)
            if not outlet.backlog:
                del self._crowd[outlet]

    def watch(self, now: float) -> None:
        """Called now and then: see whether we are connected, help where the client library is too slow."""
        self._drop_idle_replies(now)
        connected = all(inlet.is_connected for inlet in self.inlets)
        if connected:
            if self._lost_at is not None:
                log.info("broker back", url=self.settings.url, after_seconds=round(now - self._lost_at, 1))
                self._lost_at = None
            self.mark_connected(True)
            return
        if self._lost_at is None:
            self._lost_at = self._tried_at = now
            log.warning("broker lost", url=self.settings.url)
        self.mark_connected(False)
        if now - self._tried_at >= LOST_SECONDS and not self._renewing:
            self._renewing = True
            self.background(self._renew())

    async def _renew(self) -> None:
        try:
            if await self.answers():
                await self._change_client()
        finally:
            self._tried_at = self.loop.time()
            self._renewing = False

    async def _change_client(self) -> None:
        """Put what has lost its broker on a new client; the old one's back-off may be a minute by now."""
        self.client = self.new_client()
        self._clients.append(self.client)
        for inlet in list(self.inlets):
            if not inlet.is_connected:
                try:
                    await inlet.open()
                except Unavailable as error:
                    log.debug("not yet", fault=error.message)
        for outlet in list(self._outlets.values()):
            await outlet.renew()
        used = {id(self.client)}
        used.update(id(inlet.client) for inlet in self.inlets)
        used.update(id(outlet.client) for outlet in self._outlets.values())
        for client in [each for each in self._clients if id(each) not in used]:
            self._clients.remove(client)
            self.background(quietly(client.close()))

    def _drop_idle_replies(self, now: float) -> None:
        replies = [each for each in self._outlets.values() if "/reply/" in each.topic and not each.backlog]
        replies.sort(key=lambda each: each.used)
        surplus = len(replies) - MAX_REPLY_OUTLETS
        for number, outlet in enumerate(replies):
            if number < surplus or now - outlet.used > REPLY_IDLE_SECONDS:
                del self._outlets[outlet.topic]
                self.background(outlet.close())

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def mark_connected(self, connected: bool) -> None:
        self.connected = connected
        CONNECTED.set(connected)

    async def flush(self, seconds: float) -> None:
        """Wait until everything has gone out, at most so long."""
        end = self.loop.time() + seconds
        while self.connected and self.loop.time() < end:
            self.pump()
            if not self._posted and not self._crowd:
                return
            await asyncio.sleep(0.005)

    async def close(self) -> None:
        for outlet in self._outlets.values():
            await outlet.close()
        self._outlets.clear()
        self._crowd.clear()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await asyncio.gather(*(quietly(client.close()) for client in self._clients))
        self._clients.clear()
        _open.discard(self)
        CONNECTED.set(0)

    def shut_down(self) -> None:
        """Close at once and without an event loop."""
        for client in self._clients:
            client.shutdown()


@atexit.register
def _shut_down() -> None:
    # The client's threads call into the interpreter: one that ends under them crashes.
    for link in _open:
        link.shut_down()


def hosts(url: str) -> list[tuple[str, int]]:
    """The host and port pairs of a Pulsar URL."""
    scheme, _, rest = url.partition("://")
    default = 6651 if scheme.endswith("ssl") else 6650
    pairs = []
    for place in rest.split("/", 1)[0].split(","):
        host, colon, port = place.rpartition(":")
        if colon and port.isdigit():
            pairs.append((host.strip("[]"), int(port)))
        else:
            pairs.append((place.strip("[]"), default))
    return pairs


def fault_text(error: BaseException) -> str:
    return str(error) or type(error).__name__


def call_threadsafe(loop: asyncio.AbstractEventLoop, call: Callable[..., Any], *args: Any) -> None:
    # The client's threads outlive the loop for a moment at the end of a process.
    try:
        loop.call_soon_threadsafe(call, *args)
    except RuntimeError:
        if not loop.is_closed():
            raise


async def quietly(closing: Any) -> None:
    """Close something of the client library; that it is closed or gone already is no fault."""
    try:
        await asyncio.wait_for(closing, CLOSE_SECONDS)
    except (TimeoutError, pulsar_asyncio.PulsarException) as error:
        log.debug("close did not end well", fault=fault_text(error))
