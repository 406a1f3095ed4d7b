"""A tool with a side effect runs once, whichever worker is killed in the middle of its call."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from processes import tg_up

from trustgraph_flow.client import AsyncClient
from trustgraph_flow.config import default_folder
from trustgraph_flow.llm.scripted import ScriptedModel
from trustgraph_flow.llm.scripted_server import scripted_server
from trustgraph_flow.schema.llm import TextCompletionRequest

SERVER = Path(__file__).parent / "counting_server.py"


def reply(request: TextCompletionRequest) -> str:
    """One call, and its observation as the answer."""
    observation = request.prompt.partition("\nObservation")[2]
    if observation:
        return f"Final Answer: {observation.partition(': ')[2]}"
    return 'Thought: look\nAction: count\nArgs: {"key": "k"}'


@pytest.fixture
async def model_url() -> AsyncIterator[str]:
    async with scripted_server(ScriptedModel(reply, constrained=False)) as server:
        yield server.url


class Counter:
    """The tool as the test sees it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "counted"
        self.signal, self.release = folder / "signal", folder / "release"
        for pipe in (self.signal, self.release):
            os.mkfifo(pipe)
        self.config = folder / "config"
        shutil.copytree(default_folder(), self.config)
        command = [str(SERVER), str(self.file), str(self.signal), str(self.release)]
        items = {
            "mcp-server": {"counter": {"command": sys.executable, "args": command}},
            "mcp": {"count": {"server": "counter"}},
            "tool": {"count": {"type": "mcp-tool", "name": "count", "mcp-tool": "count"}},
        }
        for kind, values in items.items():
            (self.config / f"{kind}.yaml").write_text(json.dumps(values))

    async def called(self) -> None:
        """Returns when the tool is in its call."""
        await asyncio.to_thread(self.signal.read_text)

    async def finish(self) -> None:
        """Lets the call that is under way end."""
        await asyncio.to_thread(self.release.write_text, "")

    def counted(self) -> list[str]:
        return self.file.read_text().splitlines()


@pytest.fixture
def counter(tmp_path: Path) -> Counter:
    return Counter(tmp_path)


def start(counter: Counter, model_url: str) -> list[str]:
    return ["--config-dir", str(counter.config), "--llm-url", model_url, "--port", "0"]


async def ask(gateway: str) -> str:
    async with AsyncClient(gateway) as client:
        return (await client.ask("How many?", timeout=60)).content


async def test_a_call_is_not_made_again_when_the_agent_worker_was_killed_in_it(
    tmp_path: Path, counter: Counter, model_url: str
) -> None:
    others = "broker,config,text-completion,mcp-tool,prompt,gateway"
    data = tmp_path / "data"
    async with tg_up(data, "--only", others, *start(counter, model_url)) as up:
        async with tg_up(data, "--only", "agent") as worker:
            answer = asyncio.create_task(ask(up.gateway))
            await counter.called()
            await worker.stop(signal.SIGKILL)
        async with tg_up(data, "--only", "agent"):
            await counter.finish()
            assert await answer == "counted k"
    assert counter.counted() == ["k"]


async def test_what_a_killed_mcp_service_left_unknown_is_said_and_not_tried_again(
    tmp_path: Path, counter: Counter, model_url: str
) -> None:
    others = "broker,config,text-completion,agent,prompt,gateway"
    data = tmp_path / "data"
    async with (
        tg_up(data, "--only", others, *start(counter, model_url)) as up,
        tg_up(data, "--only", "mcp-tool") as first,
    ):
        answer = asyncio.create_task(ask(up.gateway))
        await counter.called()
        async with tg_up(data, "--only", "mcp-tool"):
            await first.stop(signal.SIGKILL)
            assert "outcome unknown" in await answer
    assert counter.counted() == ["k"]
