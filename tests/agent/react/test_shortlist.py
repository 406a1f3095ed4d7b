"""Few tools in the prompt when a workspace has many."""

from __future__ import annotations

from react_world import MakeWorld, call, final

TOOLS = {
    f"tool_{number}": {"description": f"Does thing {number}", "arguments": []} for number in range(40)
} | {
    "get_weather": {
        "description": "Rain and sun outlook",
        "arguments": [{"name": "town", "type": "string", "description": "Name of a town"}],
    }
}


async def test_the_tools_that_fit_the_question_are_shown(make_world: MakeWorld) -> None:
    world = await make_world(
        [final("ok")], tools=TOOLS, items={"agent-profile": {"default": {"max-tools": 5}}}
    )
    await world.ask("Will there be rain in this town?", run_id="r")
    assert "get_weather" in world.prompts[0]
    prompted = next(event for event in await world.events("r") if event.kind == "prompted")
    assert len(prompted.body["tools"]) == 5


async def test_a_tool_that_the_run_has_used_stays_shown(make_world: MakeWorld) -> None:
    world = await make_world(
        [call("get_weather", town="Northtown"), final("ok")],
        tools=TOOLS,
        items={"agent-profile": {"default": {"max-tools": 2}}},
    )
    await world.ask("rain", run_id="r")
    assert "get_weather" in world.prompts[1]


async def test_old_observations_are_shortened_when_the_model_could_not_hold_them(
    make_world: MakeWorld,
) -> None:
    from trustgraph_flow.schema.mcp import McpToolResponse

    world = await make_world(
        [call("list_servers"), final("ok")], tools={"list_servers": {}}, context_tokens=2000
    )
    world.answer = lambda _: McpToolResponse(text="begin " + "x" * 50_000 + " end")
    await world.ask(run_id="r")
    assert len(world.prompts[1]) < 2000 * 3
    assert "characters left out" in world.prompts[1]
    assert "begin x" in world.prompts[1]
    assert "x end" in world.prompts[1]
    returned = next(event for event in await world.events("r") if event.kind == "returned")
    assert len(returned.body["text"]) == 50_010


async def test_a_model_with_a_small_context_is_shown_few_tools(make_world: MakeWorld) -> None:
    world = await make_world([final("ok")], tools=TOOLS, context_tokens=4096)
    await world.ask("rain", run_id="r")
    prompted = next(event for event in await world.events("r") if event.kind == "prompted")
    assert len(prompted.body["tools"]) == 2
    assert "get_weather" in prompted.body["tools"]


async def test_json_observations_are_shown_without_their_indentation(make_world: MakeWorld) -> None:
    from trustgraph_flow.schema.mcp import McpToolResponse

    world = await make_world([call("list_servers"), final("ok")])
    world.answer = lambda _: McpToolResponse(text='{\n  "a  b": [\n    1.50,\n    "x\\n  y"\n  ]\n}')
    await world.ask()
    assert 'Observation: { "a  b": [ 1.50, "x\\n  y" ] }' in world.prompts[1]
