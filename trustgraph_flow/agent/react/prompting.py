"""The prompt of a step: offered tools, question and turns so far, through the operator's template."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trustgraph_flow.arguments import quote_block
from trustgraph_flow.prompt import PromptSet

from .run import Run, Turn
from .toolset import LoadedTool

CHARACTERS_PER_TOKEN = 3.0
"""On the safe side for English and JSON; other scripts are shortened a little late."""
REPLY_SHARE = 0.25
"""What of the model's context is left for its reply."""
QUOTE = "| "
SHORT = 300
"""Characters that an old observation keeps when the prompt would not fit."""


@dataclass(frozen=True, slots=True)
class Prompter:
    """Renders the prompts of one run."""

    prompts: PromptSet
    template: str
    additional_context: str = ""

    @property
    def system(self) -> str:
        return self.prompts.system

    def render(
        self,
        run: Run,
        tools: Sequence[LoadedTool],
        *,
        constrained: bool,
        final: bool,
        context_tokens: int | None,
    ) -> str:
        """The whole prompt, old observations shortened where the model's context would not hold them.

        Raises the errors of ``PromptSet.render``.
        """
        prompt = self._render(run, tools, run.turns, constrained, final)
        if context_tokens is None:
            return prompt
        budget = int(context_tokens * (1 - REPLY_SHARE) * CHARACTERS_PER_TOKEN)
        excess = len(prompt) + len(self.system) - budget
        if excess <= 0:
            return prompt
        return self._render(run, tools, shortened(run.turns, excess), constrained, final)

    def _render(
        self, run: Run, tools: Sequence[LoadedTool], turns: Sequence[Turn], constrained: bool, final: bool
    ) -> str:
        return self.prompts.render(
            self.template,
            {
                "tools": [shown_tool(tool) for tool in tools],
                "question": inline(run.question),
                "history": [shown_turn(turn) for turn in turns],
                "additional_context": self.additional_context,
                "constrained": constrained,
                "final": final,
            },
        )


def inline(text: str) -> str:
    """Text that stands behind a label: its first line as it is, each further one quoted."""
    return quote_block(text).removeprefix(QUOTE)


def shown_tool(tool: LoadedTool) -> Mapping[str, Any]:
    """What a template gets of a tool: its name letter for letter, the rest quoted."""
    return {
        "name": tool.name,
        "description": inline(tool.description),
        "arguments": tool.signature.text,
    }


def shown_turn(turn: Turn) -> Mapping[str, Any]:
    return {
        "thought": inline(turn.thought),
        "action": None if turn.action is None else inline(turn.action),
        "args": None if turn.arguments is None else json.dumps(turn.arguments, ensure_ascii=False),
        "observation": inline(turn.observation or ""),
        "is_error": turn.is_error,
    }


def shortened(turns: Sequence[Turn], excess: int) -> list[Turn]:
    """The turns with about ``excess`` characters less: the oldest observations first, each cut marked."""
    result: list[Turn] = []
    for turn in turns:
        text = turn.observation or ""
        if excess > 0 and len(text) > SHORT:
            keep = max(SHORT, len(text) - excess)
            cut = shorten(text, keep)
            excess -= len(text) - len(cut)
            turn = Turn(turn.thought, turn.action, turn.arguments, cut, turn.is_error)  # noqa: PLW2901
        result.append(turn)
    return result


def shorten(text: str, keep: int) -> str:
    """Head and tail of ``text``, ``keep`` characters in all, and between them what was left out."""
    head = keep * 2 // 3
    tail = keep - head
    left_out = len(text) - head - tail
    return f"{text[:head]}\n... {left_out} characters left out ...\n{text[len(text) - tail :]}"
