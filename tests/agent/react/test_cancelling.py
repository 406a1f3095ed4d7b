"""A run can be cancelled by its client and by anybody who knows its id; a worker that stops cancels none."""

from __future__ import annotations

import asyncio
from typing import Any

from react_world import HeldCall, MakeWorld, WatchedAgent, World, call, final

from trustgraph_flow.agent.react.runs_here import cancel_run
from trustgraph_flow.bus import Bus, BusSettings


async def ended(world: World, run_id: str) -> dict[str, Any]:
    return (await world.events(run_id))[-1].body


async def test_a_run_is_cancelled_by_its_id_and_its_call_with_it(make_world: MakeWorld) -> None:
    world = await make_world([call("list_servers"), final("never")])
    world.answer = held = HeldCall()
    asked = asyncio.create_task(world.ask(run_id="r"))
    await held.here.wait()
    await cancel_run(world.bus, "r")
    last = (await asked)[-1]
    assert (last.message_type, last.status, last.reason) == ("error", "cancelled", "cancelled")
    await held.cancelled.wait()
    assert (await ended(world, "r"))["status"] == "cancelled"
    assert len(world.model.requests) == 1


async def test_a_client_that_leaves_cancels_its_run(make_world: MakeWorld) -> None:
    world = await make_world([call("list_servers"), final("never")])
    world.answer = held = HeldCall()
    asked = asyncio.create_task(world.ask(run_id="r"))
    await held.here.wait()
    asked.cancel()
    await held.cancelled.wait()
    last = (await world.ask(run_id="r"))[-1]
    assert last.status == "cancelled"


async def test_a_run_is_not_cancelled_from_another_workspace(make_world: MakeWorld) -> None:
    world = await make_world([call("list_servers"), final("done")])
    world.answer = held = HeldCall()
    asked = asyncio.create_task(world.ask(run_id="r"))
    await held.here.wait()
    noticed = asyncio.Event()

    async def heard(notice: dict[str, Any]) -> None:
        if notice.get("here"):
            noticed.set()

    await world.bus.listen("runs", heard)
    await cancel_run(world.bus, "r", "other")
    await world.bus.broadcast("runs", {"run_id": "r", "who": True})
    await noticed.wait()
    held.go.set()
    assert (await asked)[-1].content == "done"


async def test_a_worker_that_stops_leaves_its_run_to_another_one(
    make_world: MakeWorld, bus_settings: BusSettings
) -> None:
    world = await make_world([call("list_servers"), final("done")])
    world.answer = held = HeldCall()
    asked = asyncio.create_task(world.ask())
    await held.here.wait()
    await world.agent.close(grace=0)
    await held.cancelled.wait()
    world.answer = again = HeldCall()
    again.go.set()
    async with Bus(bus_settings) as other_bus:
        other = WatchedAgent(other_bus, world.store)
        await other.start()
        messages = await asked
        assert (messages[-1].status, messages[-1].content) == ("answered", "done")
        assert len({m.call_id for m in messages if m.message_type == "action"}) == 1
        await other.close()
