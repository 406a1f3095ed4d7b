"""How the tables reach the database: writes through the one writer, reads beside it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sqlalchemy import Executable, Table, exc
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import Insert

from .database import READERS, Database
from .writer import T, Work, Writer, unavailable


class Access:
    """Made by the store, on the event loop that will use it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writer = Writer(database.write, database.name)
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="store-reader")
        self.write = self._writer.run

    @property
    def dialect(self) -> DefaultDialect:
        return self._database.write.dialect  # type: ignore[return-value]

    async def read(self, work: Work[T]) -> T:
        """``work`` sees one state of the database, at least as new as every write already answered."""
        if self._database.read is None:
            return await self._writer.run(work)
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, work)

    def _read(self, work: Work[T]) -> T:
        assert self._database.read is not None
        try:
            with self._database.read.begin() as connection:
                return work(connection)
        except (exc.OperationalError, exc.InterfaceError) as error:
            raise unavailable(self._database.name, error) from error

    async def close(self) -> None:
        await self._writer.close()
        self._readers.shutdown()
        self._database.dispose()


def insert_new(table: Table, dialect: DefaultDialect) -> Insert:
    """An insert that leaves a row of the same key as it is."""
    if dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table).on_conflict_do_nothing()
    return sqlite.insert(table).on_conflict_do_nothing()


class Prepared:
    """A statement turned into SQL once, for what runs several times a step."""

    def __init__(self, statement: Executable, dialect: DefaultDialect) -> None:
        compiled = statement.compile(dialect=dialect)  # type: ignore[attr-defined]
        assert isinstance(compiled, SQLCompiler)
        self.sql = str(compiled)
        self._order = compiled.positiontup if compiled.positional else None

    def row(self, **values: Any) -> Any:
        """The parameters as the driver wants them."""
        if self._order is None:
            return values
        return tuple([values[name] for name in self._order])
