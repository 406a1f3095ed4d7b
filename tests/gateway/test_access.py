"""Who is let in, and what every answer carries."""

from __future__ import annotations

import socket

import aiohttp
import pytest
from behind_gateway import Items, StartGateway

from trustgraph_flow.bus import Bus
from trustgraph_flow.gateway import Gateway, GatewaySettings
from trustgraph_flow.schema.errors import SetupError

GUARDED = ["/", "/api/v1/ready", "/api/metrics", "/api/v1/config", "/nothing"]
TOKEN = "tok-1"


@pytest.mark.parametrize("path", GUARDED)
@pytest.mark.parametrize("sent", [None, "Bearer wrong", f"Basic {TOKEN}", "Bearer", "Bearer \udcff"])
async def test_without_the_token_nothing_but_health_is_reached(
    start_gateway: StartGateway, path: str, sent: str | None
) -> None:
    gateway = await start_gateway(token=TOKEN)
    headers = {"Authorization": sent} if sent else {}
    async with (
        aiohttp.ClientSession(gateway.url) as http,
        http.get(path, headers=headers) as refused,
        http.get("/api/v1/health") as health,
    ):
        assert refused.status == 401
        assert "token" in (await refused.json())["error"]
        assert TOKEN not in await refused.text()
        assert (await health.json())["status"] == "alive"


async def test_the_token_lets_in(start_gateway: StartGateway, items: Items) -> None:
    gateway = await start_gateway(token=TOKEN)
    async with aiohttp.ClientSession(gateway.url, headers={"Authorization": f"bearer {TOKEN}"}) as http:
        async with http.post("/api/v1/config", json={"operation": "list", "type": "tool"}) as response:
            assert (await response.json())["directory"] == []
        async with http.get("/") as page:
            assert page.status == 200


async def test_every_answer_has_the_security_headers_and_none_for_other_sites(gateway: Gateway) -> None:
    async with aiohttp.ClientSession(gateway.url) as http:
        for path in ("/", "/api/v1/health", "/nothing", "/api/v1/config"):
            async with http.get(path) as response:
                headers = response.headers
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Referrer-Policy"] == "no-referrer"
            assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
            assert [name for name in headers if name.lower().startswith("access-control-")] == []


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "http://["])
async def test_a_page_of_another_site_may_not_call(gateway: Gateway, origin: str) -> None:
    async with aiohttp.ClientSession(gateway.url, headers={"Origin": origin}) as http:
        async with http.post("/api/v1/config", data="{}") as response:
            assert response.status == 403
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            await http.ws_connect("/api/v1/socket")


async def test_our_own_page_and_an_allowed_origin_may_call(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(origins=frozenset({"https://ops.example"}))
    async with aiohttp.ClientSession(gateway.url) as http:
        for origin in (gateway.url, "https://ops.example"):
            async with http.get("/api/v1/health", headers={"Origin": origin}) as response:
                assert response.status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8888", "[", ""])
async def test_a_foreign_name_for_this_machine_may_not_call(gateway: Gateway, host: str) -> None:
    async with (
        aiohttp.ClientSession(gateway.url) as http,
        http.get("/api/v1/health", headers={"Host": host}) as response,
    ):
        assert response.status in (400, 403)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "gateway.example", ""])
async def test_an_address_that_others_reach_needs_a_token(bus: Bus, host: str) -> None:
    with pytest.raises(SetupError, match="--token"):
        await Gateway(bus, GatewaySettings(host=host, port=0)).start()


@pytest.mark.parametrize("token", ["", " ", "two words", "tok\u00e9n", "tok\n"])
async def test_a_token_that_no_header_can_carry_is_refused(bus: Bus, token: str) -> None:
    with pytest.raises(SetupError, match="ASCII"):
        await Gateway(bus, GatewaySettings(port=0, token=token)).start()


async def test_a_port_in_use_is_named_with_the_way_out(bus: Bus) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SetupError, match=rf"port {port} .* is in use .*--port"):
            await Gateway(bus, GatewaySettings(port=port)).start()


async def test_an_address_that_this_machine_lacks_is_named(bus: Bus) -> None:
    with pytest.raises(SetupError, match=r"no address 192\.0\.2\.1"):
        await Gateway(bus, GatewaySettings(host="192.0.2.1", port=0, token="t")).start()


@pytest.mark.parametrize("port", [-1, 65536])
async def test_a_number_that_is_no_port_is_refused(bus: Bus, port: int) -> None:
    with pytest.raises(SetupError, match="0 to 65535"):
        await Gateway(bus, GatewaySettings(port=port)).start()


async def test_a_gateway_on_all_addresses_says_how_this_machine_reaches_it(
    start_gateway: StartGateway,
) -> None:
    gateway = await start_gateway(host="0.0.0.0", token="t")
    assert gateway.url.startswith("http://127.0.0.1:")
    assert not gateway.url.endswith(":0")


def test_the_token_is_not_in_the_settings_text() -> None:
    assert "tok-1" not in repr(GatewaySettings(token="tok-1"))


async def test_the_page_lists_the_services_and_loads_nothing(gateway: Gateway) -> None:
    async with aiohttp.ClientSession(gateway.url) as http, http.get("/") as response:
        page = await response.text()
        assert response.content_type == "text/html"
    assert "/api/v1/flow/default/service/agent" in page
    assert "<script" not in page
    assert "src=" not in page
