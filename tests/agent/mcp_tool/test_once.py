"""A call with an id runs once."""

from __future__ import annotations

import asyncio

import pytest

from trustgraph_flow.agent.mcp_tool.journal import JournaledCall, Once
from trustgraph_flow.store import Store


async def test_who_asks_for_a_call_that_is_being_cancelled_is_told_that_it_was(tmp_path):
    started, ending, end = asyncio.Event(), asyncio.Event(), asyncio.Event()
    runs = []

    async def run():
        runs.append("ran")
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            await end.wait()

    async def never() -> bool:
        return False

    async with await Store.open(f"sqlite:///{tmp_path}/tg.db") as store:
        once = Once(store.calls)
        call = JournaledCall("c1", None, "server", "tool", {}, never)
        first = asyncio.create_task(once.run(call, run))
        await started.wait()
        first.cancel()
        await ending.wait()
        second = asyncio.create_task(once.run(call, run))
        asyncio.get_running_loop().call_soon(end.set)
        assert (await second).fault == "cancelled"
        with pytest.raises(asyncio.CancelledError):
            await first
        assert runs == ["ran"]
