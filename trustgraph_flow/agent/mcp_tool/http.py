"""The HTTP client that the SDK's streamable HTTP transport speaks through.

The transport ends the whole connection when one request fails below HTTP, tells no status code to its
caller, and waits for a notification to be taken before it sends anything else. Here every POST stands
alone: what goes wrong with it becomes a JSON-RPC error for that request only, which carries what happened;
a notification never holds up a call; and the POST of a cancelled call is ended, so that a hung server can't
collect them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2
import structlog
from mcp.shared.exceptions import MCPError

from . import faults
from .faults import McpFault

MAX_BODY_BYTES = 64 * 1024 * 1024
"""A longer reply is refused as no valid result."""
CONNECT_SECONDS = 10.0
NOTIFY_SECONDS = 5.0
KEEPALIVE_SECONDS = 3.0
"""Shorter than the 5 s after which common servers close an idle socket, so that no call meets a closing
one."""
_MAX_ERROR_BYTES = 64 * 1024
_LOCAL_CODE = -32098
_MAX_KEPT = 256
_SESSION_HEADER = "mcp-session-id"

log = structlog.get_logger(__name__)


@dataclass(eq=False, slots=True)
class _Post:
    """One request on its way. ``abort`` ends it wherever it is."""

    id: Any
    scope: anyio.CancelScope | None = None
    aborted: bool = False

    def abort(self) -> None:
        self.aborted = True
        if self.scope is not None:
            self.scope.cancel()


@dataclass(slots=True)
class _Faults:
    """Faults of requests, on their way through the SDK. The nonce keeps a server from sending one of ours."""

    nonce: str = field(default_factory=lambda: uuid.uuid4().hex)
    kept: dict[str, McpFault] = field(default_factory=dict)

    def envelope(self, id: Any, fault: McpFault) -> bytes:
        ref = f"{self.nonce}:{id}"
        self.kept[ref] = fault
        if len(self.kept) > _MAX_KEPT:  # those of cancelled requests are never taken
            del self.kept[next(iter(self.kept))]
        error = {"code": _LOCAL_CODE, "message": fault.message, "data": ref}
        return json.dumps({"jsonrpc": "2.0", "id": id, "error": error}).encode()

    def take(self, error: MCPError) -> McpFault | None:
        return self.kept.pop(error.data, None) if isinstance(error.data, str) else None


class GuardedClient(httpx2.AsyncClient):
    """``fault_of`` tells what an MCPError that came through here really was; ``suspect`` is set once the
    server has answered in a way that makes a fresh start the better next step."""

    def __init__(self, server: str, headers: Mapping[str, str], auth: httpx2.Auth | None = None) -> None:
        super().__init__(
            headers=dict(headers),
            auth=auth,
            timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
            limits=httpx2.Limits(keepalive_expiry=KEEPALIVE_SECONDS),
        )
        self.suspect = False
        self._server = server
        self._faults = _Faults()
        self._posts: dict[Any, _Post] = {}
        self._chores: set[asyncio.Task[None]] = set()

    def fault_of(self, error: MCPError) -> McpFault | None:
        return self._faults.take(error)

    async def aclose(self) -> None:
        for post in list(self._posts.values()):
            post.abort()
        for chore in list(self._chores):
            chore.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)
        await super().aclose()

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if request.method == "DELETE":
            return await self._end_session(request, options)
        if request.method != "POST":
            return await self._follow(request, options)
        message = json.loads(request.content)
        method, id = message.get("method"), message.get("id")
        if method is not None and id is not None:
            return await self._ask(request, id, options)
        if method == "notifications/initialized":
            await self._notify(request)  # a server may refuse calls that overtake it
            return httpx2.Response(202, request=request)
        chore = asyncio.create_task(self._cancel(request, message) if method else self._notify(request))
        self._chores.add(chore)
        chore.add_done_callback(self._chores.discard)
        return httpx2.Response(202, request=request)

    async def _follow(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        """A stream of notices, which is nothing to fail for."""
        try:
            return await super().send(request, **options)
        except McpFault as fault:
            log.debug("mcp notices not followed", server=self._server, why=fault.message)
            return httpx2.Response(401, request=request)

    async def _end_session(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        """A courtesy that no server can hold up."""
        try:
            async with asyncio.timeout(NOTIFY_SECONDS):
                return await super().send(request, **options)
        except (httpx2.HTTPError, TimeoutError, McpFault):
            return httpx2.Response(204, request=request)

    async def _notify(self, request: httpx2.Request) -> None:
        try:
            async with asyncio.timeout(NOTIFY_SECONDS):
                response = await super().send(request)
        except (httpx2.HTTPError, TimeoutError, McpFault) as error:
            log.debug("mcp notification not delivered", server=self._server, why=type(error).__name__)
        else:
            if response.status_code >= 400:
                log.debug("mcp notification refused", server=self._server, status=response.status_code)

    async def _cancel(self, request: httpx2.Request, message: dict[str, Any]) -> None:
        await self._notify(request)
        if message["method"] == "notifications/cancelled":
            post = self._posts.get((message.get("params") or {}).get("requestId"))
            if post is not None:
                post.abort()

    async def _ask(self, request: httpx2.Request, id: Any, options: dict[str, Any]) -> httpx2.Response:
        post = self._posts[id] = _Post(id)
        streaming = False
        try:
            try:
                with anyio.CancelScope() as post.scope:
                    response = await super().send(request, **options)
                    reply = await self._understood(request, response, post)
                    streaming = isinstance(reply.stream, _Events)
                    return reply
                return self._fault(request, post, faults.cancelled(self._server))
            except McpFault as fault:
                self.suspect = True
                return self._fault(request, post, fault)
            except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
                return self._fault(request, post, self._transport_fault(request, error))
        finally:
            if not streaming:
                self._forget(post)

    def _transport_fault(self, request: httpx2.Request, error: Exception) -> McpFault:
        if isinstance(error, httpx2.HTTPError) and getattr(error, "_request", request) is not request:
            return faults.not_reached(self._server, "its sign-in server did not answer")
        match error:
            case httpx2.ConnectError() | httpx2.ConnectTimeout() | httpx2.ProxyError():
                why = (
                    "it took too long to connect"
                    if isinstance(error, httpx2.ConnectTimeout)
                    else cause(error)
                )
                return faults.not_reached(self._server, why, resend="fresh")
            case httpx2.InvalidURL() | httpx2.UnsupportedProtocol() | httpx2.LocalProtocolError():
                return faults.not_reached(self._server, "its URL or headers are not valid")
            case _:
                self.suspect = True
                return faults.outcome_unknown(self._server, "the connection was lost before the answer came")

    async def _understood(
        self, request: httpx2.Request, response: httpx2.Response, post: _Post
    ) -> httpx2.Response:
        """The response as the SDK shall see it."""
        status = response.status_code
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if status >= 400:
            return await self._refused(request, response, post, kind)
        if status == 202 or response.next_request is not None:
            return response
        if kind == "text/event-stream":
            headers = _plain_headers(response)
            return httpx2.Response(
                status, headers=headers, stream=_Events(self, response, post), request=request
            )
        if kind != "application/json":
            await response.aclose()
            return self._fault(
                request, post, faults.invalid_result(self._server, f"HTTP {status}, {kind or 'no type'}")
            )
        body = await _read(response, MAX_BODY_BYTES)
        if body is None:
            return self._fault(request, post, faults.invalid_result(self._server, "over 64 MB"))
        return httpx2.Response(status, headers=_plain_headers(response), content=body, request=request)

    async def _refused(
        self, request: httpx2.Request, response: httpx2.Response, post: _Post, kind: str
    ) -> httpx2.Response:
        status = response.status_code
        body = await _read(response, _MAX_ERROR_BYTES)
        in_session = _SESSION_HEADER in request.headers
        if status in (401, 403):
            self.suspect = True
            anonymous = status == 401 and "authorization" not in request.headers
            if anonymous and "resource_metadata" in response.headers.get("www-authenticate", ""):
                return self._fault(request, post, faults.oauth_wanted(self._server))
            return self._fault(request, post, faults.credentials_refused(self._server, status))
        if status == 404 and in_session:
            self.suspect = True
            gone = faults.not_reached(self._server, "it does not know our session any more", resend="fresh")
            return self._fault(request, post, gone)
        if kind == "application/json" and body is not None and _is_rpc_error(body):
            self.suspect = self.suspect or (in_session and status in (400, 503))
            return httpx2.Response(status, headers=_plain_headers(response), content=body, request=request)
        self.suspect = True
        if status < 500:
            fault = faults.not_reached(self._server, f"it refused the request with HTTP {status}")
        else:
            fault = faults.outcome_unknown(self._server, f"it answered HTTP {status}")
        return self._fault(request, post, fault)

    def _fault(self, request: httpx2.Request, post: _Post, fault: McpFault) -> httpx2.Response:
        headers = {"content-type": "application/json"}
        return httpx2.Response(
            500, headers=headers, content=self._faults.envelope(post.id, fault), request=request
        )

    def _lost(self, post: _Post) -> bytes:
        """The event that ends a stream which can't bring an answer any more."""
        if post.aborted:
            fault = faults.cancelled(self._server)
        else:
            fault = faults.outcome_unknown(self._server, "the connection was lost before the answer came")
        return b"\n\nevent: message\ndata: " + self._faults.envelope(post.id, fault) + b"\n\n"

    def _forget(self, post: _Post) -> None:
        if self._posts.get(post.id) is post:
            del self._posts[post.id]


class _Events(httpx2.AsyncByteStream):
    """An event stream that always ends with an answer, unless the server numbers its events: then the SDK
    asks for the rest."""

    def __init__(self, client: GuardedClient, response: httpx2.Response, post: _Post) -> None:
        self._client = client
        self._response = response
        self._post = post

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks = self._response.aiter_bytes()
        resumable = False
        size = 0
        while not self._post.aborted:
            chunk = b""
            try:
                with anyio.CancelScope() as self._post.scope:
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                if resumable:
                    return
                break
            except (httpx2.HTTPError, httpx2.StreamError):
                if resumable:
                    raise
                break
            size += len(chunk)
            if size > MAX_BODY_BYTES:
                break
            resumable = resumable or chunk.startswith(b"id:") or b"\nid:" in chunk
            yield chunk
        yield self._client._lost(self._post)

    async def aclose(self) -> None:
        self._client._forget(self._post)
        await self._response.aclose()


async def _read(response: httpx2.Response, limit: int) -> bytes | None:
    """The decoded body, or None when it is longer than ``limit`` bytes."""
    parts, size = [], 0
    try:
        async for chunk in response.aiter_bytes():
            parts.append(chunk)
            size += len(chunk)
            if size > limit:
                return None
    finally:
        await response.aclose()
    return b"".join(parts)


def _plain_headers(response: httpx2.Response) -> dict[str, str]:
    """The headers that the SDK reads; those on the encoding no longer fit a decoded body."""
    return {
        name: response.headers[name] for name in ("content-type", _SESSION_HEADER) if name in response.headers
    }


def _is_rpc_error(body: bytes) -> bool:
    try:
        message = json.loads(body)
    except ValueError:
        return False
    return isinstance(message, dict) and isinstance(message.get("error"), dict) and "code" in message["error"]


def cause(error: BaseException | None) -> str:
    """Why a connection was refused, in the operating system's words and without any URL."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno:
            name = os.strerror(seen.errno)
            return name.lower() if not name.startswith("Unknown error") else "its host name is not known"
        group = seen.exceptions[0] if isinstance(seen, ExceptionGroup) else None
        seen = group or seen.__cause__ or seen.__context__
    return "no connection could be made"


def keep_urls_out_of_logs() -> None:
    """Libraries below log every URL, and with it the credentials of its query, at level info or debug."""
    for name in ("httpx2", "httpcore2", "mcp"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # It logs failed sign-ins with what was received; we say why by ourselves.
    logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL + 1)
