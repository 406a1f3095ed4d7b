"""The messages and handlers that the bus tests share, and how they wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from trustgraph_flow.bus import Request
from trustgraph_flow.schema.base import Message

Process = asyncio.subprocess.Process


class Word(Message):
    text: str
    note: str | None = None


async def shout(request: Request) -> Word:
    return Word(text=request.parse(Word).text.upper())


async def spell(request: Request) -> Word:
    text = request.parse(Word).text
    for letter in text[:-1]:
        await request.send(Word(text=letter))
    return Word(text=text[-1])


class Gate:
    """A handler that says when it has a request and holds it until it is let go."""

    def __init__(self) -> None:
        self.entered: asyncio.Queue[Request] = asyncio.Queue()
        self.go = asyncio.Event()
        self.runs = 0
        self.cancelled = asyncio.Event()

    async def __call__(self, request: Request) -> Word:
        self.runs += 1
        self.entered.put_nowait(request)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return await shout(request)


async def eventually(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Return when the condition holds; fail when it does not come to hold."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - not everything that we wait for can tell
            await asyncio.sleep(0.01)


async def said(worker: Process) -> str:
    """The next line of a worker, '' at its end."""
    assert worker.stdout is not None
    return (await worker.stdout.readline()).decode().strip()
