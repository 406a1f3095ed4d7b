"""The embedded broker as a process: its port, its folder, its end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from bus_words import Word, eventually, shout
from structlog.testing import capture_logs

from trustgraph_flow.bus import Bus, BusSettings, EmbeddedBroker
from trustgraph_flow.bus.broker import find_binary
from trustgraph_flow.bus.slots import SLOTS
from trustgraph_flow.schema.errors import SetupError

pytestmark = pytest.mark.usefixtures("embedded_only")


def lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def listeners(pid: int) -> set[str]:
    """The addresses, as /proc writes them, on which a process listens for TCP."""
    sockets = {os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                found.add(fields[1])
    return found


async def test_it_listens_on_the_loopback_address_only(tmp_path: Path) -> None:
    async with EmbeddedBroker(tmp_path) as broker:
        assert broker.pid is not None
        assert listeners(broker.pid) == {f"0100007F:{broker.port:04X}"}


async def test_it_ends_with_its_owner_and_leaves_the_folder_free(tmp_path: Path) -> None:
    for _ in range(2):
        async with EmbeddedBroker(tmp_path) as broker:
            pid = broker.pid
        assert pid is not None
        assert not lives(pid)


async def test_a_second_owner_of_the_folder_hears_who_has_it(tmp_path: Path) -> None:
    async with EmbeddedBroker(tmp_path):
        with pytest.raises(SetupError, match=f"in use by process {os.getpid()}"):
            await EmbeddedBroker(tmp_path).start()


async def test_it_is_started_again_on_the_same_port_when_it_dies(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with EmbeddedBroker(tmp_path) as broker:
            url, first = broker.url, broker.pid
            assert first is not None
            os.kill(first, signal.SIGKILL)
            await eventually(lambda: "embedded broker runs again" in [entry["event"] for entry in logs])
            assert broker.url == url
            assert broker.pid != first
    assert [entry["event"] for entry in logs] == [
        "embedded broker died, starting it again",
        "embedded broker runs again",
    ]


async def test_it_dies_with_an_owner_that_is_killed(tmp_path: Path) -> None:
    program = f"""
import asyncio
from trustgraph_flow.bus import Bus, BusSettings, EmbeddedBroker

async def main():
    async with EmbeddedBroker({str(tmp_path)!r}) as broker:
        print(broker.pid, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    pid = int(await owner.stdout.readline())
    assert lives(pid)
    owner.kill()
    await owner.wait()
    await eventually(lambda: not lives(pid))
    async with EmbeddedBroker(tmp_path):
        pass


async def test_a_folder_that_can_not_be_used_is_named(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("")
    with pytest.raises(SetupError, match=f"data folder {taken} can't be used"):
        await EmbeddedBroker(taken).start()


async def test_a_broker_that_can_not_start_points_to_its_log(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SetupError, match=r"broker\.log"):
        await EmbeddedBroker(tmp_path, port=taken.getsockname()[1]).start()


def test_without_its_program_the_error_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pulsar_lite.binary_finder", None)
    with pytest.raises(SetupError, match="--pulsar-host pulsar://HOST:6650"):
        find_binary()


async def test_it_takes_workers_of_a_limited_number_of_processes_and_says_so(tmp_path: Path) -> None:
    async with EmbeddedBroker(tmp_path) as broker, AsyncExitStack() as stack:
        for _ in range(SLOTS):
            bus = await stack.enter_async_context(Bus(BusSettings(url=broker.url)))
            await bus.serve("prompt", shout)
        asker = await stack.enter_async_context(Bus(BusSettings(url=broker.url)))
        assert (await asker.request("prompt", Word(text="x"), Word)).text == "X"
        with pytest.raises(SetupError, match="as many as it can serve"):
            await asker.serve("prompt", shout)
