"""A real MCP server with one cheap tool, on the official SDK. ``python mcp_server.py PORT``"""

from __future__ import annotations

import sys

import uvicorn
from mcp.server import MCPServer

server = MCPServer("sums")


@server.tool()
def add(a: int, b: int) -> str:
    """Add two integers."""
    return str(a + b)


if __name__ == "__main__":
    uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
