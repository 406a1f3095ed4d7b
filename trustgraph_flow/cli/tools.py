"""``tool`` items: what agents can call, and with which arguments."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from trustgraph_flow.cli._common import Client, Json, command, print_json
from trustgraph_flow.cli.argument_options import parse_arguments
from trustgraph_flow.cli.text import one_line
from trustgraph_flow.schema.errors import BadRequest
from trustgraph_flow.schema.items import FOREIGN_TOOL_TYPES, SERVED_TOOL_TYPES, TOOL_LINKS, ToolItem

Id = Annotated[str, typer.Option("--id", help="The id of the tool.")]


@command("tg-set-tool")
async def set_tool(
    client: Client,
    id_: Id,
    name: Annotated[str | None, typer.Option("--name", help="What agents call it by; else the id.")] = None,
    description: Annotated[
        str, typer.Option("--description", help="What it does, for the model to choose by.")
    ] = "",
    type_: Annotated[
        str | None,
        typer.Option("--type", help="mcp-tool, prompt, text-completion or tool-service."),
    ] = None,
    mcp_tool: Annotated[
        str | None, typer.Option("--mcp-tool", help="For an mcp-tool: the id given to tg-set-mcp-tool.")
    ] = None,
    template: Annotated[
        str | None, typer.Option("--template", help="For a prompt: the id of the template.")
    ] = None,
    service: Annotated[
        str | None, typer.Option("--service", help="For a tool-service: the id of its item.")
    ] = None,
    collection: Annotated[
        str | None, typer.Option("--collection", help="Kept for tool types that other services serve.")
    ] = None,
    argument: Annotated[
        list[str] | None,
        typer.Option("--argument", help="NAME:TYPE:DESCRIPTION, or a JSON object with any schema keyword."),
    ] = None,
    no_arguments: Annotated[
        bool, typer.Option("--no-arguments", help="Declare that it takes none; else any arguments pass.")
    ] = False,
    group: Annotated[list[str] | None, typer.Option("--group", help="Groups that it is in.")] = None,
    state: Annotated[
        str | None, typer.Option("--state", help="State that a successful call moves the run to.")
    ] = None,
    applicable_states: Annotated[
        list[str] | None, typer.Option("--applicable-states", help="States in which it is offered.")
    ] = None,
    timeout: Annotated[float | None, typer.Option("--timeout", help="Seconds for one call.")] = None,
) -> None:
    """Store a tool, in place of what is there under its id.

    Example: tg-set-tool --id balance --mcp-tool balance --description "Account balance" --argument
    "account:string:Account number" --argument '{"name": "unit", "type": "string", "enum": ["EUR", "USD"]}'
    """
    from trustgraph_flow.arguments import compile_signature

    links = {"mcp-tool": mcp_tool, "template": template, "service": service}
    kind = _kind(type_, links)
    if no_arguments and argument:
        raise BadRequest("--no-arguments says that there are none; leave it or --argument out")
    arguments = parse_arguments(argument or [])
    compile_signature(arguments)
    fields: dict[str, Any] = {
        "name": name or id_,
        "description": description,
        "type": kind,
        **links,
        "collection": collection,
        "arguments": arguments if argument or no_arguments else None,
        "group": group,
        "state": state,
        "applicable-states": applicable_states,
        "timeout": timeout,
    }
    given = {field: value for field, value in fields.items() if value is not None}
    await client.set_tool(id_, ToolItem.model_validate(given))
    print(f"Tool set: {one_line(id_)}")


@command("tg-show-tools")
async def show_tools(
    client: Client,
    as_json: Json = False,
    full: Annotated[bool, typer.Option("--full", help="Show long texts whole.")] = False,
) -> None:
    """Show the tools as agents read them: each argument, and why a tool is not offered."""
    from trustgraph_flow.cli.tool_view import print_tools, view_tools

    contents = await client.all()
    views = view_tools(contents.items)
    if as_json:
        print_json([view.as_json() for view in views])
    else:
        print_tools(views, limit=None if full else 300)


@command("tg-delete-tool")
async def delete_tool(client: Client, id_: Id) -> None:
    """Delete a tool."""
    await client.delete_tool(id_)
    print(f"Tool deleted: {one_line(id_)}")


def _kind(given: str | None, links: dict[str, str | None]) -> str:
    """The type of a tool that is made of these links, checked."""

    fitting = [kind for kind, link in TOOL_LINKS.items() if links[link]]
    if given is None:
        if len(fitting) != 1:
            raise BadRequest(
                "say what kind of tool it is: --type, or one of --mcp-tool, --template, --service"
            )
        return fitting[0]
    if given not in SERVED_TOOL_TYPES + FOREIGN_TOOL_TYPES:
        raise BadRequest(f"--type {given!r} is unknown; known are {', '.join(SERVED_TOOL_TYPES)}")
    if given in TOOL_LINKS and given not in fitting:
        raise BadRequest(f"a tool of type {given} needs --{TOOL_LINKS[given]}")
    return given
