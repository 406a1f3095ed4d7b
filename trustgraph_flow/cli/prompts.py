"""Prompt templates: ``tg-set-prompt``, ``tg-show-prompts``, ``tg-invoke-prompt``."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import typer

from trustgraph_flow.cli._common import Client, Json, command, print_json
from trustgraph_flow.cli.text import clean, one_line, to_json
from trustgraph_flow.schema.errors import BadRequest


@command("tg-set-prompt")
async def set_prompt(
    client: Client,
    id_: Annotated[str | None, typer.Option("--id", help="The id of the template.")] = None,
    prompt: Annotated[str | None, typer.Option("--prompt", help="The template, Jinja2.")] = None,
    response: Annotated[
        Literal["text", "json"] | None,
        typer.Option("--response", help="What the model answers: text or json."),
    ] = None,
    schema: Annotated[
        str | None, typer.Option("--schema", help="JSON Schema that a json answer must fit.")
    ] = None,
    system: Annotated[
        str | None, typer.Option("--system", help="Text that opens every prompt; alone, without the others.")
    ] = None,
) -> None:
    """Store a prompt template, or the system prompt."""
    if system is not None:
        if any(option is not None for option in (id_, prompt, response, schema)):
            raise BadRequest("--system goes alone: it sets the text that opens every prompt")
        await client.set_system_prompt(system)
        print("System prompt set.")
        return
    if id_ is None or prompt is None:
        raise BadRequest("give --id and --prompt, or --system alone")
    item: dict[str, Any] = {"id": id_, "prompt": prompt, "response-type": response or "text"}
    if schema is not None:
        item["schema"] = _schema(schema)
    index = _index(await client.get_item("prompt", "template-index"))
    items = [("prompt", f"template.{id_}", json.dumps(item, ensure_ascii=False))]
    if id_ not in index:
        items.append(("prompt", "template-index", json.dumps([*index, id_], ensure_ascii=False)))
    await client.put_items(items)
    print(f"Prompt set: {one_line(id_)}")


@command("tg-show-prompts")
async def show_prompts(client: Client, as_json: Json = False) -> None:
    """Show the system prompt and every template."""
    system, stored = await client.system_prompt(), await client.prompts()
    if as_json:
        print_json(
            {"system": system, "templates": [_as_json(one.key, one.value, one.fault) for one in stored]}
        )
        return
    if system is not None:
        _section("System prompt", system)
    for one in stored:
        if one.item is None:
            _section(f"{one_line(one.key)} (fault: {one_line(one.fault or '')})", one.value)
            continue
        _section(f"{one_line(one.key)} (answers {one.item.response_type})", one.item.prompt)
        if one.item.output_schema is not None:
            _section("schema", to_json(one.item.output_schema), "    ")


@command("tg-invoke-prompt")
async def invoke_prompt(
    client: Client,
    id_: Annotated[str, typer.Argument(metavar="TEMPLATE", help="The id of the template.")],
    variables: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=VALUE]...", help="What the template's variables stand for."),
    ] = None,
    no_streaming: Annotated[
        bool, typer.Option("--no-streaming", help="Accepted for older scripts; the answer comes whole.")
    ] = False,
    flow: Annotated[str, typer.Option("--flow-id", "-f", help="The flow that serves prompts.")] = "default",
) -> None:
    """Fill a template, have the model answer it, and print the answer."""
    del no_streaming
    reply = await client.prompt(id_, dict(_variable(text) for text in variables or []), flow=flow)
    print(clean(reply.text) if reply.text is not None else to_json(reply.object, indent=4))


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise BadRequest(f"{text!r} is no variable: write NAME=VALUE")
    return name, value


def _schema(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadRequest(f"--schema is not valid JSON: {error}") from None


def _index(text: str | None) -> list[str]:
    """The list of template ids that TrustGraph keeps beside the templates; a broken one is made anew."""
    try:
        index = json.loads(text or "[]")
    except ValueError:
        return []
    return [name for name in index if isinstance(name, str)] if isinstance(index, list) else []


def _as_json(key: str, value: str, fault: str | None) -> dict[str, Any]:
    return {"id": key, "fault": fault, "item": value} if fault else {"id": key, "item": json.loads(value)}


def _section(title: str, text: str, indent: str = "") -> None:
    print(f"{indent}{title}:")
    for line in clean(text).splitlines():
        print(f"{indent}    {line}")
    print()
