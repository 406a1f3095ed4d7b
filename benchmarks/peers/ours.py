"""This product: all services in one process, embedded broker, log on disk, the tool declared and checked."""

import asyncio
import json
import tempfile
from pathlib import Path

from work import MCP_URL, MODEL_URL, QUESTION, measure

from trustgraph_flow.app import BROKER, SERVICES, App, AppSettings
from trustgraph_flow.schema.agent import AgentMessage, AgentRequest

TOOL = {
    "type": "mcp-tool",
    "name": "add",
    "description": "Add two integers",
    "mcp-tool": "add",
    "arguments": [
        {"name": "a", "type": "integer", "required": True},
        {"name": "b", "type": "integer", "required": True},
    ],
}


def write_config(folder: Path) -> None:
    from trustgraph_flow.config import default_folder

    (folder / "tool.json").write_text(json.dumps({"add": TOOL}))
    (folder / "mcp.json").write_text(json.dumps({"add": {"url": MCP_URL}}))
    (folder / "prompt.yaml").write_text((default_folder() / "prompt.yaml").read_text())


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config").mkdir()
        write_config(folder / "config")
        settings = AppSettings(
            data_dir=folder / "data",
            services=frozenset((BROKER, *SERVICES)) - {"gateway"},
            config_dir=folder / "config",
            llm_url=MODEL_URL,
            llm_model="none",
        )
        async with App(settings) as app:

            async def run() -> str:
                question = AgentRequest(question=QUESTION)
                return (await app.bus.request("agent", question, AgentMessage, timeout=60)).content

            await measure("trustgraph-flow-react", run)


asyncio.run(main())
