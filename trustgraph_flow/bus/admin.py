"""Prepare a Pulsar cluster: our tenant and namespaces, where they are missing."""

from __future__ import annotations

from typing import Any

import aiohttp
import structlog

from trustgraph_flow.schema.errors import SetupError, Unavailable

from .settings import BusSettings
from .topics import NAMESPACES

log = structlog.get_logger(__name__)

ADMIN_SECONDS = 30.0


async def prepare(admin_url: str, settings: BusSettings) -> None:
    """Create what is missing through the admin API.

    Raises Unavailable where it does not answer, and SetupError that names what is missing where the token
    may not create it.
    """
    headers = {"Authorization": f"Bearer {settings.token}"} if settings.token else {}
    timeout = aiohttp.ClientTimeout(total=ADMIN_SECONDS)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout) as session:
        admin = _Admin(session, admin_url.rstrip("/"))
        try:
            await _prepare(admin, settings.tenant)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unavailable(
                f"the Pulsar admin API at {admin_url} can't be used ({type(error).__name__}: {error}): "
                "check --pulsar-admin"
            ) from None


async def _prepare(admin: _Admin, tenant: str) -> None:
    if not await admin.exists(f"tenants/{tenant}"):
        clusters = await admin.read("clusters")
        wanted = f"pulsar-admin tenants create {tenant}"
        await admin.create(f"tenants/{tenant}", {"allowedClusters": clusters}, wanted)
    present = set(await admin.read(f"namespaces/{tenant}"))
    for namespace in NAMESPACES:
        name = f"{tenant}/{namespace}"
        if name not in present:
            await admin.create(f"namespaces/{name}", {}, f"pulsar-admin namespaces create {name}")


class _Admin:
    """The three verbs that we need of the admin API."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def exists(self, path: str) -> bool:
        async with self._session.get(self._at(path)) as response:
            if response.status == 404:
                return False
            await self._check(response, path)
            return True

    async def read(self, path: str) -> list[str]:
        async with self._session.get(self._at(path)) as response:
            await self._check(response, path)
            body: list[str] = await response.json()
            return body

    async def create(self, path: str, body: dict[str, Any], wanted: str) -> None:
        async with self._session.put(self._at(path), json=body) as response:
            if response.status == 409:
                return
            await self._check(response, path, f"; ask its administrator for: {wanted}")
            log.info("created on the cluster", what=path)

    async def _check(self, response: aiohttp.ClientResponse, path: str, advice: str = "") -> None:
        if response.status < 400:
            return
        reason = (await response.text())[:200]
        if response.status in (401, 403):
            raise SetupError(
                f"the Pulsar admin API at {self._url} refuses {path} ({response.status}){advice}"
            )
        raise SetupError(
            f"the Pulsar admin API at {self._url} answers {response.status} for {path}: {reason}{advice}"
        )

    def _at(self, path: str) -> str:
        return f"{self._url}/admin/v2/{path}"
