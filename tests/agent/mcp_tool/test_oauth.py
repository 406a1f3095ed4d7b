"""Servers that ask for a sign-in."""

from __future__ import annotations

import asyncio
import logging

import pytest
import structlog
from oauth_world import OAuthServer, agree

from trustgraph_flow.agent.mcp_tool import read_result
from trustgraph_flow.agent.mcp_tool.oauth import SignInAuth
from trustgraph_flow.schema.mcp import SIGN_IN_CHANNEL, McpToolRequest

SECRET = "s3cret-of-the-client"


@pytest.fixture
async def server():
    server = OAuthServer()
    await server.start()
    yield server
    await server.stop()


def by_credentials(server: OAuthServer, **more) -> dict:
    oauth = {"flow": "client-credentials", "client-id": "us", "client-secret": SECRET, **more}
    return {"url": server.url, "oauth": oauth}


async def serve(world, item: dict, *tools: str) -> None:
    await world.put(mcp_server={"locked": item}, mcp={tool: {"server": "locked"} for tool in tools or ("t",)})


async def test_a_client_signs_in_by_its_secret_and_the_call_goes_through(world, server):
    await serve(world, by_credentials(server, scopes=["read", "write"]))
    answer = await world.call("t")
    assert (answer.text, answer.fault) == ("signed in", None)
    assert len(server.asked) == 1
    assert server.asked[0]["login"] == f"us:{SECRET}"
    assert server.asked[0]["scope"] == "read write"


async def test_many_calls_that_are_refused_at_once_sign_in_once(world, server):
    await serve(world, by_credentials(server))
    assert (await world.call("t")).text == "signed in"
    server.tokens.clear()
    answers = await asyncio.gather(*(world.call("t") for _ in range(10)))
    assert {answer.text for answer in answers} == {"signed in"}
    assert len(server.asked) == 2


async def test_a_slow_call_does_not_hold_up_another_one(world, server):
    release = asyncio.Event()

    async def answer(request, message):
        if message["params"]["arguments"].get("slow"):
            await release.wait()
        return {"content": [{"type": "text", "text": "done"}]}

    server.call = answer
    await serve(world, by_credentials(server))
    slow = asyncio.create_task(world.call("t", slow=True))
    async with asyncio.timeout(20):
        await server.arrived.wait()
        assert (await world.call("t")).text == "done"
    assert not slow.done()
    release.set()
    assert (await slow).text == "done"


async def test_tokens_are_kept_in_the_store_and_neither_logged_nor_on_the_bus(world, server, caplog):
    caplog.set_level(logging.DEBUG)
    with structlog.testing.capture_logs() as logged:
        await serve(world, by_credentials(server))
        answer = await world.call("t")
        tools = await world.ask(McpToolRequest(operation="discover", name="locked"))
    (token,) = server.tokens
    kept = await world.store.sign_ins.get("default", f"{server.url} us")
    assert kept.tokens["access_token"] == token
    assert kept.expires_at is not None
    for text in (answer.model_dump_json(), tools.model_dump_json(), str(logged), caplog.text):
        assert token not in text
        assert SECRET not in text


async def test_another_process_goes_on_with_the_token_of_the_store(world, server, connect):
    await serve(world, by_credentials(server))
    assert (await world.call("t")).text == "signed in"
    target = world.service._directory.server("default", "locked")
    connection = connect(target, auth=SignInAuth(target, world.store.sign_ins))
    assert read_result(await connection.call("t", {})).text == "signed in"
    assert len(server.asked) == 1


async def test_a_secret_goes_to_no_authorization_server_that_the_item_does_not_name(world):
    elsewhere = OAuthServer()
    await elsewhere.start()
    server = OAuthServer(issuer=elsewhere.place)
    await server.start()
    try:
        await serve(world, by_credentials(server))
        answer = await world.call("t")
        assert answer.fault == "credentials-refused"
        assert f"leads to the authorization server {elsewhere.place}" in answer.text
        assert '"issuer"' in answer.text
        assert not elsewhere.asked
        await serve(world, by_credentials(server, issuer=elsewhere.place))
        server.tokens = elsewhere.tokens
        assert (await world.call("t")).text == "signed in"
    finally:
        await server.stop()
        await elsewhere.stop()


async def test_refused_credentials_are_told_with_the_fix_and_nothing_ran(world, server):
    server.token_status = 401
    await serve(world, by_credentials(server))
    answer = await world.call("t")
    assert answer.fault == "credentials-refused"
    assert "invalid_client" in answer.text
    assert '"oauth" in the server\'s config item' in answer.text
    assert not server.methods("tools/call")


async def test_a_server_that_asks_without_any_way_to_sign_in_names_the_fix(world, server):
    await serve(world, {"url": server.url})
    answer = await world.call("t")
    assert answer.fault == "credentials-refused"
    assert 'an "oauth"' in answer.text


async def sign_in(world, server: OAuthServer) -> str:
    request = McpToolRequest(operation="sign-in", name="locked")
    asked = await world.ask(request)
    assert asked.sign_in_page is not None, asked.text
    again = await world.ask(request)
    assert again.sign_in_page == asked.sign_in_page
    await world.bus.broadcast(SIGN_IN_CHANNEL, await agree(asked.sign_in_page))
    async with asyncio.timeout(20):
        while (answer := await world.ask(request)).sign_in_page == asked.sign_in_page:
            pass
    return answer.text


async def test_a_person_signs_in_once_and_calls_go_through(world, server):
    await serve(world, {"url": server.url, "oauth": {}})
    before = await world.call("t")
    assert before.fault == "credentials-refused"
    assert "tg-sign-in-mcp" in before.text
    assert server.registered == 0
    assert await sign_in(world, server) == 'Signed in at "locked".'
    assert (await world.call("t")).text == "signed in"
    assert server.registered == 1


async def test_a_token_that_is_not_taken_any_more_is_renewed_without_the_person(world, server):
    await serve(world, {"url": server.url, "oauth": {"client-id": "known"}})
    await sign_in(world, server)
    assert (await world.call("t")).text == "signed in"
    server.tokens.clear()
    assert (await world.call("t")).text == "signed in"
    assert [form["grant_type"] for form in server.asked] == ["authorization_code", "refresh_token"]
    server.tokens.clear()
    server.token_status = 400
    assert "by a person" in (await world.call("t")).text


async def test_a_person_who_refuses_is_told_so(world, server):
    await serve(world, {"url": server.url, "oauth": {}})
    request = McpToolRequest(operation="sign-in", name="locked")
    asked = await world.ask(request)
    state = (await agree(asked.sign_in_page))["state"]
    await world.bus.broadcast(SIGN_IN_CHANNEL, {"state": state, "error": "access_denied"})
    async with asyncio.timeout(20):
        while (answer := await world.ask(request)).sign_in_page == asked.sign_in_page:
            pass
    assert answer.fault == "credentials-refused"
    assert "access_denied" in answer.text
    assert (await world.ask(request)).sign_in_page not in (None, asked.sign_in_page)


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ({"command": "x", "oauth": {}}, "oauth"),
        ({"url": "http://x/mcp", "auth-token": "abcd", "oauth": {}}, "beside"),
        ({"url": "http://x/mcp", "oauth": {"flow": "client-credentials"}}, "client-secret"),
        ({"url": "http://x/mcp", "oauth": {"client-secret": "abcd"}}, "client-id"),
        (
            {"url": "http://x/mcp", "oauth": {"client-id": "a", "client-secret": {"env": "NO_SUCH_VAR"}}},
            "NO_SUCH_VAR is not set",
        ),
        ({"url": "http://x/mcp", "oauth": {"issuer": "x"}}, "oauth.issuer"),
        ({"url": "http://x/mcp", "oauth": {"flow": "magic"}}, "oauth.flow"),
    ],
)
async def test_an_oauth_that_can_not_work_disables_the_item(world, item, reason):
    await world.put(mcp={"t": item})
    answer = await world.call("t")
    assert answer.fault == "not-reached"
    assert reason in answer.text
