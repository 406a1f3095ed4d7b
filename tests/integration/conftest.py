"""The whole product in this process: broker, store, all services, real MCP servers, a scripted model."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from trustgraph_flow.app import App, AppSettings
from trustgraph_flow.llm.scripted import Script, ScriptedModel

StartApp = Callable[..., Awaitable[App]]


@pytest.fixture
async def start_app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StartApp]:
    """``await start_app(replies)``; on the broker that the test run was given, else on an embedded one."""
    async with AsyncExitStack() as stack:

        async def start(replies: Script, **settings: object) -> App:
            app = App(
                AppSettings(
                    data_dir=tmp_path / "data",
                    port=0,
                    pulsar_host=request.config.getoption("--pulsar-host"),
                    pulsar_admin=request.config.getoption("--pulsar-admin"),
                    tenant=f"t{uuid.uuid4().hex[:12]}",
                    **settings,  # type: ignore[arg-type]
                ),
                provider=ScriptedModel(replies, constrained=False),
            )
            return await stack.enter_async_context(app)

        yield start
