import asyncio

import pytest

from trustgraph_flow.schema.errors import Conflict
from trustgraph_flow.schema.events import RunEvent
from trustgraph_flow.store import Store


def event(**body: object) -> RunEvent:
    return RunEvent(kind="replied", body=body)


async def test_events_come_back_in_order_with_numbers_from_one(store: Store) -> None:
    last = await store.runs.append("r", [event(n=1), event(n=2)], 0)
    last = await store.runs.append("r", [RunEvent(kind="ended", at=12.5, body={"n": 3})], last)
    assert last == 3
    events = await store.runs.read("r")
    assert [(e.seq, e.kind, e.body["n"]) for e in events] == [
        (1, "replied", 1),
        (2, "replied", 2),
        (3, "ended", 3),
    ]
    assert events[2].at == 12.5
    assert events[0].at > 1e9
    assert [e.seq for e in await store.runs.read("r", after=2)] == [3]


async def test_a_run_that_nobody_started_has_no_events(store: Store) -> None:
    assert await store.runs.read("nobody") == []


async def test_appending_nothing_writes_nothing(store: Store) -> None:
    assert await store.runs.append("r", [], 0) == 0
    assert await store.runs.read("r") == []


async def test_who_has_not_read_the_newest_event_gets_a_conflict_and_changes_nothing(store: Store) -> None:
    await store.runs.append("r", [event(by="first")], 0)
    with pytest.raises(Conflict, match="Run r"):
        await store.runs.append("r", [event(by="second"), event(by="second")], 0)
    assert [e.body["by"] for e in await store.runs.read("r")] == ["first"]


async def test_of_many_that_append_at_once_one_wins_and_other_runs_are_not_disturbed(store: Store) -> None:
    async def append(run: str, n: int) -> bool:
        try:
            await store.runs.append(run, [event(n=n)], 0)
        except Conflict:
            return False
        return True

    contended = [append("same", n) for n in range(20)]
    alone = [append(f"own-{n}", n) for n in range(20)]
    won = await asyncio.gather(*contended, *alone)
    assert sum(won[:20]) == 1
    assert all(won[20:])
    assert len(await store.runs.read("same")) == 1
    assert [len(await store.runs.read(f"own-{n}")) for n in range(20)] == [1] * 20


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Zürich 東京 🦊",
        "nul \x00 and \u2028",
        "half a pair \ud83d",
        2**200,
        -0.5,
        None,
        True,
        [1, "1", {"a": []}],
        "x" * 300_000,
    ],
)
async def test_a_body_comes_back_as_it_went_in(store: Store, value: object) -> None:
    await store.runs.append("r", [event(value=value)], 0)
    [found] = await store.runs.read("r")
    assert found.body == {"value": value}
    assert type(found.body["value"]) is type(value)


async def test_two_processes_on_one_database_see_each_other_s_events(shared_url: str) -> None:
    async with await Store.open(shared_url) as one, await Store.open(shared_url) as other:
        last = 0
        for n in range(10):
            last = await (one, other)[n % 2].runs.append("r", [event(n=n)], last)
            assert len(await (other, one)[n % 2].runs.read("r")) == n + 1


async def test_a_write_whose_waiter_was_cancelled_does_not_stop_the_next(store: Store) -> None:
    task = asyncio.create_task(store.runs.append("a", [event(n=1)], 0))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await store.runs.append("b", [event(n=2)], 0) == 1
