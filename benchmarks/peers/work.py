"""The piece of work that every framework gets, and how it is measured.

A question, five calls of ``add`` on a real MCP server over streamable HTTP, an answer that names the total.
The model server thinks for no time, so that what is measured is the framework.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import time
from collections.abc import Awaitable, Callable

STEPS = 5
FIRST = 730001
ADD = 100000
SUMS = [FIRST + ADD + step for step in range(STEPS)]
TOTAL = str(sum(SUMS))
QUESTION = "Add the five pairs that you know, one after the other, and name the total."
MODEL_URL = os.environ.get("BENCH_MODEL_URL", "http://127.0.0.1:8801/v1")
MCP_URL = os.environ.get("BENCH_MCP_URL", "http://127.0.0.1:8802/mcp")


async def measure(
    name: str, run: Callable[[], Awaitable[object]], *, runs: int = 60, parallel: int = 16, batch: int = 64
) -> None:
    """Prints one JSON line: times of single runs in ms, runs a second at ``parallel``, peak memory in MB."""
    for _ in range(3):
        check(await run())
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        check(await run())
        times.append((time.perf_counter() - began) * 1e3)
    slots = asyncio.Semaphore(parallel)

    async def one() -> None:
        async with slots:
            check(await run())

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(batch)))
    rate = batch / (time.perf_counter() - began)
    times.sort()
    figures = {
        "name": name,
        "run_p10_ms": round(times[len(times) // 10], 1),
        "run_p50_ms": round(statistics.median(times), 1),
        "step_p50_ms": round(statistics.median(times) / STEPS, 2),
        "runs_per_s_at_16": round(rate, 1),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    print(json.dumps(figures), flush=True)


def check(answer: object) -> None:
    """The total in the answer proves that the five calls were made."""
    if TOTAL not in str(answer):
        raise AssertionError(f"wrong answer: {answer!r}")
