"""Artifacts of runs as downloads."""

from __future__ import annotations

import base64
from contextlib import aclosing
from urllib.parse import quote

from aiohttp import web

from trustgraph_flow.bus import Bus
from trustgraph_flow.schema.errors import NotFound
from trustgraph_flow.schema.mcp import McpToolRequest, McpToolResponse

from .dispatch import workspace_of

ARTIFACT = "/api/v1/artifacts/{id}"
SECONDS = 60.0


async def download(bus: Bus, request: web.Request) -> web.StreamResponse:
    """The artifact of the workspace that the query names. It is never shown in the page: who made it is not
    known to be well-meaning."""
    workspace = workspace_of({}, dict(request.query))
    asked = McpToolRequest(operation="artifact", name=request.match_info["id"])
    response: web.StreamResponse | None = None
    frames = bus.stream("mcp-tool", asked, McpToolResponse, workspace=workspace, timeout=SECONDS)
    async with aclosing(frames):
        try:
            async for frame in frames:
                if response is None:
                    response = _begun(frame.artifact or {})
                    await response.prepare(request)
                await response.write(base64.b64decode(frame.data or ""))
        except NotFound as error:
            raise web.HTTPNotFound(text=error.message) from None
    assert response is not None
    await response.write_eof()
    return response


def _begun(artifact: dict[str, object]) -> web.StreamResponse:
    name = quote(str(artifact.get("name") or "artifact"), safe="")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    headers["Content-Type"] = str(artifact.get("mime_type") or "application/octet-stream")
    headers["Content-Length"] = str(artifact.get("size") or 0)
    return web.StreamResponse(headers=headers)
