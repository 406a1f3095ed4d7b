"""Servers of the old HTTP+SSE transport."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from mcp_world import SERVERS, serve_asgi, serve_process
from sdk_server import Happenings, build

from trustgraph_flow.agent.mcp_tool import McpFault, read_result
from trustgraph_flow.agent.mcp_tool.target import Target


def target(port):
    url = f"http://127.0.0.1:{port}/sse"
    return Target(workspace="default", label="old", url=url, mode="legacy", sse=True)


async def test_calls_run_side_by_side_and_a_hanging_one_is_cancelled(connect):
    happened = Happenings()
    async with serve_asgi(build(happened).sse_app()) as port:
        connection = connect(target(port))
        await connection.catalogue()
        hanging = asyncio.create_task(connection.call("hang", {}, seconds=1.0))
        raws = await asyncio.gather(*(connection.call("add", {"a": n}) for n in range(10)))
        assert [read_result(raw).text for raw in raws] == [str(n + 1) for n in range(10)]
        with pytest.raises(McpFault) as caught:
            await hanging
        assert caught.value.kind == "timed-out"
        await asyncio.wait_for(happened.stopped.wait(), 10)
        await connection.close()


async def test_a_server_that_was_restarted_is_used_again(connect, unused_port):
    server = str(SERVERS / "sdk_server.py"), str(unused_port)
    connection = connect(target(unused_port))
    async with serve_process(*server, port=unused_port) as process:
        await connection.call("add", {"a": 1})
        owner = connection._link.owner
        process.kill()
        await asyncio.wait_for(asyncio.wait([owner]), 10)
    with pytest.raises(McpFault) as caught:
        await connection.call("add", {"a": 1})
    assert caught.value.kind == "not-reached"
    async with serve_process(*server, port=unused_port):
        assert read_result(await connection.call("add", {"a": 2})).text == "3"
        await connection.close()


@pytest.mark.parametrize(("status", "kind"), [(401, "credentials-refused"), (500, "not-reached")])
async def test_a_refusal_is_told_apart(connect, unused_port, status, kind):
    async def refuse(request):
        return web.Response(status=status)

    app = web.Application()
    app.router.add_get("/sse", refuse)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", unused_port).start()
    with pytest.raises(McpFault) as caught:
        await connect(target(unused_port)).call("add", {"a": 1})
    assert caught.value.kind == kind
    await runner.cleanup()
