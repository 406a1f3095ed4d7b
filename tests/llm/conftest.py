"""Providers of servers on this machine, with short waits between tries."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from trustgraph_flow.llm.backoff import Backoff
from trustgraph_flow.llm.openai_compatible import OpenAICompatible, ServerSettings
from trustgraph_flow.llm.scripted import ScriptedModel
from trustgraph_flow.llm.scripted_server import ScriptedServer, scripted_server

QUICK = Backoff(first_seconds=0.001, longest_seconds=0.002)

Connect = Callable[..., OpenAICompatible]
Serve = Callable[..., Awaitable[ScriptedServer]]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Makes a provider for a URL; it is closed after the test."""
    async with AsyncExitStack() as stack:

        def make(url: str, **settings: Any) -> OpenAICompatible:
            provider = OpenAICompatible(ServerSettings(url, **{"backoff": QUICK, **settings}))
            stack.push_async_callback(provider.close)
            return provider

        yield make


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts a scripted server; it ends after the test."""
    async with AsyncExitStack() as stack:

        async def start(replies: Any = (), **options: Any) -> ScriptedServer:
            about = {
                name: options.pop(name)
                for name in ("model", "constrained", "context_tokens")
                if name in options
            }
            return await stack.enter_async_context(
                scripted_server(ScriptedModel(replies, **about), **options)
            )

        yield start
