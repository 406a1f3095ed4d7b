"""Where the sign-in page of an MCP server sends the browser back to."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
from behind_gateway import SECONDS, StartGateway

from trustgraph_flow.bus import Bus
from trustgraph_flow.schema.mcp import SIGN_IN_CHANNEL

PLACE = "/api/v1/sign-in"


async def test_what_a_browser_brings_back_is_told_to_every_process_and_needs_no_token(
    bus: Bus, start_gateway: StartGateway
) -> None:
    told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    await bus.listen(SIGN_IN_CHANNEL, told.put)
    gateway = await start_gateway(token="t")
    async with aiohttp.ClientSession(gateway.url) as http:
        brought = {"code": "c", "state": "s", "iss": "http://a", "more": "x"}
        async with http.get(PLACE, params=brought) as answer:
            assert (answer.status, answer.content_type) == (200, "text/plain")
            assert "close this page" in await answer.text()
        async with http.get(PLACE, params={"error": "access_denied", "state": "s"}) as answer:
            assert "refused" in await answer.text()
        for wrong in ({}, {"state": "s" * 1000}):
            async with http.get(PLACE, params=wrong) as answer:
                assert answer.status == 400
    async with asyncio.timeout(SECONDS):
        first, second = await told.get(), await told.get()
    assert (first["code"], first["state"], first["iss"]) == ("c", "s", "http://a")
    assert (second.get("code"), second["error"]) == (None, "access_denied")
