"""The config service: reads and writes items for everybody, and tells everybody what has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import structlog

from trustgraph_flow.bus import Bus, Request, Serving
from trustgraph_flow.schema.config import DEFAULT_WORKSPACE, NOTICE_CHANNEL, ConfigNotice, ConfigRequest
from trustgraph_flow.schema.errors import BadRequest, TrustGraphError
from trustgraph_flow.store import ConfigChange, ConfigItem, Store

from .checks import check, check_names

log = structlog.get_logger(__name__)

FRAME_CHARS = 1_000_000
"""A snapshot is sent in frames of about this size: a bus message has a limit, a configuration has none."""

MAX_NAMED = 500
"""Items that a notice names; one that names none says that anything may have changed."""

Body = dict[str, Any]


class ConfigService:
    """Several may run on one store; each answers from the store and keeps nothing itself."""

    def __init__(self, bus: Bus, store: Store) -> None:
        self._bus = bus
        self._items = store.config
        self._serving: Serving | None = None
        self._writing: set[asyncio.Task[Body]] = set()

    async def start(self) -> None:
        """Serves, and calls the watchers that already wait for an answer."""
        self._serving = await self._bus.serve("config", self.handle)
        await self._notify(ConfigNotice(version=await self._items.version()))

    async def close(self) -> None:
        if self._serving is not None:
            await self._serving.close()
        await asyncio.gather(*self._writing, return_exceptions=True)

    async def handle(self, request: Request) -> Body:
        """The answer to one request, in the shape of ``ConfigResponse``; raises BadRequest and Conflict."""
        body = request.parse(ConfigRequest)
        workspace = body.workspace or request.workspace or DEFAULT_WORKSPACE
        match body.operation:
            case "get":
                return await self._get(workspace, body)
            case "getvalues":
                version, items = await self._items.items(workspace, [_type_of(body)])
                return {"version": version, "values": [_shown(item) for item in items]}
            case "list":
                version, items = await self._items.items(workspace, [_type_of(body)])
                return {"version": version, "directory": [item.key for item in items]}
            case "config":
                return await self._config(workspace, body)
            case "put":
                return await self._change(_puts(workspace, body), body)
            case "delete":
                return await self._change(_deletes(workspace, body), body)
            case _:
                return await self._snapshot(request, body)

    async def _get(self, workspace: str, body: ConfigRequest) -> Body:
        wanted = [(workspace, key.type, key.key) for key in body.keys]
        version, found = await self._items.get(wanted)
        values = [
            _shown(found[item])
            if item in found
            else {"workspace": item[0], "type": item[1], "key": item[2], "value": None, "version": 0}
            for item in wanted
        ]
        return {"version": version, "values": values}

    async def _config(self, workspace: str, body: ConfigRequest) -> Body:
        types = body.types if body.types is not None else [body.type] if body.type else None
        version, items = await self._items.items(workspace, types)
        config: dict[str, dict[str, str]] = {}
        for item in items:
            config.setdefault(item.type, {})[item.key] = item.value
        return {"version": version, "config": config}

    async def _snapshot(self, request: Request, body: ConfigRequest) -> Body:
        if body.unless_version is not None and await self._items.version() == body.unless_version:
            return {"version": body.unless_version}
        version, items = await self._items.items(types=body.types)
        *first, last = _frames(items)
        for frame in first:
            await request.send({"version": version, "values": frame})
        return {"version": version, "values": last}

    async def _change(self, changes: Sequence[ConfigChange], body: ConfigRequest) -> Body:
        """Once begun it is finished, notice included, even if the asker goes away meanwhile."""
        check(changes, force=body.force)
        if not body.force:
            await self._check_names(changes)
        task = asyncio.create_task(self._write(changes, body.who or ""))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        return await asyncio.shield(task)

    async def _check_names(self, changes: Sequence[ConfigChange]) -> None:
        """No two tools of a workspace may have one name: an agent could call only one of them."""
        for workspace in {change.workspace for change in changes if change.type == "tool"}:
            _, stored = await self._items.items(workspace, ["tool"])
            values: dict[str, str | None] = {item.key: item.value for item in stored}
            changed = [change for change in changes if (change.type, change.workspace) == ("tool", workspace)]
            values |= {change.key: change.value for change in changed}
            check_names({change.key for change in changed}, values)

    async def _write(self, changes: Sequence[ConfigChange], who: str) -> Body:
        version = await self._items.write(changes, who=who)
        named = {change.item: None for change in changes}
        changed = [{"workspace": workspace, "type": type_, "key": key} for workspace, type_, key in named]
        await self._notify(
            ConfigNotice(version=version, changed=changed if len(changed) <= MAX_NAMED else [])
        )
        return {"version": version}

    async def _notify(self, notice: ConfigNotice) -> None:
        try:
            await self._bus.broadcast(NOTICE_CHANNEL, notice)
        except TrustGraphError as error:  # the change is saved; watchers find it when they next look
            log.warning("config notice not sent", version=notice.version, error=error.message)


def _type_of(body: ConfigRequest) -> str:
    if not body.type:
        raise BadRequest(f"The operation {body.operation!r} needs a type, for example tool.")
    return body.type


def _shown(item: ConfigItem) -> Body:
    return {
        "workspace": item.workspace,
        "type": item.type,
        "key": item.key,
        "value": item.value,
        "version": item.version,
    }


def _puts(workspace: str, body: ConfigRequest) -> list[ConfigChange]:
    without = [f"{value.type} {value.key!r}" for value in body.values if value.value is None]
    if without:
        raise BadRequest(f"No value is given for {', '.join(without)}; to remove an item use delete.")
    return [
        ConfigChange(value.workspace or workspace, value.type, value.key, value.value, value.expected_version)
        for value in body.values
    ]


def _deletes(workspace: str, body: ConfigRequest) -> list[ConfigChange]:
    return [ConfigChange(workspace, key.type, key.key, None, key.expected_version) for key in body.keys]


def _frames(items: Iterable[ConfigItem]) -> list[list[Body]]:
    frames: list[list[Body]] = [[]]
    size = 0
    for item in items:
        if size > FRAME_CHARS:
            frames.append([])
            size = 0
        frames[-1].append(_shown(item))
        size += len(item.value) + 200
    return frames
