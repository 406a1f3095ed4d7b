"""What a caller is told when an MCP server on HTTP dies in mid-call: rounds of four kinds, JSON lines.

    python benchmarks/mcp_http_kills.py [--rounds N]

At a random moment of a call the server is killed and started again (restart), its port is closed (closed),
its process is stopped (asleep), or the connections to it are dropped (dropped). Every call has to end in its
time with an outcome that fits, and no call may run twice: the server notes each run in a file. Only the
server and the relay that this program started on 127.0.0.1 are touched. Exits with 1 if anything was
otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import random
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from trustgraph_flow.agent.mcp_tool import Connection, Limits, McpFault
from trustgraph_flow.agent.mcp_tool.http import keep_urls_out_of_logs
from trustgraph_flow.agent.mcp_tool.target import Target

SERVER = """
import asyncio, sys
from aiohttp import web
async def post(request):
    message = await request.json()
    id, method = message.get("id"), message.get("method")
    if id is None:
        return web.Response(status=202)
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {}}
        result["serverInfo"] = {"name": "s", "version": "1"}
    elif method == "tools/call":
        arguments = message["params"]["arguments"]
        with open(sys.argv[2], "a") as ran:
            ran.write(arguments["id"] + "\\n")
        await asyncio.sleep(arguments["seconds"])
        result = {"content": [{"type": "text", "text": "done"}]}
    else:
        error = {"code": -32601, "message": "no"}
        return web.json_response({"jsonrpc": "2.0", "id": id, "error": error})
    return web.json_response({"jsonrpc": "2.0", "id": id, "result": result})
app = web.Application()
app.router.add_post("/mcp", post)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
"""
LIMITS = Limits(reconnect_first=0.0, reconnect_last=0.0, connect=10.0)
CALL_SECONDS = 1.0
LATE_SECONDS = 3.0
"""After the call's own time: more than this is a caller left waiting, on a busy machine too."""


class Server:
    """A server process behind a relay, which can close its port and drop what is open."""

    def __init__(self, ran: Path) -> None:
        self._ran = ran
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._process: asyncio.subprocess.Process | None = None
        self._relay: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def start(self) -> None:
        """Starts what is not running."""
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", SERVER, str(self._port), str(self._ran)
            )
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self._port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                break
        if self._relay is None:
            self._relay = await asyncio.start_server(self._pass_on, "127.0.0.1", self.port)
            self.port = self._relay.sockets[0].getsockname()[1]

    async def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            await self._process.wait()
            self._process = None

    async def restart(self) -> None:
        await self.kill()
        await self.start()

    async def close_port(self) -> None:
        if self._relay is not None:
            self._relay.close()
            self._relay = None
        await self.drop()

    async def fall_asleep(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    async def wake(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    async def drop(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, far_writer}
        try:
            await asyncio.gather(self._copy(reader, far_writer), self._copy(far_reader, writer))
        finally:
            self._open -= {writer, far_writer}

    @staticmethod
    async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
        except OSError:
            writer.transport.abort()
        finally:
            writer.close()


LOST = {"answered", "outcome-unknown", "not-reached"}
KINDS: dict[str, tuple[Callable[[Server], Awaitable[None]], set[str]]] = {
    "restart": (Server.restart, LOST),
    "closed": (Server.close_port, LOST),
    "asleep": (Server.fall_asleep, {"answered", "timed-out"}),
    "dropped": (Server.drop, LOST),
}


async def rounds_of(kind: str, rounds: int) -> bool:
    """Whether every round ended as it has to."""
    inflict, fitting = KINDS[kind]
    outcomes: collections.Counter[str] = collections.Counter()
    slowest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        ran = Path(folder) / "ran"
        ran.touch()
        server = Server(ran)
        await server.start()
        connection = Connection(Target("default", kind, url=f"http://127.0.0.1:{server.port}/mcp"), LIMITS)
        try:
            for number in range(rounds):
                await connection.call("t", {"id": f"before-{number}", "seconds": 0})
                arguments = {"id": str(number), "seconds": 0.05}
                started = time.monotonic()
                calling = asyncio.create_task(connection.call("t", arguments, seconds=CALL_SECONDS))
                await asyncio.sleep(random.uniform(0, 0.06))
                inflicting = asyncio.create_task(inflict(server))
                try:
                    await calling
                    outcomes["answered"] += 1
                except McpFault as fault:
                    outcomes[fault.kind] += 1
                slowest = max(slowest, time.monotonic() - started)
                await inflicting
                await server.wake()
                await server.start()
        finally:
            await connection.close()
            await server.close_port()
            await server.wake()
            await server.kill()
        twice = [id for id, times in collections.Counter(ran.read_text().split()).items() if times > 1]
    fine = not twice and outcomes.keys() <= fitting and slowest < CALL_SECONDS + LATE_SECONDS
    line = {"what": kind, "rounds": rounds, "outcomes": outcomes, "slowest_s": round(slowest, 2)}
    print(json.dumps({**line, "ran_twice": len(twice), "fine": fine}), flush=True)
    return fine


async def main(rounds: int) -> int:
    keep_urls_out_of_logs()
    return 0 if all([await rounds_of(kind, rounds) for kind in KINDS]) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    sys.exit(asyncio.run(main(parser.parse_args().rounds)))
