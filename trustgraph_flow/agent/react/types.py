"""What the parts of the agent hand one another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from trustgraph_flow.bus import Bus
from trustgraph_flow.schema.agent import AgentMessage

M = TypeVar("M", bound=BaseModel)

Emit = Callable[[AgentMessage], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The way from a tool to the services of its workspace."""

    bus: Bus
    workspace: str

    async def request(self, service: str, body: BaseModel, reply: type[M], *, deadline: float) -> M:
        """One bus request; ``deadline`` in Unix seconds. Raises the errors of ``Bus.request``."""
        return await self.bus.request(service, body, reply, workspace=self.workspace, deadline=deadline)


@dataclass(frozen=True, slots=True)
class Call:
    """One tool invocation. ``call_id`` stays the same when an interrupted run takes the call up again."""

    call_id: str
    run_id: str
    deadline: float
    """Unix seconds."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What came of a call, as the model will read it."""

    text: str
    is_error: bool = False
    fault: str | None = None
    """The fault kind of ``schema.mcp``; None for a success."""
    duration_ms: float | None = None
    content: list[dict[str, Any]] = field(default_factory=list)


class ToolImpl(Protocol):
    """Something that can be called with one dict of arguments."""

    def get_arguments(self) -> list[dict[str, Any]]:
        """The declared argument list, as the operator wrote it; [] where none is declared."""
        ...

    async def invoke(self, arguments: dict[str, Any], call: Call) -> Observation:
        """Runs the tool with arguments that have passed the check."""
        ...


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The limits of one run, after profile and request have been read."""

    model: str | None = None
    prompt: str = "agent-react"
    max_iterations: int = 10
    """Steps that may call tools; after them the model is asked once more, for the answer alone."""
    max_tokens: int | None = None
    """Tokens in and out of all model calls; at that many the model is asked once more, as above."""
    max_observation_chars: int = 200_000
    """Characters that the observations of a run may have in its prompts before later ones are shortened."""
    max_tools: int = 20
    """Tools shown in a prompt; more are ranked and cut."""
    timeout: float = 600.0
    """Seconds for the whole run."""
