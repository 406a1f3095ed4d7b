"""Few tools in the prompt when a workspace has many: ranked by BM25 over name, description and arguments."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence

from .toolset import LoadedTool

_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(_CAMEL.sub(" ", text))]


class Shortlist:
    """An index over one list of tools. Building costs more than asking, so keep it while the list stands."""

    def __init__(self, tools: Sequence[LoadedTool]) -> None:
        # Imported here: it brings numpy, which a workspace with few tools never needs.
        from bm25s import BM25

        # It prints its progress through a logger that it sets to DEBUG.
        logging.getLogger("bm25s").setLevel(logging.WARNING)
        self.tools = list(tools)
        corpus = [
            _words(f"{tool.name} {tool.name} {tool.description} {tool.signature.text}") or ["-"]
            for tool in self.tools
        ]
        self._index = BM25()
        self._index.index(corpus, show_progress=False)

    def top(self, question: str, most: int, keep: Iterable[str] = ()) -> list[LoadedTool]:
        """The ``most`` best tools for the question, in their config order; names in ``keep`` always stay."""
        kept = set(keep)
        known = self._index.vocab_dict
        words = [word for word in _words(question) if word in known]
        scores = self._index.get_scores(words) if words else [0.0] * len(self.tools)
        order = sorted(
            range(len(self.tools)), key=lambda i: (self.tools[i].name not in kept, -float(scores[i]), i)
        )
        return [self.tools[i] for i in sorted(order[:most])]
