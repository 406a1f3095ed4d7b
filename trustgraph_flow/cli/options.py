"""The options that say what a process runs on, shared by the commands that start services."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer


def default_data_dir() -> Path:
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "trustgraph-flow"


DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", envvar="TG_DATA_DIR", help="Folder for the database and the embedded broker."),
]
Only = Annotated[
    str | None,
    typer.Option(
        "--only",
        help="Start these alone, comma-separated: broker, config, text-completion, mcp-tool, prompt, "
        "agent, gateway. Without broker, config and gateway among them, the process joins what runs on the "
        "data folder.",
    ),
]
PulsarHost = Annotated[
    str | None,
    typer.Option(
        "--pulsar-host", envvar="PULSAR_HOST", help="pulsar://HOST:6650 in place of our own broker."
    ),
]
PulsarToken = Annotated[
    str | None, typer.Option("--pulsar-token", envvar="PULSAR_TOKEN", help="Token for that broker.")
]
PulsarAdmin = Annotated[
    str | None,
    typer.Option(
        "--pulsar-admin", help="Its admin URL: missing tenant and namespaces are created through it."
    ),
]
StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store-url",
        envvar="TG_STORE_URL",
        help="SQLAlchemy URL of the database; a file of ours by default.",
    ),
]
ConfigDir = Annotated[
    Path | None,
    typer.Option("--config-dir", help="Folder that fills an empty store; the shipped default otherwise."),
]
LlmUrl = Annotated[
    str | None,
    typer.Option(
        "--llm-url",
        envvar="TG_LLM_URL",
        help="Base URL of an OpenAI-compatible model server, such as http://127.0.0.1:8000/v1; "
        "a small local model otherwise. Its key comes from OPENAI_API_KEY.",
    ),
]
LlmModel = Annotated[
    str | None,
    typer.Option(
        "--llm-model", envvar="TG_LLM_MODEL", help="Model name at --llm-url, or the path of a .gguf file."
    ),
]
Host = Annotated[
    str, typer.Option("--host", help="Address of the gateway; any but loopback requires a token.")
]
Port = Annotated[int, typer.Option("--port", help="Port of the gateway; 0 takes a free one.")]
Token = Annotated[
    str | None, typer.Option("--token", "-t", envvar="TRUSTGRAPH_TOKEN", help="Token that clients must show.")
]
LogLevel = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")]
