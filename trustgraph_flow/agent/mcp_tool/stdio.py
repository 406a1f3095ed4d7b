"""A transport to an MCP server that runs as our child process.

The SDK's own hands the child more of our environment than we want, and leaves the children of a server that
went quietly. This one gives PATH, HOME, LANG and the item's own variables, skips lines that are not JSON-RPC,
drains stderr, and ends the whole process group.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import anyio
import structlog
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, jsonrpc_message_adapter

from .guard import ChildGuard

MAX_LINE_BYTES = 64 * 1024 * 1024
"""A longer line is skipped as junk."""
_QUEUE_HIGH, _QUEUE_LOW = 1000, 100
_STDERR_TAIL = 2000
_LAST_READ_SECONDS = 0.05

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Command:
    """How a server is started. ``env`` comes on top of PATH, HOME and LANG."""

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    cwd: str | None = None

    def environment(self) -> dict[str, str]:
        """What the child gets. The running interpreter's programs are found first."""
        inherited = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
        path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
        return {**inherited, "PATH": path, **dict(self.env)}


@dataclass(slots=True)
class ChildState:
    """What is known of a child: kept when the transport is gone, to say why.

    ``ended`` is set when the child has ended and its last words have been read.
    """

    pid: int | None = None
    exit_status: int | None = None
    last_words: str = ""
    junk_lines: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def has_exited(self) -> bool:
        """Whether the child is dead by now, which the event loop may not have noticed yet."""
        if self.pid is None or self.exit_status is not None:
            return self.exit_status is not None
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True


@contextlib.asynccontextmanager
async def stdio_transport(
    command: Command, guard: ChildGuard, state: ChildState, *, server: str = "", grace: float = 2.0
) -> AsyncIterator[tuple[Inbox, Outbox]]:
    """The streams of a running server, which is gone with all its children at the end of the block.

    It is given ``grace`` seconds to end by itself, and again after SIGTERM.
    Raises OSError when the program can't be started.
    """
    loop = asyncio.get_running_loop()
    transport, child = await loop.subprocess_exec(
        lambda: _Child(state, server),
        *command.argv,
        env=command.environment(),
        cwd=command.cwd,
        start_new_session=True,
    )
    group = state.pid = transport.get_pid()
    try:
        await guard.add(group)
        yield child.inbox, child.outbox
    finally:
        ending = asyncio.ensure_future(_end(transport, child, group, grace))
        try:
            await asyncio.shield(ending)
        finally:
            await ending
            guard.remove(group)


async def _end(transport: asyncio.SubprocessTransport, child: _Child, group: int, grace: float) -> None:
    child.ending = True
    child.inbox.close()
    child.outbox.close()
    for sign in (None, signal.SIGTERM, signal.SIGKILL):
        if sign is not None:
            _kill(group, sign)
        if await _exited(child, grace):
            break
    _kill(group, signal.SIGKILL)
    transport.close()


async def _exited(child: _Child, grace: float) -> bool:
    try:
        async with asyncio.timeout(grace):
            await child.exited.wait()
    except TimeoutError:
        return False
    return True


def _kill(group: int, sign: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, sign)


class _Child(asyncio.SubprocessProtocol):
    """Cuts stdout into messages and keeps the last words of stderr."""

    def __init__(self, state: ChildState, server: str) -> None:
        self.state = state
        self.inbox = Inbox()
        self.outbox = Outbox()
        self.exited = asyncio.Event()
        self.ending = False
        self._server = server
        self._line = bytearray()
        self._skipping = False
        self._transport: asyncio.SubprocessTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport
        stdin, stdout = transport.get_pipe_transport(0), transport.get_pipe_transport(1)
        assert isinstance(stdin, asyncio.WriteTransport)
        assert isinstance(stdout, asyncio.ReadTransport)
        self.outbox.attach(stdin)
        self.inbox.attach(stdout)

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        assert isinstance(data, bytes)
        if fd == 2:
            self.state.last_words = (self.state.last_words + data.decode(errors="replace"))[-_STDERR_TAIL:]
            return
        *complete, rest = data.split(b"\n")
        for part in complete:
            self._line += part
            line, self._line = self._line, bytearray()
            if self._skipping:
                self._skipping = False
                continue
            self._read(bytes(line))
        if self._skipping:
            return
        self._line += rest
        if len(self._line) > MAX_LINE_BYTES:
            self._line.clear()
            self._skipping = True
            self._junk("a line over the size limit")

    def _read(self, line: bytes) -> None:
        if not line.strip():
            return
        message = parse_line(line)
        if message is None:
            self._junk(line[:80].decode(errors="replace"))
        else:
            self.inbox.put(message)

    def _junk(self, what: str) -> None:
        self.state.junk_lines += 1
        if self.state.junk_lines == 1:
            log.warning(
                "mcp server prints to stdout what is not JSON-RPC; skipped", server=self._server, line=what
            )

    def pause_writing(self) -> None:
        self.outbox.pause()

    def resume_writing(self) -> None:
        self.outbox.resume()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self.inbox.close()
        elif fd == 0:
            self.outbox.close()

    def process_exited(self) -> None:
        assert self._transport is not None
        if not self.ending:
            self.state.exit_status = self._transport.get_returncode()
        self.exited.set()
        self.outbox.close()
        # What the server wrote before it ended may still be in the pipes, but a grandchild can hold them
        # open for ever: read what is there now, then see the end.
        asyncio.get_running_loop().call_later(_LAST_READ_SECONDS, self._settle)

    def _settle(self) -> None:
        self.inbox.close()
        self.state.ended.set()


def parse_line(line: bytes) -> SessionMessage | None:
    """The message of one line, or None for junk. Half characters and invalid UTF-8 inside a message are
    replaced."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        if not line.lstrip().startswith(b"{"):
            return None
    try:
        repaired = json.loads(line.decode(errors="replace"))
        clean = json.dumps(repaired, ensure_ascii=False).encode(errors="replace")
        return SessionMessage(jsonrpc_message_adapter.validate_json(clean, by_name=False))
    except (ValueError, RecursionError):
        return None


class _Stream:
    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        raise NotImplementedError


class Inbox(_Stream):
    """Messages from the server, in order. A reader that is behind makes the pipe wait."""

    def __init__(self) -> None:
        self._waiting: deque[SessionMessage | Exception] = deque()
        self._wake = asyncio.Event()
        self._closed = False
        self._paused = False
        self._pipe: asyncio.ReadTransport | None = None

    def attach(self, pipe: asyncio.ReadTransport) -> None:
        self._pipe = pipe

    def put(self, message: SessionMessage) -> None:
        self._waiting.append(message)
        self._wake.set()
        if len(self._waiting) > _QUEUE_HIGH and not self._paused and self._pipe is not None:
            self._paused = True
            self._pipe.pause_reading()

    def close(self) -> None:
        self._closed = True
        self._wake.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while not self._waiting:
            if self._closed:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        message = self._waiting.popleft()
        if self._paused and len(self._waiting) < _QUEUE_LOW:
            self._paused = False
            if self._pipe is not None and not self._closed:
                self._pipe.resume_reading()
        return message

    async def receive(self) -> SessionMessage | Exception:
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None


class Outbox(_Stream):
    """Messages to the server. A request waits while the pipe is full; a notification (a cancel) never
    does."""

    def __init__(self) -> None:
        self._pipe: asyncio.WriteTransport | None = None
        self._closed = False
        self._writable = asyncio.Event()
        self._writable.set()

    def attach(self, pipe: asyncio.WriteTransport) -> None:
        self._pipe = pipe

    def pause(self) -> None:
        self._writable.clear()

    def resume(self) -> None:
        self._writable.set()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._writable.set()
            if self._pipe is not None:
                self._pipe.close()

    async def send(self, item: SessionMessage, /) -> None:
        if not self._writable.is_set() and not isinstance(item.message, JSONRPCNotification):
            await self._writable.wait()
        if self._closed or self._pipe is None:
            raise anyio.BrokenResourceError
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        self._pipe.write(line.encode() + b"\n")
