"""Calls to real HTTP servers that answer from a script."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from trustgraph_flow.llm.backoff import Backoff
from trustgraph_flow.llm.openai_compatible import OpenAICompatible
from trustgraph_flow.llm.provider import ModelOverloaded, ModelRejected, ModelUnreachable
from trustgraph_flow.llm.scripted import Reply
from trustgraph_flow.llm.scripted_server import TOO_MANY, HttpAnswer, ScriptedServer
from trustgraph_flow.schema.errors import DeadlineExceeded
from trustgraph_flow.schema.llm import TextCompletionRequest, TextCompletionResponse

Connect = Callable[..., OpenAICompatible]
Serve = Callable[..., Awaitable[ScriptedServer]]
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


async def ask(
    provider: OpenAICompatible, *, deadline: float | None = None, **request: Any
) -> list[TextCompletionResponse]:
    asked = TextCompletionRequest(**{"prompt": "How are you?", **request})
    return [response async for response in provider.complete(asked, deadline=deadline)]


async def test_a_whole_reply_is_one_response_with_usage(serve: Serve, connect: Connect) -> None:
    server = await serve([Reply("Fine.", 7, 2)])
    (response,) = await ask(connect(server.url, model="m"), system="Be brief.")
    assert (response.response, response.in_token, response.out_token) == ("Fine.", 7, 2)
    assert (response.model, response.finish_reason, response.constrained) == ("m", "stop", False)
    assert server.bodies[0]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "How are you?"},
    ]


async def test_a_streamed_reply_comes_in_the_servers_pieces_and_ends_with_usage(
    serve: Serve, connect: Connect
) -> None:
    server = await serve([Reply(chunks=["Fi", "", "ne. \u2028", "\x85", "é"], in_token=7, out_token=2)])
    *pieces, last = await ask(connect(server.url, model="m"), streaming=True)
    assert [piece.response for piece in pieces] == ["Fi", "ne. \u2028", "\x85", "é"]
    assert all(piece.in_token is None and piece.finish_reason is None for piece in pieces)
    assert (last.response, last.in_token, last.out_token, last.finish_reason) == ("", 7, 2, "stop")


async def test_a_piece_arrives_before_the_next_one_is_written(serve: Serve, connect: Connect) -> None:
    gate = asyncio.Event()
    server = await serve([Reply(chunks=["one", "two"], gate=gate)])
    request = TextCompletionRequest(prompt="?", streaming=True)
    async with aclosing(connect(server.url, model="m").complete(request)) as responses:
        assert (await anext(responses)).response == "one"
        gate.set()
        assert [response.response async for response in responses] == ["two", ""]


@pytest.mark.parametrize("streaming", [False, True])
async def test_usage_that_is_missing_is_unknown_and_not_zero(
    serve: Serve, connect: Connect, streaming: bool
) -> None:
    server = await serve([Reply("a", 10, 2), Reply("b", 20, 3), Reply("c", 30, 4), Reply("d")])
    provider = connect(server.url, model="m")
    usage = []
    for _ in range(4):
        last = (await ask(provider, streaming=streaming))[-1]
        usage.append((last.in_token, last.out_token))
    assert usage == [(10, 2), (20, 3), (30, 4), (None, None)]


async def test_a_reply_that_was_cut_off_says_so(serve: Serve, connect: Connect) -> None:
    server = await serve([Reply("Fi", finish_reason="length")])
    (response,) = await ask(connect(server.url, model="m"), max_tokens=1)
    assert response.finish_reason == "length"


async def test_the_model_of_the_request_goes_before_the_configured_one(
    serve: Serve, connect: Connect
) -> None:
    server = await serve(["a", "b"])
    provider = connect(server.url, model="mine")
    await ask(provider)
    await ask(provider, model="other")
    assert [body["model"] for body in server.bodies] == ["mine", "other"]


async def test_without_a_configured_model_the_only_one_of_the_server_is_used(
    serve: Serve, connect: Connect
) -> None:
    server = await serve(["a"], model="the-one", context_tokens=8192)
    provider = connect(server.url)
    await ask(provider)
    assert server.bodies[0]["model"] == "the-one"
    assert (await provider.describe()).context_tokens == 8192


async def test_a_schema_goes_to_a_server_that_constrains_and_the_server_is_probed_once(
    serve: Serve, connect: Connect
) -> None:
    server = await serve([{"n": 1}, {"n": 2}])
    provider = connect(server.url, model="m")
    first, second = [(await ask(provider, response_schema=SCHEMA))[0] for _ in range(2)]
    assert first.constrained
    assert second.constrained
    probe, *calls = server.bodies
    assert "response_format" in probe
    assert [call["response_format"]["json_schema"]["schema"] for call in calls] == [SCHEMA, SCHEMA]


async def test_callers_that_come_together_share_one_probe(serve: Serve, connect: Connect) -> None:
    server = await serve(lambda request: "x")
    provider = connect(server.url, model="m")
    await asyncio.gather(*(ask(provider, response_schema=SCHEMA) for _ in range(5)))
    assert len(server.bodies) == 6


async def test_a_server_that_refuses_schemas_gets_plain_requests(serve: Serve, connect: Connect) -> None:
    server = await serve(["a", "b"], constrained=False)
    provider = connect(server.url, model="m")
    assert not (await provider.describe()).constrained
    tried = len(server.bodies)
    for _ in range(2):
        (response,) = await ask(provider, response_schema=SCHEMA)
        assert not response.constrained
    assert len(server.bodies) == tried + 2
    assert "response_format" not in server.bodies[-1]


async def test_a_server_that_takes_schemas_and_ignores_them_is_found_out(
    serve: Serve, connect: Connect
) -> None:
    prose = HttpAnswer(body='{"choices": [{"message": {"content": "Hello!"}, "finish_reason": "stop"}]}')
    server = await serve(["a"], faults=[prose])
    assert not (await connect(server.url, model="m").describe()).constrained


async def test_one_refused_schema_costs_its_own_request_the_constraint_and_no_other(
    serve: Serve, connect: Connect
) -> None:
    fault = HttpAnswer(
        400, '{"error": {"message": "Invalid schema for response_format", "param": "response_format"}}'
    )
    server = await serve(["a", "b"])
    provider = connect(server.url, model="m")
    await provider.describe()
    server.faults.append(fault)
    (first,) = await ask(provider, response_schema=SCHEMA)
    (second,) = await ask(provider, response_schema=SCHEMA)
    assert (first.constrained, second.constrained) == (False, True)


@pytest.mark.parametrize(
    ("refused", "request_fields"),
    [
        ("stream_options", {"streaming": True}),
        ("temperature", {"temperature": 0}),
        ("stop", {"stop": ["Observation:"]}),
    ],
)
async def test_a_refused_parameter_is_left_out_and_not_sent_again(
    serve: Serve, connect: Connect, refused: str, request_fields: dict[str, Any]
) -> None:
    server = await serve(["a", "b"], refused_parameters=[refused])
    provider = connect(server.url, model="m")
    for _ in range(2):
        responses = await ask(provider, **request_fields)
        assert "".join(response.response for response in responses) in "ab"
    assert [refused in body for body in server.bodies] == [True, False, False]


async def test_max_tokens_is_sent_under_its_newer_name_where_the_older_is_refused(
    serve: Serve, connect: Connect
) -> None:
    server = await serve(["a"], refused_parameters=["max_tokens"])
    await ask(connect(server.url, model="m"), max_tokens=9)
    assert server.bodies[-1]["max_completion_tokens"] == 9


async def test_stream_options_are_left_out_when_a_server_does_not_say_what_it_dislikes(
    serve: Serve, connect: Connect
) -> None:
    server = await serve(["a"], faults=[HttpAnswer(400, "Bad Request", "text/plain")])
    await ask(connect(server.url, model="m"), streaming=True)
    assert ["stream_options" in body for body in server.bodies] == [True, False]


async def test_a_prompt_that_is_too_long_is_told_in_the_servers_words(serve: Serve, connect: Connect) -> None:
    text = "This model's maximum context length is 8 tokens; you asked for 9 in max_tokens"
    server = await serve(faults=[HttpAnswer(400, f'{{"error": {{"message": "{text}"}}}}')])
    with pytest.raises(ModelRejected, match="maximum context length"):
        await ask(connect(server.url, model="m"), max_tokens=9)
    assert len(server.bodies) == 1


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
async def test_a_busy_server_is_asked_again(serve: Serve, connect: Connect, status: int) -> None:
    server = await serve(["Fine."], faults=[HttpAnswer(status), HttpAnswer(status)])
    (response,) = await ask(connect(server.url, model="m"))
    assert response.response == "Fine."
    assert len(server.bodies) == 3


async def test_a_server_that_stays_busy_is_given_up(serve: Serve, connect: Connect) -> None:
    server = await serve(faults=[TOO_MANY] * 9)
    with pytest.raises(ModelOverloaded, match="429: Rate limit reached"):
        await ask(connect(server.url, model="m"))
    assert len(server.bodies) == 6


async def test_a_wait_that_the_server_asks_for_is_not_begun_past_the_deadline(
    serve: Serve, connect: Connect
) -> None:
    server = await serve(faults=[HttpAnswer(429, headers={"Retry-After": "60"})])
    with pytest.raises(ModelOverloaded):
        await ask(connect(server.url, model="m"), deadline=time.time() + 30)
    assert len(server.bodies) == 1


async def test_a_refused_key_is_not_tried_again(serve: Serve, connect: Connect) -> None:
    server = await serve(faults=[HttpAnswer(401)])
    with pytest.raises(Exception, match="OPENAI_API_KEY"):
        await ask(connect(server.url, model="m"))
    assert len(server.bodies) == 1


async def test_a_passed_deadline_sends_nothing(serve: Serve, connect: Connect) -> None:
    server = await serve(["a"])
    with pytest.raises(DeadlineExceeded):
        await ask(connect(server.url, model="m"), deadline=time.time() - 1)
    assert server.bodies == []


async def test_a_silent_server_is_left_at_the_deadline(serve: Serve, connect: Connect) -> None:
    server = await serve([Reply("a", gate=asyncio.Event())])
    with pytest.raises(DeadlineExceeded):
        await ask(connect(server.url, model="m"), deadline=time.time() + 0.2)
    await asyncio.wait_for(server.abandoned.wait(), 5)


@pytest.mark.parametrize("streaming", [False, True])
async def test_cancelling_ends_the_work_at_the_server(
    serve: Serve, connect: Connect, streaming: bool
) -> None:
    asked = asyncio.Event()

    def reply(request: TextCompletionRequest) -> Reply:
        asked.set()
        return Reply(chunks=["a", "b"], gate=asyncio.Event())

    server = await serve(reply)
    task = asyncio.create_task(ask(connect(server.url, model="m"), streaming=streaming))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(server.abandoned.wait(), 5)


async def test_leaving_a_stream_early_ends_the_work_at_the_server(serve: Serve, connect: Connect) -> None:
    server = await serve([Reply(chunks=["a", "b"], gate=asyncio.Event())])
    request = TextCompletionRequest(prompt="?", streaming=True)
    async with aclosing(connect(server.url, model="m").complete(request)) as responses:
        await anext(responses)
    await asyncio.wait_for(server.abandoned.wait(), 5)


async def test_many_calls_run_side_by_side(serve: Serve, connect: Connect) -> None:
    together = asyncio.Barrier(20)

    async def reply(request: TextCompletionRequest) -> str:
        await together.wait()
        return request.prompt

    server = await serve(reply)
    provider = connect(server.url, model="m")
    replies = await asyncio.gather(*(ask(provider, prompt=str(n)) for n in range(20)))
    assert [reply[0].response for reply in replies] == [str(n) for n in range(20)]


def test_waits_grow_and_the_servers_wish_is_kept() -> None:
    backoff = Backoff(first_seconds=1, longest_seconds=4)
    busy = ModelOverloaded("busy")
    for failures, most in ((1, 1), (2, 2), (3, 4), (4, 4)):
        seconds = backoff.wait(busy, failures, None)
        assert seconds is not None
        assert most / 2 <= seconds <= most
    assert backoff.wait(ModelOverloaded("busy", data={"retry_after": 30.0}), 1, None) == 30
    assert backoff.wait(ModelOverloaded("busy", data={"retry_after": 9999.0}), 1, None) is None


def test_a_server_that_is_not_there_is_given_up_within_seconds() -> None:
    gone = ModelUnreachable("gone")
    waits = [Backoff().wait(gone, failures, None) for failures in (1, 2, 3)]
    assert waits[2] is None
    assert sum(seconds for seconds in waits if seconds) < 2
