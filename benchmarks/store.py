"""What one append to the run log costs: one after another, and from 16 runs at once, on disk and in memory.

Prints one JSON line a case. ``python benchmarks/store.py [--seconds 2] [--url postgresql+psycopg://…]``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
import uuid

from trustgraph_flow.schema.events import RunEvent
from trustgraph_flow.store import Store

BODY = {
    "text": "Thought: I need the balance.\nAction: get_bank_balance\n" * 6,
    "usage": {"in": 812, "out": 64},
}


async def run(store: Store, until: float, times: list[float]) -> None:
    """One run that appends without a pause."""
    run_id, last = uuid.uuid4().hex, 0
    while (begun := time.perf_counter()) < until:
        last = await store.runs.append(run_id, [RunEvent(kind="replied", body=BODY)], last)
        times.append(time.perf_counter() - begun)


async def measure(case: str, url: str, at_once: int, seconds: float) -> None:
    async with await Store.open(url) as store:
        await run(store, time.perf_counter() + 0.2, [])
        times: list[float] = []
        begun, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(run(store, begun + seconds, times) for _ in range(at_once)))
        took, cpu = time.perf_counter() - begun, time.process_time() - cpu
    line = {
        "case": case,
        "at_once": at_once,
        "appends_per_second": round(len(times) / took),
        "median_us": round(statistics.median(times) * 1e6),
        "p99_us": round(statistics.quantiles(times, n=100)[98] * 1e6),
        "cpu_us_per_append": round(cpu / len(times) * 1e6),
    }
    print(json.dumps(line), flush=True)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--url", help="measure this store too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cases = {
            "memory": "sqlite://",
            "disk": f"sqlite:///{folder}/normal.db",
            "disk, waiting for it": f"sqlite:///{folder}/full.db?synchronous=FULL",
        }
        if options.url:
            cases["given"] = options.url
        for case, url in cases.items():
            for at_once in (1, 16):
                await measure(case, url, at_once, options.seconds)


if __name__ == "__main__":
    asyncio.run(main())
