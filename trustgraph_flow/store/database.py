"""Opens a database by URL: engines with our settings, the newest schema, faults in plain words."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, exc, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import NullPool, StaticPool

from trustgraph_flow.schema.errors import SetupError

from .tables import HEAD

LOCK_WAIT_SECONDS = 30.0
CONNECT_SECONDS = 10
READERS = 4
_MIGRATION_LOCK_KEY = 0x7467_666C  # PostgreSQL's advisory locks go by a number
_MIGRATING = threading.Lock()  # alembic keeps its current migration in module globals


@dataclass(frozen=True, slots=True)
class Database:
    """``read`` is None where there is one connection only: a SQLite database in memory."""

    name: str
    write: Engine
    read: Engine | None

    def dispose(self) -> None:
        self.write.dispose()
        if self.read is not None:
            self.read.dispose()


def open_database(url: str) -> Database:
    """``sqlite:////path/tg.db[?synchronous=FULL]``, ``sqlite://`` (in memory) or ``postgresql+psycopg://…``.

    Blocks. Raises SetupError, naming the database (never its password) and what to do.
    """
    parsed = _parse(url)
    name = parsed.render_as_string(hide_password=True)
    database = _sqlite(parsed, name) if parsed.get_backend_name() == "sqlite" else _postgresql(parsed, name)
    try:
        _migrate(database)
    except exc.DBAPIError as error:
        database.dispose()
        raise SetupError(_explain(name, parsed, error)) from error
    except SetupError:
        database.dispose()
        raise
    return database


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except exc.ArgumentError:
        backend = ""
    if backend not in ("sqlite", "postgresql"):
        raise SetupError(
            "The store URL is not one that we can open; "
            "use sqlite:////absolute/path/tg.db or postgresql+psycopg://user@host/database."
        )
    if backend == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    return parsed


def _sqlite(url: URL, name: str) -> Database:
    synchronous = str(url.query.get("synchronous", "NORMAL")).upper()
    if synchronous not in ("OFF", "NORMAL", "FULL", "EXTRA"):
        raise SetupError(f"{name}: synchronous={synchronous} is unknown; use NORMAL or FULL.")
    url = url.difference_update_query(["synchronous"])
    if url.database in (None, "", ":memory:"):
        memory = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
        _set_up_sqlite(memory, "BEGIN", {})
        return Database(name, memory, None)
    _touch(Path(str(url.database)))
    connect_args = {"check_same_thread": False, "timeout": LOCK_WAIT_SECONDS}
    write = create_engine(url, poolclass=NullPool, connect_args=connect_args)
    _set_up_sqlite(write, "BEGIN IMMEDIATE", {"journal_mode": "WAL", "synchronous": synchronous})
    read = create_engine(url, pool_size=READERS, connect_args=connect_args)
    _set_up_sqlite(read, "BEGIN", {"query_only": "ON"})
    return Database(name, write, read)


def _touch(path: Path) -> None:
    """Only its owner may read the file: config items hold secrets. SQLite's side files get its rights."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except FileNotFoundError:
        raise SetupError(
            f"The folder {path.parent} of the store does not exist; create it, or name another file."
        ) from None
    except OSError as error:
        raise SetupError(
            f"The store {path} can't be opened ({error.strerror}); "
            "give this user the right to write it and its folder, or name another file."
        ) from None


def _set_up_sqlite(engine: Engine, begin: str, pragmas: dict[str, str]) -> None:
    def connected(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # or the driver would begin transactions as it thinks fit
        for pragma, value in pragmas.items():
            _set_pragma(connection, pragma, value)

    def begun(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)


def _set_pragma(connection: sqlite3.Connection, pragma: str, value: str) -> None:
    """SQLite's own busy wait does not cover the change to WAL, which two processes may try at once."""
    until = time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        try:
            connection.execute(f"PRAGMA {pragma}={value}")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
        time.sleep(random.uniform(0.002, 0.02))


def _postgresql(url: URL, name: str) -> Database:
    if "connect_timeout" not in url.query:
        url = url.update_query_dict({"connect_timeout": str(CONNECT_SECONDS)})
    try:
        write = create_engine(url, pool_size=1, pool_pre_ping=True)
        read = create_engine(url, pool_size=READERS, pool_pre_ping=True, isolation_level="REPEATABLE READ")
    except ModuleNotFoundError as error:
        raise SetupError(
            f"{name} needs the PostgreSQL driver: pip install 'trustgraph-flow-react[postgres]'."
        ) from error
    return Database(name, write, read)


def _migrate(database: Database) -> None:
    with database.write.connect() as connection:
        if _revision(connection) == HEAD:
            return
    with _MIGRATING, database.write.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK_KEY})
        found = _revision(connection)
        if found != HEAD:  # or another process was first
            _upgrade(connection, database.name, found)


def _revision(connection: Connection) -> str | None:
    if not connection.dialect.has_table(connection, "alembic_version"):
        return None
    found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return found


def _upgrade(connection: Connection, name: str, found: str | None) -> None:
    from alembic import command  # half a second of imports, needed once in a store's life
    from alembic.config import Config
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("path_separator", "os")
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    if found is not None:
        try:
            ScriptDirectory.from_config(config).get_revision(found)
        except CommandError:
            raise SetupError(
                f"The store {name} was written by a newer release (schema {found}, this one knows {HEAD}); "
                "install that release, or name another store."
            ) from None
    command.upgrade(config, "head")


def _explain(name: str, url: URL, error: exc.DBAPIError) -> str:
    cause = str(error.orig).strip().splitlines()[0] if error.orig else str(error)
    if url.get_backend_name() == "postgresql":
        return f"The store {name} can't be opened ({cause}); see that it runs and lets this user in."
    if "not a database" in cause or "malformed" in cause:
        return f"{url.database} is not a SQLite database ({cause}); name another file, or put back a backup."
    return (
        f"The store {url.database} can't be opened ({cause}); see that we may write the file and its folder."
    )
