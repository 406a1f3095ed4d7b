"""Artifacts: what tools returned that a reply can't hold, kept for whoever asks for it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, func, select

from .access import Access, insert_new
from .tables import artifact


@dataclass(frozen=True, slots=True)
class Artifact:
    """``name`` is a file name for people; ``size`` is the number of bytes of ``data``."""

    id: str
    mime_type: str
    name: str
    data: bytes = field(repr=False)
    size: int
    run_id: str | None = None
    call_id: str | None = None

    @classmethod
    def of(
        cls,
        id: str,
        data: bytes,
        *,
        mime_type: str,
        name: str,
        run_id: str | None = None,
        call_id: str | None = None,
    ) -> Artifact:
        return cls(id, mime_type, name, data, len(data), run_id, call_id)


_WHOLE = 2**31 - 1


class ArtifactTable:
    def __init__(self, access: Access) -> None:
        self._access = access

    async def put(self, workspace: str, artifacts: Sequence[Artifact]) -> None:
        """Keeps all of them or none. Ids are the caller's; what has the id of a kept one is taken for it."""
        now = time.time()
        rows = [
            {
                "id": one.id,
                "workspace": workspace,
                "run_id": one.run_id,
                "call_id": one.call_id,
                "mime_type": one.mime_type,
                "name": one.name,
                "size": one.size,
                "created_at": now,
                "data": one.data,
            }
            for one in artifacts
        ]

        statement = insert_new(artifact, self._access.dialect)

        def work(connection: Connection) -> None:
            connection.execute(statement, rows)

        await self._access.write(work)

    async def get(
        self, workspace: str, id: str, *, offset: int = 0, length: int | None = None
    ) -> Artifact | None:
        """The artifact with ``length`` bytes of its data from ``offset`` on (all of them); None where this
        workspace has none of that id."""
        c = artifact.c
        data = (
            c.data if length is None and not offset else func.substr(c.data, offset + 1, length or 2**31 - 1)
        )
        statement = select(c.mime_type, c.name, data, c.size, c.run_id, c.call_id).where(
            c.id == id, c.workspace == workspace
        )

        def work(connection: Connection) -> Artifact | None:
            row = connection.execute(statement).one_or_none()
            if row is None:
                return None
            mime_type, name, found, size, run_id, call_id = row
            return Artifact(id, mime_type, name, bytes(found), size, run_id, call_id)

        return await self._access.read(work)
