"""An MCP server whose tool has a side effect: ``python counting_server.py FILE [SIGNAL RELEASE]``.

``count`` adds a line to FILE. With the two named pipes it then says on SIGNAL that it is in the call, and
waits until somebody opens RELEASE.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mcp.server import MCPServer

server = MCPServer("counter")


@server.tool()
def count(key: str) -> str:
    """Count a key"""
    file, *pipes = map(Path, sys.argv[1:])
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{key}\n".encode())
    os.close(handle)
    if pipes:
        signal, release = pipes
        signal.write_text("in the call")
        release.read_text()
    return f"counted {key}"


if __name__ == "__main__":
    server.run("stdio")
