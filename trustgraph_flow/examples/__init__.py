"""Small MCP servers to try the product with."""
