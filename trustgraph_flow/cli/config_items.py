"""Config items as they are stored: ``tg-show-config``, ``tg-list-config-items``, and one item at a time."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from trustgraph_flow.cli._common import Client, Json, command, masked, print_json
from trustgraph_flow.cli.text import clean, one_line
from trustgraph_flow.schema.errors import BadRequest, NotFound

Type = Annotated[str, typer.Option("--type", help="The type of the item, tool for instance.")]
Key = Annotated[str, typer.Option("--key", help="The key of the item.")]
Format = Annotated[Literal["text", "json"], typer.Option("--format", help="How to print.")]


@command("tg-show-config")
async def show_config(client: Client, as_json: Json = False) -> None:
    """Show all config items of the workspace. Secrets are masked."""
    contents = await client.all()
    items = {
        type_: {key: masked(type_, value) for key, value in keys.items()}
        for type_, keys in contents.items.items()
    }
    if as_json:
        print_json({"version": contents.version, "config": items})
    else:
        print(f"Version: {contents.version}")
        print_json(items)


@command("tg-list-config-items")
async def list_config_items(
    client: Client, type_: Type, format_: Format = "text", as_json: Json = False
) -> None:
    """List the keys of one type, one a line."""
    keys = await client.list_keys(type_)
    if as_json or format_ == "json":
        print_json(keys)
    else:
        for key in keys:
            print(one_line(key))


@command("tg-get-config-item")
async def get_config_item(
    client: Client, type_: Type, key: Key, format_: Format = "text", as_json: Json = False
) -> None:
    """Print the value of one item. Secrets are masked."""
    value = await client.get_item(type_, key)
    if value is None:
        raise NotFound(
            f"there is no config item {type_}/{key}; tg-list-config-items --type {type_} lists them"
        )
    value = masked(type_, value)
    if as_json or format_ == "json":
        print_json(value)
    else:
        # A file or another command gets the exact value, so that it can be stored again.
        print(clean(value) if sys.stdout.isatty() else value)


@command("tg-put-config-item")
async def put_config_item(
    client: Client,
    type_: Type,
    key: Key,
    value: Annotated[str | None, typer.Option("--value", help="The value, normally JSON text.")] = None,
    stdin: Annotated[bool, typer.Option("--stdin", help="Read the value from standard input.")] = False,
) -> None:
    """Store one item, in place of what is there under its key."""
    if stdin == (value is not None):
        raise BadRequest("give the value by --value or by --stdin, and by one of them alone")
    text = sys.stdin.read() if value is None else value
    await client.put_item(type_, key, text)
    print(f"Configuration item set: {one_line(f'{type_}/{key}')}")


@command("tg-delete-config-item")
async def delete_config_item(client: Client, type_: Type, key: Key) -> None:
    """Delete one item."""
    await client.delete_item(type_, key)
    print(f"Configuration item deleted: {one_line(f'{type_}/{key}')}")
