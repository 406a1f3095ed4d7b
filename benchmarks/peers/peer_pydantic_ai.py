"""pydantic-ai, with its MCP toolset held open."""

import asyncio

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from work import MCP_URL, MODEL_URL, QUESTION, measure

try:
    from pydantic_ai.mcp import MCPServerStreamableHTTP as Toolset
except ImportError:
    from pydantic_ai.mcp import MCPToolset as Toolset


async def main() -> None:
    model = OpenAIChatModel("none", provider=OpenAIProvider(base_url=MODEL_URL, api_key="none"))
    agent = Agent(model, toolsets=[Toolset(MCP_URL)])
    async with agent:

        async def run() -> object:
            return (await agent.run(QUESTION)).output

        await measure("pydantic-ai", run)


asyncio.run(main())
