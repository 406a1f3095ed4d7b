"""The embedded model: llama.cpp in this process, behind its own server on the loopback interface.

It is spoken to by the same provider as any other server, so there is one way in which replies are asked for.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import structlog

from trustgraph_flow.schema.errors import SetupError
from trustgraph_flow.schema.llm import TextCompletionRequest, TextCompletionResponse

from .openai_compatible import OpenAICompatible, ServerSettings
from .provider import Capabilities
from .weights import SMOLLM2, Progress, weights_file

log = structlog.get_logger()

CONTEXT_TOKENS = 4096
LONGEST_REPLY_TOKENS = 1024
"""For requests that give no limit: a small model now and then repeats itself without end."""
PROMPT_CACHE_MIB = 256
GGUF_MAGIC = b"GGUF"
PIP_INSTALL = "pip install 'trustgraph-flow-react[local]'"


class LocalModel:
    """A provider; made by ``start``, and ended by ``close``, which also frees the model's memory."""

    def __init__(self, server: Any, provider: OpenAICompatible, url: str) -> None:
        self.url = url
        self._server = server
        self._provider = provider

    @classmethod
    async def start(
        cls, path: Path | None = None, *, threads: int | None = None, progress: Progress | None = None
    ) -> LocalModel:
        """Load the model in ``path``, or the default one, which is fetched at the first use.

        Loading holds the interpreter for as long as it takes (half a second for the default model), so start
        before serving. Raises SetupError.
        """
        _require_library()
        name = path.stem if path else SMOLLM2.name
        file = await asyncio.to_thread(_checked, path) if path else await weights_file(progress=progress)
        # The server listens for any program on this machine, web pages in a browser included.
        key = secrets.token_hex(16)
        server = await asyncio.to_thread(_load, file, name, key, threads)
        log.info("local model loaded", model=name, file=str(file), url=server.listening_address)
        url = f"{server.listening_address}/v1"
        settings = ServerSettings(url, name, key, constrained=True, constrain=compact_json)
        return cls(server, OpenAICompatible(settings), url)

    async def describe(self, model: str | None = None, *, deadline: float | None = None) -> Capabilities:
        return await self._provider.describe(deadline=deadline)

    async def complete(
        self, request: TextCompletionRequest, *, deadline: float | None = None
    ) -> AsyncGenerator[TextCompletionResponse, None]:
        # There is one model here, whatever name is asked for; replies carry the name of it.
        request = request.model_copy(update={"model": None})
        async with aclosing(self._provider.complete(request, deadline=deadline)) as responses:
            async for response in responses:
                yield response

    async def close(self) -> None:
        # Connections first: that cancels what is being generated, so the server ends at once.
        await self._provider.close()
        self._server = None


def compact_json(schema: dict[str, Any]) -> dict[str, Any]:
    """Holds a reply to ``schema`` by llama.cpp's second grammar engine, and to one line.

    It knows more of JSON Schema than the one behind ``response_format``, and a third of the tokens of a reply
    would be indentation. What it does not know does not bind the reply.
    """
    style = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "lenient": True}
    return {"grammar": "%llguidance {}\nstart: %json " + json.dumps({**schema, "x-guidance": style})}


def _require_library() -> None:
    try:
        import xllamacpp  # noqa: F401
    except ImportError as error:
        raise SetupError(
            f"The local model needs llama.cpp ({error}): "
            f"{'install libgomp1 (apt-get install libgomp1)' if 'libgomp' in str(error) else PIP_INSTALL}, "
            "or give --llm-url with a model server."
        ) from error


def _checked(path: Path) -> Path:
    try:
        with path.open("rb") as file:
            magic = file.read(len(GGUF_MAGIC))
    except OSError as error:
        raise SetupError(
            f"--llm-model {path} can't be read ({error.strerror}); "
            "without --llm-url it is the path of a .gguf file."
        ) from error
    if magic != GGUF_MAGIC:
        raise SetupError(f"--llm-model {path} is no GGUF file; give the path of one, or --llm-url.")
    return path


def _load(file: Path, name: str, key: str, threads: int | None) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.model_alias = {name}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = -1
    params.warmup = False
    params.n_ctx = CONTEXT_TOKENS
    params.n_predict = LONGEST_REPLY_TOKENS
    # For requests that say nothing of it: so small a model is at its best without chance.
    params.sampling.temp = 0.0
    # One reply at a time: on a CPU more of them at once gain nothing and spoil the prompt cache.
    params.n_parallel = 1
    params.cache_ram_mib = PROMPT_CACHE_MIB
    cores = _cores()
    # The threads of a token wait for each other, so one core that others use holds all of them up; to
    # leave one free avoids that. A prompt is worked on in larger pieces, where every core helps.
    params.cpuparams.n_threads = threads or max(1, cores - 1)
    params.cpuparams_batch.n_threads = threads or cores
    try:
        return xllamacpp.Server(params)
    except RuntimeError as error:
        raise SetupError(
            f"llama.cpp can't load {file}; check that it is a whole GGUF file of a chat model, "
            "or give --llm-url."
        ) from error


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
