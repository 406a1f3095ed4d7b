"""Prompts, tool services and the model itself as tools: shown and checked as MCP tools are."""

from __future__ import annotations

from typing import Any

from react_world import MakeWorld, call, final

from trustgraph_flow.bus import Request
from trustgraph_flow.prompt import PromptService
from trustgraph_flow.schema.llm import TextCompletionRequest

ARGUMENTS = [
    {"name": "word", "type": "string", "required": True, "description": "What to explain"},
    {"name": "lines", "type": "integer", "maximum": 9},
]


async def test_a_prompt_tool_is_checked_and_filled_with_typed_arguments(make_world: MakeWorld) -> None:
    asked: list[str] = []

    def reply(request: TextCompletionRequest) -> str:
        if request.prompt.startswith("Explain"):
            asked.append(request.prompt)
            return "It is a fruit."
        if "It is a fruit." in request.prompt:
            return final("a fruit")
        if "was not sent" in request.prompt:
            return call("explain", word="pear", lines="3")
        return call("explain", word="pear", lines=12)

    world = await make_world(
        reply,
        tools={"explain": {"type": "prompt", "template": "explain", "arguments": ARGUMENTS}},
        items={"prompt": {"template.explain": {"prompt": "Explain {{ word }} in {{ lines + 1 }} lines"}}},
    )
    service = PromptService(world.bus)
    await service.start()
    try:
        messages = await world.ask()
    finally:
        await service.close()
    assert asked == ["Explain pear in 4 lines"]
    assert messages[-1].content == "a fruit"


async def test_a_tool_service_gets_checked_arguments_and_its_config(
    make_world: MakeWorld,
) -> None:
    seen: list[dict[str, Any]] = []

    async def serve(request: Request) -> dict[str, Any]:
        import json

        seen.append(json.loads(request.body))
        return {"response": "explained"}

    world = await make_world(
        [call("explain", lines=2), call("explain", word="pear", lines="2"), final("ok")],
        tools={
            "explain": {"type": "tool-service", "service": "teacher", "style": "dry", "arguments": ARGUMENTS}
        },
        items={
            "tool-service": {
                "teacher": {"id": "teacher", "request-queue": "teacher", "config-params": [{"name": "style"}]}
            }
        },
    )
    serving = await world.bus.serve("teacher", serve)
    try:
        messages = await world.ask(run_id="r")
    finally:
        await serving.close()
    assert [(body["arguments"], body["config"]) for body in seen] == [
        ({"word": "pear", "lines": 2}, {"style": "dry"})
    ]
    assert seen[0]["run_id"] == "r"
    observations = [message for message in messages if message.message_type == "observation"]
    assert [message.reason for message in observations] == ["invalid-arguments", None]
    assert observations[1].content == "explained"


async def test_a_tool_services_error_is_an_observation(make_world: MakeWorld) -> None:
    async def serve(_: Request) -> dict[str, Any]:
        return {"error": {"type": "x", "message": "out of chalk"}}

    world = await make_world(
        [call("explain", word="pear"), final("no")],
        tools={"explain": {"type": "tool-service", "service": "teacher", "arguments": ARGUMENTS}},
        items={"tool-service": {"teacher": {"request-queue": "teacher"}}},
    )
    serving = await world.bus.serve("teacher", serve)
    try:
        messages = await world.ask()
    finally:
        await serving.close()
    observed = next(message for message in messages if message.message_type == "observation")
    assert (observed.content, observed.is_error, observed.reason) == ("out of chalk", True, "tool-error")


async def test_the_model_can_be_a_tool_with_a_question_of_its_own(make_world: MakeWorld) -> None:
    def reply(request: TextCompletionRequest) -> str:
        if request.prompt == "2 + 2?":
            return "4"
        return final("four") if "Observation: 4" in request.prompt else call("think", question="2 + 2?")

    world = await make_world(reply, tools={"think": {"type": "text-completion"}})
    assert (await world.ask())[-1].content == "four"
