"""Where the gateway listens, whom it lets in, and its limits."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field

from trustgraph_flow.schema.errors import SetupError


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """``port`` 0 takes a free one. ``token`` None lets everybody in, and so is allowed on loopback only."""

    host: str = "127.0.0.1"
    port: int = 8888
    token: str | None = field(default=None, repr=False)
    max_body: int = 4 * 1024 * 1024
    """Bytes of a request body or a socket frame; a bus message takes at most 5 MB."""
    body_seconds: float = 30.0
    """How long a body may take to arrive, and a socket's first frame."""
    max_socket_requests: int = 64
    """Requests under way at once on one socket."""
    origins: frozenset[str] = frozenset()
    """Foreign origins, like ``https://ops.example``, whose pages may call; a browser's own rules stay."""

    def check(self) -> None:
        """Raises SetupError with the fix."""
        if not 0 <= self.port <= 65535:
            raise SetupError(f"--port {self.port}: a port is a number from 0 to 65535")
        if self.token is not None and not re.fullmatch(r"[!-~]+", self.token):
            raise SetupError("--token: give one or more ASCII characters without spaces, or no token")
        if self.token is None and not is_loopback(self.host):
            raise SetupError(
                f"--host {self.host} can be reached from other machines: give a --token that clients must "
                "show, or listen on 127.0.0.1"
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``; a name that is not surely so counts as not."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
