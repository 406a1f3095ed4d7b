"""The example server that the product ships."""

from __future__ import annotations

from mcp_world import serve_process

from trustgraph_flow.agent.mcp_tool import read_result
from trustgraph_flow.agent.mcp_tool.target import Target


async def test_the_bank_serves_streamable_http_on_a_port_and_says_nothing_while_it_does(connect, unused_port):
    url = f"http://127.0.0.1:{unused_port}/mcp"
    argv = ("-m", "trustgraph_flow.examples.bank", "--http", str(unused_port))
    async with serve_process(*argv, port=unused_port) as process:
        connection = connect(Target(workspace="default", label="bank", url=url))
        catalogue = await connection.catalogue()
        schema = catalogue.tools["get_bank_balance"].input_schema
        assert schema["required"] == ["account_id"]
        said = schema["properties"]["date"]["description"]
        assert said == "Date for balance query (optional, format: YYYY-MM-DD)"
        raw = await connection.call("get_bank_balance", {"account_id": "12345678", "date": None})
        assert "1250.75 EUR" in read_result(raw).text
        await connection.close()
        process.terminate()
        assert (await process.communicate())[0] == b""
