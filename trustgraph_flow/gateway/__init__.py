"""HTTP and WebSocket for the clients of TrustGraph: checks what comes in and passes it to the bus."""

from .server import Gateway
from .settings import GatewaySettings

__all__ = ["Gateway", "GatewaySettings"]
