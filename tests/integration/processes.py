"""``tg`` as a process of its own, and what it leaves behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

READY = "Ctrl-C ends it."
WAIT = 60.0


class Tg:
    """One ``tg up`` that has said that it runs."""

    def __init__(self, process: asyncio.subprocess.Process, lines: list[str]) -> None:
        self.process = process
        self.lines = lines

    @property
    def gateway(self) -> str:
        return next(line.split()[1] for line in self.lines if line.startswith("gateway:"))

    def descendants(self) -> list[int]:
        return descendants(self.process.pid)

    async def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return await asyncio.wait_for(self.process.wait(), WAIT)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "trustgraph_flow", *arguments]


@asynccontextmanager
async def tg_up(data_dir: Path, *arguments: str) -> AsyncIterator[Tg]:
    """Starts ``tg up`` and waits until it runs; ends it if the test has not."""
    process = await asyncio.create_subprocess_exec(
        *command("up", "--data-dir", str(data_dir), *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    errors = asyncio.create_task(process.stderr.read())
    try:
        lines: list[str] = []
        while READY not in (lines[-1] if lines else ""):
            line = await asyncio.wait_for(process.stdout.readline(), WAIT)
            if not line:
                raise AssertionError(f"tg up ended: {(await errors).decode()}")
            lines.append(line.decode().strip())
        yield Tg(process, lines)
    finally:
        if process.returncode is None:
            process.terminate()
            await asyncio.wait_for(process.wait(), WAIT)
        await errors


async def tg(*arguments: str, **environment: str) -> tuple[int, str, str]:
    """Runs one ``tg`` command to its end: status, stdout, stderr."""
    process = await asyncio.create_subprocess_exec(
        *command(*arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **environment},
    )
    out, err = await asyncio.wait_for(process.communicate(), WAIT)
    return process.returncode or 0, out.decode(), err.decode()


def descendants(pid: int) -> list[int]:
    """All processes below one, from /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def name_of(pid: int) -> str:
    return (Path("/proc") / str(pid) / "comm").read_text().strip()


def lives(pid: int) -> bool:
    try:
        stat = (Path("/proc") / str(pid) / "stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


async def gone(pids: list[int]) -> None:
    """Comes back when none of these processes lives any more."""
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(handle, ended.set)
        try:
            await asyncio.wait_for(ended.wait(), WAIT)
        finally:
            loop.remove_reader(handle)
            os.close(handle)


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def state_of(data_dir: Path) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((data_dir / "run.json").read_text())
    return state
