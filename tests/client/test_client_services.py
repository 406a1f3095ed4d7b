"""Services through the client, as coroutines and blocking."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from behind_gateway import SECONDS, Items, ScriptedAgent, answer, echo_tool, thought

from trustgraph_flow.bus import Bus, Request
from trustgraph_flow.client import AsyncClient, Client, ClientSettings
from trustgraph_flow.gateway import Gateway
from trustgraph_flow.schema.agent import AgentMessage
from trustgraph_flow.schema.errors import NotFound
from trustgraph_flow.schema.llm import TextCompletionRequest, TextCompletionResponse
from trustgraph_flow.schema.prompt import PromptRequest, PromptResponse


async def test_the_messages_of_a_run_come_one_by_one(gateway: Gateway, agent: ScriptedAgent) -> None:
    agent.go_on = asyncio.Event()
    async with AsyncClient(gateway.url, workspace="north") as client:
        messages = client.invoke_agent("?", group=("a", "b"), state="s", timeout=9, agent="clerk")
        first = await anext(messages)
        agent.go_on.set()
        assert [first, *[message async for message in messages]] == [thought("hm"), answer("42")]
    workspace, asked = agent.asked[0]
    assert workspace == "north"
    assert (asked.group, asked.state, asked.timeout, asked.agent, asked.streaming) == (
        ["a", "b"],
        "s",
        9,
        "clerk",
        True,
    )


async def test_a_run_that_fails_ends_with_an_error_message(gateway: Gateway, agent: ScriptedAgent) -> None:
    error = {"type": "step-limit", "message": "no steps left"}
    agent.messages = [
        AgentMessage(message_type="error", content="no steps left", error=error, end_of_dialog=True)
    ]
    async with AsyncClient(gateway.url) as client:
        (message,) = [message async for message in client.invoke_agent("?")]
        assert (message.message_type, message.error) == ("error", error)
        assert await client.ask("?") == message


async def test_leaving_a_run_cancels_it(gateway: Gateway, agent: ScriptedAgent) -> None:
    async with (
        AsyncClient(gateway.url) as client,
        aclosing(client.invoke_agent("wait")) as messages,
    ):
        waiting = asyncio.ensure_future(anext(messages))
        await asyncio.wait_for(agent.started.wait(), SECONDS)
        waiting.cancel()
        await asyncio.wait_for(agent.cancelled.wait(), SECONDS)


async def test_asking_brings_the_whole_answer(gateway: Gateway, agent: ScriptedAgent) -> None:
    async with AsyncClient(gateway.url) as client:
        message = await client.ask("?", history=[{"role": "user", "content": "hi"}])
    assert (message.content, message.end_of_dialog) == ("42", True)
    assert agent.asked[0][1].history == [{"role": "user", "content": "hi"}]


async def test_a_tool_is_called_with_its_parameters_and_types(gateway: Gateway, bus: Bus) -> None:
    await bus.serve("mcp-tool", echo_tool)
    async with AsyncClient(gateway.url) as client:
        result = await client.invoke_mcp_tool("echo", {"n": 1, "x": None})
        assert result.object == {"workspace": "default", "n": 1, "x": None}
        assert (await client.invoke_mcp_tool("echo", {"text": ""})).text == ""


async def test_a_prompt_s_object_is_read(gateway: Gateway, bus: Bus) -> None:
    async def handler(request: Request) -> PromptResponse:
        asked = request.parse(PromptRequest)
        return PromptResponse(text="hi") if asked.id == "text" else PromptResponse(object=asked.variables)

    await bus.serve("prompt", handler)
    async with AsyncClient(gateway.url) as client:
        assert (await client.prompt("text")).text == "hi"
        assert (await client.prompt("json", {"a": [1]})).object == {"a": [1]}


async def test_text_is_completed(gateway: Gateway, bus: Bus) -> None:
    async def handler(request: Request) -> TextCompletionResponse:
        asked = request.parse(TextCompletionRequest)
        return TextCompletionResponse(response=f"{asked.system}|{asked.prompt}", in_token=2)

    await bus.serve("text-completion", handler)
    async with AsyncClient(gateway.url) as client:
        reply = await client.text_completion("sys", "say")
    assert (reply.response, reply.in_token) == ("sys|say", 2)


async def test_an_error_of_a_service_is_raised_as_its_kind(gateway: Gateway, bus: Bus) -> None:
    async def handler(request: Request) -> dict[str, Any]:
        raise NotFound("no tool 'x'", data={"key": "x"})

    await bus.serve("mcp-tool", handler)
    await bus.serve("agent", handler)
    async with AsyncClient(gateway.url) as client:
        with pytest.raises(NotFound, match="no tool 'x'") as raised:
            await client.invoke_mcp_tool("x")
        assert raised.value.data == {"key": "x"}
        with pytest.raises(NotFound, match="no tool 'x'"):
            await anext(client.invoke_agent("?"))


async def test_health_readiness_and_metrics_can_be_asked(gateway: Gateway, items: Items) -> None:
    async with AsyncClient(gateway.url) as client:
        assert (await client.health())["status"] == "alive"
        assert "tg_gateway_requests_total" in await client.metrics()


async def test_blocking_calls_do_the_same(
    gateway: Gateway, agent: ScriptedAgent, items: Items, bus: Bus
) -> None:
    def script() -> list[AgentMessage]:
        with Client.from_settings(ClientSettings(gateway.url, workspace="north")) as client:
            assert client.put_item("x", "a", "1") == 2
            assert client.get_item("x", "a") == "1"
            with pytest.raises(NotFound):
                client.delete_tool("none")
            assert client.ask("?").content == "42"
            return list(client.invoke_agent("?", streaming=False))

    assert await asyncio.to_thread(script) == [thought("hm"), answer("42")]
    assert agent.asked[1][1].streaming is False


async def test_leaving_a_blocking_run_cancels_it(gateway: Gateway, agent: ScriptedAgent) -> None:
    agent.go_on = asyncio.Event()
    client = Client(gateway.url)

    def script() -> None:
        for message in client.invoke_agent("?"):
            assert message.content == "hm"
            break

    await asyncio.to_thread(script)
    await asyncio.wait_for(agent.cancelled.wait(), SECONDS)
    await asyncio.to_thread(client.close)


async def test_closing_a_blocking_client_ends_what_still_runs(gateway: Gateway, agent: ScriptedAgent) -> None:
    agent.go_on = asyncio.Event()
    client = Client(gateway.url)

    def script() -> AgentMessage:
        messages = client.invoke_agent("?")
        first = next(messages)
        client.close()
        client.close()
        return first

    assert await asyncio.to_thread(script) == thought("hm")
    await asyncio.wait_for(agent.cancelled.wait(), SECONDS)
