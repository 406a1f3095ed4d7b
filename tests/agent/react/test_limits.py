"""A run always ends, with a status and a reason."""

from __future__ import annotations

import json
from itertools import count

import pytest
from react_world import MakeWorld, call, final

from trustgraph_flow.llm.scripted import Reply
from trustgraph_flow.schema.llm import TextCompletionRequest
from trustgraph_flow.schema.mcp import McpToolRequest, McpToolResponse


async def test_three_unreadable_replies_end_the_run_with_an_error_and_no_answer(
    make_world: MakeWorld,
) -> None:
    world = await make_world(["mumble", "mumble", "mumble", final("too late")])
    messages = await world.ask()
    last = messages[-1]
    assert (last.message_type, last.status, last.reason) == ("error", "error", "format")
    assert last.error is not None
    assert "mumble" not in last.content
    assert len(world.model.requests) == 3


async def test_an_unreadable_reply_is_told_to_the_model_and_forgiven(make_world: MakeWorld) -> None:
    world = await make_world(["mumble", final("now")])
    messages = await world.ask()
    assert messages[-1].content == "now"
    assert "Final Answer" in world.prompts[1]


async def test_an_empty_answer_is_asked_for_again(make_world: MakeWorld) -> None:
    world = await make_world(["Final Answer:", "", final("now")])
    assert (await world.ask())[-1].content == "now"


async def test_the_same_call_with_the_same_result_is_told_and_then_ends_as_a_loop(
    make_world: MakeWorld,
) -> None:
    orders = count()

    def again(_: TextCompletionRequest) -> str:
        pairs = [("account_id", 1), ("amount", 2)]
        arguments = dict(pairs if next(orders) % 2 else reversed(pairs))
        return f"Thought: again\nAction: transfer\nArgs: {json.dumps(arguments)}"

    world = await make_world(again)
    messages = await world.ask()
    assert (messages[-1].status, messages[-1].reason) == ("error", "loop")
    assert len(world.sent) == 4
    assert "Do not repeat it" in world.prompts[3]
    assert "Do not repeat it" not in world.prompts[2]


async def test_polling_with_changing_results_goes_on_to_the_step_limit(make_world: MakeWorld) -> None:
    numbers = count()
    world = await make_world(
        lambda request: call("list_servers") if "No more calls" not in request.prompt else final("gave up"),
        items={"agent-profile": {"default": {"max-iterations": 6}}},
    )
    world.answer = lambda _: McpToolResponse(text=f"state {next(numbers)}")
    messages = await world.ask()
    assert (messages[-1].content, messages[-1].status, messages[-1].reason) == (
        "gave up",
        "answered",
        "step-limit",
    )
    assert len(world.sent) == 6


async def test_a_model_that_calls_on_past_the_step_limit_ends_the_run_as_an_error(
    make_world: MakeWorld,
) -> None:
    numbers = count()
    world = await make_world(
        lambda _: call("list_servers"), items={"agent-profile": {"default": {"max-iterations": 2}}}
    )
    world.answer = lambda _: McpToolResponse(text=f"state {next(numbers)}")
    messages = await world.ask()
    assert (messages[-1].message_type, messages[-1].reason) == ("error", "step-limit")
    assert len(world.sent) == 2
    assert len(world.model.requests) == 3


async def test_at_its_token_budget_a_run_is_asked_once_for_its_answer(make_world: MakeWorld) -> None:
    world = await make_world(
        [Reply(call("list_servers"), 60, 5), Reply(call("list_servers", "t"), 30, 5), Reply(final("so far"))],
        items={"agent-profile": {"default": {"max-tokens": 100}}},
    )
    last = (await world.ask())[-1]
    assert (last.content, last.status, last.reason) == ("so far", "answered", "token-limit")
    assert ["No more calls" in prompt for prompt in world.prompts] == [False, False, True]


async def test_a_model_that_calls_on_past_the_token_budget_ends_the_run_as_an_error(
    make_world: MakeWorld,
) -> None:
    world = await make_world(
        [Reply(call("list_servers"), 100, 5), Reply(call("list_servers", "t"), 100, 5), final("too late")],
        items={"agent-profile": {"default": {"max-tokens": 100}}},
    )
    last = (await world.ask())[-1]
    assert (last.message_type, last.status, last.reason) == ("error", "error", "token-limit")
    assert len(world.sent) == 1


async def test_observations_beyond_the_budget_of_a_run_are_shortened_in_its_prompts_alone(
    make_world: MakeWorld,
) -> None:
    sizes = iter([900, 5000, 5000])
    world = await make_world(
        [*(call("list_servers", str(n)) for n in range(3)), final("ok")],
        items={"agent-profile": {"default": {"max-observation-chars": 2000}}},
    )
    world.answer = lambda _: McpToolResponse(text=f"<{'x' * next(sizes)}>")
    messages = await world.ask(run_id="r")
    prompt = world.prompts[-1]
    assert f"<{'x' * 900}>" in prompt
    assert "3904 characters left out" in prompt, "the second has what the first has left of 2,000"
    assert "4702 characters left out" in prompt, "the third keeps its head and its tail"
    assert world.prompts[1] == prompt[: len(world.prompts[1])], "what was shown once stays as it was shown"
    assert len(prompt) < 5000
    shown = [len(message.content) for message in messages if message.message_type == "observation"]
    logged = [len(event.body["text"]) for event in await world.events("r") if event.kind == "returned"]
    assert shown == logged == [902, 5002, 5002]


async def test_a_repeated_call_holds_a_constrained_model_to_its_answer(make_world: MakeWorld) -> None:
    def reply(request: TextCompletionRequest) -> dict[str, object]:
        assert request.response_schema is not None
        if "action" in json.dumps(request.response_schema):
            return {"thought": "t", "action": "list_servers", "args": {}}
        return {"thought": "t", "final_answer": "none"}

    world = await make_world(reply, constrained=True)
    messages = await world.ask()
    assert messages[-1].content == "none"
    assert len(world.sent) == 2


async def test_a_run_past_its_deadline_is_expired(make_world: MakeWorld) -> None:
    world = await make_world([call("list_servers"), final("late")])

    def never(_: McpToolRequest) -> McpToolResponse:
        raise TimeoutError

    world.answer = never
    messages = await world.ask(timeout=0.001)
    assert (messages[-1].message_type, messages[-1].status, messages[-1].reason) == (
        "error",
        "expired",
        "deadline",
    )


@pytest.mark.parametrize("streaming", [False, True])
async def test_usage_is_the_sum_of_all_model_calls(make_world: MakeWorld, streaming: bool) -> None:
    world = await make_world(
        [
            Reply(call("list_servers"), 10, 2),
            Reply(call("list_servers", "t"), 20, 3),
            Reply(final("ok"), 30, 4),
        ]
    )
    last = (await world.ask(streaming=streaming))[-1]
    assert (last.in_token, last.out_token) == (60, 9)


async def test_usage_that_one_call_did_not_report_is_unknown(make_world: MakeWorld) -> None:
    world = await make_world([Reply(call("list_servers"), 10, 2), Reply(final("ok"))])
    last = (await world.ask())[-1]
    assert (last.in_token, last.out_token) == (None, None)
