"""What a model provider is, and how it fails.

A provider turns one prompt into a stream of chunks. It knows nothing of the bus, of agents or of steps.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from trustgraph_flow.schema.errors import TrustGraphError
from trustgraph_flow.schema.llm import TextCompletionRequest, TextCompletionResponse


class ModelError(TrustGraphError):
    """A model call that brought no reply. ``message`` is one line that names the server and the fix."""

    type = "model-error"


class ModelUnreachable(ModelError):
    """No connection, or one that broke before the reply was whole."""

    type = "model-unreachable"


class ModelTimedOut(ModelUnreachable):
    """Connected, then silent for too long. Not tried again: that would take as long."""


class ModelRefusedCredentials(ModelError):
    """401 or 403."""

    type = "model-refused-credentials"


class ModelBadAnswer(ModelError):
    """The server answered, but not in the protocol: a web page, nothing, a foreign JSON document."""

    type = "model-bad-answer"


class ModelRejected(ModelError):
    """The server understood the request and does not take it; the message holds its own words, shortened."""

    type = "model-rejected"


class ModelOverloaded(ModelError):
    """429 or 5xx, still so after the retries or with a waiting time beyond the deadline."""

    type = "model-overloaded"


@dataclass(frozen=True, slots=True)
class Capabilities:
    model: str
    constrained: bool
    """Whether replies can be held to a JSON schema."""
    context_tokens: int | None
    """How many tokens prompt and reply may have together; None where the server does not say."""


class Provider(Protocol):
    """One model server. ``deadline`` is in Unix seconds; past it the work is ended with DeadlineExceeded."""

    async def describe(self, model: str | None = None, *, deadline: float | None = None) -> Capabilities:
        """What ``model``, or the provider's own one, can do. Raises ModelError."""
        ...

    def complete(
        self, request: TextCompletionRequest, *, deadline: float | None = None
    ) -> AsyncGenerator[TextCompletionResponse, None]:
        """The reply in chunks; a single one unless ``request.streaming``.

        Only the last response carries usage and the finish reason, with or without text. Closing the
        generator early ends the work at the server too. Raises ModelError.
        """
        ...

    async def close(self) -> None:
        """Let go of connections; the provider is of no use afterwards."""
        ...
