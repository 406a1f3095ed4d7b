"""Google's Agent Development Kit, with a session of its own for each run."""

import asyncio

from google.adk.agents import LlmAgent
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool.mcp_session_manager import StreamableHTTPConnectionParams
from google.adk.tools.mcp_tool.mcp_toolset import McpToolset
from google.genai import types
from work import MCP_URL, MODEL_URL, QUESTION, measure


async def main() -> None:
    agent = LlmAgent(
        name="sums",
        model=LiteLlm("openai/none", api_base=MODEL_URL, api_key="none"),
        tools=[McpToolset(connection_params=StreamableHTTPConnectionParams(url=MCP_URL))],
        instruction="Use the tool.",
    )
    runner = InMemoryRunner(agent, app_name="sums")

    async def run() -> str:
        session = await runner.session_service.create_session(app_name="sums", user_id="one")
        answer = ""
        message = types.Content(role="user", parts=[types.Part(text=QUESTION)])
        async for event in runner.run_async(user_id="one", session_id=session.id, new_message=message):
            if event.is_final_response() and event.content:
                answer = "".join(part.text or "" for part in event.content.parts)
        return answer

    await measure("google-adk", run, runs=15, batch=32)


asyncio.run(main())
