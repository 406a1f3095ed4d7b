"""What a connection goes to: two items that say the same share one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .stdio import Command


@dataclass(frozen=True, slots=True)
class OAuth:
    """How we sign in at a server: see the ``oauth`` of its item. ``scopes`` are divided by spaces."""

    flow: Literal["authorization-code", "client-credentials"]
    client_id: str | None
    client_secret: str | None = field(repr=False)
    scopes: str
    issuer: str | None
    auth_method: Literal["client_secret_basic", "client_secret_post"]
    redirect_uri: str


@dataclass(frozen=True, slots=True)
class Target:
    """Either ``url`` (with ``headers``) or ``command`` is set. ``label`` names the server in texts and
    logs."""

    workspace: str
    label: str = field(compare=False)
    url: str | None = None
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    command: Command | None = field(default=None, repr=False)
    mode: Literal["auto", "legacy"] = "auto"
    sse: bool = False
    """Whether ``url`` speaks the old HTTP+SSE transport."""
    oauth: OAuth | None = None
    answers_forms: bool = False
    """Whether questions to a person are answered by their defaults."""
    secrets: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """Credentials, which no text that leaves us may hold."""
