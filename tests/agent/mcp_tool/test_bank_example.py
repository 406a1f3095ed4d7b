"""The example server that the product ships."""

from __future__ import annotations

import asyncio
import os
import sys

from mcp_world import QUICK

from trustgraph_flow.agent.mcp_tool import Connection, read_result
from trustgraph_flow.agent.mcp_tool.target import Target


async def test_the_bank_serves_streamable_http_on_a_port_and_says_nothing_while_it_does(unused_port):
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "trustgraph_flow.examples.bank",
        "--http",
        str(unused_port),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=os.environ,
    )
    url = f"http://127.0.0.1:{unused_port}/mcp"
    connection = Connection(Target(workspace="default", label="bank", url=url), QUICK)
    try:
        async with asyncio.timeout(30):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", unused_port)
                except OSError:
                    continue
                writer.close()
                break
        catalogue = await connection.catalogue()
        schema = catalogue.tools["get_bank_balance"].input_schema
        assert schema["required"] == ["account_id"]
        said = schema["properties"]["date"]["description"]
        assert said == "Date for balance query (optional, format: YYYY-MM-DD)"
        answer = read_result(
            await connection.call("get_bank_balance", {"account_id": "12345678", "date": None})
        )
        assert "1250.75 EUR" in answer.text
    finally:
        await connection.close()
        process.terminate()
        printed, _ = await process.communicate()
    assert printed == b""
