"""Group commits: what waits together is committed together, and what fails fails alone."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, event
from sqlalchemy.exc import IntegrityError, OperationalError

from trustgraph_flow.schema.errors import BadRequest, Unavailable
from trustgraph_flow.store.database import Database, open_database
from trustgraph_flow.store.writer import Writer


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = open_database(f"sqlite:///{tmp_path}/tg.db")
    with opened.write.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (n INTEGER PRIMARY KEY)")
    yield opened
    opened.dispose()


def insert(n: int) -> Callable[[Connection], int]:
    def work(connection: Connection) -> int:
        connection.exec_driver_sql("INSERT INTO t VALUES (?)", (n,))
        return n

    return work


async def held(writer: Writer) -> threading.Event:
    """Lets the writer start on a piece of work that ends when the returned event is set."""
    started, release = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work(_connection: Connection) -> None:
        loop.call_soon_threadsafe(started.set)
        release.wait()

    _background.append(asyncio.create_task(writer.run(work)))
    await started.wait()
    return release


_background: list[asyncio.Task[None]] = []


async def test_writes_that_wait_together_share_one_commit(database: Database) -> None:
    commits: list[Connection] = []
    event.listen(database.write, "commit", commits.append)
    writer = Writer(database.write, "t")
    release = await held(writer)
    waiting = [asyncio.create_task(writer.run(insert(n))) for n in range(10)]
    await asyncio.sleep(0)
    release.set()
    assert await asyncio.gather(*waiting) == list(range(10))
    assert len(commits) == 2
    await writer.close()


async def test_a_failing_write_of_a_group_fails_alone(database: Database) -> None:
    writer = Writer(database.write, "t")

    def refuse(_connection: Connection) -> None:
        raise BadRequest("no")

    release = await held(writer)
    works = [insert(1), refuse, insert(1), insert(2)]
    waiting = [asyncio.create_task(writer.run(work)) for work in works]
    await asyncio.sleep(0)
    release.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert results[0] == 1
    assert isinstance(results[1], BadRequest)
    assert isinstance(results[2], IntegrityError)
    assert results[3] == 2
    rows = await writer.run(lambda connection: connection.exec_driver_sql("SELECT n FROM t").scalars().all())
    assert rows == [1, 2]
    await writer.close()


async def test_closing_writes_what_still_waits(database: Database) -> None:
    writer = Writer(database.write, "t")
    release = await held(writer)
    waiting = [asyncio.create_task(writer.run(insert(n))) for n in range(3)]
    await asyncio.sleep(0)
    closing = asyncio.create_task(writer.close())
    release.set()
    await closing
    assert await asyncio.gather(*waiting) == [0, 1, 2]


async def test_a_commit_that_fails_is_told_to_its_group_and_the_next_write_goes_on(
    database: Database,
) -> None:
    writer = Writer(database.write, "t")

    def fill_the_disk(_connection: Connection) -> None:
        event.remove(database.write, "commit", fill_the_disk)
        raise OperationalError("COMMIT", None, Exception("database or disk is full"))

    event.listen(database.write, "commit", fill_the_disk)
    with pytest.raises(Unavailable, match="database or disk is full"):
        await writer.run(insert(1))
    assert await writer.run(insert(1)) == 1
    await writer.close()
