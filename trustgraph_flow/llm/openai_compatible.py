"""The provider for every server that speaks the OpenAI chat protocol: what it can do, retries, fallbacks."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping, Set
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import structlog

from trustgraph_flow.schema.llm import TextCompletionRequest, TextCompletionResponse

from . import wire
from .backoff import Backoff
from .model_server import ModelServer
from .provider import Capabilities, ModelBadAnswer, ModelError, ModelRejected
from .wire import response_format

log = structlog.get_logger()

KEY_VARIABLES = ("LLM_API_KEY", "OPENAI_API_KEY")
"""Where the key comes from; the first one that is set wins."""

REFUSED = frozenset({400, 422, 501})
"""The statuses by which servers turn down a parameter."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Which server and how to treat it. ``url`` is the API's root, as in ``http://127.0.0.1:11434/v1``."""

    url: str
    model: str | None = None
    """None: the only one that the server lists."""
    key: str | None = field(default=None, repr=False)
    constrained: bool | None = None
    """Whether replies can be held to a JSON schema; None: find out once for each model."""
    context_tokens: int | None = None
    constrain: Callable[[dict[str, Any]], dict[str, Any]] = response_format
    """How a schema is put into a request's body."""
    silence_seconds: float = 600.0
    """The longest time without a byte from the server, within a reply."""
    connections: int = 256
    backoff: Backoff = field(default_factory=Backoff)


def key_from_environment(environ: Mapping[str, str] = os.environ) -> str | None:
    return next((key for name in KEY_VARIABLES if (key := environ.get(name, "").strip())), None)


class OpenAICompatible:
    """A provider; use it within one event loop and close it there. Raises SetupError for an unusable URL."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._server = ModelServer(
            settings.url,
            settings.key,
            silence_seconds=settings.silence_seconds,
            connections=settings.connections,
        )
        self._without: dict[str, Set[str]] = {}
        self._known: dict[str, Capabilities] = {}
        self._exploring: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._listed: dict[str, object] | None = None
        self._listing = asyncio.Lock()

    async def close(self) -> None:
        await self._server.close()

    async def describe(self, model: str | None = None, *, deadline: float | None = None) -> Capabilities:
        name = await self._name(model, deadline)
        async with self._exploring[name]:
            if name not in self._known:
                self._known[name] = await self._explore(name, deadline)
        return self._known[name]

    async def complete(
        self, request: TextCompletionRequest, *, deadline: float | None = None
    ) -> AsyncGenerator[TextCompletionResponse, None]:
        model = await self._name(request.model, deadline)
        if request.response_schema is not None:
            able = await self.describe(model, deadline=deadline)
            schema = request.response_schema if able.constrained else None
            request = request.model_copy(update={"response_schema": schema})
        async with aclosing(self._complete(request, model, deadline)) as responses:
            async for response in responses:
                yield response

    async def _complete(
        self,
        request: TextCompletionRequest,
        model: str,
        deadline: float | None,
        *,
        needed: Set[str] = frozenset(),
    ) -> AsyncGenerator[TextCompletionResponse, None]:
        """One reply, tried again after passing failures, and without what the server refuses.

        A refusal of something ``needed`` is raised. Nothing is tried again once a part of the reply is out.
        """
        without = known = self._without.get(model, frozenset())
        failures = 0
        begun = False
        while True:
            body = wire.request_body(request, model, without=without, constrain=self._settings.constrain)
            try:
                async with aclosing(self._server.completion(body, deadline)) as parts:
                    async for part in parts:
                        begun = True
                        yield TextCompletionResponse(
                            response=part.text,
                            model=part.model or model,
                            in_token=part.in_token,
                            out_token=part.out_token,
                            finish_reason=part.finish_reason,
                            constrained=not wire.CONSTRAINTS.isdisjoint(body),
                        )
                break
            except ModelError as error:
                if begun:
                    raise
                refused = _refused(error, body)
                if refused & needed:
                    raise
                if refused:
                    log.info("the model server refuses parameters", model=model, refused=sorted(refused))
                    without |= refused
                else:
                    failures += 1
                    await self._pause(error, failures, deadline)
        if without != known:
            # A schema can be refused for its own sake, which says nothing of the next one.
            self._without[model] = without - wire.CONSTRAINTS

    async def _name(self, asked: str | None, deadline: float | None) -> str:
        if name := asked or self._settings.model:
            return name
        names = list(await self._models(deadline))
        if len(names) == 1:
            return names[0]
        raise self._server.failures.no_model(names)

    async def _explore(self, name: str, deadline: float | None) -> Capabilities:
        own = self._settings
        listed = (await self._models(deadline)).get(name)
        constrained = own.constrained if own.constrained is not None else await self._probe(name, deadline)
        log.info("model server explored", model=name, constrained=constrained)
        return Capabilities(name, constrained, own.context_tokens or wire.context_tokens(listed))

    async def _probe(self, name: str, deadline: float | None) -> bool:
        """Whether the server holds replies to a schema. Raises when it takes no requests at all."""
        try:
            reply = await self._whole(wire.PROBE, name, deadline, needed=wire.CONSTRAINTS)
        except ModelRejected as error:
            if error.data.get("status") not in REFUSED:
                raise
            if "response_format" not in f"{error.data.get('param')} {error.data['text']}":
                # Perhaps it is not the schema that is refused; a request without one tells.
                await self._whole(wire.PROBE.model_copy(update={"response_schema": None}), name, deadline)
            return False
        # A reply that was cut off before its first word shows nothing against the server.
        unseen = not reply.response and reply.finish_reason == "length"
        return reply.constrained and (unseen or wire.obeyed_probe(reply.response))

    async def _whole(
        self,
        request: TextCompletionRequest,
        name: str,
        deadline: float | None,
        *,
        needed: Set[str] = frozenset(),
    ) -> TextCompletionResponse:
        async with aclosing(self._complete(request, name, deadline, needed=needed)) as responses:
            return await anext(responses)

    async def _models(self, deadline: float | None) -> dict[str, object]:
        """What the server lists, by id; {} where it has no list. Asked once."""
        async with self._listing:
            if self._listed is None:
                self._listed = await self._list(deadline)
        return self._listed

    async def _list(self, deadline: float | None) -> dict[str, object]:
        failures = 0
        while True:
            try:
                return await self._server.models(deadline)
            except (ModelRejected, ModelBadAnswer):
                return {}
            except ModelError as error:
                failures += 1
                await self._pause(error, failures, deadline)

    async def _pause(self, error: ModelError, failures: int, deadline: float | None) -> None:
        """Wait before the next try, or raise ``error`` when there shall be none."""
        seconds = self._settings.backoff.wait(error, failures, deadline)
        if seconds is None:
            raise error
        log.info("model server is tried again", error=error.message, seconds=round(seconds, 2))
        await asyncio.sleep(seconds)


def _refused(error: ModelError, body: Mapping[str, Any]) -> set[str]:
    held = wire.CONSTRAINTS & body.keys()
    if held and "grammar" in error.data.get("text", ""):
        # The schema's grammar led into a dead end, which servers tell by any status.
        return set(held)
    if isinstance(error, ModelRejected) and error.data.get("status") in REFUSED:
        return wire.refused_parameters(error.data["text"], error.data.get("param"), body)
    return set()
