"""One question to a gateway, shown as it is answered."""

from __future__ import annotations

import typer

from trustgraph_flow.cli.render import AgentPrinter
from trustgraph_flow.client import AsyncClient


async def ask(url: str, token: str | None, question: str, groups: list[str] | None, state: str | None) -> int:
    """Prints the dialog and where the gateway listens; 0 if there was an answer, else 1."""
    printer = AgentPrinter()
    async with AsyncClient(url, token=token) as client:
        async for message in client.invoke_agent(question, group=groups, state=state, streaming=True):
            printer.show(message)
    typer.echo(f"gateway: {url}")
    return 0 if printer.answered else 1
