"""``tg up`` as an operator meets it: signals, crashes, folders in use. Always on the embedded broker."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from processes import descendants, gone, lives, name_of, names_in, state_of, tg, tg_up

from trustgraph_flow.client import AsyncClient
from trustgraph_flow.llm.scripted import ScriptedModel
from trustgraph_flow.llm.scripted_server import scripted_server
from trustgraph_flow.schema.llm import TextCompletionRequest


def reply(request: TextCompletionRequest) -> str:
    if "Observation" in request.prompt:
        return "Final Answer: known"
    return 'Thought: look\nAction: get_bank_balance\nArgs: {"account_id": "12345678"}'


@pytest.fixture
async def model_url() -> AsyncIterator[str]:
    async with scripted_server(ScriptedModel(reply, constrained=False)) as server:
        yield server.url


async def ask(gateway: str) -> str:
    async with AsyncClient(gateway) as client:
        return (await client.ask("What is my balance?", timeout=40)).content


async def listens(url: str) -> bool:
    place = urlsplit(url)
    try:
        _, writer = await asyncio.open_connection(place.hostname, place.port)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
async def test_an_end_leaves_no_process_no_socket_and_no_half_written_file(
    tmp_path: Path, model_url: str, number: signal.Signals
) -> None:
    async with tg_up(tmp_path, "--llm-url", model_url, "--port", "0") as up:
        assert await ask(up.gateway) == "known"
        pulsar = state_of(tmp_path)["pulsar"]
        below = up.descendants()
        assert len(below) >= 2, "the broker and the bank server"
        assert await up.stop(number) == 0
        assert not [pid for pid in below if lives(pid)]
        assert not await listens(up.gateway)
        assert not await listens(pulsar)
    assert names_in(tmp_path) <= {"broker", "lock", "tg.db", "broker.log"}


async def test_kill_9_leaves_no_process_and_the_folder_can_be_used_again(
    tmp_path: Path, model_url: str
) -> None:
    async with tg_up(tmp_path, "--llm-url", model_url, "--port", "0") as up:
        assert await ask(up.gateway) == "known"
        below = up.descendants()
        await up.stop(signal.SIGKILL)
        await gone(below)
    async with tg_up(tmp_path, "--llm-url", model_url, "--port", "0") as up:
        assert await ask(up.gateway) == "known"


async def test_a_second_up_on_the_same_folder_says_who_uses_it(tmp_path: Path, model_url: str) -> None:
    async with tg_up(tmp_path, "--llm-url", model_url, "--port", "0") as up:
        status, _, err = await tg("up", "--data-dir", str(tmp_path), "--llm-url", model_url, "--port", "0")
        assert status == 1
        assert f"in use by process {up.process.pid}" in err
        assert "--data-dir" in err
        assert "Traceback" not in err
        status, out, _ = await tg("status", "--data-dir", str(tmp_path))
        assert status == 0
        assert up.gateway in out


async def test_a_killed_broker_comes_back_without_a_restart_of_the_services(
    tmp_path: Path, model_url: str
) -> None:
    async with tg_up(tmp_path, "--llm-url", model_url, "--port", "0") as up:
        assert await ask(up.gateway) == "known"
        (broker,) = [pid for pid in up.descendants() if name_of(pid) == "pulsar-lite"]
        os.kill(broker, signal.SIGKILL)
        assert await ask(up.gateway) == "known"
        (again,) = [pid for pid in descendants(up.process.pid) if name_of(pid) == "pulsar-lite"]
        assert again != broker


async def test_a_question_outlives_the_worker_that_was_killed_over_it(tmp_path: Path, model_url: str) -> None:
    others = "broker,config,text-completion,mcp-tool,prompt,gateway"
    async with tg_up(tmp_path, "--only", others, "--llm-url", model_url, "--port", "0") as up:
        async with tg_up(tmp_path, "--only", "agent") as worker:
            assert await ask(up.gateway) == "known"
            await worker.stop(signal.SIGKILL)
        question = asyncio.create_task(ask(up.gateway))
        async with tg_up(tmp_path, "--only", "agent"):
            assert await question == "known"


async def test_the_other_services_go_on_when_the_mcp_service_was_killed_and_started_again(
    tmp_path: Path, model_url: str
) -> None:
    others = "broker,config,text-completion,agent,prompt,gateway"
    async with tg_up(tmp_path, "--only", others, "--llm-url", model_url, "--port", "0") as up:
        async with tg_up(tmp_path, "--only", "mcp-tool") as worker:
            assert await ask(up.gateway) == "known"
            await worker.stop(signal.SIGKILL)
        async with tg_up(tmp_path, "--only", "mcp-tool"):
            assert await ask(up.gateway) == "known"


async def test_workers_outlive_the_process_that_held_the_broker(tmp_path: Path, model_url: str) -> None:
    owner = ("--only", "broker,config,text-completion,mcp-tool,prompt,gateway", "--llm-url", model_url)
    async with tg_up(tmp_path, *owner, "--port", "0") as first, tg_up(tmp_path, "--only", "agent"):
        assert await ask(first.gateway) == "known"
        broker = state_of(tmp_path)["pulsar"]
        below = first.descendants()
        await first.stop(signal.SIGKILL)
        await gone(below)
        async with tg_up(tmp_path, *owner, "--port", "0") as second:
            assert state_of(tmp_path)["pulsar"] == broker
            assert await ask(second.gateway) == "known"
