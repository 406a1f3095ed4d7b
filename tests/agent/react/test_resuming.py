"""A run that was interrupted goes on from its log, and a run that has ended is not run again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest
from react_world import MakeWorld, call, final

from trustgraph_flow.schema.errors import TrustGraphError, Unavailable
from trustgraph_flow.schema.events import RunEvent
from trustgraph_flow.schema.llm import TextCompletionRequest
from trustgraph_flow.store import RunLog


def log(*events: tuple[str, dict[str, Any]]) -> list[RunEvent]:
    return [
        RunEvent.model_validate({"seq": seq, "at": 0.0, "kind": kind, "body": body})
        for seq, (kind, body) in enumerate(events, 1)
    ]


def started() -> tuple[str, dict[str, Any]]:
    return ("started", {"question": "What now?", "deadline": time.time() + 60})


async def test_an_open_call_is_made_again_with_the_same_call_id(make_world: MakeWorld) -> None:
    world = await make_world([final("done")])
    called = {"call_id": "r-4", "tool": "transfer", "arguments": {"account_id": 1, "amount": 2}}
    await world.store.runs.append(
        "r", log(started(), ("prompted", {}), ("replied", {"thought": "move"}), ("called", called)), after=0
    )
    messages = await world.ask(run_id="r")
    assert [(request.call_id, request.parameters) for request in world.sent] == [
        ("r-4", {"account_id": 1, "amount": 2})
    ]
    assert messages[-1].content == "done"
    assert "Thought: move" in world.prompts[0]


async def test_a_run_that_has_ended_answers_from_its_log(make_world: MakeWorld) -> None:
    world = await make_world([final("first")])
    assert (await world.ask(run_id="r"))[-1].content == "first"
    again = await world.ask(run_id="r")
    assert [(message.message_type, message.content) for message in again] == [
        ("thought", "enough"),
        ("answer", "first"),
    ]
    assert len(world.model.requests) == 1


async def test_a_prompt_without_a_reply_is_asked_again(make_world: MakeWorld) -> None:
    world = await make_world([call("list_servers"), final("done")])
    await world.store.runs.append("r", log(started(), ("prompted", {})), after=0)
    assert (await world.ask(run_id="r"))[-1].content == "done"
    kinds = [event.kind for event in await world.events("r")]
    assert kinds == [
        "started",
        "prompted",
        "resumed",
        "prompted",
        "replied",
        "called",
        "returned",
        "prompted",
        "replied",
        "answered",
        "ended",
    ]


async def test_a_run_that_kills_one_worker_after_the_other_is_given_up(make_world: MakeWorld) -> None:
    world = await make_world([final("never")])
    await world.store.runs.append("r", log(started(), ("prompted", {}), *[("resumed", {})] * 10), after=0)
    with pytest.raises(TrustGraphError, match="10 workers in a row") as caught:
        await world.ask(run_id="r")
    assert caught.value.type == "dead-lettered"
    again = await world.ask(run_id="r")
    assert (again[-1].status, again[-1].reason) == ("error", "given-up")
    assert world.model.requests == []


async def test_a_long_run_may_be_taken_up_often_as_long_as_it_goes_on(make_world: MakeWorld) -> None:
    world = await make_world([final("done")])
    called = {"call_id": "r-14", "tool": "list_servers", "arguments": {}}
    returned = {"call_id": "r-14", "text": "x", "is_error": False}
    steps = [*[("resumed", {})] * 10, ("replied", {}), ("called", called), ("returned", returned)]
    await world.store.runs.append(
        "r", log(started(), ("prompted", {}), *steps, *[("resumed", {})] * 9), after=0
    )
    assert (await world.ask(run_id="r"))[-1].content == "done"


class FailingLog(RunLog):
    """A run log whose ``number``-th append fails, and the next read: after the write, or in its place."""

    def __init__(self, log: RunLog, number: int, *, written: bool) -> None:
        super().__init__(log._access)
        self.left = number
        self.written = written
        self.unreadable = False

    async def append(self, run_id: str, events: Sequence[RunEvent], after: int, **where: Any) -> int:
        self.left -= 1
        last = after
        if self.left or self.written:
            last = await super().append(run_id, events, after, **where)
        if not self.left:
            self.unreadable = True
            raise Unavailable("the store went away")
        return last

    async def read(self, run_id: str, after: int = 0) -> list[RunEvent]:
        if self.unreadable:
            self.unreadable = False
            raise Unavailable("the store is away")
        return await super().read(run_id, after)


@pytest.mark.parametrize("written", [True, False], ids=["written", "not written"])
@pytest.mark.parametrize("number", [1, 2, 3, 4])
async def test_a_run_goes_on_when_its_log_was_away(make_world: MakeWorld, number: int, written: bool) -> None:
    def reply(request: TextCompletionRequest) -> str:
        return final("done") if "Observation" in request.prompt else call("list_servers")

    world = await make_world(reply)
    world.store.runs = FailingLog(world.store.runs, number, written=written)
    messages = await world.ask(run_id="r")
    assert (messages[-1].status, messages[-1].content) == ("answered", "done")
    assert len({message.message_id for message in messages}) == len(messages)
    assert len({request.call_id for request in world.sent}) == 1
    seen = [event.seq for event in await world.events("r")]
    assert seen == list(range(1, len(seen) + 1))
