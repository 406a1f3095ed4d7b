"""Sign-ins at MCP servers: the tokens that they gave, and the client that they know us as."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from .access import Access
from .tables import sign_in
from .text import dump, load


@dataclass(frozen=True, slots=True, repr=False)
class SignIn:
    """``tokens`` and ``client`` are JSON objects as OAuth has them; ``expires_at`` is in Unix seconds, None
    where the server does not say."""

    tokens: dict[str, Any] | None = None
    expires_at: float | None = None
    client: dict[str, Any] | None = None


class SignInTable:
    """One row for each workspace and server. Nothing of it is ever logged or put on the bus."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def get(self, workspace: str, server: str) -> SignIn:
        """What is known; an empty one where nothing is."""
        columns = sign_in.c
        statement = select(columns.tokens, columns.expires_at, columns.client).where(
            columns.workspace == workspace, columns.server == server
        )

        def work(connection: Connection) -> SignIn:
            row = connection.execute(statement).one_or_none()
            if row is None:
                return SignIn()
            tokens, expires_at, client = row
            return SignIn(load(tokens) if tokens else None, expires_at, load(client) if client else None)

        return await self._access.read(work)

    async def put_tokens(
        self, workspace: str, server: str, tokens: dict[str, Any], expires_at: float | None
    ) -> None:
        await self._put(workspace, server, {"tokens": dump(tokens), "expires_at": expires_at})

    async def put_client(self, workspace: str, server: str, client: dict[str, Any]) -> None:
        await self._put(workspace, server, {"client": dump(client)})

    async def forget(self, workspace: str, server: str) -> None:
        here = (sign_in.c.workspace == workspace) & (sign_in.c.server == server)

        def work(connection: Connection) -> None:
            connection.execute(delete(sign_in).where(here))

        await self._access.write(work)

    async def _put(self, workspace: str, server: str, values: dict[str, Any]) -> None:
        here = (sign_in.c.workspace == workspace) & (sign_in.c.server == server)
        values = {**values, "updated_at": time.time()}

        def work(connection: Connection) -> None:
            if not connection.execute(update(sign_in).where(here).values(values)).rowcount:
                connection.execute(insert(sign_in).values(workspace=workspace, server=server, **values))

        await self._access.write(work)
