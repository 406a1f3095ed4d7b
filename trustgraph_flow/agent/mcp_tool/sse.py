"""The HTTP client for servers of the old HTTP+SSE transport, which answer on one long event stream.

A message that such a server does not take gets no answer there, so that its loss has to be told apart from
waiting.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.sse import sse_client

from . import faults
from .faults import McpFault
from .http import CONNECT_SECONDS, KEEPALIVE_SECONDS, cause

POST_SECONDS = 10.0
"""A server takes a message at once: it answers elsewhere."""


class _Client(httpx2.AsyncClient):
    def __init__(
        self, headers: Mapping[str, str], auth: httpx2.Auth | None, on_lost: Callable[[], None]
    ) -> None:
        super().__init__(
            headers=dict(headers),
            auth=auth,
            timeout=httpx2.Timeout(POST_SECONDS, connect=CONNECT_SECONDS, read=None),
            limits=httpx2.Limits(keepalive_expiry=KEEPALIVE_SECONDS),
        )
        self._on_lost = on_lost

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if request.method != "POST":
            return await super().send(request, **options)
        request.extensions["timeout"]["read"] = POST_SECONDS
        try:
            response = await super().send(request, **options)
        except (httpx2.HTTPError, McpFault):
            self._on_lost()
            raise
        if response.status_code >= 300:
            self._on_lost()
        return response


@asynccontextmanager
async def sse_transport(
    server: str,
    url: str,
    own_headers: Mapping[str, str],
    own_auth: httpx2.Auth | None,
    on_lost: Callable[[], None],
) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of a server; ``on_lost`` is called when it does not take a message. Raises McpFault."""

    def make_client(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        return _Client(own_headers, own_auth, on_lost)

    entered = False
    try:
        async with sse_client(url, httpx_client_factory=make_client) as streams:
            entered = True
            yield streams
    except httpx2.HTTPStatusError as error:
        status = error.response.status_code
        if entered:
            raise
        if status in (401, 403):
            raise faults.credentials_refused(server, status) from None
        raise faults.not_reached(server, f"it answered HTTP {status}") from None
    except httpx2.HTTPError as error:
        if entered:
            raise
        raise faults.not_reached(server, cause(error)) from None
