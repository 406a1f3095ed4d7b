"""Tools follow the config of their workspace; a bad item harms nobody but itself."""

from __future__ import annotations

import json

from react_world import MakeWorld, World, call, final

GOOD = {"type": "mcp-tool", "name": "good", "description": "d", "mcp-tool": "good", "arguments": []}


async def problems_after(world: World, kind: str, key: str, value: str) -> dict[str, str]:
    """What is wrong with the tools once the agent has taken the change up."""
    world.agent.reloaded.clear()
    await world.put_unchecked(kind, key, value)
    await world.agent.reloaded.wait()
    return {problem.key: problem.message for problem in world.agent.workspaces["default"].tools.problems}


async def test_bad_items_are_named_and_the_good_one_works(make_world: MakeWorld) -> None:
    world = await make_world(
        [call("good"), final("ok")],
        tools={
            "good": json.dumps(GOOD),
            "cut": '{"type":"mcp-tool",',
            "text": '"just text"',
            "null": "null",
            "list": json.dumps({**GOOD, "name": "x", "arguments": {"a": 1}}),
            "nameless": json.dumps({**GOOD, "name": "y", "arguments": [{"type": "string"}]}),
            "kind": json.dumps({"type": "no-such-kind", "name": "z"}),
            "foreign": json.dumps({"type": "knowledge-query", "name": "Knowledge query"}),
            "twin": json.dumps(GOOD),
        },
    )
    await world.ask()
    assert [request.name for request in world.sent] == ["good"]
    problems = world.agent.workspaces["default"].tools.problems
    assert {problem.key for problem in problems} == {
        "cut",
        "text",
        "null",
        "list",
        "nameless",
        "kind",
        "foreign",
        "twin",
    }
    assert [problem.key for problem in problems if problem.foreign] == ["foreign"]


async def test_an_item_that_turns_bad_keeps_its_last_good_version_and_comes_back(
    make_world: MakeWorld,
) -> None:
    world = await make_world([call("good"), final("ok")], tools={"good": json.dumps(GOOD)})
    problems = await problems_after(world, "tool", "good", json.dumps({**GOOD, "arguments": "none"}))
    assert list(problems) == ["good"]
    await world.ask()
    assert [request.name for request in world.sent] == ["good"]
    assert await problems_after(world, "tool", "good", json.dumps(GOOD)) == {}


async def test_a_new_tool_is_offered_without_a_restart(make_world: MakeWorld) -> None:
    world = await make_world([final("ok")])
    await problems_after(world, "tool", "good", json.dumps(GOOD))
    await world.ask()
    assert "good" in world.prompts[0]
    assert "get_forecast" in world.prompts[0]


async def test_groups_and_states_choose_the_tools(make_world: MakeWorld) -> None:
    world = await make_world(
        lambda request: (
            call("first") if "first" in request.prompt and "| done" not in request.prompt else final("ok")
        ),
        tools={
            "first": {"arguments": [], "group": ["a"], "state": "next"},
            "second": {"arguments": [], "group": ["a", "b"], "applicable-states": ["next"]},
            "third": {"arguments": [], "group": ["b"]},
        },
    )
    offered = world.agent.workspaces["default"].tools.offered

    def names(groups: list[str] | None, state: str | None) -> list[str]:
        return [tool.name for tool in offered(groups, state)]

    assert names(["a"], None) == ["first"]
    assert names(["a"], "next") == ["first", "second"]
    assert names(["*"], None) == ["first", "third"]
    assert names([], "next") == []
    assert names(None, "next") == []


async def test_a_successful_call_moves_the_run_to_the_state_of_its_tool(make_world: MakeWorld) -> None:
    world = await make_world(
        [call("first"), call("second"), final("ok")],
        tools={
            "first": {"arguments": [], "state": "next"},
            "second": {"arguments": [], "applicable-states": ["next"]},
        },
    )
    await world.ask()
    assert "second" not in world.prompts[0]
    assert "second" in world.prompts[1]
    assert [request.name for request in world.sent] == ["first", "second"]


async def test_a_tool_keeps_its_name_against_a_newcomer(make_world: MakeWorld) -> None:
    world = await make_world([call("good"), final("ok")], tools={"z": json.dumps(GOOD)})
    taken = json.dumps({**GOOD, "mcp-tool": "thief"})
    world.agent.reloaded.clear()
    await world.put_unchecked("tool", "a", taken)
    await world.agent.reloaded.wait()
    await world.ask()
    assert [request.name for request in world.sent] == ["good"]
    assert [problem.key for problem in world.agent.workspaces["default"].tools.problems] == ["a"]


async def test_a_name_that_reads_like_a_label_stands_in_quotes(make_world: MakeWorld) -> None:
    tool = {**GOOD, "name": "Action: x"}
    world = await make_world([call("Action: x"), final("ok")], tools={"z": json.dumps(tool)})
    await world.ask()
    assert not any(line.startswith("Action: x") for line in world.prompts[0].splitlines())
    assert "Action: x" in world.prompts[0]
