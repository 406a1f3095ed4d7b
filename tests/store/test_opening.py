"""Opening a store: what is not a store, who may open it, old and new schemas, several processes at once."""

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from trustgraph_flow.schema.errors import SetupError, Unavailable
from trustgraph_flow.schema.events import RunEvent
from trustgraph_flow.store import Store
from trustgraph_flow.store.database import open_database
from trustgraph_flow.store.tables import metadata


def test_the_migrations_build_the_tables_that_the_code_describes(any_url: str) -> None:
    database = open_database(any_url)
    with database.write.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    database.dispose()


async def test_what_was_written_is_there_when_the_store_is_opened_again(shared_url: str) -> None:
    async with await Store.open(shared_url) as store:
        await store.runs.append("r", [RunEvent(kind="started")], 0)
    async with await Store.open(shared_url) as store:
        assert [event.kind for event in await store.runs.read("r")] == ["started"]


async def test_many_may_create_one_store_at_once(shared_url: str) -> None:
    stores = await asyncio.gather(*(Store.open(shared_url) for _ in range(6)))
    for store in stores:
        assert await store.config.version() == 0
        await store.close()


def test_processes_may_create_one_store_at_once(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "from trustgraph_flow.store import Store\n"
        "async def main():\n"
        "    async with await Store.open(sys.argv[1]) as store:\n"
        "        print(await store.config.version())\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", code, f"sqlite:///{tmp_path}/tg.db"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0].strip() for process in processes] == ["0", "0", "0"]


def test_an_up_to_date_store_opens_without_loading_alembic(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tg.db"
    open_database(url).dispose()
    code = (
        "import sys\n"
        "from trustgraph_flow.store.database import open_database\n"
        "open_database(sys.argv[1])\n"
        "print('alembic' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_only_its_owner_may_read_the_file(tmp_path: Path) -> None:
    open_database(f"sqlite:///{tmp_path}/tg.db").dispose()
    assert stat.S_IMODE((tmp_path / "tg.db").stat().st_mode) == 0o600


@pytest.mark.parametrize(("asked", "level"), [("", 1), ("?synchronous=FULL", 2), ("?synchronous=normal", 1)])
def test_the_url_says_whether_a_commit_waits_for_the_disk(tmp_path: Path, asked: str, level: int) -> None:
    database = open_database(f"sqlite:///{tmp_path}/tg.db{asked}")
    with database.write.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == level
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    database.dispose()


async def test_a_file_that_is_no_database_is_named_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("These are notes and no database at all. " * 50)
    before = file.read_bytes()
    with pytest.raises(SetupError, match=r"notes\.txt is not a SQLite database"):
        await Store.open(f"sqlite:///{file}")
    assert file.read_bytes() == before


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"The folder .*/nowhere of the store does not exist"):
        await Store.open(f"sqlite:///{tmp_path}/nowhere/tg.db")


async def test_a_folder_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=f"The store {tmp_path} can't be opened"):
        await Store.open(f"sqlite:///{tmp_path}")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
async def test_a_file_that_we_may_not_write_is_named(tmp_path: Path) -> None:
    file = tmp_path / "tg.db"
    file.touch(0o400)
    with pytest.raises(SetupError, match=r"tg\.db can't be opened \(Permission denied\)"):
        await Store.open(f"sqlite:///{file}")


async def test_a_schema_of_a_newer_release_is_refused_and_left_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tg.db"
    open_database(url).dispose()
    connection = sqlite3.connect(tmp_path / "tg.db")
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.commit()
    with pytest.raises(SetupError, match=r"tg\.db was written by a newer release \(schema 9999"):
        await Store.open(url)
    assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("9999",)]
    connection.close()


@pytest.mark.parametrize("url", ["", "tg.db", "mysql://u:secret@h/d", "sqlite", "redis://x"])
async def test_a_url_of_another_kind_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(SetupError, match="use sqlite:") as caught:
        await Store.open(url)
    assert "secret" not in str(caught.value)


async def test_an_unknown_way_to_synchronise_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="synchronous=SOMETIMES is unknown"):
        await Store.open(f"sqlite:///{tmp_path}/tg.db?synchronous=sometimes")


async def test_a_postgresql_server_that_is_down_is_named_without_its_password() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(SetupError, match=r"127\.0\.0\.1:1/tg can't be opened") as caught:
        await Store.open("postgresql+psycopg://tg:secret@127.0.0.1:1/tg")
    assert "secret" not in str(caught.value)


async def test_a_closed_store_refuses_writes_in_plain_words(any_url: str) -> None:
    store = await Store.open(any_url)
    await store.close()
    with pytest.raises(Unavailable, match="closed"):
        await store.runs.append("r", [RunEvent(kind="started")], 0)


async def test_closing_twice_is_no_fault(any_url: str) -> None:
    store = await Store.open(any_url)
    await store.close()
    await store.close()


async def test_a_killed_process_loses_no_write_that_was_answered(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tg.db"
    code = (
        "import asyncio, sys\n"
        "from trustgraph_flow.schema.events import RunEvent\n"
        "from trustgraph_flow.store import Store\n"
        "async def main():\n"
        "    store, last = await Store.open(sys.argv[1]), 0\n"
        "    while True:\n"
        "        last = await store.runs.append('r', [RunEvent(kind='replied')], last)\n"
        "        print(last, flush=True)\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, url, stdout=subprocess.PIPE)
    assert process.stdout is not None
    for _ in range(200):
        answered = int(await process.stdout.readline())
    process.kill()
    await process.wait()
    async with await Store.open(url) as store:
        found = [event.seq for event in await store.runs.read("r")]
    assert found == list(range(1, len(found) + 1))
    assert len(found) >= answered


async def test_a_lost_postgresql_connection_is_made_again(postgresql_server: str) -> None:
    import psycopg

    async with await Store.open(f"{postgresql_server}/postgres") as store:
        await store.config.version()
        last = await store.runs.append("r", [RunEvent(kind="started")], 0)
        with psycopg.connect(
            f"{postgresql_server.replace('+psycopg', '')}/postgres", autocommit=True
        ) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )
        assert await store.runs.append("r", [RunEvent(kind="ended")], last) == 2
        assert len(await store.runs.read("r")) == 2
