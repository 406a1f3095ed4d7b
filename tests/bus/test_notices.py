"""Notices to every listening process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from bus_words import Word
from structlog.testing import capture_logs

from trustgraph_flow.bus import Bus, BusSettings
from trustgraph_flow.schema.errors import BadRequest


class Heard:
    def __init__(self) -> None:
        self.notices: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def __call__(self, notice: dict[str, Any]) -> None:
        self.notices.put_nowait(notice)


async def test_every_listener_gets_every_notice_in_order(bus: Bus, bus_settings: BusSettings) -> None:
    listeners = [Heard(), Heard(), Heard()]
    async with Bus(bus_settings) as other:
        await bus.listen("config", listeners[0])
        await bus.listen("config", listeners[1])
        await other.listen("config", listeners[2])
        for number in range(20):
            await bus.broadcast("config", {"version": number})
        for heard in listeners:
            assert [(await heard.notices.get())["version"] for _ in range(20)] == list(range(20))


async def test_channels_do_not_mix(bus: Bus) -> None:
    heard = Heard()
    await bus.listen("config", heard)
    await bus.broadcast("other", {"from": "other"})
    await bus.broadcast("config", {"from": "config"})
    assert await heard.notices.get() == {"from": "config"}


async def test_a_notice_that_can_not_be_read_and_a_listener_that_fails_stop_nothing(bus: Bus) -> None:
    heard = Heard()

    async def fragile(notice: dict[str, Any]) -> None:
        if notice.get("bad"):
            raise ZeroDivisionError
        await heard(notice)

    await bus.listen("config", fragile)
    with capture_logs() as logs:
        for payload in (b"\x00\xff", b"{", b"[]"):
            await bus.link.outlet(bus.topics.notice("config")).send(payload, {})
        await bus.broadcast("config", {"bad": True})
        await bus.broadcast("config", Word(text="good"))
        assert await heard.notices.get() == {"text": "good"}
    assert [entry["log_level"] for entry in logs] == ["warning"] * 3 + ["error"]


async def test_after_close_nothing_is_heard(bus: Bus) -> None:
    closed, open_one = Heard(), Heard()
    listening = await bus.listen("config", closed)
    await bus.listen("config", open_one)
    await listening.close()
    await bus.broadcast("config", {"version": 1})
    await open_one.notices.get()
    assert closed.notices.empty()


async def test_a_notice_too_large_is_refused(bus: Bus) -> None:
    with pytest.raises(BadRequest, match="the notice on config"):
        await bus.broadcast("config", {"text": "x" * 6_000_000})
