"""The default workspace, shipped inside the package as ``trustgraph_flow.defaults``."""
