"""``mcp`` items, which say where an MCP tool lives, and calling one without an agent."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

import typer

from trustgraph_flow.cli._common import Client, Json, command, masked, print_json
from trustgraph_flow.cli.text import clean, one_line, shorten, to_json
from trustgraph_flow.schema.errors import BadRequest, TrustGraphError

_SIGN_IN_POLL_SECONDS = 1.0

Id = Annotated[str, typer.Option("--id", "-i", help="The id of the MCP tool.")]


@command("tg-set-mcp-tool")
async def set_mcp_tool(
    client: Client,
    id_: Id,
    tool_url: Annotated[
        str | None, typer.Option("--tool-url", help="Address of the MCP server, streamable HTTP.")
    ] = None,
    server: Annotated[
        str | None, typer.Option("--server", help="Id of an mcp-server item, in place of --tool-url.")
    ] = None,
    remote_name: Annotated[
        str | None, typer.Option("--remote-name", "-r", help="The tool's name on the server; else the id.")
    ] = None,
    auth_token: Annotated[
        str | None, typer.Option("--auth-token", help="Bearer token that the server wants.")
    ] = None,
    timeout: Annotated[float | None, typer.Option("--timeout", help="Seconds for one call.")] = None,
) -> None:
    """Store an MCP tool, in place of what is there under its id."""
    from trustgraph_flow.schema.items import McpItem

    if (tool_url is None) == (server is None):
        raise BadRequest(
            "say where the tool lives: --tool-url, or --server for a server that many tools share"
        )
    if tool_url is not None and not tool_url.startswith(("http://", "https://")):
        raise BadRequest(f"--tool-url {tool_url!r} must begin with http:// or https://")
    fields = {
        "url": tool_url,
        "server": server,
        "remote-name": remote_name or id_,
        "auth-token": auth_token or None,
        "timeout": timeout,
    }
    item = McpItem.model_validate({name: value for name, value in fields.items() if value is not None})
    await client.set_mcp_tool(id_, item)
    print(f"MCP tool set: {one_line(id_)}")


@command("tg-show-mcp-tools")
async def show_mcp_tools(client: Client, as_json: Json = False) -> None:
    """List the MCP tools. Secrets are masked."""
    from trustgraph_flow.cli.tables import Column, print_table

    stored = await client.mcp_tools()
    if as_json:
        print_json([_as_json(tool.key, tool.value, tool.fault) for tool in stored])
        return
    rows = []
    for tool in stored:
        shown = _as_json(tool.key, tool.value, tool.fault)["item"]
        item = shown if isinstance(shown, dict) else {}
        rows.append(
            (
                tool.key,
                str(item.get("remote-name") or tool.key),
                str(item.get("url") or (f"server {item['server']}" if item.get("server") else "")),
                "set" if item.get("auth-token") else "",
                shorten(tool.fault or "", 200),
            )
        )
    print_table(
        [
            Column("id", "bold"),
            Column("remote name"),
            Column("where"),
            Column("token"),
            Column("fault", "red"),
        ],
        rows,
        none="no MCP tools; tg-set-mcp-tool makes one",
    )


@command("tg-delete-mcp-tool")
async def delete_mcp_tool(client: Client, id_: Id) -> None:
    """Delete an MCP tool."""
    await client.delete_mcp_tool(id_)
    print(f"MCP tool deleted: {one_line(id_)}")


@command("tg-invoke-mcp-tool")
async def invoke_mcp_tool(
    client: Client,
    name: Annotated[str, typer.Option("--name", "-n", help="The id of the MCP tool.")],
    parameters: Annotated[
        str, typer.Option("--parameters", "-P", help="The arguments, as a JSON object.")
    ] = "{}",
    timeout: Annotated[float | None, typer.Option("--timeout", help="Seconds for the call.")] = None,
    flow: Annotated[str, typer.Option("--flow-id", "-f", help="The flow that serves MCP tools.")] = "default",
    as_json: Json = False,
) -> None:
    """Call an MCP tool and print its result. A result that is an error goes to standard error, status 1."""
    result = await client.invoke_mcp_tool(name, _parameters(parameters), timeout=timeout, flow=flow)
    failed = result.is_error or result.fault is not None
    text = result.text if result.text is not None else to_json(result.object, indent=4)
    if as_json:
        print_json(result.model_dump(mode="json", exclude_none=True))
    elif not failed:
        print(clean(text))
    if failed:
        raise TrustGraphError(f"the tool {name} failed ({result.fault or 'tool-error'}): {text}")


@command("tg-sign-in-mcp")
async def sign_in_mcp(
    client: Client,
    name: Annotated[str, typer.Option("--name", "-n", help="The id of the MCP server or tool.")],
    flow: Annotated[str, typer.Option("--flow-id", "-f", help="The flow that serves MCP tools.")] = "default",
) -> None:
    """Sign in at an MCP server that asks for it: prints the page to open, and waits until that is done."""
    shown = False
    while True:
        answer = await client.sign_in_mcp(name, flow=flow)
        text = clean(answer.text or "")
        if answer.is_error:
            raise TrustGraphError(text)
        if answer.sign_in_page is None:
            print(text)
            return
        if not shown:
            print(text, flush=True)
        shown = True
        await asyncio.sleep(_SIGN_IN_POLL_SECONDS)


def _parameters(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise BadRequest(
            f"--parameters is not valid JSON ({error}); give an object like '{{\"a\": 1}}'"
        ) from None
    if not isinstance(value, dict):
        raise BadRequest(f"--parameters must be a JSON object like '{{\"a\": 1}}', not {text}")
    return value


def _as_json(key: str, value: str, fault: str | None) -> dict[str, Any]:
    shown = masked("mcp", value)
    return {"id": key, "item": shown, "fault": fault} if fault else {"id": key, "item": json.loads(shown)}
