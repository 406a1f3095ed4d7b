"""The prompt of a step: offered tools, question and turns so far, through the operator's template."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trustgraph_flow.arguments import quote_block, show_name
from trustgraph_flow.prompt import PromptSet
from trustgraph_flow.store import Exchange

from .run import Run, Turn
from .toolset import LoadedTool

CHARACTERS_PER_TOKEN = 3.0
"""On the safe side for English and JSON; other scripts are shortened a little late."""
REPLY_SHARE = 0.25
"""What of the model's context is left for its reply."""
QUOTE = "| "
_STRING_OR_SPACE = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')
SHORT = 300
"""Characters that an old observation keeps when the prompt would not fit."""
EXCHANGE_CHARS = 2000
"""Characters of a question, and of an answer, from earlier in a session."""


@dataclass(frozen=True, slots=True)
class Prompter:
    """Renders the prompts of one run.

    ``earlier`` is what was said before in its session, oldest first. ``observation_chars`` is how many
    characters of observations are shown before later ones are shortened.
    """

    prompts: PromptSet
    template: str
    additional_context: str = ""
    earlier: Sequence[Exchange] = ()
    observation_chars: int | None = None

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
        """The whole prompt. What the model's context would not hold is left out: first the older observations
        are shortened, then the older questions of the session are dropped.

        Raises the errors of ``PromptSet.render``.
        """
        turns: Sequence[Turn] = run.turns
        if self.observation_chars is not None:
            turns = within(turns, self.observation_chars)
        facts = {"constrained": constrained, "final": final, "context_tokens": context_tokens}
        prompt = self._render(run, tools, turns, self.earlier, facts)
        if context_tokens is None:
            return prompt
        budget = int(context_tokens * (1 - REPLY_SHARE) * CHARACTERS_PER_TOKEN)
        excess = len(prompt) + len(self.system) - budget
        if excess <= 0:
            return prompt
        turns, excess = shortened(turns, excess)
        earlier = dropped(self.earlier, excess)
        return self._render(run, tools, turns, earlier, facts)

    def _render(
        self,
        run: Run,
        tools: Sequence[LoadedTool],
        turns: Sequence[Turn],
        earlier: Sequence[Exchange],
        facts: Mapping[str, Any],
    ) -> str:
        return self.prompts.render(
            self.template,
            {
                "tools": [shown_tool(tool) for tool in tools],
                "question": inline(run.question),
                "history": [shown_turn(turn) for turn in turns],
                "earlier": [shown_exchange(exchange) for exchange in earlier],
                "additional_context": self.additional_context,
                **facts,
            },
        )


def inline(text: str) -> str:
    """Text that stands behind a label: its first line as it is, each further one quoted."""
    return quote_block(text).removeprefix(QUOTE)


def squeezed(text: str) -> str:
    """JSON on one line, its strings and numbers untouched; any other text as it is.

    Servers indent their JSON, and white space costs the model as many tokens as words do.
    """
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return _STRING_OR_SPACE.sub(lambda found: found[1] or " ", text).strip()


def shown_tool(tool: LoadedTool) -> Mapping[str, Any]:
    """What a template gets of a tool: its name letter for letter, in quotes if it is no plain word."""
    return {
        "name": show_name(tool.name),
        "description": inline(tool.description),
        "arguments": tool.signature.text,
    }


def shown_turn(turn: Turn) -> Mapping[str, Any]:
    return {
        "thought": inline(turn.thought),
        "action": None if turn.action is None else inline(turn.action),
        "args": None if turn.arguments is None else json.dumps(turn.arguments, ensure_ascii=False),
        "observation": inline(squeezed(turn.observation or "")),
        "is_error": turn.is_error,
    }


def shown_exchange(exchange: Exchange) -> Mapping[str, str]:
    return {
        "question": inline(shorten(exchange.question, EXCHANGE_CHARS)),
        "answer": inline(shorten(exchange.answer, EXCHANGE_CHARS)),
    }


def within(turns: Sequence[Turn], most: int) -> Sequence[Turn]:
    """The turns with about ``most`` characters of observations: what comes after them is shortened."""
    if sum(len(turn.observation or "") for turn in turns) <= most:
        return turns
    result = []
    for turn in turns:
        cut = _cut(turn, max(SHORT, most))
        most -= len(cut.observation or "")
        result.append(cut)
    return result


def shortened(turns: Sequence[Turn], excess: int) -> tuple[list[Turn], int]:
    """The turns with about ``excess`` characters less, the oldest observations shortened first; and what
    excess is left."""
    result: list[Turn] = []
    for turn in turns:
        length = len(turn.observation or "")
        cut = _cut(turn, max(SHORT, length - excess)) if excess > 0 else turn
        excess -= length - len(cut.observation or "")
        result.append(cut)
    return result, excess


def dropped(earlier: Sequence[Exchange], excess: int) -> Sequence[Exchange]:
    """The newest of the exchanges, so that about ``excess`` characters are left out."""
    first = 0
    while excess > 0 and first < len(earlier):
        left_out = earlier[first]
        excess -= min(len(left_out.question), EXCHANGE_CHARS) + min(len(left_out.answer), EXCHANGE_CHARS)
        first += 1
    return earlier[first:]


def _cut(turn: Turn, keep: int) -> Turn:
    text = turn.observation or ""
    if len(text) <= keep:
        return turn
    return Turn(turn.thought, turn.action, turn.arguments, shorten(text, keep), turn.is_error)


def shorten(text: str, keep: int) -> str:
    """Head and tail of ``text``, ``keep`` characters in all, and between them what was left out."""
    if len(text) <= keep:
        return text
    head = keep * 2 // 3
    tail = keep - head
    left_out = len(text) - head - tail
    return f"{text[:head]}\n... {left_out} characters left out ...\n{text[len(text) - tail :]}"
