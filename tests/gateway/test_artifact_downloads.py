"""Artifacts of runs as downloads."""

from __future__ import annotations

import base64

import aiohttp
import pytest

from trustgraph_flow.bus import Bus, Request
from trustgraph_flow.client import AsyncClient
from trustgraph_flow.gateway import Gateway
from trustgraph_flow.schema.errors import NotFound, Unavailable
from trustgraph_flow.schema.mcp import McpToolRequest, McpToolResponse

DATA = bytes(range(256)) * 20


async def in_two_frames(request: Request) -> McpToolResponse:
    asked = request.parse(McpToolRequest)
    assert asked.operation == "artifact"
    if (request.workspace, asked.name) != ("north", "a1"):
        raise NotFound(f'there is no artifact "{asked.name}"')
    about = {"id": "a1", "mime_type": "text/html", "name": 'ü "x".html', "size": len(DATA)}
    await request.send(McpToolResponse(artifact=about, data=base64.b64encode(DATA[:5000]).decode()))
    return McpToolResponse(data=base64.b64encode(DATA[5000:]).decode())


async def test_an_artifact_is_downloaded_and_never_shown(bus: Bus, http: aiohttp.ClientSession) -> None:
    await bus.serve("mcp-tool", in_two_frames)
    async with http.get("/api/v1/artifacts/a1", params={"workspace": "north"}) as answer:
        assert answer.status == 200
        assert await answer.read() == DATA
        assert answer.headers["Content-Disposition"] == ("attachment; filename*=UTF-8''%C3%BC%20%22x%22.html")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert answer.content_type == "text/html"


async def test_another_workspace_and_another_id_find_nothing(bus: Bus, http: aiohttp.ClientSession) -> None:
    await bus.serve("mcp-tool", in_two_frames)
    for path in ("/api/v1/artifacts/a1", "/api/v1/artifacts/a2?workspace=north"):
        async with http.get(path) as answer:
            assert answer.status == 404
            assert "there is no artifact" in (await answer.json())["error"]


async def test_a_download_needs_the_token(bus: Bus, start_gateway) -> None:
    await bus.serve("mcp-tool", in_two_frames)
    gateway = await start_gateway(token="t")
    async with aiohttp.ClientSession(gateway.url) as http, http.get("/api/v1/artifacts/a1") as answer:
        assert answer.status == 401


async def test_the_client_downloads_it(bus: Bus, gateway: Gateway) -> None:
    await bus.serve("mcp-tool", in_two_frames)
    async with AsyncClient(gateway.url, workspace="north") as client:
        found = await client.artifact("a1")
        assert (found.name, found.mime_type, found.data) == ('ü "x".html', "text/html", DATA)
        with pytest.raises(NotFound, match="no artifact"):
            await client.artifact("a2")


async def test_the_client_is_told_why_there_is_no_download(bus: Bus, gateway: Gateway) -> None:
    async def away(request: Request) -> McpToolResponse:
        raise Unavailable("the store is away")

    await bus.serve("mcp-tool", away)
    async with AsyncClient(gateway.url) as client:
        with pytest.raises(Unavailable, match="the store is away"):
            await client.artifact("a1")


async def test_the_operation_is_not_for_clients(bus: Bus, http: aiohttp.ClientSession) -> None:
    body = {"operation": "artifact", "name": "a1"}
    async with http.post("/api/v1/flow/default/service/mcp-tool", json=body) as answer:
        assert answer.status == 400
