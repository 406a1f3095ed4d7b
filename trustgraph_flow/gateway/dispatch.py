"""From a client's JSON to a service on the bus and back, the same for HTTP and for sockets."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

from prometheus_client import Counter, Histogram

from trustgraph_flow.bus import Bus
from trustgraph_flow.schema.agent import AgentMessage, AgentRequest
from trustgraph_flow.schema.base import Message
from trustgraph_flow.schema.config import (
    DEFAULT_WORKSPACE,
    ConfigKey,
    ConfigRequest,
    ConfigResponse,
    ConfigValue,
)
from trustgraph_flow.schema.errors import BadRequest, TrustGraphError
from trustgraph_flow.schema.mcp import McpToolResponse
from trustgraph_flow.schema.prompt import PromptResponse

from . import secrets
from .services import CONFIG, Service
from .wire import frame_body, parse

REQUESTS = Counter("tg_gateway_requests_total", "Requests answered", ["service", "outcome"])
SECONDS = Histogram(
    "tg_gateway_seconds", "From a request to its last frame", ["service"],
    buckets=(0.005, 0.02, 0.05, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600),
)  # fmt: skip

WRITER = "gateway"
"""Who stands in the history of a config item."""


class Dispatcher:
    """Checks requests, sends them to their service, and writes the replies as clients know them."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def ask(self, service: Service, body: dict[str, Any], workspace: str) -> dict[str, Any]:
        """The last frame of a reply, whole: streaming makes no sense to one who gets one frame.

        Raises BadRequest for what the client has done wrong, and the errors of the bus and the service.
        """
        with _measured(service):
            request = read_request(service, body)
            if "streaming" in service.request.model_fields:
                request = request.model_copy(update={"streaming": False})
            frame = await self._whole(service, request, workspace)
            if frame.get("message_type") == "answer":
                frame["answer"] = frame["content"]
            return frame

    async def stream(
        self, service: Service, body: dict[str, Any], workspace: str
    ) -> AsyncGenerator[tuple[dict[str, Any], bool]]:
        """The frames of a reply, each with whether it is the last; errors as of ``ask``."""
        with _measured(service):
            request = read_request(service, body)
            if not isinstance(request, AgentRequest) and not getattr(request, "streaming", False):
                yield await self._whole(service, request, workspace), True
                return
            # Whether a frame is the last is seen in an agent's message, and else by there being no next one.
            held: dict[str, Any] | None = None
            told: set[str] = set()
            replies = self._bus.stream(
                service.name, request, service.reply, workspace=workspace, timeout=_wait(service, request)
            )
            async with aclosing(replies):
                async for reply in replies:
                    if isinstance(reply, AgentMessage):
                        if _is_news(reply, told):
                            yield frame_of(reply), reply.end_of_dialog
                        continue
                    if held is not None:
                        yield held, False
                    held = frame_of(reply)
            if held is not None:
                yield held, True

    async def _whole(self, service: Service, request: Message, workspace: str) -> dict[str, Any]:
        if isinstance(request, ConfigRequest):
            return await self._config(request, workspace)
        reply = await self._bus.request(
            service.name, request, service.reply, workspace=workspace, timeout=_wait(service, request)
        )
        return frame_of(reply)

    async def _config(self, request: ConfigRequest, workspace: str) -> dict[str, Any]:
        request.workspace, request.who = workspace, WRITER
        for number, value in enumerate(request.values):
            if (value.workspace or workspace) != workspace:
                raise BadRequest(f"values.{number}.workspace: a request writes to its own workspace only")
        if request.operation == "put":
            await self._restore_secrets(request, workspace)
        return config_frame(await self._ask_config(request, workspace), workspace)

    async def _restore_secrets(self, request: ConfigRequest, workspace: str) -> None:
        """Puts the stored secrets in place of the masks in the values to be written."""
        covered = [
            value
            for value in request.values
            if value.type in secrets.SECRET_TYPES and value.value and secrets.holds_mask(value.value)
        ]
        if not covered:
            return
        keys = [ConfigKey(type=value.type, key=value.key) for value in covered]
        reply = await self._ask_config(
            ConfigRequest(operation="get", workspace=workspace, keys=keys), workspace
        )
        stored = {(item.type, item.key): item.value for item in reply.values or []}
        faults = []
        for value in covered:
            value.value, found = secrets.restore(value.value or "", stored.get((value.type, value.key)))
            faults += [f"{value.type} item {value.key!r}: {fault}" for fault in found]
        if faults:
            raise BadRequest("; ".join(faults))

    async def _ask_config(self, request: ConfigRequest, workspace: str) -> ConfigResponse:
        return await self._bus.request(
            CONFIG.name, request, ConfigResponse, workspace=workspace, timeout=CONFIG.wait(None)
        )


@contextmanager
def _measured(service: Service) -> Iterator[None]:
    outcome = "cancelled"
    with SECONDS.labels(service.name).time():
        try:
            yield
            outcome = "ok"
        except TrustGraphError as error:
            outcome = error.type
            raise
        except Exception:
            outcome = "internal-error"
            raise
        finally:
            REQUESTS.labels(service.name, outcome).inc()


def _is_news(message: AgentMessage, told: set[str]) -> bool:
    """Who takes a run over tells it from its beginning; ``told`` keeps the ids of ended messages."""
    if message.message_id in told and not message.end_of_dialog:
        return False
    if message.message_id and message.end_of_message:
        told.add(message.message_id)
    return True


def _wait(service: Service, request: Message) -> float:
    return service.wait(getattr(request, "timeout", None))


def workspace_of(frame: dict[str, Any], request: dict[str, Any]) -> str:
    """The workspace that a socket's frame or the request itself names. Raises BadRequest."""
    named = {each["workspace"] for each in (frame, request) if _named(each)}
    if len(named) > 1:
        raise BadRequest("workspace: the frame and its request name two of them; one is enough")
    workspace = named.pop() if named else DEFAULT_WORKSPACE
    if workspace.startswith("_"):
        raise BadRequest(f"workspace: {workspace!r} is reserved, as all names that begin with '_'")
    return workspace


def _named(body: dict[str, Any]) -> bool:
    workspace = body.get("workspace")
    if workspace is None or workspace == "":
        return False
    if not isinstance(workspace, str):
        raise BadRequest("workspace: must be a string")
    return True


def read_request(service: Service, body: dict[str, Any]) -> Message:
    """The request, checked. Raises BadRequest with every fault."""
    inner = sorted(service.inner & {*body, str(body.get("operation"))})
    if inner:
        raise BadRequest(f"{', '.join(inner)}: is for the services among themselves")
    return parse(service.request, body)


def frame_of(reply: Message) -> dict[str, Any]:
    """What clients of all ages read.

    A prompt's ``object`` is JSON text; a tool's result has ``text`` or ``object``, a failed run ``error``.
    """
    frame = frame_body(reply)
    match reply:
        case PromptResponse() if reply.text is None:
            frame["object"] = json.dumps(reply.object, ensure_ascii=False)
        case McpToolResponse() if not {"text", "object", "tools"} & frame.keys():
            frame["object"] = None
        case AgentMessage(message_type="error") if not reply.error:
            frame["error"] = {"type": "agent-error", "message": reply.content or "the run failed"}
    return frame


def config_frame(reply: ConfigResponse, workspace: str) -> dict[str, Any]:
    """A reply of the config service with its secrets masked, and each value with its workspace."""
    frame = frame_body(reply)
    if reply.values is not None:
        frame["values"] = [_value(item, workspace) for item in reply.values]
    for kind in secrets.SECRET_TYPES & frame.get("config", {}).keys():
        frame["config"][kind] = {key: secrets.mask(text) for key, text in frame["config"][kind].items()}
    return frame


def _value(item: ConfigValue, workspace: str) -> dict[str, Any]:
    text = item.value
    if text is not None and item.type in secrets.SECRET_TYPES:
        text = secrets.mask(text)
    return {**frame_body(item), "workspace": item.workspace or workspace, "value": text}
