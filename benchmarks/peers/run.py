"""Measures this product beside its peers on one piece of work, in one run, and prints a table.

    python benchmarks/peers/run.py            everybody
    python benchmarks/peers/run.py ours bare  only these

Each peer gets a virtual environment of its own, made once under $BENCH_HOME (about 1 GB in all). Times of
different runs can't be compared, machines being what they are; the ratios within a run can.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path

HERE = Path(__file__).parent
HOME = Path(
    os.environ.get("BENCH_HOME")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trustgraph-flow" / "peers"
)
SERVER = ["mcp>=2.3,<3", "uvicorn", "starlette", "orjson", "aiohttp"]
PEERS = {
    "bare": SERVER,
    "ours": [],
    "openai_agents": ["openai-agents"],
    "pydantic_ai": ["pydantic-ai-slim[openai,mcp]"],
    "langchain": ["langchain", "langchain-openai", "langchain-mcp-adapters", "langgraph"],
    "smolagents": ["smolagents[mcp,openai]", "mcp<2", "websockets"],
    "adk": ["google-adk[mcp]", "litellm", "mcp<2"],
}


def python_for(name: str, packages: list[str]) -> str:
    """The interpreter of an environment with ``packages``, made if it is not there."""
    folder = HOME / name
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True, stdout=sys.stderr)
        (folder / "ready").touch()
    return str(python)


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(stack: ExitStack, command: list[str], port: int) -> None:
    process = subprocess.Popen(command, cwd=HERE, stderr=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    for _ in range(150):
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise SystemExit(f"{command[1]} did not start")


def measure_all(names: list[str]) -> list[dict]:
    rows: list[dict] = []
    server = python_for("bare", SERVER)
    model_port, mcp_port = free_port(), free_port()
    with ExitStack() as stack:
        start(stack, [server, "model_server.py", str(model_port)], model_port)
        start(stack, [server, "mcp_server.py", str(mcp_port)], mcp_port)
        environment = {
            **os.environ,
            "BENCH_MODEL_URL": f"http://127.0.0.1:{model_port}/v1",
            "BENCH_MCP_URL": f"http://127.0.0.1:{mcp_port}/mcp",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "OPENAI_API_KEY": "none",
        }
        for name in names:
            python = sys.executable if name == "ours" else python_for(name, PEERS[name])
            script = "ours.py" if name == "ours" else f"peer_{name}.py"
            done = subprocess.run(
                [python, script], cwd=HERE, env=environment, capture_output=True, text=True, check=False
            )
            found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
            rows += found or [
                {"name": name, "error": (done.stderr.strip().splitlines() or ["no output"])[-1]}
            ]
            for row in rows[-max(1, len(found)) :]:
                print(json.dumps(row), file=sys.stderr, flush=True)
    return rows


def table(rows: list[dict]) -> str:
    base = next((row["run_p10_ms"] for row in rows if row["name"] == "bare loop"), None)
    lines = [
        "| | p10 of a run, ms | x bare loop | p50 of a step, ms | runs a second at 16 | MB |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "error" in row:
            lines.append(f"| {row['name']} | did not run: {row['error']} | | | | |")
            continue
        ratio = f"{row['run_p10_ms'] / base:.1f}" if base else ""
        lines.append(
            f"| {row['name']} | {row['run_p10_ms']} | {ratio} | {row['step_p50_ms']} "
            f"| {row['runs_per_s_at_16']} | {row['peak_mb']} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    chosen = sys.argv[1:] or list(PEERS)
    if unknown := set(chosen) - set(PEERS):
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(PEERS)}")
    print(table(measure_all(chosen)))
