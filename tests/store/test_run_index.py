"""Finding runs: the newest of a workspace, and the earlier questions of a session."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import text

from trustgraph_flow.schema.errors import Conflict, NotFound
from trustgraph_flow.schema.events import RunEvent
from trustgraph_flow.store import Exchange, Store
from trustgraph_flow.store.database import open_database
from trustgraph_flow.store.run_index import SESSION, recent


async def begin(
    store: Store, run_id: str, at: float, *, session: str | None = None, workspace: str = "default"
) -> None:
    body = {"question": f"What is {run_id}?", "session_id": session}
    await store.runs.append(run_id, [RunEvent(kind="started", at=at, body=body)], 0, workspace=workspace)


async def answer(store: Store, run_id: str, text: str) -> None:
    await store.runs.append(
        run_id,
        [
            RunEvent(kind="answered", body={"answer": text}),
            RunEvent(kind="ended", at=99.0, body={"status": "answered", "reason": "step-limit"}),
        ],
        1,
    )


async def test_runs_are_listed_newest_first_with_what_became_of_them(store: Store) -> None:
    await begin(store, "a", 1.0, session="s")
    await begin(store, "b", 2.0)
    await begin(store, "elsewhere", 3.0, workspace="other")
    await answer(store, "a", "yes")
    b, a = await store.runs.recent("default")
    assert (b.run_id, b.question, b.started_at, b.last_at) == ("b", "What is b?", 2.0, 2.0)
    assert (b.session_id, b.status, b.reason) == (None, None, None)
    assert (a.session_id, a.last_at, a.status, a.reason) == ("s", 99.0, "answered", "step-limit")
    assert [run.run_id for run in await store.runs.recent("default", session_id="s")] == ["a"]


async def test_pages_of_runs_meet_without_gap_or_overlap_where_runs_began_at_once(store: Store) -> None:
    for number in range(7):
        await begin(store, f"r{number}", 1.0 + number // 3)
    seen: list[str] = []
    while page := await store.runs.recent("default", 2, seen[-1] if seen else None):
        seen += [run.run_id for run in page]
    assert seen == [f"r{number}" for number in reversed(range(7))]


async def test_a_page_before_an_unknown_run_is_refused(store: Store) -> None:
    with pytest.raises(NotFound, match="no run 'x'"):
        await store.runs.recent("default", before="x")


async def test_a_session_is_the_answered_questions_before_a_time_oldest_first(store: Store) -> None:
    for number in range(4):
        await begin(store, f"r{number}", float(number), session="s")
        await answer(store, f"r{number}", str(number))
    await begin(store, "open", 1.5, session="s")
    await begin(store, "stranger", 1.5, session="t")
    await begin(store, "alone", 1.5)
    await begin(store, "elsewhere", 1.5, session="s", workspace="other")
    for run_id in ("stranger", "alone", "elsewhere"):
        await answer(store, run_id, "no")
    assert await store.runs.session("default", "s", 3.0, 2) == [
        Exchange("What is r1?", "1"),
        Exchange("What is r2?", "2"),
    ]


async def test_a_run_that_could_not_begin_is_not_listed(store: Store) -> None:
    await begin(store, "a", 1.0)
    with pytest.raises(Conflict):
        await begin(store, "a", 2.0, session="s")
    assert [(run.started_at, run.session_id) for run in await store.runs.recent("default")] == [(1.0, None)]


async def test_a_hundred_thousand_runs_are_listed_by_an_index(tmp_path: Path) -> None:
    """No part of the plans reads or sorts a whole table."""
    database = open_database(f"sqlite:///{tmp_path}/tg.db")
    with database.write.begin() as connection:
        numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)"
        connection.execute(
            text(f"INSERT INTO run {numbers} SELECT 'r' || i, 'default', 's' || (i % 1000), i FROM n")
        )
        connection.execute(
            text(
                "INSERT INTO run_event (run_id, seq, at, kind, body, workspace) "
                f"""{numbers} SELECT 'r' || i, 1, i, 'started', '{{"question": "q"}}', 'default' FROM n"""
            )
        )
    queries = [
        recent(session=session, before=before) for session in (False, True) for before in (False, True)
    ]
    for query in [*queries, SESSION]:
        compiled = query.compile(dialect=database.write.dialect)
        values = [0] * len(compiled.positiontup or ())
        with database.write.connect() as connection:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}", tuple(values)).all()
        steps = [row[3] for row in plan]
        assert not [step for step in steps if step.startswith(("SCAN", "USE TEMP"))], steps
        assert any("INDEX run_" in step for step in steps)
    database.dispose()
    async with await Store.open(f"sqlite:///{tmp_path}/tg.db") as store:
        newest = await store.runs.recent("default", 2, "r50000")
        assert [run.run_id for run in newest] == ["r49999", "r49998"]


async def test_runs_of_an_older_store_are_found_after_its_migration(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tg.db"
    async with await Store.open(url) as store:
        await begin(store, "a", 1.0, session="s")
        await answer(store, "a", "yes")
    connection = sqlite3.connect(tmp_path / "tg.db")
    for newer in ("run", "sign_in", "artifact"):
        connection.execute(f"DROP TABLE {newer}")
    connection.execute("UPDATE alembic_version SET version_num = '0001'")
    connection.commit()
    connection.close()
    async with await Store.open(url) as store:
        (run,) = await store.runs.recent("default")
        assert (run.run_id, run.session_id, run.started_at) == ("a", "s", 1.0)
        assert await store.runs.session("default", "s", 2.0, 5) == [Exchange("What is a?", "yes")]
