"""The store: one database for all that must outlive a process."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from .access import Access
from .artifacts import ArtifactTable
from .call_journal import CallJournal
from .config_table import ConfigTable
from .database import Database, open_database
from .run_log import RunLog
from .sign_ins import SignInTable


class Store:
    """Belongs to the event loop that opened it; several processes may open the same database."""

    def __init__(self, database: Database) -> None:
        self._access = Access(database)
        self.url = database.name
        self.config = ConfigTable(self._access)
        self.runs = RunLog(self._access)
        self.calls = CallJournal(self._access)
        self.sign_ins = SignInTable(self._access)
        self.artifacts = ArtifactTable(self._access)

    @classmethod
    async def open(cls, url: str) -> Self:
        """``sqlite:////path/tg.db``, ``sqlite://`` (in memory, gone at close) or ``postgresql+psycopg://…``.

        A SQLite file commits without waiting for the disk: a crash of the process loses nothing, one of the
        machine may lose the last moments; ``?synchronous=FULL`` waits. The schema is brought up to date.
        Raises SetupError, naming the database and what to do.
        """
        return cls(await asyncio.to_thread(open_database, url))

    async def close(self) -> None:
        """Writes what still waits."""
        await self._access.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
