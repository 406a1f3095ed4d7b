"""The text-completion service: one provider, offered to everyone on the bus."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING

from prometheus_client import Counter, Histogram

from trustgraph_flow.schema.errors import to_wire
from trustgraph_flow.schema.llm import TextCompletionRequest, TextCompletionResponse

from .provider import Provider

if TYPE_CHECKING:
    from trustgraph_flow.bus import Bus, Request, Serving

SERVICE = "text-completion"

CALLS = Counter("trustgraph_llm_calls", "Model calls that brought a reply", ["model"])
TOKENS = Counter(
    "trustgraph_llm_tokens", "Tokens, where the model server reports them", ["model", "direction"]
)
ERRORS = Counter("trustgraph_llm_errors", "Model calls without a reply, by the error's type", ["type"])
SECONDS = Histogram(
    "trustgraph_llm_seconds",
    "Wall time of a model call, the last token included",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300),
)


class LlmService:
    """Serves ``text-completion``. It does not own the provider: who made it closes it."""

    def __init__(self, bus: Bus, provider: Provider, *, concurrency: int = 64) -> None:
        self._bus = bus
        self._provider = provider
        self._concurrency = concurrency
        self._serving: Serving | None = None

    async def start(self) -> None:
        self._serving = await self._bus.serve(SERVICE, self._answer, concurrency=self._concurrency)

    async def close(self) -> None:
        if self._serving is not None:
            await self._serving.close()
            self._serving = None

    async def _answer(self, request: Request) -> TextCompletionResponse:
        asked = request.parse(TextCompletionRequest)
        if asked.operation == "describe":
            able = await self._provider.describe(asked.model, deadline=request.deadline)
            return TextCompletionResponse(
                model=able.model, constrained=able.constrained, context_tokens=able.context_tokens
            )
        with _measured():
            last = await self._complete(request, asked)
        _count(last)
        return last

    async def _complete(self, request: Request, asked: TextCompletionRequest) -> TextCompletionResponse:
        """The last frame. Those before it are sent on as they come, or joined when not streaming."""
        last: TextCompletionResponse | None = None
        texts: list[str] = []
        async with aclosing(self._provider.complete(asked, deadline=request.deadline)) as chunks:
            async for chunk in chunks:
                if chunk.finish_reason or chunk.in_token is not None or chunk.out_token is not None:
                    last = chunk
                elif asked.streaming:
                    await request.send(chunk)
                else:
                    texts.append(chunk.response)
        last = last or TextCompletionResponse(model=asked.model)
        return last.model_copy(update={"response": "".join([*texts, last.response])}) if texts else last


@contextmanager
def _measured() -> Iterator[None]:
    started = time.perf_counter()
    try:
        yield
    except BaseException as error:
        cancelled = isinstance(error, asyncio.CancelledError)
        ERRORS.labels("cancelled" if cancelled else to_wire(error)["type"]).inc()
        raise
    SECONDS.observe(time.perf_counter() - started)


def _count(reply: TextCompletionResponse) -> None:
    model = reply.model or "unknown"
    CALLS.labels(model).inc()
    for direction, tokens in (("in", reply.in_token), ("out", reply.out_token)):
        if tokens is not None:
            TOKENS.labels(model, direction).inc(tokens)
