"""Config items with their versions and history."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from trustgraph_flow.schema.errors import Conflict

from .access import Access
from .tables import config_history, config_item, config_version

ItemKey = tuple[str, str, str]
"""(workspace, type, key)"""


@dataclass(frozen=True, slots=True)
class ConfigItem:
    """``version`` is the store's version that wrote it; ``updated_at`` is Unix seconds."""

    workspace: str
    type: str
    key: str
    value: str
    version: int
    updated_at: float


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """``value`` None deletes. ``expected_version`` is the item's as its writer read it, 0 for none yet."""

    workspace: str
    type: str
    key: str
    value: str | None
    expected_version: int | None = None

    @property
    def item(self) -> ItemKey:
        return (self.workspace, self.type, self.key)


@dataclass(frozen=True, slots=True)
class ConfigEdit:
    """One entry of an item's history; ``value`` None says that it was deleted."""

    version: int
    value: str | None
    updated_at: float
    who: str


_columns = config_item.c
_one = select(config_item).where(
    _columns.workspace == bindparam("w"), _columns.type == bindparam("t"), _columns.key == bindparam("k")
)
_remove = delete(config_item).where(
    _columns.workspace == bindparam("w"), _columns.type == bindparam("t"), _columns.key == bindparam("k")
)
_version = select(config_version.c.version)


class ConfigTable:
    """One version number for the whole store: each write that changes something raises it by one."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def version(self) -> int:
        return await self._access.read(lambda connection: connection.execute(_version).scalar_one())

    async def get(self, items: Sequence[ItemKey]) -> tuple[int, dict[ItemKey, ConfigItem]]:
        """The version, and those of the items that are there."""
        return await self._access.read(
            lambda connection: (connection.execute(_version).scalar_one(), _get(connection, items))
        )

    async def items(
        self, workspace: str | None = None, types: Iterable[str] | None = None
    ) -> tuple[int, list[ConfigItem]]:
        """The version, and the items of one workspace or all, of some types or all, in order."""
        query = select(config_item).order_by(_columns.workspace, _columns.type, _columns.key)
        if workspace is not None:
            query = query.where(_columns.workspace == workspace)
        if types is not None:
            query = query.where(_columns.type.in_(sorted(types)))

        def work(connection: Connection) -> tuple[int, list[ConfigItem]]:
            version = connection.execute(_version).scalar_one()
            return version, [ConfigItem(*row) for row in connection.execute(query)]

        return await self._access.read(work)

    async def write(self, changes: Sequence[ConfigChange], *, who: str = "") -> int:
        """All of the changes or none; returns the version that holds them.

        Of several changes to one item the last counts. Deleting what is not there changes nothing.
        Raises Conflict, naming the items whose expected version is not theirs any more.
        """
        return await self._access.write(lambda connection: _write(connection, changes, who))

    async def fill(self, changes: Sequence[ConfigChange], *, who: str = "") -> bool:
        """Writes the changes if nothing was ever written to this store, and says whether it was so."""

        def work(connection: Connection) -> bool:
            if connection.execute(_version.with_for_update()).scalar_one():
                return False
            return _write(connection, changes, who) > 0

        return await self._access.write(work)

    async def history(self, item: ItemKey) -> list[ConfigEdit]:
        """The edits of one item, oldest first."""
        columns = config_history.c
        query = (
            select(columns.version, columns.value, columns.updated_at, columns.who)
            .where(columns.workspace == item[0], columns.type == item[1], columns.key == item[2])
            .order_by(columns.version)
        )
        return await self._access.read(
            lambda connection: [ConfigEdit(*row) for row in connection.execute(query)]
        )


def _get(connection: Connection, items: Iterable[ItemKey]) -> dict[ItemKey, ConfigItem]:
    found = {}
    for workspace, type_, key in items:
        row = connection.execute(_one, {"w": workspace, "t": type_, "k": key}).one_or_none()
        if row is not None:
            found[workspace, type_, key] = ConfigItem(*row)
    return found


def _write(connection: Connection, changes: Sequence[ConfigChange], who: str) -> int:
    # Locks the one row on PostgreSQL: config writes of several processes go one after another.
    current: int = connection.execute(_version.with_for_update()).scalar_one()
    stored = _get(connection, [change.item for change in changes])
    _check_versions(changes, stored)
    last = {change.item: change for change in changes if change.value is not None or change.item in stored}
    if not last:
        return current
    version, now = current + 1, time.time()
    rows = [
        {
            "workspace": change.workspace,
            "type": change.type,
            "key": change.key,
            "value": change.value,
            "version": version,
            "updated_at": now,
            "who": who,
        }
        for change in last.values()
    ]
    connection.execute(update(config_version).values(version=version))
    connection.execute(_remove, [{"w": row["workspace"], "t": row["type"], "k": row["key"]} for row in rows])
    kept = [
        {name: value for name, value in row.items() if name != "who"}
        for row in rows
        if row["value"] is not None
    ]
    if kept:
        connection.execute(insert(config_item), kept)
    connection.execute(insert(config_history), rows)
    return version


def _check_versions(changes: Sequence[ConfigChange], stored: dict[ItemKey, ConfigItem]) -> None:
    stale = []
    for change in changes:
        found = stored[change.item].version if change.item in stored else 0
        if change.expected_version is not None and change.expected_version != found:
            stale.append(
                {
                    "workspace": change.workspace,
                    "type": change.type,
                    "key": change.key,
                    "expected-version": change.expected_version,
                    "version": found,
                }
            )
    if stale:
        names = ", ".join(
            f"{entry['type']} {entry['key']!r} (now at version {entry['version']})" for entry in stale
        )
        raise Conflict(
            f"Somebody else has written {names} since it was read; read it again and repeat the change.",
            data={"items": stale},
        )
