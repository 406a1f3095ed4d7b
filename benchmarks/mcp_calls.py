"""What a tool call costs: the bare MCP SDK on a held connection, our connection object, and the service on
the bus.

``python benchmarks/mcp_calls.py [--calls N] [--at-once N]`` prints a JSON line for each way and transport:
milliseconds of one call (median and tenth percentile), calls a second with many at once, and the ratio to the
bare SDK of the same transport and era. The ways take turns within a round, so that a busy machine hits them
alike; compare ratios, not milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from mcp import Client
from mcp.client.stdio import StdioServerParameters

from trustgraph_flow.agent.mcp_tool import Connection, McpToolService, read_result
from trustgraph_flow.agent.mcp_tool.http import keep_urls_out_of_logs
from trustgraph_flow.agent.mcp_tool.stdio import Command
from trustgraph_flow.agent.mcp_tool.target import Target
from trustgraph_flow.bus import Bus, BusSettings, EmbeddedBroker
from trustgraph_flow.config import ConfigService
from trustgraph_flow.schema.mcp import McpToolRequest, McpToolResponse
from trustgraph_flow.store import ConfigChange, Store

SERVER = """
import sys
from mcp.server import MCPServer
server = MCPServer("calc", log_level="ERROR")
@server.tool()
def add(a: int, b: int) -> str:
    return str(a + b)
if len(sys.argv) > 1:
    import uvicorn
    uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
else:
    server.run("stdio")
"""
ARGV = (sys.executable, "-c", SERVER)
ROUNDS = 10

Way = Callable[[], Awaitable[str | None]]


def bare(client: Client) -> Way:
    async def call() -> str:
        result = await client.call_tool("add", {"a": 2, "b": 3})
        return result.content[0].text

    return call


def held(connection: Connection) -> Way:
    async def call() -> str | None:
        return read_result(await connection.call("add", {"a": 2, "b": 3})).text

    return call


def through(bus: Bus, name: str, *, journaled: bool) -> Way:
    async def call() -> str | None:
        call_id = uuid.uuid4().hex if journaled else None
        request = McpToolRequest(name=name, parameters={"a": 2, "b": 3}, call_id=call_id, run_id="bench")
        return (await bus.request("mcp-tool", request, McpToolResponse, timeout=30)).text

    return call


async def one_by_one(way: Way, calls: int) -> list[float]:
    times = []
    for _ in range(calls):
        started = time.perf_counter()
        answer = await way()
        times.append((time.perf_counter() - started) * 1000)
        assert answer == "5", answer
    return times


async def side_by_side(way: Way, calls: int, at_once: int) -> float:
    """Calls a second."""
    slots = asyncio.Semaphore(at_once)

    async def one() -> None:
        async with slots:
            assert await way() == "5"

    started = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(calls)))
    return calls / (time.perf_counter() - started)


async def compare(transport: str, ways: dict[str, Way], calls: int, at_once: int) -> None:
    times: dict[str, list[float]] = {name: [] for name in ways}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        await one_by_one(way, 20)
    for _ in range(ROUNDS):
        for name, way in ways.items():
            times[name] += await one_by_one(way, calls // ROUNDS)
            rates[name].append(await side_by_side(way, calls // ROUNDS, at_once))
    first = next(iter(ways))
    for name in ways:
        median, tenth = statistics.median(times[name]), sorted(times[name])[len(times[name]) // 10]
        line = {
            "transport": transport,
            "way": name,
            "p50_ms": round(median, 3),
            "p10_ms": round(tenth, 3),
            "x_bare_p50": round(median / statistics.median(times[first]), 2),
            "x_bare_p10": round(tenth / sorted(times[first])[len(times[first]) // 10], 2),
            "calls_per_s": round(statistics.median(rates[name])),
        }
        print(json.dumps(line), flush=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def listening(port: int) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return


async def main(calls: int, at_once: int) -> None:
    keep_urls_out_of_logs()
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    server = await asyncio.create_subprocess_exec(*ARGV, str(port))
    try:
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            await listening(port)
            broker = await stack.enter_async_context(EmbeddedBroker(folder))
            bus = await stack.enter_async_context(Bus(BusSettings(url=broker.url)))
            store = await stack.enter_async_context(await Store.open(f"sqlite:///{folder}/tg.db"))
            items = {
                "http-auto": {"url": url},
                "http-legacy": {"url": url, "mode": "legacy"},
                "stdio": {"command": ARGV[0], "args": list(ARGV[1:])},
            }
            await store.config.write(
                [
                    ConfigChange("default", "mcp", key, json.dumps({**item, "remote-name": "add"}))
                    for key, item in items.items()
                ]
            )
            for service in (ConfigService(bus, store), McpToolService(bus, store)):
                await service.start()
                stack.push_async_callback(service.close)
            targets = {
                "http-auto": (url, Target("default", "a", url=url), "auto"),
                "http-legacy": (url, Target("default", "l", url=url, mode="legacy"), "legacy"),
                "stdio": (
                    StdioServerParameters(command=ARGV[0], args=list(ARGV[1:])),
                    Target("default", "s", command=Command(ARGV)),
                    "auto",
                ),
            }
            for transport, (place, target, mode) in targets.items():
                async with Client(place, mode=mode) as client:
                    connection = Connection(target)
                    ways = {
                        "bare SDK": bare(client),
                        "connection": held(connection),
                        "bus": through(bus, transport, journaled=False),
                        "bus, journaled": through(bus, transport, journaled=True),
                    }
                    await compare(transport, ways, calls, at_once)
                    await connection.close()
    finally:
        server.terminate()
        await server.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--at-once", type=int, default=16)
    options = parser.parse_args()
    asyncio.run(main(options.calls, options.at_once))
