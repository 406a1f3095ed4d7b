"""When a run must stop calling, and when it must stop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .run import Run, call_key
from .types import RunSettings

MOST_FORMAT_FAULTS = 3
MOST_REFUSALS = 3
MOST_REPEATS = 3
MOST_VAIN_RESUMES = 10
"""Workers in a row that may die over a run, before it is taken for what kills them."""

ANSWER_NOW = "No more calls are possible in this run. Give a Final Answer from what the observations say."
REPEATED = (
    "This call has now brought the same result {times} times. Do not repeat it: "
    "use the result, try something else, or give a Final Answer."
)


@dataclass(frozen=True, slots=True)
class End:
    reason: str
    """Machine-readable; it stands in the run's end event."""
    message: str


LIMITS = {
    "step-limit": "The model gave no answer after its last step.",
    "token-limit": "The model gave no answer within the token budget of the run.",
}
"""Limits at which the model is asked once more, for the answer alone."""


def must_end(run: Run, settings: RunSettings) -> End | None:
    """Why no further model call is made, or None."""
    if run.format_faults >= MOST_FORMAT_FAULTS:
        return End("format", f"The model gave no readable step {run.format_faults} times in a row.")
    if max(run.refusals.values(), default=0) >= MOST_REFUSALS:
        return End("invalid-arguments", f"The model repeated a refused call {MOST_REFUSALS} times.")
    if run.repeats > MOST_REPEATS:
        return End("loop", f"The model repeated a call that brought the same result {run.repeats} times.")
    if run.final_reply in LIMITS:
        return End(run.final_reply, LIMITS[run.final_reply])
    return None


def must_answer(run: Run, settings: RunSettings, constrained: bool) -> str | None:
    """Why the next reply can only be the final answer, or None.

    After ``max_iterations`` steps, or ``max_tokens`` tokens, the model is asked once more, for the answer
    alone. A model whose replies are constrained is also held to its answer once a call has been repeated with
    the same result, since it would go on repeating it.
    """
    if run.steps >= settings.max_iterations:
        return "step-limit"
    if settings.max_tokens is not None and run.tokens >= settings.max_tokens:
        return "token-limit"
    if constrained and run.repeats >= 2:
        return "loop"
    return None


def reason_of_answer(run: Run) -> str:
    """The reason in the end event of an answered run."""
    return run.final_reply if run.final_reply in LIMITS else "answered"


def advice(run: Run, result: dict[str, Any]) -> str | None:
    """What is added to an observation that has come often enough already."""
    call = run.open_call or {}
    key = f"{call_key(call['tool'], call['arguments'])}\n{result['text']}"
    times = run.outcomes.get(key, 0) + 1
    return REPEATED.format(times=times) if times >= MOST_REPEATS else None
