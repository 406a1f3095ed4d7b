"""LangChain's agent on LangGraph: with the MCP session held, and as its client does by default."""

import asyncio

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from langchain_openai import ChatOpenAI
from work import MCP_URL, MODEL_URL, QUESTION, measure


async def main() -> None:
    client = MultiServerMCPClient({"sums": {"transport": "streamable_http", "url": MCP_URL}})
    model = ChatOpenAI(model="none", base_url=MODEL_URL, api_key="none")

    async def with_tools(name: str, tools: list, **amounts: int) -> None:
        agent = create_agent(model, tools)

        async def run() -> object:
            result = await agent.ainvoke({"messages": [("user", QUESTION)]}, {"recursion_limit": 50})
            return result["messages"][-1].content

        await measure(name, run, **amounts)

    async with client.session("sums") as session:
        await with_tools("langchain, session held", await load_mcp_tools(session))
    await with_tools("langchain, its default", await client.get_tools(), runs=10, batch=32)


asyncio.run(main())
