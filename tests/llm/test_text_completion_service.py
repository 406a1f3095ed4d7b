"""The service on a real broker, with scripted models behind it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest
from prometheus_client import REGISTRY

from trustgraph_flow.bus import Bus
from trustgraph_flow.llm import LlmService
from trustgraph_flow.llm.provider import ModelRefusedCredentials
from trustgraph_flow.llm.scripted import Reply, ScriptedModel
from trustgraph_flow.schema.errors import DeadlineExceeded, TrustGraphError
from trustgraph_flow.schema.llm import TextCompletionRequest, TextCompletionResponse

SECONDS = 20.0


@pytest.fixture
async def offer(bus: Bus) -> AsyncIterator[Callable[..., object]]:
    """Starts a service for a model; it ends after the test."""
    async with AsyncExitStack() as stack:

        async def start(model: ScriptedModel) -> None:
            service = LlmService(bus, model)
            await service.start()
            stack.push_async_callback(service.close)

        yield start


async def ask(bus: Bus, **request: object) -> TextCompletionResponse:
    body = TextCompletionRequest.model_validate(request)
    return await bus.request("text-completion", body, TextCompletionResponse, timeout=SECONDS)


async def test_a_reply_comes_whole_with_its_usage(bus: Bus, offer: Callable) -> None:
    model = ScriptedModel([Reply(chunks=["Fi", "ne."], in_token=3, out_token=2)])
    await offer(model)
    reply = await ask(bus, system="Be brief.", prompt="How are you?", temperature=0, stop=["x"])
    assert (reply.response, reply.in_token, reply.out_token) == ("Fine.", 3, 2)
    assert model.requests == [
        TextCompletionRequest(system="Be brief.", prompt="How are you?", temperature=0, stop=["x"])
    ]


async def test_a_streamed_reply_comes_in_frames_and_the_last_one_has_the_usage(
    bus: Bus, offer: Callable
) -> None:
    await offer(ScriptedModel([Reply(chunks=["Fi", "ne", "."], in_token=3, out_token=2)]))
    body = TextCompletionRequest(prompt="?", streaming=True)
    frames = [
        frame async for frame in bus.stream("text-completion", body, TextCompletionResponse, timeout=SECONDS)
    ]
    assert "".join(frame.response for frame in frames) == "Fine."
    assert [frame.in_token for frame in frames[:-1]] == [None] * (len(frames) - 1)
    assert (frames[-1].in_token, frames[-1].out_token, frames[-1].finish_reason) == (3, 2, "stop")


async def test_a_piece_is_sent_before_the_next_one_exists(bus: Bus, offer: Callable) -> None:
    gate = asyncio.Event()
    await offer(ScriptedModel([Reply(chunks=["one", "two"], gate=gate)]))
    body = TextCompletionRequest(prompt="?", streaming=True)
    texts = []
    async for frame in bus.stream("text-completion", body, TextCompletionResponse, timeout=SECONDS):
        texts.append(frame.response)
        gate.set()
    assert texts == ["one", "two"]


async def test_describing_tells_what_the_model_can_do_and_asks_it_nothing(bus: Bus, offer: Callable) -> None:
    model = ScriptedModel([], model="m", constrained=False, context_tokens=4096)
    await offer(model)
    reply = await ask(bus, operation="describe")
    assert (reply.model, reply.constrained, reply.context_tokens) == ("m", False, 4096)
    assert (await ask(bus, operation="describe", model="other")).model == "other"
    assert model.requests == []


async def test_a_models_failure_reaches_the_asker_with_its_type_and_text(bus: Bus, offer: Callable) -> None:
    await offer(ScriptedModel([ModelRefusedCredentials("no key", data={"status": 401})]))
    with pytest.raises(TrustGraphError, match="no key") as caught:
        await ask(bus, prompt="?")
    assert caught.value.type == "model-refused-credentials"
    assert caught.value.data["status"] == 401


async def test_a_slow_reply_holds_up_its_own_asker_only(bus: Bus, offer: Callable) -> None:
    gate = asyncio.Event()
    replies = {"slow": Reply("late", gate=gate), "quick": Reply("early")}
    await offer(ScriptedModel(lambda request: replies[request.prompt]))
    slow = asyncio.create_task(ask(bus, prompt="slow"))
    assert (await ask(bus, prompt="quick")).response == "early"
    gate.set()
    assert (await slow).response == "late"


async def test_an_asker_that_gives_up_ends_the_models_work(bus: Bus, offer: Callable) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def reply(request: TextCompletionRequest) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    await offer(ScriptedModel(reply))
    asking = asyncio.create_task(ask(bus, prompt="?"))
    await begun.wait()
    asking.cancel()
    await asyncio.wait_for(ended.wait(), SECONDS)


async def test_a_deadline_ends_the_wait_for_a_silent_model(bus: Bus, offer: Callable) -> None:
    await offer(ScriptedModel([Reply("never", gate=asyncio.Event())]))
    body = TextCompletionRequest(prompt="?")
    with pytest.raises(DeadlineExceeded):
        await bus.request("text-completion", body, TextCompletionResponse, deadline=time.time() + 0.5)


async def test_calls_tokens_and_errors_are_counted(bus: Bus, offer: Callable) -> None:
    def count(name: str, **labels: str) -> float:
        return REGISTRY.get_sample_value(f"trustgraph_llm_{name}_total", labels) or 0

    replies = [Reply("a", 10, 2), Reply("b"), ModelRefusedCredentials("no")]
    await offer(ScriptedModel(replies, model="counted"))
    refused = count("errors", type="model-refused-credentials")
    for _ in range(2):
        await ask(bus, prompt="?")
    with pytest.raises(TrustGraphError):
        await ask(bus, prompt="?")
    assert count("calls", model="counted") == 2
    assert count("tokens", model="counted", direction="in") == 10
    assert count("tokens", model="counted", direction="out") == 2
    assert count("errors", type="model-refused-credentials") == refused + 1
