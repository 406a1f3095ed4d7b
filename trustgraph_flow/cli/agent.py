"""``tg-invoke-agent``: one question to the agent, shown as it is answered."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from trustgraph_flow.cli._common import Client, command


@command("tg-invoke-agent")
async def invoke_agent(
    client: Client,
    question: Annotated[str, typer.Option("--question", "-q", help="What to ask.")],
    group: Annotated[
        list[str] | None, typer.Option("--group", "-g", help="Offer the tools of this group; * offers all.")
    ] = None,
    state: Annotated[str | None, typer.Option("--state", "-s", help="State that the run begins in.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="Agent profile to use.")] = None,
    timeout: Annotated[float | None, typer.Option("--timeout", help="Seconds for the whole run.")] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show every step, observations whole, on a pipe too.")
    ] = False,
    no_streaming: Annotated[
        bool, typer.Option("--no-streaming", help="Show thoughts and answer when they are complete.")
    ] = False,
    show_usage: Annotated[
        bool, typer.Option("--show-usage", help="Print the tokens used, on standard error.")
    ] = False,
    flow: Annotated[str, typer.Option("--flow-id", "-f", help="The flow that serves the agent.")] = "default",
    collection: Annotated[
        str | None, typer.Option("--collection", "-C", help="Collection, for tools that want one.")
    ] = None,
) -> None:
    """Ask the agent a question.

    On a terminal thoughts, calls and observations are shown as they happen; on a pipe only the answer, unless
    --verbose is given.
    """
    from trustgraph_flow.cli.render import AgentPrinter

    printer = AgentPrinter(steps=verbose or sys.stdout.isatty(), everything=verbose)
    try:
        async for message in client.invoke_agent(
            question,
            group=group,
            state=state,
            agent=agent,
            timeout=timeout,
            streaming=not no_streaming,
            flow=flow,
            collection=collection,
        ):
            printer.show(message)
    finally:
        printer.close()
    if show_usage:
        printer.usage()
    if not printer.answered:
        raise typer.Exit(1)
