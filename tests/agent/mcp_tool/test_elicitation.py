"""Questions that a server puts to a person while a tool runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_world import QUICK, serve_asgi, text_result
from pydantic import BaseModel, Field

from trustgraph_flow.agent.mcp_tool import McpFault, NotAResult, read_result
from trustgraph_flow.agent.mcp_tool.elicitation import MAX_ROUNDS, answered
from trustgraph_flow.agent.mcp_tool.target import Target


class Order(BaseModel):
    size: str = Field(default="small")
    count: int = Field(default=2)


def asking() -> MCPServer:
    server = MCPServer("shop")

    @server.tool(structured_output=False)
    async def order(ctx: Context) -> str:
        answer = await ctx.elicit(message="What shall it be?", schema=Order)
        return f"{answer.action} {getattr(answer, 'data', None)!r}"

    return server


def target(url: str, answers_forms: bool) -> Target:
    return Target("default", "shop", url=url, mode="legacy", answers_forms=answers_forms)


async def test_a_form_is_answered_by_its_defaults_where_the_item_allows_it(connect):
    async with serve_asgi(asking().streamable_http_app()) as port:
        connection = connect(target(f"http://127.0.0.1:{port}/mcp", True))
        answer = read_result(await connection.call("order", {}))
        assert answer.text == "accept Order(size='small', count=2)"


async def test_a_form_is_refused_at_once_where_the_item_does_not_allow_it(connect):
    async with serve_asgi(asking().streamable_http_app()) as port:
        connection = connect(target(f"http://127.0.0.1:{port}/mcp", False))
        with pytest.raises(McpFault, match="Method not found") as caught:
            await connection.call("order", {})
        assert caught.value.kind == "tool-error"


async def capabilities(connect, raw_http, **options) -> dict:
    async def ok(request, message):
        return text_result("ok")

    server = await raw_http(ok)
    await connect(replace(target(server.url, False), **options)).call("t", {})
    return server.methods("initialize")[0]["params"]["capabilities"]


async def test_only_what_is_offered_is_advertised(connect, raw_http):
    assert await capabilities(connect, raw_http) == {}
    assert await capabilities(connect, raw_http, answers_forms=True) == {"elicitation": {"form": {}}}


def question(**properties) -> dict:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    params = {"mode": "form", "message": "?", "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


async def test_a_result_that_asks_for_input_is_answered_and_sent_again(connect, raw_http):
    async def ask_once(request, message):
        params = message["params"]
        if "inputResponses" not in params:
            asks = {
                "q": question(name={"type": "string", "default": "Ada"}),
                "w": question(age={"type": "integer"}),
            }
            return {"resultType": "input_required", "inputRequests": asks, "requestState": "s1"}
        assert params["requestState"] == "s1"
        assert params["arguments"] == {"a": 1}
        return text_result(str(params["inputResponses"]))

    server = await raw_http(ask_once)
    answer = read_result(await connect(target(server.url, True)).call("t", {"a": 1}))
    assert "'q': {'action': 'accept', 'content': {'name': 'Ada'}}" in answer.text
    assert "'w': {'action': 'decline'}" in answer.text


@pytest.mark.parametrize("answers_forms", [True, False])
async def test_a_server_that_asks_without_end_gets_no_answer_without_end(connect, raw_http, answers_forms):
    async def ask(request, message):
        return {"resultType": "input_required", "requestState": "more", "inputRequests": {"q": question()}}

    server = await raw_http(ask)
    raw = await connect(target(server.url, answers_forms), QUICK).call("t", {})
    with pytest.raises(NotAResult, match="answer from a person"):
        read_result(raw)
    assert len(server.methods()) == (MAX_ROUNDS if answers_forms else 1)


async def test_a_result_that_asks_for_a_model_is_not_answered(connect, raw_http):
    async def ask(request, message):
        return {"resultType": "input_required", "inputRequests": {"q": {"method": "sampling/createMessage"}}}

    server = await raw_http(ask)
    raw = await connect(target(server.url, True)).call("t", {})
    assert raw["resultType"] == "input_required"
    assert len(server.methods()) == 1


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"mode": "url", "url": "http://evil/"},
        {"requestedSchema": []},
        {"requestedSchema": {"properties": {"a": {"default": {"not": "plain"}}}}},
        {"requestedSchema": {"properties": {"a": 5}, "required": ["a"]}},
    ],
)
def test_what_can_not_be_answered_is_declined(params):
    assert answered(params).action == "decline"
