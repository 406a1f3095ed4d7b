"""A request with the id of a run that has begun joins that run; it never begins or drives another one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from react_world import HeldCall, MakeWorld, WatchedAgent, World, call, final

from trustgraph_flow.agent.react.messages import messages_of
from trustgraph_flow.bus import Bus, BusSettings
from trustgraph_flow.schema.agent import AgentMessage, AgentRequest
from trustgraph_flow.schema.errors import BadRequest, NotFound
from trustgraph_flow.schema.events import RunEvent

SCRIPT = [call("list_servers"), final("one")]


@pytest.fixture
async def other_bus(bus_settings: BusSettings) -> AsyncIterator[Bus]:
    """The bus of another process."""
    async with Bus(bus_settings) as bus:
        yield bus


def said(messages: list[AgentMessage]) -> list[tuple[str, str, str, int | None]]:
    return [(m.message_type, m.content, m.message_id, m.step) for m in messages]


async def attached(world: World, messages: list[AgentMessage]) -> asyncio.Task[list[AgentMessage]]:
    """Attaches to run r, and returns when its first message has come."""
    first = asyncio.Event()

    async def attach() -> list[AgentMessage]:
        stream = world.bus.stream("agent", AgentRequest(question="?", run_id="r"), AgentMessage, timeout=30)
        async for message in stream:
            messages.append(message)
            first.set()
        return messages

    task = asyncio.create_task(attach())
    await first.wait()
    return task


async def test_a_request_joins_a_run_under_way_in_the_same_process(make_world: MakeWorld) -> None:
    world = await make_world(SCRIPT)
    world.answer = held = HeldCall()
    first = asyncio.create_task(world.ask(run_id="r"))
    await held.here.wait()
    second = await attached(world, [])
    held.go.set()
    assert said(await second) == said(await first)
    assert (len(world.sent), len(world.model.requests)) == (1, 2)


async def test_a_request_joins_a_run_under_way_in_another_process(
    make_world: MakeWorld, other_bus: Bus
) -> None:
    world = await make_world(SCRIPT, concurrency=1)
    world.answer = held = HeldCall()
    first = asyncio.create_task(world.ask(run_id="r"))
    await held.here.wait()
    other = WatchedAgent(other_bus, world.store)
    await other.start()
    second = await attached(world, [])
    held.go.set()
    assert said(await second) == said(await first)
    assert (len(world.sent), len(world.model.requests)) == (1, 2)
    await other.close()


async def test_who_leaves_a_run_that_another_drives_does_not_end_it(make_world: MakeWorld) -> None:
    world = await make_world(SCRIPT)
    world.answer = held = HeldCall()
    first = asyncio.create_task(world.ask(run_id="r"))
    await held.here.wait()
    second = await attached(world, [])
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    held.go.set()
    assert (await first)[-1].content == "one"


async def test_requests_that_bring_one_new_id_to_two_workers_make_one_run(
    make_world: MakeWorld, other_bus: Bus
) -> None:
    world = await make_world(lambda request: SCRIPT["Observation" in request.prompt], concurrency=1)
    other = WatchedAgent(other_bus, world.store, concurrency=1)
    await other.start()
    dialogs = await asyncio.gather(*(world.ask(run_id="r") for _ in range(2)))
    assert [dialog[-1].content for dialog in dialogs] == ["one", "one"]
    assert len({request.call_id for request in world.sent}) == 1
    kinds = [event.kind for event in await world.events("r")]
    assert (kinds.count("started"), kinds.count("called"), kinds.count("ended")) == (1, 1, 1)
    await other.close()


async def test_a_worker_that_was_overtaken_follows_and_tells_nothing_twice(make_world: MakeWorld) -> None:
    world = await make_world([call("list_servers")])
    world.answer = held = HeldCall()
    first = asyncio.create_task(world.ask(run_id="r"))
    await held.here.wait()
    last = (await world.events("r"))[-1]
    called = last.body
    await world.store.runs.append(
        "r",
        [
            RunEvent(kind="returned", body={"call_id": called["call_id"], "text": "x", "is_error": False}),
            RunEvent(kind="prompted"),
            RunEvent(kind="replied", body={"thought": "theirs"}),
            RunEvent(kind="answered", body={"answer": "from the other"}),
            RunEvent(kind="ended", body={"status": "answered", "reason": "answered"}),
        ],
        after=last.seq,
    )
    held.go.set()
    messages = await first
    assert [m.message_type for m in messages] == ["thought", "action", "observation", "thought", "answer"]
    assert messages[-1].content == "from the other"
    assert len(world.model.requests) == 1


async def test_the_log_tells_a_run_as_its_client_saw_it(make_world: MakeWorld) -> None:
    world = await make_world(
        ["mumble", call("no_such"), call("get_forecast"), call("list_servers"), final("one")]
    )
    messages = await world.ask(run_id="r")
    assert {m.reason for m in messages} > {"unknown-tool", "invalid-arguments", "answered"}
    assert list(messages_of("r", await world.events("r"))) == messages


async def test_a_run_of_another_workspace_is_refused_and_nothing_of_it_is_told(make_world: MakeWorld) -> None:
    world = await make_world(SCRIPT)
    await world.ask("What is the secret?", run_id="r")
    world.agent.reloaded.clear()
    await world.put("agent", "additional-context", "x", workspace="other")
    await world.agent.reloaded.wait()
    with pytest.raises(BadRequest, match="choose another one") as caught:
        await world.ask(run_id="r", workspace="other")
    assert "secret" not in caught.value.message
    assert len(world.model.requests) == 2


async def test_an_id_of_the_services_own_making_can_be_joined_but_not_begun(make_world: MakeWorld) -> None:
    world = await make_world(SCRIPT)
    first = await world.ask()
    run_id = first[-1].run_id
    assert run_id is not None
    assert said(await world.ask(run_id=run_id)) == said(first)
    with pytest.raises(NotFound, match="must not begin with"):
        await world.ask(run_id=f"{run_id}0")


async def test_a_run_whose_worker_is_gone_is_driven_by_who_asks_for_it(make_world: MakeWorld) -> None:
    world = await make_world(SCRIPT)
    world.answer = held = HeldCall()
    first = asyncio.create_task(world.ask(run_id="r"))
    await held.here.wait()
    await world.agent.close(grace=0)
    first.cancel()
    world.answer = HeldCall()
    world.answer.go.set()
    again = WatchedAgent(world.bus, world.store)
    await again.start()
    assert (await world.ask(run_id="r"))[-1].content == "one"
    await again.close()
