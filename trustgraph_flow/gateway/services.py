"""The services behind the gateway: what each takes and answers, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass

from trustgraph_flow.schema.agent import AgentMessage, AgentRequest
from trustgraph_flow.schema.base import Message
from trustgraph_flow.schema.config import ConfigRequest, ConfigResponse
from trustgraph_flow.schema.llm import TextCompletionRequest, TextCompletionResponse
from trustgraph_flow.schema.mcp import McpToolRequest, McpToolResponse
from trustgraph_flow.schema.prompt import PromptRequest, PromptResponse

GRACE_SECONDS = 5.0
"""Given to a service beyond its limit, so that it can end in its own words."""


@dataclass(frozen=True, slots=True)
class Service:
    name: str
    request: type[Message]
    reply: type[Message]
    seconds: float
    """The longest wait, and the wait where the request names no ``timeout`` of its own."""
    inner: frozenset[str] = frozenset()
    """Fields and operations for our own services; a client that gives one is refused."""

    def wait(self, timeout: float | None) -> float:
        return min(timeout or self.seconds, self.seconds) + GRACE_SECONDS


CONFIG = Service(
    "config",
    ConfigRequest,
    ConfigResponse,
    30,
    inner=frozenset({"snapshot", "types", "unless_version", "who"}),
)
FLOW_SERVICES = {
    service.name: service
    for service in (
        Service("agent", AgentRequest, AgentMessage, 3600),
        Service(
            "mcp-tool",
            McpToolRequest,
            McpToolResponse,
            600,
            inner=frozenset({"call_id", "run_id", "artifact"}),
        ),
        Service("prompt", PromptRequest, PromptResponse, 300),
        Service("text-completion", TextCompletionRequest, TextCompletionResponse, 300),
    )
}
SERVICES = {CONFIG.name: CONFIG, **FLOW_SERVICES}
