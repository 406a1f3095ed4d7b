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

    world = await make_world([call("list_servers"), final("ok")], context_tokens=2000)
    world.answer = lambda _: McpToolResponse(text="begin " + "x" * 50_000 + " end")
    await world.ask(run_id="r")
    assert len(world.prompts[1]) < 2000 * 3
    assert "characters left out" in world.prompts[1]
    assert "begin x" in world.prompts[1]
    assert "x end" in world.prompts[1]
    returned = next(event for event in await world.events("r") if event.kind == "returned")
    assert len(returned.body["text"]) == 50_010
