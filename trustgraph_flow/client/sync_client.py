"""The same surface for code without an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from functools import wraps
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from trustgraph_flow.schema.config import DEFAULT_WORKSPACE

from .async_client import AsyncClient
from .settings import DEFAULT_URL, ClientSettings


class _End:
    """Stands behind the last item of a queue."""


_END = _End()
P = ParamSpec("P")
R = TypeVar("R")


def _blocking(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Client, P], R]:
    @wraps(method)
    def call(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._wait(method(self._client, *args, **kwargs))

    return call


def _iterating(
    method: Callable[Concatenate[AsyncClient, P], AsyncGenerator[R]],
) -> Callable[Concatenate[Client, P], Iterator[R]]:
    """The generator runs as one task, so that leaving the iterator early cancels what it waits for."""

    @wraps(method)
    def call(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        items: SimpleQueue[R | _End] = SimpleQueue()

        async def pump() -> None:
            try:
                async for item in method(self._client, *args, **kwargs):
                    items.put(item)
            finally:
                items.put(_END)

        running = self._start(pump())
        try:
            while not isinstance(item := items.get(), _End):
                yield item
            running.result()
        finally:
            running.cancel()

    return call


class Client:
    """``AsyncClient`` on a thread of its own, which ``close`` or ``with`` ends. Threads may share one client.

    An interrupt while a call waits cancels the call.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        token: str | None = None,
        workspace: str = DEFAULT_WORKSPACE,
        *,
        timeout: float = 60.0,
    ) -> None:
        self._client = AsyncClient(url, token, workspace, timeout=timeout)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="trustgraph-client", daemon=True)
        self._thread.start()

    @classmethod
    def from_settings(cls, settings: ClientSettings) -> Client:
        return cls(settings.url, settings.token, settings.workspace, timeout=settings.timeout)

    @property
    def settings(self) -> ClientSettings:
        return self._client.settings

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._wait(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    get_items = _blocking(AsyncClient.get_items)
    get_item = _blocking(AsyncClient.get_item)
    values = _blocking(AsyncClient.values)
    list_keys = _blocking(AsyncClient.list_keys)
    all = _blocking(AsyncClient.all)
    put_items = _blocking(AsyncClient.put_items)
    put_item = _blocking(AsyncClient.put_item)
    delete_items = _blocking(AsyncClient.delete_items)
    delete_item = _blocking(AsyncClient.delete_item)

    tools = _blocking(AsyncClient.tools)
    set_tool = _blocking(AsyncClient.set_tool)
    delete_tool = _blocking(AsyncClient.delete_tool)
    mcp_tools = _blocking(AsyncClient.mcp_tools)
    set_mcp_tool = _blocking(AsyncClient.set_mcp_tool)
    delete_mcp_tool = _blocking(AsyncClient.delete_mcp_tool)
    mcp_servers = _blocking(AsyncClient.mcp_servers)
    set_mcp_server = _blocking(AsyncClient.set_mcp_server)
    delete_mcp_server = _blocking(AsyncClient.delete_mcp_server)
    prompts = _blocking(AsyncClient.prompts)
    set_prompt = _blocking(AsyncClient.set_prompt)
    delete_prompt = _blocking(AsyncClient.delete_prompt)
    system_prompt = _blocking(AsyncClient.system_prompt)
    set_system_prompt = _blocking(AsyncClient.set_system_prompt)

    invoke_agent = _iterating(AsyncClient.invoke_agent)
    ask = _blocking(AsyncClient.ask)
    invoke_mcp_tool = _blocking(AsyncClient.invoke_mcp_tool)
    artifact = _blocking(AsyncClient.artifact)
    sign_in_mcp = _blocking(AsyncClient.sign_in_mcp)
    prompt = _blocking(AsyncClient.prompt)
    text_completion = _blocking(AsyncClient.text_completion)

    health = _blocking(AsyncClient.health)
    ready = _blocking(AsyncClient.ready)
    metrics = _blocking(AsyncClient.metrics)

    def _wait(self, work: Coroutine[Any, Any, R]) -> R:
        future = self._start(work)
        try:
            return future.result()
        finally:
            future.cancel()

    def _start(self, work: Coroutine[Any, Any, R]) -> Future[R]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()
