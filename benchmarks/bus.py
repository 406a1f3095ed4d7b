"""What a request and its reply cost on the bus: JSON lines on standard output.

    python benchmarks/bus.py [--rounds N] [--pulsar-host URL --pulsar-admin URL]

Asker and service share one process, so the CPU time is that of both sides, without the broker's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import tempfile
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from trustgraph_flow.bus import Bus, BusSettings, EmbeddedBroker, Request
from trustgraph_flow.bus.admin import prepare
from trustgraph_flow.bus.topics import is_persistent
from trustgraph_flow.schema.base import Message

AT_ONCE = 1000


class Load(Message):
    text: str


async def echo(request: Request) -> Load:
    return request.parse(Load)


@asynccontextmanager
async def broker(given: argparse.Namespace) -> AsyncIterator[str]:
    if given.pulsar_host:
        yield given.pulsar_host
        return
    with tempfile.TemporaryDirectory() as folder:
        async with EmbeddedBroker(folder) as embedded:
            yield embedded.url


async def measure(bus: Bus, service: str, rounds: int) -> dict[str, float]:
    load = Load(text="x" * 180)
    await asyncio.gather(*(bus.request(service, load, Load) for _ in range(100)))
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        await bus.request(service, load, Load)
        times.append((time.perf_counter() - started) * 1000)
    cpu, started = time.process_time(), time.perf_counter()
    repeats = max(1, rounds // AT_ONCE)
    for _ in range(repeats):
        await asyncio.gather(*(bus.request(service, load, Load) for _ in range(AT_ONCE)))
    pairs = repeats * AT_ONCE
    return {
        "p50_ms": round(statistics.median(times), 3),
        "p95_ms": round(statistics.quantiles(times, n=20)[18], 3),
        "pairs_per_second": round(pairs / (time.perf_counter() - started)),
        "cpu_ms_per_pair": round((time.process_time() - cpu) * 1000 / pairs, 3),
    }


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3000)
    parser.add_argument("--pulsar-host")
    parser.add_argument("--pulsar-admin")
    given = parser.parse_args()
    async with broker(given) as url:
        settings = BusSettings(url=url, tenant=f"bench{uuid.uuid4().hex[:8]}")
        if given.pulsar_admin:
            await prepare(given.pulsar_admin, settings)
        async with Bus(settings) as bus:
            for service in ("prompt", "agent"):
                await bus.serve(service, echo)
                figures = await measure(bus, service, given.rounds)
                kind = "persistent" if is_persistent(service) else "non-persistent"
                where = "pulsar" if given.pulsar_host else "embedded"
                print(json.dumps({"broker": where, "requests": kind, **figures}), flush=True)
    print(json.dumps({"max_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))


if __name__ == "__main__":
    asyncio.run(main())
