"""HTTP and WebSocket to one gateway, and what can go wrong between, told as errors with a fix."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import aiohttp
from pydantic import BaseModel, ValidationError
from yarl import URL

from trustgraph_flow.schema.base import faults_of
from trustgraph_flow.schema.errors import (
    BadRequest,
    DeadlineExceeded,
    NotFound,
    SetupError,
    Unavailable,
    from_wire,
)

from .settings import ClientSettings
from .stored import Download

M = TypeVar("M", bound=BaseModel)

HEARTBEAT_SECONDS = 20.0


class CredentialsRefused(BadRequest):
    """The gateway asks for a token, or for another one."""

    type = "credentials-refused"


class Transport:
    """One connection pool to one gateway."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._base = URL(settings.url.rstrip("/"))
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(self, path: str, body: dict[str, Any], *, timeout: float | None = None) -> dict[str, Any]:
        """The JSON object answered to ``body``. ``timeout`` in seconds; a service's error is raised."""
        answer = _json_object(await self._send("POST", path, body, timeout), self.settings.url)
        if isinstance(answer.get("error"), dict) and "message_type" not in answer:
            raise from_wire(answer["error"])
        return answer

    async def get_json(self, path: str, *, accept: tuple[int, ...] = ()) -> dict[str, Any]:
        return _json_object(await self._send("GET", path, accept=accept), self.settings.url)

    async def get_text(self, path: str) -> str:
        return (await self._send("GET", path)).decode("utf-8", "replace")

    async def download(self, path: str, **query: str) -> Download:
        response, content = await self._exchange("GET", path, query=query)
        name = response.content_disposition and response.content_disposition.filename
        if not name:
            answer = _json_object(content, self.settings.url)
            if isinstance(answer.get("error"), dict):
                raise from_wire(answer["error"])
            raise _no_gateway(self.settings.url, "it answered a download with something else")
        return Download(name.replace("/", "_"), response.content_type, content)

    async def frames(
        self, service: str, flow: str, request: dict[str, Any]
    ) -> AsyncGenerator[dict[str, Any]]:
        """The responses to one request on a socket of its own; closing the iterator cancels the request."""
        settings = self.settings
        frame = {
            "id": "1",
            "workspace": settings.workspace,
            "service": service,
            "flow": flow,
            "request": request,
        }
        with self._told(settings.timeout):
            async with self._connection().ws_connect(
                self._base / "api/v1/socket", heartbeat=HEARTBEAT_SECONDS, max_msg_size=0
            ) as socket:
                await socket.send_json({"type": "auth", "token": settings.token or ""})
                greeting = await self._receive(socket, settings.timeout)
                if greeting.get("type") == "auth-failed":
                    raise self._refused()
                if greeting.get("type") != "auth-ok":
                    raise _no_gateway(settings.url, "its socket did not greet as ours does")
                await socket.send_json(frame)
                while True:
                    answer = await self._receive(socket)
                    if isinstance(answer.get("error"), dict):
                        raise from_wire(answer["error"])
                    if not isinstance(answer.get("response"), dict):
                        raise _no_gateway(settings.url, "its socket answers otherwise than ours does")
                    yield answer["response"]
                    if answer.get("complete"):
                        return

    def parsed(self, model: type[M], body: dict[str, Any]) -> M:
        try:
            return model.model_validate(body)
        except ValidationError as error:
            raise _no_gateway(
                self.settings.url, f"its answer is no {model.__name__} ({faults_of(error)})"
            ) from None

    async def _receive(
        self, socket: aiohttp.ClientWebSocketResponse, timeout: float | None = None
    ) -> dict[str, Any]:
        """A run may take its time between two frames; that the gateway lives is seen by the heartbeat."""
        message = await socket.receive(timeout)
        if message.type is aiohttp.WSMsgType.TEXT:
            return _json_object(message.data, self.settings.url)
        raise Unavailable(
            f"the gateway at {self.settings.url} closed the connection before the answer was complete"
        )

    async def _send(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        timeout: float | None = None,
        accept: tuple[int, ...] = (),
    ) -> bytes:
        return (await self._exchange(method, path, body, timeout, accept))[1]

    async def _exchange(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        timeout: float | None = None,
        accept: tuple[int, ...] = (),
        query: dict[str, str] | None = None,
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        seconds = timeout or self.settings.timeout
        headers = {"Authorization": f"Bearer {self.settings.token}"} if self.settings.token else {}
        with self._told(seconds):
            async with self._connection().request(
                method,
                self._base / path,
                params=query,
                json=body,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=seconds),
            ) as response:
                content = await response.read()
                if response.status != 200 and response.status not in accept:
                    self._raise_for(response, content)
                return response, content

    def _raise_for(self, response: aiohttp.ClientResponse, content: bytes) -> None:
        """Our gateway puts a text under ``error`` beside every status that is not 200."""
        url = self.settings.url
        if response.status == 401:
            raise self._refused()
        try:
            text = json.loads(content)["error"]
        except (ValueError, TypeError, KeyError):
            text = None
        if not isinstance(text, str):
            raise _no_gateway(url, f"it answered {response.status} with {response.content_type}")
        match response.status:
            case 404:
                raise NotFound(text)
            case status if status < 500:
                raise BadRequest(text)
            case _:
                raise Unavailable(text)

    def _refused(self) -> CredentialsRefused:
        state = (
            "refuses this token; give the right one" if self.settings.token else "asks for a token; give it"
        )
        return CredentialsRefused(
            f"the gateway at {self.settings.url} {state} with --token or TRUSTGRAPH_TOKEN"
        )

    def _connection(self) -> aiohttp.ClientSession:
        if self._session is None:
            trace = aiohttp.TraceConfig()
            trace.on_request_redirect.append(self._redirected)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=self.settings.timeout),
                trace_configs=[trace],
            )
        return self._session

    async def _redirected(
        self, _session: aiohttp.ClientSession, _context: object, params: aiohttp.TraceRequestRedirectParams
    ) -> None:
        """Redirects are not followed: a socket's token is for the address that it was given for."""
        where = params.response.headers.get("Location")
        params.response.close()
        raise _no_gateway(self.settings.url, f"it redirects to {where}")

    @contextmanager
    def _told(self, seconds: float) -> Iterator[None]:
        """Turns what aiohttp raises into ours."""
        url = self.settings.url
        try:
            yield
        except aiohttp.ClientSSLError as error:
            raise Unavailable(f"the gateway at {url} can't be trusted: {error}") from None
        except aiohttp.ClientConnectorError:
            raise Unavailable(
                f"no gateway answers at {url}: is `tg up` running? (--url or TRUSTGRAPH_URL names another)"
            ) from None
        except aiohttp.WSServerHandshakeError as error:
            raise _no_gateway(url, f"it answered the socket with status {error.status}") from None
        except TimeoutError:
            raise DeadlineExceeded(f"the gateway at {url} did not answer within {seconds:g} s") from None
        except (aiohttp.ClientResponseError, aiohttp.InvalidURL) as error:
            raise _no_gateway(url, f"it does not speak HTTP as ours does ({error})") from None
        except aiohttp.ClientError as error:
            raise Unavailable(
                f"the connection to the gateway at {url} broke ({error or type(error).__name__})"
            ) from None


def _json_object(content: bytes | str, url: str) -> dict[str, Any]:
    try:
        answer = json.loads(content)
    except ValueError:
        raise _no_gateway(url, "its answer is not JSON") from None
    if not isinstance(answer, dict):
        raise _no_gateway(url, "its answer is no JSON object")
    return answer


def _no_gateway(url: str, why: str) -> SetupError:
    return SetupError(f"what answers at {url} is no TrustGraph gateway: {why} (--url, TRUSTGRAPH_URL)")
