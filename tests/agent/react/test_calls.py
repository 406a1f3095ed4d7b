"""What goes out on the mcp-tool request topic, and what never does."""

from __future__ import annotations

import pytest
from react_world import HeldCall, MakeWorld, call, final

from trustgraph_flow.schema.errors import BadRequest, Unavailable
from trustgraph_flow.schema.mcp import McpToolRequest, McpToolResponse


async def test_a_call_that_fits_is_published_with_the_json_types_of_its_arguments(
    make_world: MakeWorld,
) -> None:
    world = await make_world([call("transfer", account_id="12", amount=5, dry_run="true"), final("moved")])
    messages = await world.ask(run_id="run-1")
    assert [request.parameters for request in world.sent] == [
        {"account_id": 12, "amount": 5, "dry_run": True}
    ]
    assert (messages[-1].message_type, messages[-1].content) == ("answer", "moved")


async def test_the_record_of_a_run_keeps_arguments_what_was_coerced_and_the_call_id(
    make_world: MakeWorld,
) -> None:
    world = await make_world([call("transfer", account_id="12", amount=5), final("moved")])
    await world.ask(run_id="run-2")
    called = next(event for event in await world.events("run-2") if event.kind == "called")
    assert called.body["arguments"] == {"account_id": 12, "amount": 5}
    assert called.body["call_id"] == world.sent[0].call_id
    assert len(called.body["coerced"]) == 1


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"days": 2}, "place"),
        ({"place": "Northtown", "day": 2}, "day"),
        ({"place": "Northtown", "days": "five"}, "days"),
        ({"place": "Northtown", "units": "Metric"}, "metric"),
        ({"place": None}, "place"),
    ],
    ids=["missing", "unknown", "wrong type", "not in the enum", "null for a required one"],
)
async def test_a_call_that_does_not_fit_is_never_published_and_the_model_can_correct_it(
    make_world: MakeWorld, wrong: dict[str, object], named: str
) -> None:
    world = await make_world(
        [call("get_forecast", **wrong), call("get_forecast", place="Northtown"), final("rain")]
    )
    messages = await world.ask()
    assert [request.parameters for request in world.sent] == [{"place": "Northtown"}]
    assert named in world.prompts[1]
    refused = next(message for message in messages if message.reason == "invalid-arguments")
    assert refused.is_error
    assert messages[-1].content == "rain"


async def test_all_faults_of_a_call_are_named_together(make_world: MakeWorld) -> None:
    world = await make_world([call("transfer", account_id="x", sum=1), final("no")])
    messages = await world.ask()
    (refused,) = [message for message in messages if message.message_type == "observation"]
    for name in ("account_id", "amount", "sum"):
        assert name in refused.content
    assert world.sent == []


async def test_the_same_refusal_three_times_ends_the_run(make_world: MakeWorld) -> None:
    world = await make_world([call("get_forecast")] * 5)
    messages = await world.ask()
    assert (messages[-1].message_type, messages[-1].reason) == ("error", "invalid-arguments")
    assert len(world.model.requests) == 3
    assert world.sent == []


async def test_a_tool_without_declared_arguments_takes_any(make_world: MakeWorld) -> None:
    world = await make_world([call("old", anything=[1, {"a": None}]), final("ok")], tools={"old": {}})
    await world.ask()
    assert world.sent[0].parameters == {"anything": [1, {"a": None}]}


async def test_an_empty_list_of_arguments_takes_none(make_world: MakeWorld) -> None:
    world = await make_world([call("list_servers", all=True), call("list_servers"), final("ok")])
    await world.ask()
    assert [request.parameters for request in world.sent] == [{}]


async def test_the_prompt_shows_what_is_declared(make_world: MakeWorld) -> None:
    world = await make_world([final("ok")])
    await world.ask()
    prompt = world.prompts[0]
    for word in (
        "get_forecast",
        "Weather outlook",
        "place",
        "required",
        "Town",
        "metric",
        "imperial",
        "days",
    ):
        assert word in prompt


async def test_what_the_live_server_says_is_shown_and_checked_where_nothing_is_declared(
    make_world: MakeWorld,
) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    world = await make_world(
        [call("weather"), call("weather", city="Northtown"), final("ok")],
        tools={"weather": {"description": "d"}},
        items={"mcp-schema": {"weather": {"inputSchema": schema}}},
    )
    await world.ask()
    assert "city" in world.prompts[0]
    assert [request.parameters for request in world.sent] == [{"city": "Northtown"}]


async def test_an_unknown_tool_is_an_observation_with_the_known_names(make_world: MakeWorld) -> None:
    world = await make_world([call("get_forcast", place="Northtown"), final("ok")])
    messages = await world.ask()
    refused = next(message for message in messages if message.message_type == "observation")
    assert refused.reason == "unknown-tool"
    assert "Did you mean 'get_forecast'?" in refused.content
    assert "list_servers" in refused.content
    assert world.sent == []


async def test_a_name_that_differs_in_case_alone_is_the_tool(make_world: MakeWorld) -> None:
    world = await make_world([call("Get_Forecast", place="Northtown"), final("ok")])
    await world.ask()
    assert [request.name for request in world.sent] == ["get_forecast"]


@pytest.mark.parametrize("name", ["functions.get_forecast", "ask the user!", "x" * 5000])
async def test_a_name_that_is_only_like_a_tool_runs_nothing(make_world: MakeWorld, name: str) -> None:
    world = await make_world([call(name, place="Northtown"), final("ok")])
    messages = await world.ask()
    assert world.sent == []
    assert len(messages[1].content) < 500


async def test_a_failed_call_is_an_observation_marked_as_an_error(make_world: MakeWorld) -> None:
    def quota(_: McpToolRequest) -> McpToolResponse:
        return McpToolResponse(text="quota used up", is_error=True, fault="tool-error")

    world = await make_world([call("list_servers"), final("could not")])
    world.answer = quota
    messages = await world.ask()
    seen = next(message for message in messages if message.message_type == "observation")
    assert (seen.content, seen.is_error, seen.reason) == ("quota used up", True, "tool-error")
    assert "quota used up" in world.prompts[1]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Unavailable("the server at http://127.0.0.1:9 can't be reached"), ("not-reached", "127.0.0.1:9")),
        (BadRequest("no mcp item"), ("tool-error", "no mcp item")),
        (ValueError("broken"), ("tool-error", "broken")),
    ],
    ids=["not reached", "refused", "a fault of the service"],
)
async def test_a_call_that_raises_is_an_observation_and_the_run_goes_on(
    make_world: MakeWorld, error: Exception, said: tuple[str, str]
) -> None:
    def fail(_: McpToolRequest) -> McpToolResponse:
        raise error

    world = await make_world([call("list_servers"), final("could not")])
    world.answer = fail
    messages = await world.ask()
    seen = next(message for message in messages if message.message_type == "observation")
    assert (seen.is_error, seen.reason) == (True, said[0])
    assert said[1] in seen.content
    assert "Traceback" not in world.prompts[1]
    assert messages[-1].content == "could not"


async def test_a_call_beyond_the_time_of_its_tool_is_an_observation_and_the_run_goes_on(
    make_world: MakeWorld,
) -> None:
    world = await make_world(
        [call("slow"), final("too slow")], tools={"slow": {"arguments": [], "timeout": 0.05}}
    )
    world.answer = held = HeldCall()
    messages = await world.ask()
    seen = next(message for message in messages if message.message_type == "observation")
    assert (seen.is_error, seen.reason) == (True, "timed-out")
    assert messages[-1].content == "too slow"
    await held.cancelled.wait()


async def test_the_action_is_sent_to_the_client_before_its_observation(make_world: MakeWorld) -> None:
    world = await make_world([call("get_forecast", place="Northtown"), final("ok")])
    messages = await world.ask()
    assert [message.message_type for message in messages] == [
        "thought",
        "action",
        "observation",
        "thought",
        "answer",
    ]
    action, observation = messages[1], messages[2]
    assert (action.action, action.arguments) == ("get_forecast", {"place": "Northtown"})
    assert action.call_id == observation.call_id == world.sent[0].call_id
    assert [message.end_of_dialog for message in messages] == [False] * 4 + [True]
