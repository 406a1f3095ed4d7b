"""A bank with two customers: the MCP server of the tool arguments specification.

Run it with ``python -m trustgraph_flow.examples.bank`` (stdio) or ``... --http 9001`` (streamable HTTP on
http://127.0.0.1:9001/mcp). The balances are made up and always the same:

==========  ==================  =======================================
account     owner               balance
==========  ==================  =======================================
12345678    Ada Lovelace        1,250.75 EUR, and 10 less a day before
87654321    Grace Hopper        98.10 EUR, and 10 less a day before
==========  ==================  =======================================

A day counts back from 2025-12-31, the day that a question without a date is about.
"""

from __future__ import annotations

import argparse
from datetime import date as Date
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

TODAY = Date(2025, 12, 31)
CENTS_A_DAY = 1000
BALANCES = {"12345678": ("Ada Lovelace", 125_075), "87654321": ("Grace Hopper", 9_810)}
"""Account → owner, balance in cents on TODAY."""

server = MCPServer("bank", log_level="WARNING")


@server.tool(annotations=ToolAnnotations(read_only_hint=True), structured_output=False)
def get_bank_balance(
    account_id: Annotated[str, Field(description="Bank account identifier")],
    date: Annotated[
        str | None, Field(description="Date for balance query (optional, format: YYYY-MM-DD)")
    ] = None,
) -> str:
    """Get bank account balance"""
    if account_id not in BALANCES:
        raise ToolError(f"There is no account {account_id}. Known accounts: {', '.join(BALANCES)}.")
    try:
        day = Date.fromisoformat(date) if date else TODAY
    except ValueError:
        raise ToolError(f"{date} is not a date. Write it as YYYY-MM-DD, for example {TODAY}.") from None
    if day > TODAY:
        raise ToolError(f"{day} is in the future; the latest day is {TODAY}.")
    owner, cents = BALANCES[account_id]
    cents -= CENTS_A_DAY * (TODAY - day).days
    return f"The balance of account {account_id} ({owner}) on {day} is {cents / 100:.2f} EUR."


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bank", description="An example MCP server with made-up accounts.")
    parser.add_argument(
        "--http", type=int, metavar="PORT", help="serve streamable HTTP on 127.0.0.1, not stdio"
    )
    port = parser.parse_args(argv).http
    if port is None:
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=port)


if __name__ == "__main__":
    main()
