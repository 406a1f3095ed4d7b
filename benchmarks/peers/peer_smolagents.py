"""smolagents' tool-calling agent; it is synchronous, so each run has a thread."""

import asyncio

from smolagents import MCPClient, OpenAIServerModel, ToolCallingAgent
from work import MCP_URL, MODEL_URL, QUESTION, measure

with MCPClient({"url": MCP_URL, "transport": "streamable-http"}, structured_output=False) as tools:
    model = OpenAIServerModel("none", api_base=MODEL_URL, api_key="none")

    def once() -> object:
        return ToolCallingAgent(tools=tools, model=model, verbosity_level=0).run(QUESTION)

    async def run() -> object:
        return await asyncio.to_thread(once)

    asyncio.run(measure("smolagents", run))
