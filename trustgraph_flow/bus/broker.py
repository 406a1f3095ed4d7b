"""The embedded broker: started, watched and stopped by us, on a data folder of its own."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import socket
import sys
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import structlog

from trustgraph_flow.schema.errors import SetupError, Unavailable

from .link import Link
from .settings import BusSettings
from .slots import claim_broker

log = structlog.get_logger(__name__)

READY_SECONDS = 15.0
STOP_SECONDS = 5.0
POLL_SECONDS = 0.02
MAX_PAUSE_SECONDS = 5.0
TETHER = Path(__file__).with_name("tether.py")

# Without this the broker offers its metrics to the whole network, on a fixed port.
CONFIG = "[metrics]\nenabled = false\n"


class EmbeddedBroker:
    """``async with EmbeddedBroker(folder) as broker: broker.url``.

    Listens on 127.0.0.1 only. Dies with this process, however that ends; when it dies alone it is started
    again on the same port and folder. Raises SetupError where it can't be had, or the folder is in use.
    """

    def __init__(self, folder: Path | str, *, port: int = 0) -> None:
        """``port`` 0 takes a free one."""
        self.folder = Path(folder)
        self.port = port
        self._process: asyncio.subprocess.Process | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._marker: socket.socket | None = None
        self._lock: IO[str] | None = None

    @property
    def log_file(self) -> Path:
        return self.folder / "broker.log"

    @property
    def url(self) -> str:
        return f"pulsar://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        binary = find_binary()
        self._claim()
        try:
            (self.folder / "broker.toml").write_text(CONFIG, encoding="utf-8")
            self.port = self.port or self._kept_port() or free_port()
            self._marker = claim_broker(self.port)
            await self._spawn(binary)
            await self._ready()
            self._port_file.write_text(str(self.port), encoding="utf-8")
        except BaseException:
            await self.close()
            raise
        self._watcher = asyncio.get_running_loop().create_task(self._watch(binary))

    async def close(self) -> None:
        """Stop the broker and give the folder free."""
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
            self._watcher = None
        await self._end()
        if self._marker is not None:
            self._marker.close()
            self._marker = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @property
    def _port_file(self) -> Path:
        return self.folder / "port"

    def _kept_port(self) -> int | None:
        """The port of the last time, if it is free: processes that outlived the broker still ask there."""
        try:
            port = int(self._port_file.read_text(encoding="utf-8"))
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except (OSError, ValueError, OverflowError):
            return None
        return port

    def _claim(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = open(self.folder / "lock", "a+", encoding="utf-8")  # noqa: SIM115 - held while we run
        except OSError as error:
            raise SetupError(
                f"the broker's data folder {self.folder} can't be used: {error.strerror}"
            ) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.seek(0)
            owner = self._lock.read().strip() or "unknown"
            self._lock.close()
            self._lock = None
            raise SetupError(
                f"the data folder {self.folder} is in use by process {owner}: stop it, or name another folder"
            ) from None
        self._lock.truncate(0)
        self._lock.write(f"{os.getpid()}\n")
        self._lock.flush()

    async def _spawn(self, binary: str) -> None:
        with self.log_file.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-S",
                str(TETHER),
                str(os.getpid()),
                binary,
                "--config",
                "broker.toml",
                "--addr",
                f"127.0.0.1:{self.port}",
                "--db-path",
                "data",
                "--log-level",
                "warn",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.folder,
                # Ctrl-C in a terminal is for us; we end the broker after the services.
                start_new_session=True,
            )

    async def _ready(self) -> None:
        """Return when the broker answers a lookup. Raises SetupError where it ends, or takes too long."""
        assert self._process is not None
        ended = asyncio.ensure_future(self._process.wait())
        answered = asyncio.ensure_future(self._answer())
        try:
            await asyncio.wait({ended, answered}, timeout=READY_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                raise SetupError(f"the embedded broker ended at once; see {self.log_file}")
            if not answered.done():
                raise SetupError(
                    f"the embedded broker was not ready in {READY_SECONDS:g} s; see {self.log_file}"
                )
            answered.result()
        finally:
            ended.cancel()
            answered.cancel()
            await asyncio.gather(ended, answered, return_exceptions=True)

    async def _answer(self) -> None:
        while True:
            link = Link(BusSettings(url=self.url))
            try:
                await link.open()
            except Unavailable:
                await asyncio.sleep(POLL_SECONDS)
            else:
                await link.close()
                return

    async def _watch(self, binary: str) -> None:
        pause = 0.1
        while True:
            assert self._process is not None
            code = await self._process.wait()
            log.warning("embedded broker died, starting it again", code=code, folder=str(self.folder))
            try:
                await self._spawn(binary)
                await self._ready()
            except SetupError as error:
                log.error("embedded broker did not start", fault=error.message, next_try_seconds=pause)
                await self._end()
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_PAUSE_SECONDS)
            else:
                pause = 0.1
                log.info("embedded broker runs again", url=self.url)

    async def _end(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except TimeoutError:
            process.send_signal(signal.SIGKILL)
            await process.wait()


def find_binary() -> str:
    """The broker's program. Raises SetupError where its wheel does not exist for this platform."""
    try:
        from pulsar_lite.binary_finder import find_pulsar_lite_binary

        return str(find_pulsar_lite_binary())
    except (ImportError, FileNotFoundError):
        raise SetupError(
            f"the embedded broker does not exist for {sys.platform} on {os.uname().machine}: "
            "start Apache Pulsar and name it with --pulsar-host pulsar://HOST:6650"
        ) from None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
