"""One thread that writes, so that many waiting writes share one commit."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, exc

from trustgraph_flow.schema.errors import Unavailable

T = TypeVar("T")
Work = Callable[[Connection], T]

MAX_GROUP = 256

_Job = tuple[Work[Any], "asyncio.Future[Any]"]
_Outcome = tuple["asyncio.Future[Any]", Any, BaseException | None]


class Writer:
    """Runs pieces of work in the order in which they came.

    What waits while a commit is under way becomes the next group: one transaction, one commit. If a piece
    of the group raises, the group is rolled back and each of its pieces is run again alone, so that only the
    failing one fails; work must therefore bear being run again. Results are given out after the commit.
    A commit that fails is an Unavailable for all of its group: whether it was written is not known.
    """

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._connection: Connection | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    async def run(self, work: Work[T]) -> T:
        """The result of ``work`` once it is committed. Cancelling the wait does not undo the write."""
        if self._closed:
            raise Unavailable("The store is closed.")
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((work, future))
        return await future

    async def close(self) -> None:
        """Writes what still waits, then ends the thread."""
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        more = True
        while more:
            group, more = self._next_group()
            if group:
                outcomes = self._write(group)
                try:
                    self._loop.call_soon_threadsafe(_deliver, outcomes)
                except RuntimeError:  # the loop is gone, and with it those who waited
                    more = False
        self._disconnect()

    def _next_group(self) -> tuple[list[_Job], bool]:
        group: list[_Job] = []
        job = self._jobs.get()
        while job is not None:
            group.append(job)
            if len(group) == MAX_GROUP:
                return group, True
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return group, True
        return group, False

    def _write(self, group: list[_Job], *, again: bool = True) -> list[_Outcome]:
        ran = True  # what fails before the first piece of work, or at the commit, concerns the whole group
        try:
            connection = self._connected()
            with connection.begin():
                ran = False
                results = [work(connection) for work, _ in group]
                ran = True
        except Exception as error:
            lost = isinstance(error, exc.DBAPIError) and error.connection_invalidated
            if lost or ran:
                self._disconnect()  # and with it whatever transaction is still open
            if not ran and len(group) > 1:
                return [outcome for job in group for outcome in self._write([job])]
            if not ran and lost and again:
                return self._write(group, again=False)
            translated = self._translate(error)
            return [(future, None, translated) for _, future in group]
        return [(future, result, None) for (_, future), result in zip(group, results, strict=True)]

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _translate(self, error: Exception) -> Exception:
        if not isinstance(error, (exc.OperationalError, exc.InterfaceError)):
            return error
        translated = unavailable(self._name, error)
        translated.__cause__ = error
        return translated


def unavailable(name: str, error: exc.DBAPIError) -> Unavailable:
    cause = str(error.orig).strip().splitlines()[0] if error.orig else type(error).__name__
    return Unavailable(
        f"The store {name} does not answer as it should ({cause}); see its disk, rights and server."
    )


def _deliver(outcomes: list[_Outcome]) -> None:
    for future, result, error in outcomes:
        if future.done():  # its waiter was cancelled
            continue
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)
