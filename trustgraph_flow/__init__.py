"""A ReACT agent on Apache Pulsar whose MCP tools declare their arguments."""

__version__ = "0.1.0"
