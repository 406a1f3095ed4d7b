"""One OpenAI-compatible server over HTTP: a single try of a call, read as parts or raised as a ModelError.

The SDK builds, authorizes and sends the requests; answers are read as plain JSON, since building the SDK's
typed models costs more than all the rest of a call.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress
from typing import Any, TypeVar, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import aiohttp
import httpx2
import openai
from pydantic_core import from_json

from trustgraph_flow.schema.errors import DeadlineExceeded, SetupError

from . import wire
from .failures import Failures
from .provider import ModelTimedOut

T = TypeVar("T")

CONNECT_SECONDS = 5.0
DRAIN_SECONDS = 1.0
KEEPALIVE_SECONDS = 4.0
"""Shorter than what servers commonly keep (5 s): we seldom write to a connection that is being closed."""


class ModelServer:
    """Use it within one event loop. ``silence_seconds``: the longest time without a byte from the server."""

    def __init__(self, url: str, key: str | None, *, silence_seconds: float, connections: int) -> None:
        if key is not None and not (key.isascii() and key.isprintable()):
            raise SetupError(
                "The API key holds characters that can't be sent; check LLM_API_KEY and OPENAI_API_KEY."
            )
        root, query, login = read_url(url)
        self.failures = Failures(root, key)
        self._silence = silence_seconds
        self._client = openai.AsyncOpenAI(
            base_url=root,
            api_key=key or "none",
            default_query=query,
            http_client=openai.DefaultAioHttpClient(
                limits=httpx2.Limits(max_connections=connections, keepalive_expiry=KEEPALIVE_SECONDS)
            ),
            max_retries=0,
        )
        # Without a key no Authorization header goes out, unless the URL carries a login.
        self._headers: dict[str, Any] = {} if key else {"Authorization": login or openai.Omit()}

    async def close(self) -> None:
        await self._client.close()

    async def models(self, deadline: float | None) -> dict[str, object]:
        """What the server lists, by id. Raises ModelError and DeadlineExceeded."""
        response = await self._send("get", "/models", deadline)
        try:
            return self._read(wire.read_models, await self._body(response, deadline))
        finally:
            await response.aclose()

    async def completion(
        self, body: dict[str, Any], deadline: float | None
    ) -> AsyncGenerator[wire.Part, None]:
        """The parts of one reply; only the last has usage and the finish reason.

        Leaving the generator early closes the connection, which ends the server's work.
        Raises ModelError and DeadlineExceeded.
        """
        response = await self._send("post", "/chat/completions", deadline, body=body)
        try:
            if body.get("stream") and "text/event-stream" in response.headers.get("content-type", ""):
                async with aclosing(self._events(response, deadline)) as parts:
                    async for part in parts:
                        yield part
            else:
                yield self._read(wire.read_completion, await self._body(response, deadline))
        finally:
            await response.aclose()

    async def _events(
        self, response: httpx2.Response, deadline: float | None
    ) -> AsyncGenerator[wire.Part, None]:
        last = wire.Part()
        done = False
        events = aiter(httpx2.EventSource(response))
        try:
            async for event in events:
                _seconds_left(deadline)
                if event.data == "[DONE]":
                    done = True
                    break
                part = self._read(wire.read_event, event.data)
                last = last.followed_by(part)
                if part.text:
                    yield wire.Part(part.text, model=part.model)
        except (httpx2.TransportError, aiohttp.ClientError) as error:
            raise self._broken(error, deadline) from error
        if not done and last.finish_reason is None:
            raise self.failures.broken_off()
        yield last
        if done:
            await _drain(events)

    async def _send(
        self, method: str, path: str, deadline: float | None, *, body: dict[str, Any] | None = None
    ) -> httpx2.Response:
        """The answer of a good status, with its body unread."""
        silence = min(self._silence, _seconds_left(deadline))
        options: openai.RequestOptions = {
            "headers": self._headers,
            "timeout": httpx2.Timeout(silence, connect=min(CONNECT_SECONDS, silence)),
        }
        how: dict[str, Any] = {
            "cast_to": httpx2.Response,
            "stream": True,
            "stream_cls": openai.AsyncStream,
            "options": options,
        }
        try:
            if body is None:
                answer: Any = await self._client.get(path, **how)
            else:
                answer = await self._client.post(path, body=body, **how)
        except openai.APIStatusError as error:
            raise self.failures.status(error) from error
        except (openai.APIConnectionError, aiohttp.ClientError) as error:
            raise self._broken(error, deadline) from error
        return cast(httpx2.Response, answer)

    async def _body(self, response: httpx2.Response, deadline: float | None) -> bytes:
        try:
            return await response.aread()
        except (httpx2.TransportError, aiohttp.ClientError) as error:
            raise self._broken(error, deadline) from error

    def _broken(self, error: Exception, deadline: float | None) -> Exception:
        """What to raise; a silence that lasted until the deadline is the deadline's fault."""
        fault = self.failures.connection(error)
        if isinstance(fault, ModelTimedOut):
            _seconds_left(deadline)
        return fault

    def _read(self, read: Callable[[object], T], text: str | bytes) -> T:
        try:
            return read(from_json(text))
        except wire.NotTheProtocol as error:
            raise self.failures.bad_answer(str(error)) from error
        except wire.ErrorInReply as error:
            raise self.failures.rejected(str(error)) from error
        except ValueError as error:
            raise self.failures.unreadable(text) from error


async def _drain(events: AsyncIterator[object]) -> None:
    """Read to the end of a finished reply, so that the connection can serve another call."""
    with suppress(TimeoutError, httpx2.TransportError, aiohttp.ClientError):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in events:
                pass


def _seconds_left(deadline: float | None) -> float:
    """Seconds until ``deadline``; raises DeadlineExceeded when none are left."""
    if deadline is None:
        return float("inf")
    if (left := deadline - time.time()) <= 0:
        raise DeadlineExceeded("The time of the request ended before the model's reply was whole.")
    return left


def read_url(url: str) -> tuple[str, dict[str, str], str | None]:
    """The URL without login and query, the query, and the login as an Authorization header."""
    try:
        parts = urlsplit(url.strip())
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise SetupError(
            "--llm-url is not the URL of a model server; give one such as http://127.0.0.1:11434/v1."
        )
    login = None
    if parts.username is not None:
        plain = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        login = "Basic " + base64.b64encode(plain.encode()).decode()
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}{parts.path.rstrip('/')}", dict(parse_qsl(parts.query)), login
