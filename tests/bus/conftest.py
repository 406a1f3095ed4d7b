from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from bus_words import Process, said

from trustgraph_flow.bus import BusSettings

StartWorker = Callable[[str, str], Awaitable[Process]]


@pytest_asyncio.fixture
async def start_worker(bus_settings: BusSettings) -> AsyncIterator[StartWorker]:
    """Start a worker process of a service in a mode of ``bus_responder.py``, and wait until it serves."""
    workers: list[Process] = []

    async def start(service: str, mode: str) -> Process:
        worker = await asyncio.create_subprocess_exec(
            sys.executable,
            str(Path(__file__).with_name("bus_responder.py")),
            bus_settings.url,
            bus_settings.tenant,
            service,
            mode,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        workers.append(worker)
        assert await said(worker) == "ready"
        return worker

    yield start
    for worker in workers:
        if worker.returncode is None:
            worker.kill()
        await worker.communicate()


@pytest.fixture
def embedded_only(request: pytest.FixtureRequest) -> None:
    """For tests that stop the broker, or that are about what is ours in it."""
    if request.config.getoption("--pulsar-host"):
        pytest.skip("about the embedded broker")
