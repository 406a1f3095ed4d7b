"""OpenAI Agents SDK, with a held MCP server and its tool list cached."""

import asyncio

from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp
from openai import AsyncOpenAI
from work import MCP_URL, MODEL_URL, QUESTION, measure


async def main() -> None:
    set_tracing_disabled(True)
    model = OpenAIChatCompletionsModel("none", AsyncOpenAI(base_url=MODEL_URL, api_key="none"))
    async with MCPServerStreamableHttp(params={"url": MCP_URL}, cache_tools_list=True) as server:
        agent = Agent(name="sums", instructions="Use the tool.", mcp_servers=[server], model=model)

        async def run() -> object:
            return (await Runner.run(agent, QUESTION, max_turns=20)).final_output

        await measure("openai-agents", run)


asyncio.run(main())
