import asyncio

import pytest

from trustgraph_flow.schema.errors import NotFound
from trustgraph_flow.store import CallEntry, Store


async def begin(store: Store, call_id: str = "c") -> CallEntry | None:
    return await store.calls.begin(call_id, run_id="r", server="bank", tool="pay", arguments={"sum": 5})


async def test_the_first_to_begin_a_call_may_go_on(store: Store) -> None:
    assert await begin(store) is None


async def test_who_comes_second_learns_that_the_call_was_begun(store: Store) -> None:
    await begin(store)
    entry = await begin(store)
    assert entry is not None
    assert (entry.call_id, entry.state, entry.outcome, entry.done_at) == ("c", "begun", None, None)


async def test_the_outcome_of_a_finished_call_is_kept(store: Store) -> None:
    await begin(store)
    await store.calls.finish("c", {"text": "paid", "is_error": False})
    entry = await begin(store)
    assert entry is not None
    assert (entry.state, entry.outcome) == ("done", {"text": "paid", "is_error": False})
    assert entry.done_at is not None
    assert entry == await store.calls.get("c")


async def test_a_call_that_was_never_begun_is_unknown(store: Store) -> None:
    assert await store.calls.get("c") is None
    with pytest.raises(NotFound, match="Call c"):
        await store.calls.finish("c", {})


async def test_of_many_that_begin_one_call_at_once_one_goes_on(store: Store) -> None:
    entries = await asyncio.gather(*(begin(store) for _ in range(20)))
    assert sum(entry is None for entry in entries) == 1


async def test_of_many_processes_that_begin_one_call_at_once_one_goes_on(shared_url: str) -> None:
    stores = [await Store.open(shared_url) for _ in range(4)]
    entries = await asyncio.gather(*(begin(store) for store in stores for _ in range(5)))
    assert sum(entry is None for entry in entries) == 1
    for store in stores:
        await store.close()
