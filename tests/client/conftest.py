"""The fixtures of a gateway in front of small services."""

from behind_gateway import agent, gateway, http, items, start_gateway

__all__ = ["agent", "gateway", "http", "items", "start_gateway"]
