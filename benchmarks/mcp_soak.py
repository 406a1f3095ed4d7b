"""What is left behind after much use of MCP servers, and what a caller is told when they die: JSON lines.

    python benchmarks/mcp_soak.py [--calls N] [--opens N] [--rounds N]

``calls`` are made on one held connection, ``opens`` connections are opened and closed, and in ``rounds`` a
server is killed at a random moment of a call: over stdio, and over HTTP as ``mcp_http_kills.py`` does. Only
servers that this program started are killed, by their number.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import os
import random
import select
import signal
import sys
import tempfile
import time
from pathlib import Path

import mcp_http_kills

from trustgraph_flow.agent.mcp_tool import Connection, Limits, McpFault, read_result
from trustgraph_flow.agent.mcp_tool.guard import ChildGuard
from trustgraph_flow.agent.mcp_tool.stdio import Command
from trustgraph_flow.agent.mcp_tool.target import Target

SERVER = """
import json, os, sys, time
def say(id, result):
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    id, method = message.get("id"), message.get("method")
    if method == "initialize":
        say(id, {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version":
        "1"}})
    elif method == "tools/call":
        arguments = message["params"]["arguments"]
        if "ran" in arguments:
            with open(arguments["ran"], "a") as ran:
                ran.write(arguments["id"] + "\\n")
            time.sleep(arguments["seconds"])
        say(id, {"content": [{"type": "text", "text": str(os.getpid())}]})
    elif id is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}),
        flush=True)
"""
TARGET = Target("default", "soak", command=Command((sys.executable, "-c", SERVER)))
LIMITS = Limits(reconnect_first=0.0, reconnect_last=0.0, close=1.0)


def memory_kb() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


def state() -> dict[str, int]:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {
        "memory_kb": memory_kb(),
        "files": len(os.listdir("/proc/self/fd")),
        "children": len(children),
        "tasks": len(asyncio.all_tasks()),
    }


def report(what: str, **facts: object) -> None:
    print(json.dumps({"what": what, **facts}), flush=True)


async def many_calls(calls: int) -> None:
    connection = Connection(TARGET, LIMITS)
    slots = asyncio.Semaphore(16)

    async def one() -> None:
        async with slots:
            await connection.call("t", {})

    for part in range(5):
        await asyncio.gather(*(one() for _ in range(calls // 5)))
        report("calls", calls=(part + 1) * calls // 5, **state())
    await connection.close()


async def many_opens(opens: int) -> None:
    guard = ChildGuard()
    before = state()
    for _ in range(opens):
        connection = Connection(TARGET, LIMITS, guard)
        await connection.call("t", {})
        await connection.close()
    await guard.close()
    report("opens", opens=opens, before=before, after=state())


async def kills(rounds: int) -> None:
    outcomes: collections.Counter[str] = collections.Counter()
    latest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        ran = Path(folder) / "ran"
        ran.touch()
        connection = Connection(TARGET, LIMITS)
        for number in range(rounds):
            pid = int(read_result(await connection.call("t", {})).text or 0)
            arguments = {"ran": str(ran), "id": str(number), "seconds": 0.02}
            calling = asyncio.create_task(connection.call("t", arguments, seconds=5.0))
            await asyncio.sleep(random.uniform(0, 0.03))
            handle = os.pidfd_open(pid)
            os.kill(pid, signal.SIGKILL)
            killed = time.monotonic()
            try:
                await calling
                outcomes["answered"] += 1
            except McpFault as fault:
                outcomes[fault.kind] += 1
            latest = max(latest, time.monotonic() - killed)
            await asyncio.to_thread(select.select, [handle], [], [])
            os.close(handle)
        await connection.close()
        twice = [id for id, times in collections.Counter(ran.read_text().split()).items() if times > 1]
    report("kills", rounds=rounds, outcomes=outcomes, slowest_s=round(latest, 2), ran_twice=len(twice))


async def main(options: argparse.Namespace) -> None:
    await many_calls(options.calls)
    await many_opens(options.opens)
    await kills(options.rounds)
    await mcp_http_kills.main(options.rounds)
    report("end", **state())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--opens", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=100)
    asyncio.run(main(parser.parse_args()))
