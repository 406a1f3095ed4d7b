"""The gateway's whole surface as coroutines."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any
from urllib.parse import quote

from trustgraph_flow.schema.agent import AgentMessage
from trustgraph_flow.schema.config import DEFAULT_WORKSPACE, ConfigResponse, ConfigValue
from trustgraph_flow.schema.errors import NotFound
from trustgraph_flow.schema.items import McpItem, McpServerItem, PromptItem, ToolItem
from trustgraph_flow.schema.llm import TextCompletionResponse
from trustgraph_flow.schema.mcp import McpToolResponse
from trustgraph_flow.schema.prompt import PromptResponse

from .settings import DEFAULT_URL, ClientSettings
from .stored import ConfigContents, Download, ItemT, Stored, read_item, write_item
from .transport import Transport

DEFAULT_FLOW = "default"
RUN_SECONDS = 3600.0
"""How long the client waits where tools or models work; the gateway's own limits are shorter."""
_TEMPLATE = "template."


class AsyncClient:
    """A client of one gateway, for one workspace; ``async with`` closes its connections.

    Every method raises TrustGraphError kinds: Unavailable (nothing answers), CredentialsRefused (no or wrong
    token), SetupError (what answers is no gateway of ours), BadRequest, NotFound, DeadlineExceeded, and what
    the service itself has answered. Writes answer the store's new version.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        token: str | None = None,
        workspace: str = DEFAULT_WORKSPACE,
        *,
        timeout: float = 60.0,
    ) -> None:
        self.settings = ClientSettings(url, token, workspace, timeout)
        self._transport = Transport(self.settings)

    @classmethod
    def from_settings(cls, settings: ClientSettings) -> AsyncClient:
        return cls(settings.url, settings.token, settings.workspace, timeout=settings.timeout)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    # Config

    async def get_items(self, keys: Iterable[tuple[str, str]]) -> list[ConfigValue]:
        """The items ``(type, key)``, in this order; ``value`` is None where there is none."""
        answer = await self._config("get", keys=[{"type": kind, "key": key} for kind, key in keys])
        return answer.values or []

    async def get_item(self, kind: str, key: str) -> str | None:
        values = await self.get_items([(kind, key)])
        return values[0].value if values else None

    async def values(self, kind: str) -> dict[str, str]:
        """All items of a type, ``{key: value}``."""
        answer = await self._config("getvalues", type=kind)
        return {item.key: item.value for item in answer.values or [] if item.value is not None}

    async def list_keys(self, kind: str) -> list[str]:
        return (await self._config("list", type=kind)).directory or []

    async def all(self) -> ConfigContents:
        answer = await self._config("config")
        return ConfigContents(answer.version, answer.config or {})

    async def put_items(self, items: Iterable[tuple[str, str, str]]) -> int:
        """Writes the items ``(type, key, value)``, all or none."""
        values = [{"type": kind, "key": key, "value": value} for kind, key, value in items]
        return (await self._config("put", values=values)).version

    async def put_item(self, kind: str, key: str, value: str) -> int:
        return await self.put_items([(kind, key, value)])

    async def delete_items(self, keys: Iterable[tuple[str, str]]) -> int:
        return (await self._config("delete", keys=[{"type": kind, "key": key} for kind, key in keys])).version

    async def delete_item(self, kind: str, key: str) -> int:
        """Raises NotFound where there is no such item."""
        if await self.get_item(kind, key) is None:
            raise NotFound(f"workspace {self.settings.workspace!r} has no {kind} item {key!r}")
        return await self.delete_items([(kind, key)])

    # Tools, MCP tools, servers, prompts

    async def tools(self) -> list[Stored[ToolItem]]:
        return await self._stored("tool", ToolItem)

    async def set_tool(self, key: str, item: ToolItem) -> int:
        return await self.put_item("tool", key, write_item(item))

    async def delete_tool(self, key: str) -> int:
        return await self.delete_item("tool", key)

    async def mcp_tools(self) -> list[Stored[McpItem]]:
        """Secrets are masked; an item that is written back with its mask keeps them."""
        return await self._stored("mcp", McpItem)

    async def set_mcp_tool(self, key: str, item: McpItem) -> int:
        return await self.put_item("mcp", key, write_item(item))

    async def delete_mcp_tool(self, key: str) -> int:
        return await self.delete_item("mcp", key)

    async def mcp_servers(self) -> list[Stored[McpServerItem]]:
        """Secrets are masked; an item that is written back with its mask keeps them."""
        return await self._stored("mcp-server", McpServerItem)

    async def set_mcp_server(self, key: str, item: McpServerItem) -> int:
        return await self.put_item("mcp-server", key, write_item(item))

    async def delete_mcp_server(self, key: str) -> int:
        return await self.delete_item("mcp-server", key)

    async def prompts(self) -> list[Stored[PromptItem]]:
        """The templates, by template id."""
        stored = await self.values("prompt")
        return [
            read_item(key.removeprefix(_TEMPLATE), value, PromptItem)
            for key, value in sorted(stored.items())
            if key.startswith(_TEMPLATE)
        ]

    async def set_prompt(self, template: str, item: PromptItem) -> int:
        return await self.put_item("prompt", _TEMPLATE + template, write_item(item))

    async def delete_prompt(self, template: str) -> int:
        return await self.delete_item("prompt", _TEMPLATE + template)

    async def system_prompt(self) -> str | None:
        """The text that opens every prompt, stored as a JSON string; a bare text is read as it stands."""
        value = await self.get_item("prompt", "system")
        if value is None:
            return None
        try:
            text = json.loads(value)
        except ValueError:
            return value
        return text if isinstance(text, str) else value

    async def set_system_prompt(self, text: str) -> int:
        return await self.put_item("prompt", "system", json.dumps(text, ensure_ascii=False))

    # Services

    async def invoke_agent(
        self,
        question: str,
        *,
        state: str | None = None,
        group: Sequence[str] | None = None,
        history: Sequence[Mapping[str, Any]] | None = None,
        streaming: bool = True,
        session_id: str | None = None,
        collection: str | None = None,
        agent: str | None = None,
        timeout: float | None = None,
        flow: str = DEFAULT_FLOW,
    ) -> AsyncGenerator[AgentMessage]:
        """The messages of a run as they come, the last with ``end_of_dialog``.

        ``streaming`` sends thoughts and the answer in chunks, else whole. A run that fails ends with a
        message of type ``error``. Closing the iterator cancels the run. ``timeout`` is the run's, in seconds.
        """
        request = _given(
            question=question,
            state=state,
            group=None if group is None else list(group),
            history=None if history is None else [dict(turn) for turn in history],
            streaming=streaming,
            session_id=session_id,
            collection=collection,
            agent=agent,
            timeout=timeout,
        )
        async with aclosing(self._transport.frames("agent", flow, request)) as frames:
            async for frame in frames:
                yield self._transport.parsed(AgentMessage, frame)

    async def ask(
        self,
        question: str,
        *,
        state: str | None = None,
        group: Sequence[str] | None = None,
        history: Sequence[Mapping[str, Any]] | None = None,
        agent: str | None = None,
        timeout: float | None = None,
        flow: str = DEFAULT_FLOW,
    ) -> AgentMessage:
        """The last message of a run: the answer, or the error that ended it."""
        request = _given(
            question=question,
            state=state,
            group=None if group is None else list(group),
            history=None if history is None else [dict(turn) for turn in history],
            agent=agent,
            timeout=timeout,
        )
        return self._transport.parsed(AgentMessage, await self._service("agent", flow, request))

    async def invoke_mcp_tool(
        self,
        name: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        flow: str = DEFAULT_FLOW,
    ) -> McpToolResponse:
        """``name`` is the key of an ``mcp`` item. A tool's own failure is a response with ``is_error``."""
        request = _given(name=name, parameters=dict(parameters or {}), timeout=timeout)
        return self._transport.parsed(McpToolResponse, await self._service("mcp-tool", flow, request))

    async def artifact(self, id: str) -> Download:
        """What a tool returned and a reply could not hold; the notes in its text name the id. Raises
        NotFound."""
        path = f"api/v1/artifacts/{quote(id, safe='')}"
        return await self._transport.download(path, workspace=self.settings.workspace)

    async def sign_in_mcp(self, name: str, *, flow: str = DEFAULT_FLOW) -> McpToolResponse:
        """Begins a sign-in at the server of an ``mcp`` or ``mcp-server`` item, or tells how it stands.

        ``sign_in_page`` is there while a person has to open it; a sign-in that failed has ``is_error``.
        """
        request = {"operation": "sign-in", "name": name}
        return self._transport.parsed(McpToolResponse, await self._service("mcp-tool", flow, request))

    async def prompt(
        self, template: str, variables: Mapping[str, Any] | None = None, *, flow: str = DEFAULT_FLOW
    ) -> PromptResponse:
        """The template rendered and completed; ``object`` is read where the template answers JSON."""
        answer = await self._service("prompt", flow, {"id": template, "variables": dict(variables or {})})
        if isinstance(answer.get("object"), str):
            answer["object"] = json.loads(answer["object"])
        return self._transport.parsed(PromptResponse, answer)

    async def text_completion(
        self, system: str, prompt: str, *, model: str | None = None, flow: str = DEFAULT_FLOW
    ) -> TextCompletionResponse:
        request = _given(system=system, prompt=prompt, model=model)
        return self._transport.parsed(
            TextCompletionResponse, await self._service("text-completion", flow, request)
        )

    # The gateway itself

    async def health(self) -> dict[str, Any]:
        """``{"status": "alive", "version"}``."""
        return await self._transport.get_json("api/v1/health")

    async def ready(self) -> dict[str, Any]:
        """``{"ready": bool, "services": {name: "answers" or what is wrong}}``."""
        return await self._transport.get_json("api/v1/ready", accept=(503,))

    async def metrics(self) -> str:
        """Prometheus text."""
        return await self._transport.get_text("api/metrics")

    async def _config(self, operation: str, **fields: Any) -> ConfigResponse:
        body = {"operation": operation, "workspace": self.settings.workspace, **fields}
        return self._transport.parsed(ConfigResponse, await self._transport.post("api/v1/config", body))

    async def _stored(self, kind: str, model: type[ItemT]) -> list[Stored[ItemT]]:
        return [read_item(key, value, model) for key, value in sorted((await self.values(kind)).items())]

    async def _service(self, service: str, flow: str, request: dict[str, Any]) -> dict[str, Any]:
        path = f"api/v1/flow/{flow}/service/{service}"
        return await self._transport.post(
            path, {**request, "workspace": self.settings.workspace}, timeout=RUN_SECONDS
        )


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
