"""The service runner: one run a request, bounds, cancel, deadlines, draining, poison, dead letters."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from bus_words import Gate, Word, eventually, shout
from structlog.testing import capture_logs

from trustgraph_flow.bus import Bus, BusSettings, GiveUp, Request
from trustgraph_flow.bus import asker as asker_module
from trustgraph_flow.bus.inlet import Inlet
from trustgraph_flow.bus.topics import DEAD_LETTERS
from trustgraph_flow.schema.errors import BadRequest, DeadlineExceeded, TrustGraphError, Unavailable

BOTH = pytest.mark.parametrize("service", ["prompt", "agent"])


@BOTH
async def test_a_request_that_is_delivered_twice_runs_once(bus: Bus, service: str) -> None:
    gate = Gate()
    await bus.serve(service, gate)
    asking = asyncio.create_task(bus.request(service, Word(text="once"), Word))
    request = await gate.entered.get()
    outlet = bus.link.outlet(bus.topics.request(service))
    for attempt in ("1", "2"):
        await outlet.send(
            request.body, {"id": request.id, "reply-to": bus.asker.reply_topic, "attempt": attempt}
        )
    gate.go.set()
    assert (await asking).text == "ONCE"
    assert (await bus.request(service, Word(text="next"), Word)).text == "NEXT"
    assert gate.runs == 2


async def test_a_slow_request_is_sent_again_and_still_runs_once(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asker_module, "SILENCE_SECONDS", 0.0)
    gate = Gate()
    await bus.serve("prompt", gate)
    asking = asyncio.create_task(bus.request("prompt", Word(text="slow"), Word))
    request = await gate.entered.get()
    waiter = bus.asker.waiter(request.id)
    await eventually(lambda: waiter.attempt >= 2)
    await eventually(lambda: waiter.heard)
    gate.go.set()
    assert (await asking).text == "SLOW"
    assert gate.runs == 1


async def test_a_request_that_the_broker_lost_is_sent_again(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asker_module, "SILENCE_SECONDS", 0.0)
    asking = asyncio.create_task(bus.request("prompt", Word(text="lost"), Word))
    await eventually(lambda: len(bus.asker) == 1)
    await bus.serve("prompt", shout)
    assert (await asking).text == "LOST"


async def test_a_question_asked_before_any_worker_was_there_is_answered(bus: Bus) -> None:
    asking = asyncio.create_task(bus.request("agent", Word(text="early"), Word))
    await eventually(lambda: bus.link.outlet(bus.topics.request("agent")).is_open)
    await bus.serve("agent", shout)
    assert (await asking).text == "EARLY"


@BOTH
async def test_cancelling_the_asker_cancels_the_handler(bus: Bus, service: str) -> None:
    gate = Gate()
    await bus.serve(service, gate)
    asking = asyncio.create_task(bus.request(service, Word(text="x"), Word))
    await gate.entered.get()
    asking.cancel()
    await gate.cancelled.wait()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert len(bus.asker) == 0


async def test_closing_a_stream_cancels_the_handler(bus: Bus) -> None:
    gate = Gate()

    async def talk(request: Request) -> Word:
        await request.send(Word(text="first"))
        return await gate(request)

    await bus.serve("prompt", talk)
    stream = bus.stream("prompt", Word(text="x"), Word)
    assert (await anext(stream)).text == "first"
    await stream.aclose()
    await gate.cancelled.wait()


async def test_a_cancelled_request_that_still_waits_for_a_slot_never_runs(bus: Bus) -> None:
    gate = Gate()
    serving = await bus.serve("prompt", gate, concurrency=1)
    first = asyncio.create_task(bus.request("prompt", Word(text="first"), Word))
    await gate.entered.get()
    second = asyncio.create_task(bus.request("prompt", Word(text="second"), Word))
    third = asyncio.create_task(bus.request("prompt", Word(text="third"), Word))
    await eventually(lambda: serving.in_flight == 3)
    second.cancel()
    await eventually(lambda: serving.in_flight == 2)
    gate.go.set()
    assert [word.text for word in await asyncio.gather(first, third)] == ["FIRST", "THIRD"]
    assert gate.runs == 2


@BOTH
async def test_the_deadline_cancels_the_handler_and_the_asker_hears_of_it(bus: Bus, service: str) -> None:
    gate = Gate()
    await bus.serve(service, gate)
    with pytest.raises(DeadlineExceeded):
        await bus.request(service, Word(text="x"), Word, deadline=time.time() + 0.3)
    await gate.cancelled.wait()


async def test_a_deadline_that_is_over_is_said_at_once(bus: Bus) -> None:
    with pytest.raises(DeadlineExceeded, match="before the request was sent"):
        await bus.request("prompt", Word(text="x"), Word, deadline=time.time() - 1)


@BOTH
async def test_a_request_that_comes_after_its_deadline_is_not_run(bus: Bus, service: str) -> None:
    gate = Gate()
    gate.go.set()
    await bus.serve(service, gate)
    outlet = bus.link.outlet(bus.topics.request(service))
    late = {"id": "late", "reply-to": bus.asker.reply_topic, "deadline": f"{time.time() - 5:.3f}"}
    await outlet.send(b'{"text": "late"}', late)
    assert (await bus.request(service, Word(text="next"), Word)).text == "NEXT"
    assert gate.runs == 1


async def test_the_handler_sees_the_deadline_and_the_workspace(bus: Bus) -> None:
    async def look(request: Request) -> Word:
        return Word(text=f"{request.workspace} {0 < request.remaining(99) <= 20}")

    await bus.serve("prompt", look)
    answer = await bus.request("prompt", Word(text="x"), Word, workspace="acme", timeout=20)
    assert answer.text == "acme True"


@BOTH
async def test_no_more_handlers_run_than_allowed(bus: Bus, service: str) -> None:
    gate = Gate()
    await bus.serve(service, gate, concurrency=2)
    asking = [asyncio.create_task(bus.request(service, Word(text=str(n)), Word)) for n in range(5)]
    await gate.entered.get()
    await gate.entered.get()
    assert gate.runs == 2
    gate.go.set()
    assert [word.text for word in await asyncio.gather(*asking)] == list("01234")


async def test_a_busy_worker_leaves_questions_to_an_idle_one(bus: Bus, bus_settings: BusSettings) -> None:
    busy, idle = Gate(), Gate()
    async with Bus(bus_settings) as other:
        await bus.serve("agent", busy, concurrency=1)
        first = asyncio.create_task(bus.request("agent", Word(text="a"), Word))
        await busy.entered.get()
        await other.serve("agent", idle, concurrency=3)
        rest = [asyncio.create_task(bus.request("agent", Word(text=text), Word)) for text in "bcd"]
        for _ in rest:
            await idle.entered.get()
        busy.go.set()
        idle.go.set()
        assert [word.text for word in await asyncio.gather(first, *rest)] == list("ABCD")
    assert busy.runs == 1


async def test_close_lets_running_requests_end(bus: Bus) -> None:
    gate = Gate()
    serving = await bus.serve("agent", gate)
    asking = asyncio.create_task(bus.request("agent", Word(text="x"), Word))
    await gate.entered.get()
    closing = asyncio.create_task(serving.close(grace=30))
    gate.go.set()
    assert (await asking).text == "X"
    await closing


async def test_a_question_that_a_closing_worker_could_not_end_goes_to_another(
    bus: Bus, bus_settings: BusSettings
) -> None:
    gate = Gate()
    async with Bus(bus_settings) as other:
        serving = await other.serve("agent", gate)
        asking = asyncio.create_task(bus.request("agent", Word(text="x"), Word))
        await gate.entered.get()
        await serving.close(grace=0)
        assert gate.cancelled.is_set()
        await bus.serve("agent", shout)
        assert (await asking).text == "X"


async def test_a_closing_worker_tells_askers_of_lesser_requests(bus: Bus) -> None:
    gate = Gate()
    serving = await bus.serve("prompt", gate)
    asking = asyncio.create_task(bus.request("prompt", Word(text="x"), Word))
    await gate.entered.get()
    await serving.close(grace=0)
    with pytest.raises(Unavailable, match="stopping"):
        await asking


@BOTH
@pytest.mark.parametrize("body", [b"\x00\xff", b"{", b"[1]", b'{"text": 5}', b""], ids=repr)
async def test_a_body_that_is_no_request_is_answered_and_the_next_one_is_handled(
    bus: Bus, service: str, body: bytes
) -> None:
    await bus.serve(service, shout)
    answers: asyncio.Queue[Any] = asyncio.Queue()
    replies = Inlet(bus.link, bus.topics.reply("stray"), "test", answers.put_nowait)
    await replies.open()
    properties = {"id": "x", "reply-to": replies.topic}
    await bus.link.outlet(bus.topics.request(service)).send(body, properties)
    answer = (await answers.get()).properties()
    assert (answer["id"], answer["kind"], answer["end"]) == ("x", "error", "1")
    assert (await bus.request(service, Word(text="next"), Word)).text == "NEXT"


@BOTH
@pytest.mark.parametrize(
    "properties", [{}, {"id": "1"}, {"reply-to": "x"}, {"id": "1", "reply-to": "no://topic"}], ids=repr
)
async def test_a_message_that_can_not_be_answered_is_dropped_with_a_log_line(
    bus: Bus, service: str, properties: dict[str, str]
) -> None:
    await bus.serve(service, shout)
    with capture_logs() as logs:
        await bus.link.outlet(bus.topics.request(service)).send(b"\x00\xff", properties)
        assert (await bus.request(service, Word(text="next"), Word)).text == "NEXT"
        await eventually(lambda: logs)
    assert logs[0]["log_level"] == "warning"


async def test_what_a_handler_gives_up_becomes_a_dead_letter_with_its_reason(bus: Bus) -> None:
    async def refuse(request: Request) -> Word:
        raise GiveUp("three workers died of it")

    await bus.serve("agent", refuse)
    with pytest.raises(TrustGraphError, match="three workers died of it") as caught:
        await bus.request("agent", Word(text="x"), Word)
    assert caught.value.type == "dead-lettered"
    letter = await first_message(bus, bus.topics.dead_letters("agent"), DEAD_LETTERS)
    properties = letter.properties()
    assert letter.data() == b'{"text":"x"}'
    assert properties["reason"] == "three workers died of it"
    assert properties["id"]
    assert properties["reply-to"] == bus.asker.reply_topic


async def first_message(bus: Bus, topic: str, subscription: str) -> object:
    arrived: asyncio.Queue[object] = asyncio.Queue()

    async def always() -> None:
        return None

    inlet = Inlet(bus.link, topic, subscription, arrived.put_nowait, shared=True, gate=always)
    await inlet.open()
    try:
        return await arrived.get()
    finally:
        await inlet.close()


async def test_a_body_too_large_for_the_bus_is_refused_before_it_is_sent(bus: Bus) -> None:
    with pytest.raises(BadRequest, match=r"the request to prompt is 6,\d\d\d,\d\d\d bytes"):
        await bus.request("prompt", Word(text="x" * 6_000_000), Word)
    assert len(bus.asker) == 0


async def test_a_body_just_below_the_limit_travels(bus: Bus) -> None:
    await bus.serve("prompt", shout)
    answer = await bus.request("prompt", Word(text="x" * 5_100_000), Word, timeout=60)
    assert len(answer.text) == 5_100_000


async def test_a_reply_too_large_for_the_bus_is_answered_as_an_error(bus: Bus) -> None:
    async def long(request: Request) -> Word:
        return Word(text="x" * 6_000_000)

    await bus.serve("prompt", long)
    with pytest.raises(BadRequest, match="the reply is"):
        await bus.request("prompt", Word(text="x"), Word)


async def test_one_trace_goes_through_all_hops(bus: Bus) -> None:
    seen: list[str] = []

    async def inner(request: Request) -> Word:
        seen.append(request.traceparent or "")
        return Word(text="x")

    async def outer(request: Request) -> Word:
        seen.append(request.traceparent or "")
        return await bus.request("prompt", Word(text="x"), Word)

    await bus.serve("agent", outer)
    await bus.serve("prompt", inner)
    await bus.request("agent", Word(text="x"), Word)
    first, second = (parent.split("-") for parent in seen)
    assert first[1] == second[1]
    assert first[2] != second[2]


async def test_a_name_that_is_no_topic_is_a_bad_request(bus: Bus) -> None:
    with pytest.raises(BadRequest, match="can't name a queue"):
        await bus.request("../x y", Word(text="x"), Word)
