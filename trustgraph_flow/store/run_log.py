"""The run log: append-only lists of events, the one record of what a run did."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, bindparam, exc, insert, select

from trustgraph_flow.schema.config import DEFAULT_WORKSPACE
from trustgraph_flow.schema.errors import Conflict, NotFound
from trustgraph_flow.schema.events import RunEvent

from .access import Access, Prepared
from .run_index import SESSION, STARTED_AT, Exchange, RunSummary, recent, summary
from .tables import run, run_event
from .text import dump, load


class RunLog:
    """Appending is optimistic: who has not read the newest event of a run can't write its next one."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._insert = Prepared(insert(run_event), access.dialect)
        self._index = Prepared(insert(run), access.dialect)
        self._select = (
            select(run_event.c.seq, run_event.c.at, run_event.c.kind, run_event.c.body)
            .where(run_event.c.run_id == bindparam("run_id"), run_event.c.seq > bindparam("after"))
            .order_by(run_event.c.seq)
        )

    async def append(
        self, run_id: str, events: Sequence[RunEvent], after: int, *, workspace: str = DEFAULT_WORKSPACE
    ) -> int:
        """Writes the events behind number ``after`` (0: the run is new) and returns the number of the last.

        They are numbered here, whatever their ``seq`` says; an ``at`` of 0 becomes now. Returns after the
        commit. A ``started`` event, whose body may name a ``session_id``, puts the run into the index that
        ``recent`` and ``session`` read. Raises Conflict if another worker has written meanwhile: read on
        from ``after``.
        """
        if not events:
            return after
        now = time.time()
        rows = [
            self._insert.row(
                run_id=run_id,
                seq=seq,
                at=event.at or now,
                kind=event.kind,
                body=dump(event.body),
                workspace=workspace,
            )
            for seq, event in enumerate(events, after + 1)
        ]
        parameters: Any = rows[0] if len(rows) == 1 else rows
        first = events[0]
        index = None
        if first.kind == "started":
            index = self._index.row(
                run_id=run_id,
                workspace=workspace,
                session_id=first.body.get("session_id") or None,
                started_at=first.at or now,
            )

        def work(connection: Connection) -> int:
            try:
                connection.exec_driver_sql(self._insert.sql, parameters)
                if index is not None:
                    connection.exec_driver_sql(self._index.sql, index)
            except exc.IntegrityError:
                raise Conflict(
                    f"Run {run_id} has events after number {after} already: another worker has taken it up."
                ) from None
            return after + len(rows)

        return await self._access.write(work)

    async def read(self, run_id: str, after: int = 0) -> list[RunEvent]:
        """The events behind number ``after`` in order; [] for a run that nobody has started."""

        def work(connection: Connection) -> Sequence[Row[Any, Any, Any, Any]]:
            return connection.execute(self._select, {"run_id": run_id, "after": after}).all()

        return [
            RunEvent.model_construct(seq=seq, at=at, kind=kind, body=load(body))
            for seq, at, kind, body in await self._access.read(work)
        ]

    async def recent(
        self, workspace: str, limit: int = 50, before: str | None = None, *, session_id: str | None = None
    ) -> list[RunSummary]:
        """The runs of a workspace, newest first; with ``session_id`` only those of that session.

        ``before`` is the id of the last run of the page before; raises NotFound where it is no run's.
        """
        query = recent(session=session_id is not None, before=before is not None)

        def work(connection: Connection) -> Sequence[Row[Any]]:
            at = connection.execute(STARTED_AT, {"before": before}).scalar() if before is not None else None
            if before is not None and at is None:
                raise NotFound(f"There is no run {before!r} to list the earlier runs from.")
            values = {"workspace": workspace, "limit": limit, "session_id": session_id}
            return connection.execute(query, values | {"before": before, "at": at}).all()

        return [summary(row) for row in await self._access.read(work)]

    async def session(self, workspace: str, session_id: str, before: float, limit: int) -> list[Exchange]:
        """The last answered questions of a session that were asked before that time, oldest first."""
        parameters = {"workspace": workspace, "session_id": session_id, "before": before, "limit": limit}

        def work(connection: Connection) -> Sequence[Row[Any, Any]]:
            return connection.execute(SESSION, parameters).all()

        rows = await self._access.read(work)
        return [Exchange(load(asked)["question"], load(said)["answer"]) for asked, said in reversed(rows)]
