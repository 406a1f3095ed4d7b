"""Where the gateway is, and who asks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from yarl import URL

from trustgraph_flow.schema.config import DEFAULT_WORKSPACE
from trustgraph_flow.schema.errors import SetupError

DEFAULT_URL = "http://127.0.0.1:8888"


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """``url`` without a path, ``token`` None where the gateway asks for none, ``timeout`` in seconds.

    The timeout holds for requests that do not run tools or models; those take one of their own.
    Raises SetupError where ``url`` is no http or https address.
    """

    url: str = DEFAULT_URL
    token: str | None = field(default=None, repr=False)
    workspace: str = DEFAULT_WORKSPACE
    timeout: float = 60.0

    def __post_init__(self) -> None:
        try:
            url = URL(self.url)
        except ValueError:
            url = URL()
        if url.scheme not in ("http", "https") or not url.host:
            raise SetupError(
                f"{self.url!r} is no gateway address: it must look like {DEFAULT_URL} (--url, TRUSTGRAPH_URL)"
            )

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> ClientSettings:
        """TRUSTGRAPH_URL, TRUSTGRAPH_TOKEN and TRUSTGRAPH_WORKSPACE; an empty one counts as not set."""
        return cls(
            url=environ.get("TRUSTGRAPH_URL") or DEFAULT_URL,
            token=environ.get("TRUSTGRAPH_TOKEN") or None,
            workspace=environ.get("TRUSTGRAPH_WORKSPACE") or DEFAULT_WORKSPACE,
        )
