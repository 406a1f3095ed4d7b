"""How each service follows the config: subscribe, fetch, and fetch again when something may have changed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from pydantic import ValidationError

from trustgraph_flow.bus import Bus, Listening
from trustgraph_flow.schema.config import (
    DEFAULT_WORKSPACE,
    NOTICE_CHANNEL,
    ConfigNotice,
    ConfigRequest,
    ConfigResponse,
)
from trustgraph_flow.schema.errors import TrustGraphError

log = structlog.get_logger(__name__)

POLL_SECONDS = 30.0
FETCH_SECONDS = (1.0, 5.0)
"""The first and the longest time to wait for an answer: a request to a service that is not up yet is lost."""
PAUSE_SECONDS = (0.05, 2.0)

Items = Mapping[str, Mapping[str, Mapping[str, str]]]


@dataclass(frozen=True, slots=True)
class ConfigView:
    """All items of the watched types at one version: ``items[workspace][type][key]`` is a value."""

    version: int
    items: Items

    def of(self, workspace: str, type_: str) -> Mapping[str, str]:
        """The items of one type in a workspace; empty where there are none."""
        return self.items.get(workspace, {}).get(type_, {})


class ConfigWatcher:
    """Hands every new state, whole, to ``on_change``; states that were passed over meanwhile are left out.

    An ``on_change`` that raises is logged and is given the state again at the next look.
    """

    def __init__(
        self,
        bus: Bus,
        types: Iterable[str],
        on_change: Callable[[ConfigView], Awaitable[None]],
        *,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._bus = bus
        self._types = frozenset(types)
        self._on_change = on_change
        self._poll_seconds = poll_seconds
        self._wake = asyncio.Event()
        self._view: ConfigView | None = None
        self._applied = False
        self._listening: Listening | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def version(self) -> int | None:
        """The store's version up to which this watcher knows its items; None before the first answer."""
        return None if self._view is None else self._view.version

    async def start(self) -> None:
        """Returns when the config service has answered and ``on_change`` has seen the first state."""
        self._listening = await self._bus.listen(NOTICE_CHANNEL, self._noticed)
        await self._look()
        self._task = asyncio.create_task(self._follow(), name="config-watcher")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._listening is not None:
            await self._listening.close()

    async def _noticed(self, body: dict[str, Any]) -> None:
        try:
            notice = ConfigNotice.model_validate(body)
        except ValidationError:
            log.warning("unreadable config notice")
            return
        view = self._view
        if view is not None and notice.version == view.version:
            return
        if view is not None and notice.version == view.version + 1 and not self._concerns(notice):
            self._view = ConfigView(notice.version, view.items)  # no notice was lost, so nothing to fetch
            return
        self._wake.set()

    def _concerns(self, notice: ConfigNotice) -> bool:
        return not notice.changed or any(change.get("type") in self._types for change in notice.changed)

    async def _follow(self) -> None:
        while True:
            await self._sleep(self._poll_seconds)
            try:
                await self._look()
            except Exception:
                log.exception("following the config failed, trying again")

    async def _sleep(self, seconds: float) -> None:
        """Until a notice comes, at most so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):  # wait_for may swallow a cancel that comes with the notice
                await self._wake.wait()
        self._wake.clear()

    async def _look(self) -> None:
        known = self._view
        view = await self._fetch(known)
        if view is not known:
            self._view = view
            if known is None or view.items != known.items:
                self._applied = False
        if not self._applied:
            await self._apply(view)

    async def _apply(self, view: ConfigView) -> None:
        try:
            await self._on_change(view)
        except Exception:
            log.exception("a config change was not applied", version=view.version)
        else:
            self._applied = True

    async def _fetch(self, known: ConfigView | None) -> ConfigView:
        """The newest state, asked for until the config service answers."""
        timeout, pause, complained = FETCH_SECONDS[0], PAUSE_SECONDS[0], False
        while True:
            try:
                view = await self._ask(known, timeout)
            except TrustGraphError as error:
                if not complained:
                    log.warning("the config service does not answer, still asking", error=error.message)
                    complained = True
            else:
                if complained:
                    log.info("the config service answers again", version=view.version)
                return view
            await self._sleep(pause)
            timeout, pause = min(timeout * 2, FETCH_SECONDS[1]), min(pause * 2, PAUSE_SECONDS[1])

    async def _ask(self, known: ConfigView | None, timeout: float) -> ConfigView:
        request = ConfigRequest(
            operation="snapshot",
            types=sorted(self._types),
            unless_version=None if known is None else known.version,
        )
        items: dict[str, dict[str, dict[str, str]]] = {}
        version, unchanged = 0, False
        async for frame in self._bus.stream("config", request, ConfigResponse, timeout=timeout):
            version, unchanged = frame.version, frame.values is None
            for item in frame.values or ():
                of_type = items.setdefault(item.workspace or DEFAULT_WORKSPACE, {}).setdefault(item.type, {})
                of_type[item.key] = item.value or ""
        if unchanged and known is not None:
            return known
        return ConfigView(version, items)
