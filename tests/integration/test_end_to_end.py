"""A question through the gateway to a real MCP server and back."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from trustgraph_flow.app import App
from trustgraph_flow.client import AsyncClient
from trustgraph_flow.schema.agent import AgentMessage
from trustgraph_flow.schema.items import ToolItem

BANK_TOOL = """
{
  "type": "mcp-tool",
  "name": "get_bank_balance",
  "description": "Get bank account balance",
  "mcp-tool": "get_bank_balance",
  "arguments": [
    {
      "name": "account_id",
      "type": "string",
      "description": "Bank account identifier"
    },
    {
      "name": "date",
      "type": "string",
      "description": "Date for balance query (optional, format: YYYY-MM-DD)"
    }
  ],
  "group": ["default"],
  "state": "next",
  "applicable-states": ["*"]
}
"""


def call(action: str, **arguments: Any) -> str:
    return f"Thought: look it up\nAction: {action}\nArgs: {json.dumps(arguments)}"


async def ask(app: App, question: str, **options: Any) -> list[AgentMessage]:
    assert app.gateway_url is not None
    async with AsyncClient(app.gateway_url) as client:
        return [message async for message in client.invoke_agent(question, **options)]


async def test_the_time_is_asked_of_a_real_server_after_a_refused_call(start_app: Any) -> None:
    app = await start_app(
        [
            call("get_current_time", zone="Asia/Tokyo"),
            call("get_current_time", timezone="Asia/Tokyo"),
            "Thought: known\nFinal Answer: It is late in Tokyo.",
        ]
    )
    messages = await ask(app, "What time is it in Tokyo?", streaming=True)
    refused, observed = (message for message in messages if message.message_type == "observation")
    assert refused.reason == "invalid-arguments"
    assert "zone" in refused.content
    assert observed.is_error is False
    told = json.loads(observed.content)
    assert told["timezone"] == "Asia/Tokyo"
    assert datetime.fromisoformat(told["datetime"]).utcoffset() is not None
    answer = "".join(message.content for message in messages if message.message_type == "answer")
    assert answer == "It is late in Tokyo."
    assert [message.end_of_dialog for message in messages].count(True) == 1


async def test_the_bank_example_works_word_for_word(start_app: Any, tmp_path: Path) -> None:
    app = await start_app([call("get_bank_balance", account_id="12345678"), "Final Answer: done"])
    assert app.gateway_url is not None
    async with AsyncClient(app.gateway_url) as client:
        await client.put_item("tool", "get_bank_balance", BANK_TOOL)
        messages = [message async for message in client.invoke_agent("What is my balance?", streaming=False)]
    action = next(message for message in messages if message.message_type == "action")
    assert (action.action, action.arguments) == ("get_bank_balance", {"account_id": "12345678"})
    observation = next(message for message in messages if message.message_type == "observation")
    assert observation.is_error is False
    assert messages[-1].content == "done"


async def test_a_tool_set_while_the_agent_runs_is_offered_to_the_next_question(start_app: Any) -> None:
    prompts: list[str] = []

    def reply(request: Any) -> str:
        prompts.append(request.prompt)
        return "Final Answer: ok"

    app = await start_app(reply)
    assert app.gateway_url is not None
    async with AsyncClient(app.gateway_url) as client:
        before = await client.tools()
        await client.set_tool(
            "extra", ToolItem(type="mcp-tool", name="extra_tool", description="More", mcp_tool="bank")
        )
        after = await client.tools()
        assert {tool.key for tool in after} - {tool.key for tool in before} == {"extra"}
        while not prompts or "extra_tool" not in prompts[-1]:
            _ = [message async for message in client.invoke_agent("Anything new?")]
    assert "get_current_time" in prompts[-1]
