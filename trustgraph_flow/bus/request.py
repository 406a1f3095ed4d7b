"""A request as its handler sees it, and the frames that go back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from trustgraph_flow.schema.errors import BadRequest, TrustGraphError, Unavailable

from .frames import ERROR, FRAME, check_size, encode, encode_error
from .link import Link

M = TypeVar("M", bound=BaseModel)


class GiveUp(TrustGraphError):
    """Raised by a handler: no worker will ever finish this request, keep it as a dead letter."""

    type = "dead-lettered"


class ReplyPath:
    """Frames to the asker of one request, in order."""

    __slots__ = ("_link", "_request_id", "attempt", "last_only", "last_sent", "reply_to", "sent")

    def __init__(
        self, link: Link, reply_to: str, request_id: str, attempt: int, *, last_only: bool = False
    ) -> None:
        self.reply_to = reply_to
        self.attempt = attempt
        self.last_only = last_only
        self.sent = 0
        self.last_sent = link.loop.time()
        self._link = link
        self._request_id = request_id

    def turn(self, reply_to: str, attempt: int) -> None:
        """A newer attempt of the same request has come; frames that have begun go on as they began."""
        if not self.sent and attempt > self.attempt:
            self.reply_to, self.attempt = reply_to, attempt

    def frame(self, payload: bytes, *, end: bool) -> None:
        check_size(payload, "the reply")
        self._post(payload, FRAME, end=end)

    def error(self, error: BaseException) -> None:
        with contextlib.suppress(Unavailable):
            self._post(encode_error(error), ERROR, end=True)

    async def room(self) -> None:
        await self._link.room()

    def _post(self, payload: bytes, kind: str, *, end: bool) -> None:
        properties = {
            "id": self._request_id,
            "attempt": str(self.attempt),
            "seq": str(self.sent),
            "kind": kind,
        }
        if end:
            properties["end"] = "1"
        self.sent += 1
        self.last_sent = self._link.loop.time()
        self._link.outlet(self.reply_to).post(payload, properties)


class Request:
    """One request. ``deadline`` is in Unix seconds or None; ``redelivered`` counts earlier deliveries."""

    __slots__ = ("_path", "body", "deadline", "id", "redelivered", "service", "traceparent", "workspace")

    def __init__(
        self,
        *,
        service: str,
        id: str,
        body: bytes,
        workspace: str,
        deadline: float | None,
        redelivered: int,
        traceparent: str | None,
        path: ReplyPath,
    ) -> None:
        self.service = service
        self.id = id
        self.body = body
        self.workspace = workspace
        self.deadline = deadline
        self.redelivered = redelivered
        self.traceparent = traceparent
        self._path = path

    def parse(self, model: type[M]) -> M:
        """The body as a model. Raises BadRequest that names each fault by its place."""
        try:
            return model.model_validate_json(self.body)
        except ValidationError as error:
            faults = [
                f"{'.'.join(map(str, fault['loc'])) or 'the body'}: {fault['msg']}"
                for fault in error.errors(include_url=False, include_context=False, include_input=False)
            ]
            raise BadRequest(
                f"not a {model.__name__} for {self.service}: {'; '.join(faults[:10])}",
                data={"faults": faults[:50]},
            ) from None

    async def send(self, body: BaseModel | dict[str, Any]) -> None:
        """An interim frame, if the asker wants any. Waits only while very much is under way to the broker."""
        if self._path.last_only:
            return
        self._path.frame(encode(body), end=False)
        await self._path.room()

    def remaining(self, default: float) -> float:
        """Seconds until the deadline, never below 0; ``default`` where the request has none."""
        return default if self.deadline is None else max(0.0, self.deadline - time.time())


Handler = Callable[[Request], Awaitable[BaseModel | dict[str, Any]]]
"""The returned value is the last frame. A raised TrustGraphError is answered as it is."""
