"""Puts the services of one process together: starts what it was asked for, and ends it in order."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from .bus import Bus, BusSettings, EmbeddedBroker
from .bus.admin import prepare
from .schema.errors import SetupError, TrustGraphError

if TYPE_CHECKING:
    from .llm.provider import Provider

log = structlog.get_logger()

SERVICES = ("config", "text-completion", "mcp-tool", "prompt", "agent", "gateway")
"""In the order in which they start."""
BROKER = "broker"
OWNED = frozenset({BROKER, "config", "gateway"})
"""What makes a process the owner of its data folder."""
NEED_STORE = frozenset({"config", "mcp-tool", "agent"})


@dataclass(frozen=True, slots=True)
class AppSettings:
    """What a process runs and where. ``None`` takes the embedded part: broker, SQLite file, local model."""

    data_dir: Path
    services: frozenset[str] = frozenset((BROKER, *SERVICES))
    pulsar_host: str | None = None
    pulsar_token: str | None = None
    pulsar_admin: str | None = None
    tenant: str = "tg"
    store_url: str | None = None
    config_dir: Path | None = None
    llm_url: str | None = None
    llm_model: str | None = None
    host: str = "127.0.0.1"
    port: int = 8888
    token: str | None = None


class Service(Protocol):
    async def start(self) -> None: ...

    async def close(self) -> None: ...


class DataFolder:
    """A folder that one process owns. What runs on it stands in ``run.json`` for other processes to join."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    @property
    def state_file(self) -> Path:
        return self.path / "run.json"

    def running(self) -> dict[str, Any] | None:
        """``{"pid", "pulsar", "store", "gateway"}`` of the process that owns the folder now, or None."""
        try:
            handle = os.open(self.path / "lock", os.O_RDWR)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            try:
                state: dict[str, Any] = json.loads(self.state_file.read_text())
            except (FileNotFoundError, ValueError):
                return {}
            return state
        finally:
            os.close(handle)
        return None

    def claim(self) -> None:
        """Makes this process the owner; SetupError where another one is, or nothing can be written."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise SetupError(
                f"the data folder {self.path} can't be written ({error.strerror}); name another by --data-dir"
            ) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            state = self.running() or {}
            where = f", gateway {state['gateway']}" if state.get("gateway") else ""
            raise SetupError(
                f"the data folder {self.path} is in use by process {state.get('pid', 'unknown')}{where}; "
                "stop that one, or name another folder by --data-dir"
            ) from None
        self._lock = handle

    def publish(self, state: dict[str, Any]) -> None:
        fresh = self.state_file.with_suffix(".new")
        fresh.write_text(json.dumps(state))
        fresh.replace(self.state_file)

    def release(self) -> None:
        if self._lock is not None:
            self.state_file.unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None


class App:
    """The services of this process; ``async with`` starts and ends them.

    ``provider`` takes the place of the model that the settings name: a scripted one, in tests.
    ``progress`` is told in plain words of what takes long.
    Raises SetupError with the fix where the machine or the settings do not let us start.
    """

    def __init__(
        self,
        settings: AppSettings,
        *,
        provider: Provider | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        unknown = settings.services - {BROKER, *SERVICES}
        if unknown:
            raise SetupError(
                f"unknown service {', '.join(sorted(unknown))}; known are {', '.join((BROKER, *SERVICES))}"
            )
        self.settings = settings
        self.folder = DataFolder(settings.data_dir)
        self.bus: Bus
        self.pulsar_host = ""
        self.gateway_url: str | None = None
        self._provider = provider
        self._progress = progress
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> App:
        async with AsyncExitStack() as stack:
            await self._start(stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def _start(self, stack: AsyncExitStack) -> None:
        settings = self.settings
        owner = bool(settings.services & OWNED) and settings.pulsar_host is None
        running = None if owner else self.folder.running()
        model = self._open_model(stack) if "text-completion" in settings.services else None
        if owner:
            self.folder.claim()
            stack.callback(self.folder.release)
        self.pulsar_host = await self._broker(stack, running)
        bus_settings = BusSettings(self.pulsar_host, settings.pulsar_token, settings.tenant)
        if settings.pulsar_admin:
            await prepare(settings.pulsar_admin, bus_settings)
        self.bus = await stack.enter_async_context(Bus(bus_settings))
        store_url = self._store_url(running)
        for service in await self._services(stack, store_url, model):
            await service.start()
            stack.push_async_callback(service.close)
            self.gateway_url = getattr(service, "url", self.gateway_url)
        if owner:
            self.folder.publish(
                {
                    "pid": os.getpid(),
                    "pulsar": self.pulsar_host,
                    "store": store_url,
                    "gateway": self.gateway_url,
                }
            )

    async def _broker(self, stack: AsyncExitStack, running: dict[str, Any] | None) -> str:
        settings = self.settings
        if settings.pulsar_host:
            return settings.pulsar_host
        if BROKER in settings.services:
            broker = await stack.enter_async_context(EmbeddedBroker(settings.data_dir / "broker"))
            return broker.url
        if running and running.get("pulsar"):
            return str(running["pulsar"])
        raise SetupError(
            f"no broker runs on {settings.data_dir}; start `tg up` there first, or give --pulsar-host"
        )

    def _store_url(self, running: dict[str, Any] | None) -> str:
        if self.settings.store_url:
            return self.settings.store_url
        if running and running.get("store"):
            return str(running["store"])
        self.settings.data_dir.mkdir(parents=True, exist_ok=True)
        return f"sqlite:///{self.settings.data_dir.resolve() / 'tg.db'}"

    def _open_model(self, stack: AsyncExitStack) -> asyncio.Task[Provider]:
        """Begun first and awaited late: loading a model takes as long as all the rest of a start."""
        from .llm import open_provider

        async def ready() -> Provider:
            return self._provider or await open_provider(
                self.settings.llm_url, self.settings.llm_model, progress=self._progress
            )

        async def close() -> None:
            opening.cancel()
            with suppress(asyncio.CancelledError, TrustGraphError):
                await (await opening).close()

        opening = asyncio.create_task(ready())
        stack.push_async_callback(close)
        return opening

    async def _services(
        self, stack: AsyncExitStack, store_url: str, model: asyncio.Task[Provider] | None
    ) -> Iterable[Service]:
        # Each service is imported where it is wanted: a worker that runs one of them starts quickly.
        wanted = self.settings.services
        services: list[Service] = []
        store = None
        if wanted & NEED_STORE:
            from .store import Store

            store = await Store.open(store_url)
            stack.push_async_callback(store.close)
        if store is not None and "config" in wanted:
            from .config import ConfigService, default_folder, load_defaults

            await load_defaults(store, self.settings.config_dir or default_folder())
            services.append(ConfigService(self.bus, store))
        if store is not None and "mcp-tool" in wanted:
            from .agent.mcp_tool import McpToolService

            services.append(McpToolService(self.bus, store))
        if "prompt" in wanted:
            from .prompt import PromptService

            services.append(PromptService(self.bus))
        if store is not None and "agent" in wanted:
            from .agent.react.service import AgentService

            services.append(AgentService(self.bus, store))
        if "gateway" in wanted:
            from .gateway import Gateway, GatewaySettings

            services.append(
                Gateway(
                    self.bus,
                    GatewaySettings(
                        host=self.settings.host, port=self.settings.port, token=self.settings.token
                    ),
                )
            )
        if model is not None:
            from .llm import LlmService

            services.insert(0, LlmService(self.bus, await model))
        return services
