"""The call journal: which tool calls were begun and which are known to have ended."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Row, bindparam, select, update

from trustgraph_flow.schema.errors import NotFound

from .access import Access, Prepared, insert_new
from .tables import call_journal
from .text import dump, load


@dataclass(frozen=True, slots=True)
class CallEntry:
    """``outcome`` is what ``finish`` was given; None while the call is only begun. Times are Unix seconds."""

    call_id: str
    state: Literal["begun", "done"]
    outcome: dict[str, Any] | None
    begun_at: float
    done_at: float | None


class CallJournal:
    """A call id is journaled once, before the tool is asked; who comes second learns that it was begun."""

    def __init__(self, access: Access) -> None:
        columns = call_journal.c
        self._access = access
        self._begin = Prepared(
            insert_new(call_journal, access.dialect).values(
                {
                    name: bindparam(name)
                    for name in ("call_id", "run_id", "server", "tool", "arguments", "begun_at")
                }
            ),
            access.dialect,
        )
        self._finish = Prepared(
            update(call_journal)
            .where(columns.call_id == bindparam("id"))
            .values(done_at=bindparam("at"), outcome=bindparam("result")),
            access.dialect,
        )
        self._select = select(columns.call_id, columns.outcome, columns.begun_at, columns.done_at).where(
            columns.call_id == bindparam("id")
        )

    async def begin(
        self, call_id: str, *, run_id: str | None, server: str, tool: str, arguments: dict[str, Any]
    ) -> CallEntry | None:
        """None: the call is new and now journaled as begun, go on. Else what is known of it: don't call."""
        row = self._begin.row(
            call_id=call_id,
            run_id=run_id,
            server=server,
            tool=tool,
            arguments=dump(arguments),
            begun_at=time.time(),
        )

        def work(connection: Connection) -> CallEntry | None:
            if connection.exec_driver_sql(self._begin.sql, row).rowcount:
                return None
            return _entry(connection.execute(self._select, {"id": call_id}).one())

        return await self._access.write(work)

    async def finish(self, call_id: str, outcome: dict[str, Any]) -> None:
        """Keeps what came of a call. Raises NotFound for one that was never begun."""
        row = self._finish.row(id=call_id, at=time.time(), result=dump(outcome))

        def work(connection: Connection) -> None:
            if not connection.exec_driver_sql(self._finish.sql, row).rowcount:
                raise NotFound(f"Call {call_id} is not in the journal; begin it before finishing it.")

        await self._access.write(work)

    async def get(self, call_id: str) -> CallEntry | None:
        def work(connection: Connection) -> CallEntry | None:
            row = connection.execute(self._select, {"id": call_id}).one_or_none()
            return None if row is None else _entry(row)

        return await self._access.read(work)


def _entry(row: Row[Any, Any, Any, Any]) -> CallEntry:
    call_id, outcome, begun_at, done_at = row
    return CallEntry(
        call_id,
        "begun" if outcome is None else "done",
        None if outcome is None else load(outcome),
        begun_at,
        done_at,
    )
