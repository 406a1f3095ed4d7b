"""The config values that we read: tools, MCP tools, MCP servers, agent profiles, prompts."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AliasChoices, Field, field_validator

from .base import Item

SERVED_TOOL_TYPES = ("mcp-tool", "prompt", "text-completion", "tool-service")
TOOL_LINKS = {"mcp-tool": "mcp-tool", "prompt": "template", "tool-service": "service"}
"""For each type of tool the field that says what it calls, which it can't do without."""
RESERVED_NAMES = frozenset(
    {"-", "none", "n/a", "na", "null", "nil", "nothing", "no action", "no tool", "final answer"}
)
"""What models write where they call nothing."""
FOREIGN_TOOL_TYPES = ("knowledge-query", "structured-query", "row-embeddings-query")


class ToolItem(Item):
    """A ``tool`` item. ``arguments`` absent and ``arguments: []`` differ: see the tool arguments page.

    ``arguments`` stays raw here: reading it is the work of ``trustgraph_flow.arguments``.
    """

    type: str
    name: str
    description: str = ""
    mcp_tool: str | None = None
    template: str | None = None
    service: str | None = None
    arguments: Any = None
    defs: dict[str, Any] | None = Field(default=None, alias="$defs")
    group: list[str] = Field(default_factory=lambda: ["default"])
    state: str | None = None
    applicable_states: list[str] = Field(default_factory=lambda: ["*"])
    timeout: float | None = None

    @field_validator("name")
    @classmethod
    def _can_be_called(cls, name: str) -> str:
        if not name.strip() or name != name.strip() or not name.isprintable():
            raise ValueError("agents call a tool by its name: one line of printable characters, not blank")
        if name.strip().casefold() in RESERVED_NAMES:
            raise ValueError(f"{name!r} means that no tool is called; give the tool another name")
        return name


class McpItem(Item):
    """An ``mcp`` item: a tool on an MCP server, by its own ``url`` or by the id of an ``mcp-server`` item."""

    url: str | None = None
    server: str | None = None
    remote_name: str | None = None
    auth_token: Any = None
    timeout: float | None = None


class McpOAuth(Item):
    """How to sign in at a server that asks for it.

    ``authorization-code`` has a person sign in once, ``client-credentials`` takes ``client_id`` and
    ``client_secret``. The secret is sent to the ``issuer`` only (the server itself). ``auth_method`` is how.
    """

    flow: Literal["authorization-code", "client-credentials"] = "authorization-code"
    client_id: str | None = None
    client_secret: Any = None
    scopes: str | list[str] = ""
    issuer: str | None = None
    auth_method: Literal["basic", "post"] = "basic"
    redirect_uri: str = "http://localhost:8888/api/v1/sign-in"


class McpServerItem(Item):
    """An ``mcp-server`` item: one connection shared by many tools. ``timeout`` is in seconds.

    ``elicitation`` lets questions that the server puts to a person be answered by their defaults.
    ``pin`` holds a tool whose description or schema changes, until its ``mcp-schema`` item is deleted.
    """

    url: str | None = None
    command: str | None = None
    args: list[Any] = Field(default_factory=list)
    env: dict[str, Any] = Field(default_factory=dict)
    cwd: str | None = None
    headers: dict[str, Any] = Field(default_factory=dict)
    auth_token: Any = None
    transport: Literal["streamable-http", "sse", "stdio"] | None = None
    mode: Literal["auto", "legacy"] = "auto"
    timeout: float | None = None
    pin: bool = False
    oauth: McpOAuth | None = None
    elicitation: Literal["defaults"] | None = None


class McpSchemaItem(Item):
    """An ``mcp-schema`` item, written by the MCP service: what the live server says of a tool.

    The key is that of the ``mcp`` item; the fields keep MCP's own spelling.
    """

    input_schema: dict[str, Any] | bool | None = Field(
        default=None, alias="inputSchema", validation_alias=AliasChoices("inputSchema", "input_schema")
    )
    output_schema: dict[str, Any] | None = Field(default=None, alias="outputSchema")
    description: str | None = None
    annotations: dict[str, Any] | None = None


class AgentProfileItem(Item):
    """An ``agent-profile`` item: a named agent. Absent settings take the service's defaults."""

    model: str | None = None
    group: list[str] | None = None
    prompt: str | None = None
    max_iterations: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)
    max_observation_chars: int | None = Field(default=None, ge=1)
    max_tools: int | None = Field(default=None, ge=1)
    timeout: float | None = Field(default=None, gt=0)


class PromptItem(Item):
    """A ``prompt`` item with a key ``template.<id>``."""

    id: str | None = None
    prompt: str
    response_type: Literal["text", "json"] = "text"
    output_schema: Any = Field(default=None, alias="schema")
