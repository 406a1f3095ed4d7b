"""The limit: a loop without a framework, on a held MCP connection."""

import asyncio
import json

import aiohttp
from mcp import Client
from work import MCP_URL, MODEL_URL, QUESTION, measure


async def main() -> None:
    async with aiohttp.ClientSession() as http, Client(MCP_URL) as mcp:

        async def run() -> str:
            messages = [{"role": "user", "content": QUESTION}]
            while True:
                body = {"model": "none", "messages": messages}
                async with http.post(f"{MODEL_URL}/chat/completions", json=body) as response:
                    text = (await response.json())["choices"][0]["message"]["content"]
                if "Final Answer:" in text:
                    return text.partition("Final Answer:")[2]
                result = await mcp.call_tool("add", json.loads(text.partition("Args:")[2]))
                messages.append({"role": "assistant", "content": text})
                messages.append({"role": "user", "content": f"Observation: {result.content[0].text}"})

        await measure("bare loop", run)


asyncio.run(main())
