"""Progress of a call as interim frames: short, and a few a second at most."""

from __future__ import annotations

import time

from trustgraph_flow.bus import Request
from trustgraph_flow.schema.mcp import McpToolResponse

MAX_CHARS = 200
EVERY_SECONDS = 0.25


class ProgressFrames:
    """Passes on what the server says of its progress, to the asker of ``request``."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._not_before = 0.0

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        now = time.monotonic()
        if now < self._not_before:
            return
        self._not_before = now + EVERY_SECONDS
        body = {"progress": progress, "total": total, "message": (message or "")[:MAX_CHARS] or None}
        await self._request.send(McpToolResponse(progress={k: v for k, v in body.items() if v is not None}))
