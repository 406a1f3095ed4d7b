"""What becomes of requests when a worker or the broker goes away."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from bus_words import Gate, Process, Word, eventually, said, shout
from structlog.testing import capture_logs

from trustgraph_flow.bus import Bus, BusSettings, EmbeddedBroker
from trustgraph_flow.bus import link as link_module
from trustgraph_flow.bus.broker import free_port
from trustgraph_flow.schema.errors import DeadlineExceeded, TrustGraphError, Unavailable

StartWorker = Callable[[str, str], Awaitable[Process]]


@pytest.mark.parametrize("service", ["prompt", "agent"])
async def test_when_a_worker_is_killed_another_one_answers(
    bus: Bus, start_worker: StartWorker, service: str
) -> None:
    dying = await start_worker(service, "hold")
    asking = asyncio.create_task(bus.request(service, Word(text="x"), Word, timeout=30))
    assert await said(dying) == "got"
    await start_worker(service, "answer")
    dying.kill()
    assert (await asking).text.startswith("answer")


async def test_a_stream_whose_worker_is_killed_after_the_first_frame_says_so(
    bus: Bus, start_worker: StartWorker
) -> None:
    dying = await start_worker("prompt", "stream")
    stream = bus.stream("prompt", Word(text="x"), Word, timeout=30)
    assert (await anext(stream)).text == "first"
    dying.kill()
    with pytest.raises(Unavailable, match="silent"):
        await anext(stream)
    assert len(bus.asker) == 0


async def test_a_request_that_kills_every_worker_becomes_a_dead_letter(
    bus: Bus, start_worker: StartWorker, embedded_only: None
) -> None:
    # Only the embedded broker counts deliveries to workers that died; on Apache Pulsar handlers must count.
    asking = asyncio.create_task(bus.request("agent", Word(text="x"), Word, timeout=60))
    for _ in range(3):
        dying = await start_worker("agent", "die")
        await dying.wait()
        assert dying.returncode == -signal.SIGKILL
    await start_worker("agent", "answer")
    with pytest.raises(TrustGraphError, match="given up after 3 deliveries") as caught:
        await asking
    assert caught.value.type == "dead-lettered"
    assert (await bus.request("agent", Word(text="x"), Word)).text == "answer 0"


@pytest.mark.parametrize("service", ["prompt", "agent"])
async def test_requests_outlive_the_death_of_the_broker(
    tmp_path: Path, embedded_only: None, service: str
) -> None:
    gate = Gate()
    async with EmbeddedBroker(tmp_path) as broker, Bus(BusSettings(url=broker.url)) as bus:
        await bus.serve(service, gate)
        asking = asyncio.create_task(bus.request(service, Word(text="x"), Word, timeout=30))
        await gate.entered.get()
        first = broker.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: broker.pid != first)
        gate.go.set()
        assert (await asking).text == "X"
        assert (await bus.request(service, Word(text="next"), Word, timeout=30)).text == "NEXT"


async def test_a_long_outage_ends_requests_at_their_deadlines_and_then_all_works_again(
    tmp_path: Path, embedded_only: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "LOST_SECONDS", 0.0)
    port = free_port()
    heard: list[dict[str, object]] = []

    async def hear(notice: dict[str, object]) -> None:
        heard.append(notice)

    with capture_logs() as logs:
        async with EmbeddedBroker(tmp_path, port=port) as broker:
            bus = Bus(BusSettings(url=broker.url))
            await bus.__aenter__()
            await bus.serve("prompt", shout)
            await bus.serve("agent", shout)
            await bus.listen("config", hear)
            await bus.request("prompt", Word(text="x"), Word)
        await eventually(lambda: not bus.link.connected)
        for service in ("prompt", "agent", "never-used"):
            with pytest.raises(DeadlineExceeded, match="can't be reached"):
                await bus.request(service, Word(text="x"), Word, timeout=0.2)
        assert len(bus.asker) == 0
        async with EmbeddedBroker(tmp_path, port=port):
            for service in ("prompt", "agent"):
                assert (await bus.request(service, Word(text="back"), Word, timeout=30)).text == "BACK"
            await eventually(lambda: bus.link.connected)
            await bus.broadcast("config", {"version": 1})
            await eventually(lambda: heard == [{"version": 1}])
            await bus.close()
    events = [entry["event"] for entry in logs if entry["event"].startswith("broker ")]
    assert events == ["broker lost", "broker back"]


async def test_a_bus_without_a_broker_says_where_it_looked() -> None:
    port = free_port()
    with pytest.raises(Unavailable, match=f"no broker answers at pulsar://127.0.0.1:{port}"):
        async with Bus(BusSettings(url=f"pulsar://127.0.0.1:{port}")):
            pass


async def test_what_is_waited_for_when_the_bus_closes_ends_as_unavailable(bus: Bus) -> None:
    asking = asyncio.create_task(bus.request("prompt", Word(text="x"), Word))
    await eventually(lambda: len(bus.asker) == 1)
    await bus.close()
    with pytest.raises(Unavailable, match="closed"):
        await asking


async def test_the_client_library_prints_nothing_and_ends_cleanly(
    start_worker: StartWorker, bus_settings: BusSettings
) -> None:
    program = f"""
import asyncio
from trustgraph_flow.bus import Bus, BusSettings

async def main():
    bus = Bus(BusSettings(url={bus_settings.url!r}, tenant={bus_settings.tenant!r}))
    await bus.__aenter__()
    async def handle(request): return {{}}
    await bus.serve("agent", handle)
    await bus.serve("prompt", handle)

asyncio.run(main())
"""
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program], capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


async def test_two_processes_share_the_work_of_a_service(bus: Bus, start_worker: StartWorker) -> None:
    for service in ("prompt", "agent"):
        workers = [await start_worker(service, "answer") for _ in range(3)]
        answers = await asyncio.gather(
            *(bus.request(service, Word(text=uuid.uuid4().hex), Word, timeout=30) for _ in range(30))
        )
        assert len(answers) == 30
        for worker in workers:
            assert await said(worker) == "got"
