"""Requests, replies and streams on the broker of this run."""

from __future__ import annotations

import asyncio

import pytest
from bus_words import Word, shout, spell

from trustgraph_flow.bus import Bus, BusSettings, Request
from trustgraph_flow.schema.errors import BadRequest, DeadlineExceeded, NotFound, TrustGraphError


@pytest.mark.parametrize("service", ["prompt", "agent"])
async def test_a_request_is_answered(bus: Bus, service: str) -> None:
    await bus.serve(service, shout)
    answer = await bus.request(service, Word(text="hello"), Word)
    assert answer.text == "HELLO"


@pytest.mark.parametrize("service", ["prompt", "agent"])
async def test_a_stream_yields_every_frame_in_order(bus: Bus, service: str) -> None:
    await bus.serve(service, spell)
    letters = [word.text async for word in bus.stream(service, Word(text="abcdef"), Word)]
    assert letters == list("abcdef")


async def test_a_thousand_requests_at_once_each_get_their_own_answer(bus: Bus) -> None:
    await bus.serve("prompt", shout)
    answers = await asyncio.gather(
        *(bus.request("prompt", Word(text=f"w{number}"), Word, timeout=30) for number in range(1000))
    )
    assert [answer.text for answer in answers] == [f"W{number}" for number in range(1000)]


async def test_a_reply_goes_only_to_the_process_that_asked(bus: Bus, bus_settings: BusSettings) -> None:
    await bus.serve("prompt", shout)
    async with Bus(bus_settings) as first, Bus(bus_settings) as second:
        one, two = await asyncio.gather(
            first.request("prompt", Word(text="apple"), Word),
            second.request("prompt", Word(text="pear"), Word),
        )
    assert (one.text, two.text) == ("APPLE", "PEAR")


async def test_a_services_error_is_raised_where_it_was_asked(bus: Bus) -> None:
    async def fail(request: Request) -> Word:
        raise NotFound("no such word", data={"word": "x"})

    await bus.serve("prompt", fail)
    with pytest.raises(NotFound, match="no such word") as caught:
        await bus.request("prompt", Word(text="x"), Word)
    assert caught.value.data == {"word": "x"}


async def test_a_broken_handler_answers_internal_error(bus: Bus) -> None:
    async def fail(request: Request) -> Word:
        raise ZeroDivisionError("by zero")

    await bus.serve("prompt", fail)
    with pytest.raises(TrustGraphError, match="by zero") as caught:
        await bus.request("prompt", Word(text="x"), Word)
    assert caught.value.type == "internal-error"


async def test_a_body_of_the_wrong_shape_is_a_bad_request_that_names_the_fault(bus: Bus) -> None:
    await bus.serve("prompt", shout)
    with pytest.raises(BadRequest, match="text: Field required"):
        await bus.request("prompt", {"txt": "x"}, Word)


async def test_a_request_that_nobody_serves_ends_at_its_deadline(bus: Bus) -> None:
    with pytest.raises(DeadlineExceeded, match="is a prompt service running"):
        await bus.request("prompt", Word(text="x"), Word, timeout=0.3)
    assert len(bus.asker) == 0
