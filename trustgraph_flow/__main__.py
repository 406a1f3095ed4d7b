"""``python -m trustgraph_flow`` is ``tg``."""

from trustgraph_flow.cli.main import main

main()
