"""The MCP client service: one held connection a server, readable results, faults told apart."""

from .connection import Connection
from .faults import McpFault
from .limits import Limits
from .results import NotAResult, ResultLimits, read_result
from .service import McpToolService

__all__ = [
    "Connection",
    "Limits",
    "McpFault",
    "McpToolService",
    "NotAResult",
    "ResultLimits",
    "read_result",
]
