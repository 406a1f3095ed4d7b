"""Runs with a side effect under kill -9: does every run end, with the right answer, and no call made twice?

    python benchmarks/chaos.py [--runs 20] [--rounds 1] [--pulsar-host URL] [--store-url URL]

Three agent workers, an MCP service and the embedded broker are processes of their own; each second one of
them is killed and started again. A run makes five calls of a tool that counts them in a file. The model is
scripted: it tries a call again where the observation says that it was not sent, and takes an unknown outcome
as such. One JSON line a round; the exit status is 1 if a run was lost, an answer wrong, or a call made twice.
Only processes that this program started are killed, by their number; the broker at ``--pulsar-host`` is not.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import logging
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from trustgraph_flow.bus import Bus, BusSettings, EmbeddedBroker
from trustgraph_flow.config import default_folder
from trustgraph_flow.llm.scripted import ScriptedModel
from trustgraph_flow.llm.scripted_server import scripted_server
from trustgraph_flow.schema.agent import AgentMessage, AgentRequest
from trustgraph_flow.schema.errors import TrustGraphError, Unavailable
from trustgraph_flow.schema.llm import TextCompletionRequest

STEPS = 5
WORKERS = 3
NOT_SENT = "not sent"
UNKNOWN = "unknown"
PROBE = 1_000_000
"""The number of the run that tells when everything is up."""
LONGEST = 600.0
"""Seconds that a run may take before it counts as lost."""

SERVER = """
import json, sys, time
def say(id, **body):
    print(json.dumps({"jsonrpc": "2.0", "id": id, **body}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    id, method = message.get("id"), message.get("method")
    if method == "initialize":
        say(id, result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "counter", "version": "1"}})
    elif method == "tools/list":
        say(id, result={"tools": [{"name": "count", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call":
        key = message["params"]["arguments"]["key"]
        with open(sys.argv[1], "a") as counted:
            counted.write(key + chr(10))
        time.sleep(float(sys.argv[2]))
        say(id, result={"content": [{"type": "text", "text": "counted " + key}]})
    elif id is not None:
        say(id, error={"code": -32601, "message": "no such method"})
"""


def reply(request: TextCompletionRequest) -> str:
    """The next call of the run in the prompt, or its answer: what was counted, and what is not known."""
    run = request.prompt.rpartition("\nQuestion: run ")[2].split()[0]
    seen = re.findall(r"^Args: (\{.*\})\nObservation[^:\n]*: (.*)$", request.prompt, re.MULTILINE)
    said: dict[int, str] = {}
    for arguments, observation in seen:
        given = json.loads(arguments)
        said[int(given["key"].partition("-")[2])] = observation
    for step in range(1, STEPS + 1):
        if step not in said or NOT_SENT in said[step]:
            arguments = json.dumps({"key": f"{run}-{step}", "attempt": len(seen)})
            return f"Thought: step {step}\nAction: count\nArgs: {arguments}"
    words = [_word(run, step, text) for step, text in sorted(said.items())]
    return f"Thought: enough\nFinal Answer: {' '.join(words)}"


def _word(run: str, step: int, observation: str) -> str:
    if observation == f"counted {run}-{step}":
        return f"{step}"
    return f"{step}?" if UNKNOWN in observation else f"({observation})"


@dataclass
class Worker:
    """One ``tg up`` that is started again whenever it has ended."""

    name: str
    command: list[str]
    log: Path
    process: asyncio.subprocess.Process | None = None
    starts: int = 0

    async def keep(self) -> None:
        while True:
            with self.log.open("ab") as log:
                self.process = await asyncio.create_subprocess_exec(
                    *self.command, stdout=log, stderr=log, stdin=asyncio.subprocess.DEVNULL
                )
            self.starts += 1
            try:
                await self.process.wait()
            except asyncio.CancelledError:
                if self.process.returncode is None:
                    self.process.terminate()
                    await self.process.wait()
                raise

    def kill(self) -> bool:
        if self.process is None or self.process.returncode is not None:
            return False
        self.process.send_signal(signal.SIGKILL)
        return True


@dataclass
class Round:
    """What came of one round."""

    answers: dict[int, str] = field(default_factory=dict)
    lost: dict[int, str] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    asked_again: int = 0
    kills: collections.Counter[str] = field(default_factory=collections.Counter)


def configuration(folder: Path, counted: Path, tool_seconds: float) -> Path:
    config = folder / "config"
    shutil.copytree(default_folder(), config)
    program = folder / "counter.py"
    program.write_text(SERVER)
    items: dict[str, Any] = {
        "mcp-server": {
            "counter": {"command": sys.executable, "args": [str(program), str(counted), str(tool_seconds)]}
        },
        "mcp": {"count": {"server": "counter"}},
        "tool": {"count": {"type": "mcp-tool", "name": "count", "mcp-tool": "count"}},
        "agent-profile": {"default": {"max-iterations": 100, "timeout": LONGEST}},
    }
    for kind, values in items.items():
        (config / f"{kind}.yaml").write_text(json.dumps(values))
    return config


async def one_run(bus: Bus, number: int, name: str, result: Round) -> None:
    """Asks until the run has ended; where the request is lost with the broker it joins the run again."""
    began = time.monotonic()
    request = AgentRequest(question=f"run {number}", run_id=f"{name}-{number}")
    while (left := LONGEST - (time.monotonic() - began)) > 0:
        try:
            last = await bus.request("agent", request, AgentMessage, timeout=left)
        except Unavailable:
            result.asked_again += 1
            await asyncio.sleep(0.5)
            continue
        except TrustGraphError as error:
            result.lost[number] = f"{error.type}: {error.message}"
            return
        result.seconds.append(time.monotonic() - began)
        if last.status == "answered":
            result.answers[number] = last.content
        else:
            result.lost[number] = f"{last.status} {last.reason}: {last.content}"
        return
    result.lost[number] = "no end"


async def kill_now_and_then(
    workers: list[Worker], broker: EmbeddedBroker | None, result: Round, seconds: float
) -> None:
    while True:
        await asyncio.sleep(seconds)
        victim = random.choice([*workers, broker] if broker else workers)
        if isinstance(victim, Worker):
            if victim.kill():
                result.kills[victim.name.rstrip("0123456789")] += 1
        elif victim is not None and victim.pid is not None:
            os.kill(victim.pid, signal.SIGKILL)
            result.kills["broker"] += 1


def judge(result: Round, counted: collections.Counter[str], runs: int) -> dict[str, Any]:
    wrong, unknown = [], 0
    for number, answer in result.answers.items():
        words = answer.split()
        unknown += sum(word.endswith("?") for word in words)
        known = [step for step, word in enumerate(words, 1) if word == str(step)]
        fits = [word.rstrip("?") for word in words] == [str(step) for step in range(1, STEPS + 1)]
        if not fits or any(counted[f"{number}-{step}"] != 1 for step in known):
            wrong.append(f"{number}: {answer}")
    return {
        "runs": runs,
        "answered": len(result.answers),
        "lost": len(result.lost),
        "wrong": len(wrong),
        "calls": counted.total(),
        "made_twice": sum(count > 1 for count in counted.values()),
        "unknown_outcomes": unknown,
        "asked_again": result.asked_again,
        "kills": dict(result.kills),
        "slowest_run_seconds": round(max(result.seconds, default=0.0), 1),
        "faults": [*wrong[:3], *[f"{number}: {why}" for number, why in list(result.lost.items())[:3]]],
    }


async def round_of(options: argparse.Namespace, number: int) -> bool:
    result, name = Round(), f"chaos-{os.getpid()}-{number}"
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        counted = folder / "counted"
        counted.touch()
        config = configuration(folder, counted, options.tool_ms / 1000)
        model = await stack.enter_async_context(scripted_server(ScriptedModel(reply, constrained=False)))
        broker = None
        if options.pulsar_host is None:
            broker = await stack.enter_async_context(EmbeddedBroker(folder / "broker"))
        host = options.pulsar_host or (broker.url if broker else "")
        common = [sys.executable, "-m", "trustgraph_flow", "up", "--data-dir", str(folder / "data")]
        common += ["--pulsar-host", host, "--store-url", options.store_url or f"sqlite:///{folder}/tg.db"]
        common += ["--config-dir", str(config), "--llm-url", model.url, "--port", "0", "--only"]
        steady = Worker("steady", [*common, "config,text-completion,prompt"], folder / "steady.log")
        workers = [Worker(f"agent{i}", [*common, "agent"], folder / f"agent{i}.log") for i in range(WORKERS)]
        workers.append(Worker("mcp", [*common, "mcp-tool"], folder / "mcp.log"))
        bus = await stack.enter_async_context(Bus(BusSettings(host)))
        keepers = [asyncio.create_task(worker.keep()) for worker in [steady, *workers]]
        killer: asyncio.Task[None] | None = None
        try:
            first = Round()
            await one_run(bus, PROBE, name, first)  # returns when everything is up
            if first.lost:
                raise RuntimeError(f"the services do not work: {first.lost}")
            began = time.monotonic()
            killer = asyncio.create_task(kill_now_and_then(workers, broker, result, options.every))
            await asyncio.gather(*(one_run(bus, run, name, result) for run in range(options.runs)))
            took = time.monotonic() - began
        finally:
            tasks = [*keepers, *([killer] if killer else [])]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if options.keep:
                shutil.copytree(folder, f"{options.keep}/{number}", dirs_exist_ok=True)
        line = judge(result, collections.Counter(counted.read_text().split()), options.runs)
        print(json.dumps({"round": number, "seconds": round(took, 1), **line}), flush=True)
        return not (line["lost"] or line["wrong"] or line["made_twice"])


async def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--every", type=float, default=1.0, help="seconds between two kills")
    parser.add_argument("--tool-ms", type=float, default=20.0, help="how long the tool takes")
    parser.add_argument("--pulsar-host", help="a broker to use, instead of one that is killed too")
    parser.add_argument("--store-url", help="a store to use, instead of a SQLite file")
    parser.add_argument("--keep", help="a folder to copy logs and store of each round to")
    options = parser.parse_args()
    good = [await round_of(options, number) for number in range(options.rounds)]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    asyncio.run(main())
