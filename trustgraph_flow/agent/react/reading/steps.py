"""What a reply turns into: the pieces that stream out while it arrives, and the one step that it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ThoughtDelta:
    """The next piece of the thought; all pieces joined are the thought of the reply."""

    text: str


@dataclass(frozen=True, slots=True)
class AnswerDelta:
    """The next piece of the final answer; all pieces joined are the answer of the reply."""

    text: str


Event = ThoughtDelta | AnswerDelta


@dataclass(frozen=True, slots=True)
class CallStep:
    """One tool call as the model wrote it; ``action`` is not yet matched with the tools that exist.

    ``repaired`` says that the arguments were not strict JSON, and were mended without changing a value.
    """

    thought: str
    action: str
    arguments: dict[str, Any]
    repaired: bool


@dataclass(frozen=True, slots=True)
class AnswerStep:
    """The final answer; never empty."""

    thought: str
    answer: str


@dataclass(frozen=True, slots=True)
class FormatFault:
    """A reply that can't be run. ``message`` is the observation for the model, never an answer for a user.

    ``reason`` is one of: no-step, no-action, no-args-label, empty-answer, think-unclosed, cut-off, bad-json,
    not-an-object, duplicate-keys, not-finite, number-too-long, bad-unicode, too-deep.
    """

    thought: str
    reason: str
    message: str


Reply = CallStep | AnswerStep | FormatFault

_TEXT_FORM = """Reply with exactly one step, either
  Thought: <what you think>
  Action: <the name of one tool>
  Args: {"<argument>": <value>}
or
  Thought: <what you think>
  Final Answer: <your answer>"""

_JSON_FORM = """Reply with exactly one JSON object, either
  {"thought": "<what you think>", "action": "<the name of one tool>", "args": {"<argument>": <value>}}
or
  {"thought": "<what you think>", "final_answer": "<your answer>"}"""

_PROBLEMS = {
    "no-step": "Your reply holds no step: neither an action nor a final answer was found.",
    "no-action": "Your reply names no tool. To call a tool, name it; to answer, give a final answer.",
    "no-args-label": "Your reply holds JSON that is not labelled as the arguments of the action.",
    "empty-answer": "Your final answer is empty.",
    "think-unclosed": "Your reply opens a <think> block and never closes it, so it holds no step.",
    "cut-off": "Your reply was cut off before its step was complete, or a quote or brace is missing. Be "
    "shorter, and close every string and object.",
}


def fault(thought: str, reason: str, problem: str = "", *, constrained: bool = False) -> FormatFault:
    """A fault whose message says what is wrong, that nothing was run, and what the right form is.

    ``problem`` is the sentence for a reason that needs the particulars.
    """
    form = _JSON_FORM if constrained else _TEXT_FORM
    return FormatFault(thought, reason, f"{_PROBLEMS.get(reason, problem)} Nothing was run.\n{form}")
