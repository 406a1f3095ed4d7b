"""What is counted of calls. Labels are names from the config and fault kinds, never what a model wrote."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

CALLS = Counter(
    "tg_mcp_calls_total",
    "MCP tool calls by server and outcome (ok, or the kind of fault)",
    ["server", "outcome"],
)
SECONDS = Histogram("tg_mcp_call_seconds", "Time of an MCP tool call, as its caller sees it", ["server"])
CONNECTIONS = Gauge("tg_mcp_connections", "MCP servers that calls can go to")
