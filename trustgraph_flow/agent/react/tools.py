"""The kinds of tool that an agent can call, each behind one ``invoke`` that takes the checked arguments.

Every call goes over the bus; nothing here knows how a tool does its work.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict

from trustgraph_flow.schema.errors import TrustGraphError
from trustgraph_flow.schema.llm import TextCompletionRequest, TextCompletionResponse
from trustgraph_flow.schema.mcp import McpToolRequest, McpToolResponse
from trustgraph_flow.schema.prompt import PromptRequest, PromptResponse

from .types import Call, Observation, ToolContext

TEXT_COMPLETION_ARGUMENTS = [
    {"name": "question", "type": "string", "required": True, "description": "What to ask the language model"}
]


class McpToolImpl:
    """A tool on an MCP server. ``mcp_tool_id`` is the key of an ``mcp`` item."""

    def __init__(
        self, context: ToolContext, mcp_tool_id: str, arguments: list[dict[str, Any]] | None = None
    ) -> None:
        self.context = context
        self.mcp_tool_id = mcp_tool_id
        self.arguments = arguments

    def get_arguments(self) -> list[dict[str, Any]]:
        return self.arguments or []

    async def invoke(self, arguments: dict[str, Any], call: Call) -> Observation:
        body = McpToolRequest(
            name=self.mcp_tool_id, parameters=arguments, call_id=call.call_id, run_id=call.run_id
        )
        reply = await self.context.request("mcp-tool", body, McpToolResponse, deadline=call.deadline)
        return Observation(
            text=reply.text if reply.text is not None else json.dumps(reply.object, ensure_ascii=False),
            is_error=reply.is_error,
            fault=reply.fault,
            duration_ms=reply.duration_ms,
            content=reply.content,
        )


class PromptToolImpl:
    """A prompt template of the workspace, filled with the arguments and answered by the model."""

    def __init__(
        self, context: ToolContext, template: str, arguments: list[dict[str, Any]] | None = None
    ) -> None:
        self.context = context
        self.template = template
        self.arguments = arguments

    def get_arguments(self) -> list[dict[str, Any]]:
        return self.arguments or []

    async def invoke(self, arguments: dict[str, Any], call: Call) -> Observation:
        body = PromptRequest(id=self.template, variables=arguments)
        reply = await self.context.request("prompt", body, PromptResponse, deadline=call.deadline)
        return Observation(
            text=reply.text if reply.text is not None else json.dumps(reply.object, ensure_ascii=False)
        )


class TextCompletionToolImpl:
    """The language model itself, asked one question without the agent's prompt."""

    def __init__(self, context: ToolContext) -> None:
        self.context = context

    def get_arguments(self) -> list[dict[str, Any]]:
        return TEXT_COMPLETION_ARGUMENTS

    async def invoke(self, arguments: dict[str, Any], call: Call) -> Observation:
        body = TextCompletionRequest(prompt=str(arguments.get("question", "")))
        reply = await self.context.request(
            "text-completion", body, TextCompletionResponse, deadline=call.deadline
        )
        return Observation(text=reply.response)


class _ToolServiceReply(BaseModel):
    model_config = ConfigDict(extra="ignore")
    response: Any = None
    error: dict[str, Any] | None = None


class _ToolServiceRequest(BaseModel):
    config: dict[str, Any]
    arguments: dict[str, Any]
    call_id: str
    run_id: str


class ToolServiceImpl:
    """A tool that a ``tool-service`` item serves on its own request topic.

    It gets ``{"config", "arguments", "call_id", "run_id"}`` and replies ``{"response"}`` or ``{"error"}``.
    """

    def __init__(
        self,
        context: ToolContext,
        queue: str,
        config: dict[str, Any],
        arguments: list[dict[str, Any]] | None = None,
    ) -> None:
        self.context = context
        self.queue = queue
        self.config = config
        self.arguments = arguments

    def get_arguments(self) -> list[dict[str, Any]]:
        return self.arguments or []

    async def invoke(self, arguments: dict[str, Any], call: Call) -> Observation:
        body = _ToolServiceRequest(
            config=self.config, arguments=arguments, call_id=call.call_id, run_id=call.run_id
        )
        reply = await self.context.request(self.queue, body, _ToolServiceReply, deadline=call.deadline)
        if reply.error is not None:
            message = str(reply.error.get("message") or "the tool service answered an error without a text")
            return Observation(text=message, is_error=True, fault="tool-error")
        text = reply.response
        return Observation(text=text if isinstance(text, str) else json.dumps(text, ensure_ascii=False))


FAULT_OF_ERROR = {"deadline-exceeded": "timed-out", "unavailable": "not-reached", "cancelled": "cancelled"}


def failed(error: TrustGraphError) -> Observation:
    """A call that the bus could not bring home, as an observation."""
    fault = FAULT_OF_ERROR.get(error.type, "tool-error")
    return Observation(text=error.message, is_error=True, fault=fault)
