"""The run log: append-only lists of events, the one record of what a run did."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, bindparam, exc, insert, select

from trustgraph_flow.schema.config import DEFAULT_WORKSPACE
from trustgraph_flow.schema.errors import Conflict
from trustgraph_flow.schema.events import RunEvent

from .access import Access, Prepared
from .tables import run_event
from .text import dump, load


class RunLog:
    """Appending is optimistic: who has not read the newest event of a run can't write its next one."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._insert = Prepared(insert(run_event), access.dialect)
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
        commit. Raises Conflict if another worker has written meanwhile: read on from ``after``.
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

        def work(connection: Connection) -> int:
            try:
                connection.exec_driver_sql(self._insert.sql, parameters)
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
