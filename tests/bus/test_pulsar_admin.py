"""Preparing a cluster through its admin API."""

from __future__ import annotations

import uuid

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from bus_words import Word, shout

from trustgraph_flow.bus import Bus, BusSettings
from trustgraph_flow.bus.admin import prepare
from trustgraph_flow.bus.broker import free_port
from trustgraph_flow.schema.errors import SetupError, Unavailable


async def test_a_new_tenant_can_be_used_at_once_and_preparing_again_changes_nothing(
    request: pytest.FixtureRequest, broker_url: str
) -> None:
    admin = request.config.getoption("--pulsar-admin")
    if not admin:
        pytest.skip("needs the admin API of a running Pulsar: --pulsar-admin")
    settings = BusSettings(url=broker_url, tenant=f"new{uuid.uuid4().hex[:8]}")
    await prepare(admin, settings)
    await prepare(admin + "/", settings)
    async with Bus(settings) as bus:
        await bus.serve("agent", shout)
        assert (await bus.request("agent", Word(text="x"), Word)).text == "X"


async def test_an_admin_api_that_does_not_answer_is_named() -> None:
    port = free_port()
    with pytest.raises(Unavailable, match=f"127.0.0.1:{port} can't be used.*check --pulsar-admin"):
        await prepare(f"http://127.0.0.1:{port}", BusSettings(url="pulsar://x"))


async def test_where_the_token_may_not_create_the_error_says_what_to_ask_for() -> None:
    seen: list[str | None] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        if request.method == "PUT":
            return web.Response(status=403, text="no")
        if request.path == "/admin/v2/clusters":
            return web.json_response(["c1"])
        return web.Response(status=404)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as server:
        with pytest.raises(SetupError, match="pulsar-admin tenants create acme") as caught:
            await prepare(str(server.make_url("/")), BusSettings(url="x", token="tok-1", tenant="acme"))
    assert set(seen) == {"Bearer tok-1"}
    assert "tok-1" not in caught.value.message
