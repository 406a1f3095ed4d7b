"""A server made with the official SDK, over stdio or in the test's own process over HTTP."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import AudioContent, ImageContent, TextContent, ToolAnnotations
from pydantic import BaseModel


class Reading(BaseModel):
    place: str
    degrees: float


@dataclass
class Happenings:
    """What a test in the same process can wait for and look at."""

    started: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    calls: list[Any] = field(default_factory=list)


def build(happenings: Happenings | None = None) -> MCPServer:
    seen = happenings or Happenings()
    server = MCPServer("demo")

    @server.tool()
    def echo(text: str) -> str:
        """Give the text back"""
        seen.calls.append(text)
        return text

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def add(a: int, b: int = 1) -> int:
        """Add two numbers"""
        return a + b

    @server.tool(structured_output=False)
    def take_anything(arguments: dict[str, Any] | None = None) -> str:
        return repr(arguments)

    @server.tool()
    def fail(why: str) -> str:
        raise ToolError(why)

    @server.tool()
    def measure(place: str) -> Reading:
        return Reading(place=place, degrees=21.5)

    @server.tool(structured_output=False)
    def mixed() -> list[Any]:
        return [
            TextContent(text="saved"),
            ImageContent(data="iVBORw0KGgo=", mime_type="image/png"),
            AudioContent(data="UklGRg==", mime_type="audio/wav"),
        ]

    @server.tool(structured_output=False)
    async def hang() -> str:
        seen.started.set()
        try:
            await seen.release.wait()
        finally:
            seen.stopped.set()
        return "released"

    @server.tool(structured_output=False)
    async def work_until_released(ctx: Context) -> str:
        steps = 0
        while not seen.release.is_set():
            steps += 1
            await ctx.report_progress(steps, None, f"step {steps} " + "x" * 500)
            await asyncio.sleep(0.02)
        return "done"

    @server.tool(structured_output=False)
    async def swap_tools(ctx: Context) -> str:
        """Takes alpha away, puts beta there, and tells the client"""
        server.remove_tool("alpha")
        server.add_tool(lambda: "beta here", name="beta", structured_output=False)
        await ctx.notify_tools_changed()
        return "swapped"

    @server.tool(structured_output=False)
    def alpha() -> str:
        return "alpha here"

    return server


if __name__ == "__main__":
    if len(sys.argv) > 1:
        build().run("sse", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        build().run("stdio")
