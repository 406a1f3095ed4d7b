"""The process's link to the broker: its clients, its outlets and inlets, and what is under way.

Sending goes beneath ``pulsar.asyncio``: a future and a loop wake-up for every message cost more than the
message.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import socket
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import structlog
from prometheus_client import Gauge

from trustgraph_flow.schema.errors import Unavailable

from .calls import OK, PulsarException, call_threadsafe, fault_text
from .client import CONNECT_SECONDS, Client
from .outlet import SEND_FAILURES, WINDOW, Outlet, Settled
from .settings import BusSettings
from .slots import claim_slot
from .urls import hosts

if TYPE_CHECKING:
    from .inlet import Inlet

log = structlog.get_logger(__name__)

MAX_BACKLOG = 100_000
MAX_REPLY_OUTLETS = 256
REPLY_IDLE_SECONDS = 300.0
LOST_SECONDS = 2.0
"""How long the client library may try by itself; its back-off then grows, so we connect anew."""

SHUT_DOWN_SECONDS = 0.2

CONNECTED = Gauge("tg_bus_connected", "1 while the broker can be reached")

_open: set[Link] = set()
"""Links that nobody has closed yet; see ``_shut_down``."""
_last_closed = 0.0


class Link:
    """Opened once; ``watch`` is to be called now and then."""

    def __init__(self, settings: BusSettings) -> None:
        self.settings = settings
        self.loop = asyncio.get_running_loop()
        self.connected = False
        self.inlets: dict[Inlet, None] = {}
        self._clients: list[Client] = []
        self._slot: tuple[int, socket.socket] | None = None
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
        client = Client(self.settings, self._claim_slot)
        probe = f"persistent://{self.settings.tenant}/request/lookup"
        try:
            await client.look_up(probe)
        except BaseException as error:
            client.shut_down()
            if not isinstance(error, TimeoutError | PulsarException):
                raise
            raise Unavailable(f"{url} takes connections but answers no lookup: {fault_text(error)}") from None
        self._clients.append(client)
        _open.add(self)
        self.mark_connected(True)

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

    @property
    def client(self) -> Client:
        """The one for what is opened now; older ones live on in what was opened with them."""
        return self._clients[-1]

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
        self._clients.append(Client(self.settings, self._claim_slot))
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
            self.background(client.close())

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
        await asyncio.gather(*(client.close() for client in self._clients))
        self._clients.clear()
        if self._slot is not None:
            self._slot[1].close()
        _open.discard(self)
        global _last_closed  # noqa: PLW0603 - for the end of the process, which knows no link
        _last_closed = time.monotonic()
        CONNECTED.set(0)

    def _claim_slot(self) -> int | None:
        if self._slot is None:
            self._slot = claim_slot(self.settings.url)
        return None if self._slot is None else self._slot[0]

    def shut_down(self) -> None:
        """Close at once and without an event loop."""
        for client in self._clients:
            client.shut_down()


@atexit.register
def _shut_down() -> None:
    # The client's threads call into the interpreter, also for a moment after they are closed, and an
    # interpreter that ends under such a call brings the process down.
    for link in _open:
        link.shut_down()
    quiet_at = (time.monotonic() if _open else _last_closed) + SHUT_DOWN_SECONDS
    with contextlib.suppress(KeyboardInterrupt):
        time.sleep(max(0.0, quiet_at - time.monotonic()))
