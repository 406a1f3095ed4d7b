"""A model that answers from a script, for tests of anything that talks to a model.

It is a provider by itself; ``scripted_server`` serves the same script over the real OpenAI protocol.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from trustgraph_flow.schema.errors import TrustGraphError
from trustgraph_flow.schema.llm import TextCompletionRequest, TextCompletionResponse

from .provider import Capabilities, ModelBadAnswer


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the script. Token counts of None are not reported, as by a server without usage."""

    text: str = ""
    in_token: int | None = None
    out_token: int | None = None
    finish_reason: str | None = "stop"
    chunks: Sequence[str] | None = None
    """How a streamed reply is cut; the pieces must make up ``text``, which may be left out."""
    gate: asyncio.Event | None = None
    """Waited for before the last piece (of a reply that is not streamed: before all of it)."""

    def pieces(self) -> list[str]:
        return list(self.chunks) if self.chunks is not None else [self.text]

    def whole(self) -> str:
        return self.text or "".join(self.pieces())


Answer = str | dict[str, Any] | Reply | TrustGraphError
Script = Sequence[Answer] | Callable[[TextCompletionRequest], Answer | Awaitable[Answer]]


class ScriptedModel:
    """Gives its answers in order, or asks a function for each one.

    A string or a dict (as JSON) is a reply whose tokens are counted as words; an error is raised, and ends
    no script. ``requests`` records what was asked; describing the model is not asking.
    """

    def __init__(
        self,
        replies: Script,
        *,
        model: str = "scripted",
        constrained: bool = True,
        context_tokens: int | None = None,
    ) -> None:
        self.capabilities = Capabilities(model, constrained, context_tokens)
        self.requests: list[TextCompletionRequest] = []
        self._replies = replies

    async def describe(self, model: str | None = None, *, deadline: float | None = None) -> Capabilities:
        own = self.capabilities
        return Capabilities(model or own.model, own.constrained, own.context_tokens)

    async def answer(self, request: TextCompletionRequest) -> Reply:
        """Record the request and take the next reply; raises the error that stands in its place."""
        self.requests.append(request)
        answer = await self._next(request)
        if isinstance(answer, TrustGraphError):
            raise answer
        if isinstance(answer, Reply):
            return answer
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return Reply(text, len(f"{request.system} {request.prompt}".split()), len(text.split()))

    async def _next(self, request: TextCompletionRequest) -> Answer:
        if callable(self._replies):
            made = self._replies(request)
            return await made if inspect.isawaitable(made) else made
        if len(self.requests) > len(self._replies):
            return ModelBadAnswer(
                f"The scripted model has {len(self._replies)} replies and was asked "
                f"{len(self.requests)} times; give it more replies or a function."
            )
        return self._replies[len(self.requests) - 1]

    async def complete(
        self, request: TextCompletionRequest, *, deadline: float | None = None
    ) -> AsyncGenerator[TextCompletionResponse, None]:
        reply = await self.answer(request)
        model = request.model or self.capabilities.model
        *before, last = reply.pieces() if request.streaming else [reply.whole()]
        for piece in before:
            yield TextCompletionResponse(response=piece, model=model)
        if reply.gate:
            await reply.gate.wait()
        yield TextCompletionResponse(
            response=last,
            model=model,
            in_token=reply.in_token,
            out_token=reply.out_token,
            finish_reason=reply.finish_reason,
            constrained=self.capabilities.constrained and request.response_schema is not None,
            context_tokens=self.capabilities.context_tokens,
        )

    async def close(self) -> None:
        pass
