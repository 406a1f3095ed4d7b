"""Servers behind a URL."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from aiohttp import web
from mcp_world import QUICK, reply, rpc_error, serve_asgi, text_result
from sdk_server import Happenings, build

from trustgraph_flow.agent.mcp_tool import McpFault, read_result
from trustgraph_flow.agent.mcp_tool.target import Target

HTML = "<html><head><title>500</title><style>p {}</style></head><body><p>Traceback: boom</p></body></html>"


async def ok(request, message):
    return text_result(str(message["params"]["arguments"].get("n", "ok")))


def target(url, **more):
    return Target(workspace="default", label="demo", url=url, **more)


async def fault_of(call) -> McpFault:
    with pytest.raises(McpFault) as caught:
        await call
    return caught.value


async def said(connection, tool="t", arguments=None, **options):
    return read_result(await connection.call(tool, arguments or {}, **options)).text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_both_eras_are_spoken_over_one_session(connect, mode):
    async with serve_asgi(build().streamable_http_app()) as port:
        connection = connect(target(f"http://127.0.0.1:{port}/mcp", mode=mode))
        texts = await asyncio.gather(*(said(connection, "add", {"a": n, "b": 1}) for n in range(50)))
        assert texts == [str(n + 1) for n in range(50)]
        await connection.close()


async def test_two_hundred_calls_at_once_each_get_their_own_answer(connect, raw_http):
    server = await raw_http(ok)
    connection = connect(server.url)
    texts = await asyncio.gather(*(said(connection, arguments={"n": n}) for n in range(200)))
    assert texts == [str(n) for n in range(200)]


async def test_no_more_calls_than_the_limit_are_sent_at_once(connect, raw_http):
    running, most, release = 0, 0, asyncio.Event()

    async def count(request, message):
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 4:
            release.set()
        await release.wait()
        running -= 1
        return text_result("ok")

    server = await raw_http(count)
    connection = connect(server.url, replace(QUICK, calls_at_once=4))
    await asyncio.gather(*(said(connection) for _ in range(12)))
    assert most == 4


async def test_arguments_are_always_on_the_wire(connect, raw_http):
    server = await raw_http(ok)
    await said(connect(server.url))
    assert server.methods()[0]["params"]["arguments"] == {}


async def test_no_capability_is_advertised_that_is_not_served(connect, raw_http):
    server = await raw_http(ok)
    await said(connect(server.url))
    assert server.methods("initialize")[0]["params"]["capabilities"] == {}


async def test_the_server_gets_its_own_name_of_a_tool(connect, raw_http):
    names = ["calendar.update", "docs/append text", "New Tool", "a-b", "a_b", "a.b"]

    async def name(request, message):
        return text_result(message["params"]["name"])

    server = await raw_http(name)
    server.tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    connection = connect(server.url)
    assert [await said(connection, name) for name in names] == names


async def test_a_new_session_is_made_when_the_server_has_forgotten_ours_and_the_call_is_sent_once_more(
    connect, raw_http
):
    server = await raw_http(ok)
    connection = connect(target(server.url, mode="legacy"))
    await said(connection)
    forgotten = True

    def forget(request, message):
        nonlocal forgotten
        if message.get("method") == "initialize":
            forgotten = False
        if forgotten:
            return rpc_error({"id": None}, -32001, "Session not found", status=404)
        return None

    server.guard = forget
    assert await said(connection, arguments={"n": 7}) == "7"
    assert len(server.methods("initialize")) == 2


async def test_a_real_server_that_was_restarted_is_used_again(connect):
    async with serve_asgi(build().streamable_http_app()) as port:
        connection = connect(target(f"http://127.0.0.1:{port}/mcp", mode="legacy"))
        assert await said(connection, "add", {"a": 1}) == "2"
    async with serve_asgi(build().streamable_http_app(), port):
        assert await said(connection, "add", {"a": 2}) == "3"
        await connection.close()


@pytest.mark.parametrize("status", [400, 503])
async def test_another_refusal_of_the_session_is_an_error_and_the_next_call_starts_afresh(
    connect, raw_http, status
):
    server = await raw_http(ok)
    connection = connect(target(server.url, mode="legacy"))
    await said(connection)

    def refuse(request, message):
        if message.get("method") == "initialize":
            server.guard = lambda request, message: None
            return None
        return web.Response(status=status, text="no such session")

    server.guard = refuse
    fault = await fault_of(connection.call("t", {}))
    assert str(status) in fault.message
    assert fault.kind in ("not-reached", "outcome-unknown")
    assert await said(connection) == "ok"
    assert len(server.methods("initialize")) == 2


async def test_a_session_that_is_never_known_is_tried_a_few_times_only(connect, raw_http):
    server = await raw_http(ok)
    server.guard = lambda request, message: (
        web.Response(status=404) if message.get("method") == "tools/call" else None
    )
    fault = await fault_of(connect(target(server.url, mode="legacy")).call("t", {}))
    assert fault.kind == "not-reached"
    assert len(server.methods()) == 3


async def test_a_hanging_call_is_cancelled_on_the_server_at_its_deadline(connect):
    happened = Happenings()
    async with serve_asgi(build(happened).streamable_http_app()) as port:
        for mode in ("auto", "legacy"):
            happened.stopped.clear()
            connection = connect(target(f"http://127.0.0.1:{port}/mcp", mode=mode))
            await connection.catalogue()
            fault = await fault_of(connection.call("hang", {}, seconds=0.3))
            assert fault.kind == "timed-out"
            await asyncio.wait_for(happened.stopped.wait(), 10)
            await connection.close()


async def test_a_cancelled_caller_cancels_the_call_on_the_server_and_nothing_else(connect):
    happened = Happenings()
    async with serve_asgi(build(happened).streamable_http_app()) as port:
        for mode in ("auto", "legacy"):
            happened.started.clear()
            happened.stopped.clear()
            connection = connect(target(f"http://127.0.0.1:{port}/mcp", mode=mode))
            calling = asyncio.create_task(connection.call("hang", {}))
            await asyncio.wait_for(happened.started.wait(), 10)
            calling.cancel()
            await asyncio.wait_for(happened.stopped.wait(), 10)
            assert await said(connection, "add", {"a": 1}) == "2"
            await connection.close()


async def test_the_request_of_a_cancelled_call_is_given_up_so_that_a_hung_server_collects_none(
    connect, raw_http
):
    gone = asyncio.Event()

    async def hang(request, message):
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()

    server = await raw_http(hang)
    connection = connect(target(server.url, mode="legacy"))
    assert (await fault_of(connection.call("t", {}, seconds=0.3))).kind == "timed-out"
    await asyncio.wait_for(server.cancelled.wait(), 10)
    client = connection._link._client
    while client._posts or client._chores:
        await asyncio.gather(*client._chores)
        await asyncio.sleep(0)
    server.call = ok
    assert await said(connection) == "ok"


async def test_a_server_that_never_answers_the_end_of_a_session_does_not_hold_up_closing(
    connect, raw_http, monkeypatch
):
    monkeypatch.setattr("trustgraph_flow.agent.mcp_tool.http.NOTIFY_SECONDS", 0.1)
    asked = asyncio.Event()

    async def hang(request):
        asked.set()
        await asyncio.Event().wait()

    server = await raw_http(ok, delete=hang)
    connection = connect(target(server.url, mode="legacy"))
    await said(connection)
    await asyncio.wait_for(connection.close(), 10)
    assert asked.is_set()


async def test_progress_extends_the_deadline_up_to_the_hard_limit(connect):
    happened = Happenings()
    loop = asyncio.get_running_loop()
    async with serve_asgi(build(happened).streamable_http_app()) as port:
        connection = connect(f"http://127.0.0.1:{port}/mcp")
        await connection.catalogue()
        started = loop.time()

        async def watch(progress, total, message):
            if loop.time() - started > 1.2:
                happened.release.set()

        assert await said(connection, "work_until_released", seconds=1.0, on_progress=watch) == "done"
        happened.release.clear()
        fault = await fault_of(
            connection.call("work_until_released", {}, seconds=0.3, hard_seconds=0.6, on_progress=None)
        )
        assert fault.kind == "timed-out"
        await connection.close()


@pytest.mark.parametrize("status", [401, 403])
async def test_refused_credentials_are_told_apart_and_not_tried_again(connect, raw_http, status):
    server = await raw_http(ok)
    server.guard = lambda request, message: web.Response(status=status, text="bad token tok-B")
    for mode in ("auto", "legacy"):
        server.seen.clear()
        fault = await fault_of(connect(target(server.url, mode=mode)).call("t", {}))
        assert fault.kind == "credentials-refused"
        assert 'server "demo" refused the credentials' in fault.message
        assert "tok-B" not in fault.message
        assert len(server.seen) == 1


async def test_credentials_refused_in_the_middle_are_told_apart(connect, raw_http):
    server = await raw_http(ok)
    connection = connect(server.url)
    await said(connection)
    server.guard = lambda request, message: web.Response(status=401)
    assert (await fault_of(connection.call("t", {}))).kind == "credentials-refused"
    assert len(server.methods()) == 2


async def test_a_redirect_to_another_host_is_not_followed_and_gets_no_credentials(connect, raw_http):
    elsewhere = await raw_http(ok)
    server = await raw_http(ok)
    server.guard = lambda request, message: web.Response(status=307, headers={"Location": elsewhere.url})
    fault = await fault_of(
        connect(target(server.url, headers=(("Authorization", "Bearer tok-A"),))).call("t", {})
    )
    assert fault.kind == "not-reached"
    assert "Redirect" in fault.message
    assert elsewhere.seen == []
    assert server.headers[0]["Authorization"] == "Bearer tok-A"


async def test_invalid_params_are_the_servers_words_and_not_tried_again(connect, raw_http):
    async def refuse(request, message):
        return rpc_error(message, -32602, "bad q")

    server = await raw_http(refuse)
    fault = await fault_of(connect(server.url).call("t", {}))
    assert (fault.kind, "bad q" in fault.message) == ("invalid-params", True)
    assert len(server.methods()) == 1


@pytest.mark.parametrize("status", [200, 404, 500, 502])
async def test_a_page_of_html_is_never_shown(connect, raw_http, status):
    async def page(request, message):
        return web.Response(status=status, text=HTML, content_type="text/html")

    server = await raw_http(page)
    fault = await fault_of(connect(server.url).call("t", {}))
    assert "<" not in fault.message
    assert "Traceback" not in fault.message
    assert fault.kind == {200: "invalid-result", 404: "not-reached"}.get(status, "outcome-unknown")


async def test_markup_and_length_of_a_servers_error_are_cut(connect, raw_http):
    async def long(request, message):
        return rpc_error(message, -32603, HTML + "\x1b[31m" + "y" * 100_000)

    fault = await fault_of(connect((await raw_http(long)).url).call("t", {}))
    assert fault.kind == "tool-error"
    assert len(fault.message) < 700
    assert "<p>" not in fault.message
    assert "\x1b" not in fault.message


async def test_an_error_code_of_the_servers_own_is_not_taken_for_a_lost_connection(connect, raw_http):
    async def refuse(request, message):
        return rpc_error(message, -32000, "quota used up")

    fault = await fault_of(connect((await raw_http(refuse)).url).call("t", {}))
    assert fault.kind == "tool-error"


async def test_a_reply_that_is_not_json_rpc_is_an_invalid_result(connect, raw_http):
    async def garbage(request, message):
        return web.Response(text='{"jsonrpc": "2.0", "id"', content_type="application/json")

    fault = await fault_of(connect((await raw_http(garbage)).url).call("t", {}))
    assert fault.kind == "invalid-result"


async def test_a_closed_port_is_a_fault_at_once(connect, unused_port):
    fault = await fault_of(connect(f"http://127.0.0.1:{unused_port}/mcp").call("t", {}))
    assert fault.kind == "not-reached"
    assert "refused" in fault.message


async def test_a_server_that_goes_away_and_comes_back_is_used_again(connect, raw_http):
    server = await raw_http(ok)
    connection = connect(server.url)
    await said(connection)
    port = server.port
    await server.stop()
    assert (await fault_of(connection.call("t", {}))).kind == "not-reached"
    await server.start(port)
    assert await said(connection) == "ok"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_connection_that_is_dropped_in_mid_call_leaves_an_unknown_outcome_and_the_call_ran_once(
    connect, raw_http, stream
):
    async def drop(request, message):
        if stream:
            response = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await response.prepare(request)
            await response.write(b": working\n\n")
        request.transport.abort()
        return text_result("never seen")

    server = await raw_http(drop)
    connection = connect(server.url)
    fault = await fault_of(connection.call("t", {}))
    assert fault.kind == "outcome-unknown"
    assert "outcome unknown, check before trying again" in fault.message
    assert len(server.methods()) == 1
    server.call = ok
    assert await said(connection) == "ok"


async def test_a_call_that_is_dropped_takes_no_other_call_along(connect, raw_http):
    release = asyncio.Event()

    async def either(request, message):
        if message["params"]["arguments"].get("n") == "drop":
            request.transport.abort()
        await release.wait()
        return await ok(request, message)

    server = await raw_http(either)
    connection = connect(server.url)
    await connection.catalogue()
    steady = asyncio.create_task(said(connection, arguments={"n": "steady"}))
    await server.arrived.wait()
    assert (await fault_of(connection.call("t", {"n": "drop"}))).kind == "outcome-unknown"
    release.set()
    assert await steady == "steady"


async def test_an_event_stream_that_ends_without_an_answer_leaves_an_unknown_outcome(connect, raw_http):
    async def empty(request, message):
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        return response

    assert (await fault_of(connect((await raw_http(empty)).url).call("t", {}))).kind == "outcome-unknown"


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_a_huge_result_comes_through(connect, raw_http, kind):
    async def huge(request, message):
        answer = reply(message, text_result("z" * 12_000_000))
        if kind == "application/json":
            return answer
        body = b"event: message\ndata: " + answer.body + b"\n\n"
        return web.Response(body=body, content_type=kind)

    raw = await connect((await raw_http(huge)).url).call("t", {})
    assert "11,950,000 characters left out" in read_result(raw).text


async def test_the_listing_is_read_page_by_page_within_bounds(connect, raw_http):
    server = await raw_http(ok)
    pages = {None: "1", "1": "2", "2": None}

    def page(request, message):
        if message.get("method") != "tools/list":
            return None
        cursor = (message.get("params") or {}).get("cursor")
        tools = [{"name": f"tool-{cursor}", "inputSchema": {"type": "object"}}]
        return reply(message, {"tools": tools, **({"nextCursor": pages[cursor]} if pages[cursor] else {})})

    server.guard = page
    catalogue = await connect(server.url).catalogue()
    assert (list(catalogue.tools), catalogue.complete) == (["tool-None", "tool-1", "tool-2"], True)
    pages["2"] = "1"
    catalogue = await connect(server.url).catalogue()
    assert (len(catalogue.tools), catalogue.complete) == (3, False)


async def test_one_malformed_tool_is_left_out_and_can_still_be_called(connect, raw_http):
    server = await raw_http(ok)
    server.tools = [
        {"name": "good", "inputSchema": {"type": "object"}},
        {"name": "odd", "inputSchema": "no schema"},
        {"inputSchema": {}},
        7,
    ]
    connection = connect(server.url)
    catalogue = await connection.catalogue()
    assert list(catalogue.tools) == ["good"]
    assert await said(connection, "odd") == "ok"


async def test_a_tool_that_is_gone_is_told_apart_and_nothing_is_sent(connect, raw_http):
    server = await raw_http(ok)
    fault = await fault_of(connect(server.url).call("alpha", {}))
    assert fault.kind == "no-longer-offered"
    assert server.methods() == []


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_tools_that_come_and_go_are_noticed(connect, mode):
    async with serve_asgi(build().streamable_http_app()) as port:
        listings = asyncio.Queue()
        connection = connect(target(f"http://127.0.0.1:{port}/mcp", mode=mode), on_catalogue=listings.put)
        assert await said(connection, "alpha") == "alpha here"
        assert "alpha" in (await listings.get()).tools
        assert await said(connection, "swap_tools") == "swapped"
        assert await said(connection, "beta") == "beta here"
        assert (await fault_of(connection.call("alpha", {}))).kind == "no-longer-offered"
        assert "beta" in (await asyncio.wait_for(listings.get(), 10)).tools
        await connection.close()


async def test_a_notice_that_comes_while_a_listing_is_under_way_is_not_lost(connect, raw_http):
    server = await raw_http(ok)
    listings = asyncio.Queue()
    connection = connect(server.url, on_catalogue=listings.put)
    await connection.catalogue()
    await listings.get()
    server.tools = [{"name": "beta", "inputSchema": {"type": "object"}}]

    def notice(request, message):
        if message.get("method") == "tools/list" and server.tools[0]["name"] == "beta":
            connection._link._changed()
            server.tools = [{"name": "gamma", "inputSchema": {"type": "object"}}]
            old = [{"name": "beta", "inputSchema": {"type": "object"}}]
            return reply(message, {"tools": old})
        return None

    server.guard = notice
    connection._link._changed()
    assert list((await listings.get()).tools) == ["beta"]
    assert list((await listings.get()).tools) == ["gamma"]


async def test_a_listing_that_hangs_does_not_hold_up_calls(connect, raw_http):
    server = await raw_http(ok)

    def swallow(request, message):
        return web.Response(status=500) if message.get("method") == "tools/list" else None

    server.guard = swallow
    assert await said(connect(server.url, replace(QUICK, await_listing=0.1))) == "ok"


async def test_an_output_schema_is_read_from_the_listing(connect):
    async with serve_asgi(build().streamable_http_app()) as port:
        connection = connect(f"http://127.0.0.1:{port}/mcp")
        catalogue = await connection.catalogue()
        raw = await connection.call("measure", {"place": "roof"})
        assert catalogue.output_fault("measure", raw["structuredContent"]) is None
        assert "degrees" in catalogue.output_fault("measure", {"place": "roof"})
        assert "missing" in catalogue.output_fault("measure", None)
        await connection.close()
