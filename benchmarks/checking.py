"""Checking calls and rendering prompts, as ratios within one run.

    python benchmarks/checking.py

A check is timed against `jsonschema` and against a pydantic model of the same shape, on a call that fits, one
that coercion mends, and one with faults (all of them listed, by each). Prompts are rendered by the agent's
own code from the shipped template; "first" makes the tools from their config texts, "again" renders when
nothing has changed. History grows by whole turns. Each figure is the least of several rounds; the machine's
noise makes the others larger.
"""

from __future__ import annotations

import json
import timeit
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import jsonschema
import pydantic

from trustgraph_flow.agent.react.prompting import Prompter
from trustgraph_flow.agent.react.run import Run, Turn
from trustgraph_flow.agent.react.toolset import LoadedTool, load_toolset
from trustgraph_flow.agent.react.types import ToolContext
from trustgraph_flow.arguments import compile_signature
from trustgraph_flow.bus import Bus
from trustgraph_flow.config.files import read_folder
from trustgraph_flow.prompt import PromptSet

ARGUMENTS: list[dict[str, Any]] = [
    {
        "name": "place",
        "type": "string",
        "description": "The town to look at",
        "required": True,
        "maxLength": 80,
    },
    {
        "name": "days",
        "type": "integer",
        "description": "How many days",
        "minimum": 1,
        "maximum": 9,
        "default": 3,
    },
    {"name": "units", "type": "string", "description": "Of all values", "enum": ["metric", "imperial"]},
    {"name": "tags", "type": "array", "description": "Marks to keep", "items": {"type": "string"}},
    {"name": "detailed", "type": "boolean", "description": "Hour by hour", "default": False},
]
GOOD = {"place": "Northtown", "days": 2, "units": "metric", "tags": ["a", "b"], "detailed": True}
MENDED = {"place": "Northtown", "days": "2", "units": "metric", "tags": '["a", "b"]', "detailed": "true"}
FAULTY = {"days": "two", "units": "Metric", "tags": ["a", "b"], "detailed": True, "wind": 1}


class Forecast(pydantic.BaseModel):
    """The same shape. It coerces too, but takes "yes" and 1 for true, and reads no JSON text."""

    model_config = pydantic.ConfigDict(extra="forbid")

    place: str = pydantic.Field(max_length=80)
    days: int = pydantic.Field(default=3, ge=1, le=9)
    units: Literal["metric", "imperial"] | None = None
    tags: list[str] | None = None
    detailed: bool = False


def main() -> None:
    checks()
    prompts()
    histories()


def checks() -> None:
    signature = compile_signature(ARGUMENTS)
    assert signature.schema is not None
    validator = jsonschema.Draft202012Validator(signature.schema, format_checker=jsonschema.FormatChecker())

    def by_pydantic(call: dict[str, Any]) -> Any:
        try:
            return Forecast.model_validate(call)
        except pydantic.ValidationError as error:
            return error.errors()

    print("check of a call            ours      jsonschema       pydantic")
    for title, call in (("fits", GOOD), ("mended", MENDED), ("faulty", FAULTY)):
        ours = least(lambda call=call: signature.check(call))
        theirs = least(lambda call=call: list(validator.iter_errors(call)))
        model = least(lambda call=call: by_pydantic(call))
        print(
            f"  {title:18} {ours * 1e6:9.1f} µs {theirs * 1e6:9.1f} µs {theirs / ours:4.1f}x"
            f" {model * 1e6:9.1f} µs {model / ours:4.1f}x"
        )
    print(f"  compile a signature {least(lambda: compile_signature(ARGUMENTS)) * 1e6:8.1f} µs")


def prompts() -> None:
    print("\nrender a prompt           first           again    ratio")
    prompter = the_prompter()
    run = Run(run_id="r", question="What will the weather be in Northtown?")
    for count in (10, 100, 1_000):
        items = {"tool": {f"t{n}": tool_text(n) for n in range(count)}}
        tools = make(items)

        def first(items: Any = items) -> str:
            return render(prompter, run, make(items))

        def again(tools: Any = tools) -> str:
            return render(prompter, run, tools)

        slow, fast = least(first, 3), least(again)
        print(f"  {count:5} tools of 5 {slow * 1e3:9.2f} ms {fast * 1e3:12.3f} ms {slow / fast:7.0f}x")


def histories() -> None:
    print("\nrender with a history     again    a turn")
    prompter = the_prompter()
    tools = make({"tool": {"t0": tool_text(0)}})
    for count in (1, 10, 100, 1_000):
        run = Run(run_id="r", question="What will the weather be in Northtown?")
        run.turns = [Turn("I look", "t0", GOOD, "21 degrees.\nIt is clear.", False)] * count
        seconds = least(lambda run=run: render(prompter, run, tools))
        print(f"  {count:5} turns {seconds * 1e3:12.3f} ms {seconds / count * 1e6:8.1f} µs")


def the_prompter() -> Prompter:
    changes = read_folder(Path(__file__).resolve().parent.parent / "config")
    items = {change.key: change.value for change in changes if change.type == "prompt" and change.value}
    return Prompter(PromptSet(items), "agent-react")


def tool_text(number: int) -> str:
    item = {"type": "mcp-tool", "name": f"tool_{number}", "description": "Looks up the outlook of a town."}
    return json.dumps({**item, "mcp-tool": "m", "arguments": ARGUMENTS})


def make(items: dict[str, dict[str, str]]) -> Sequence[LoadedTool]:
    # The tools are shown and never called, so nothing will ask this context for its bus.
    return load_toolset(ToolContext(cast(Bus, None), ""), items).tools


def render(prompter: Prompter, run: Run, tools: Sequence[LoadedTool]) -> str:
    return prompter.render(run, tools, constrained=False, final=False, context_tokens=None)


def least(work: Callable[[], Any], rounds: int = 7) -> float:
    """Seconds of one run of ``work``: the least of several rounds of about 50 ms."""
    timer = timeit.Timer(work)
    once = max(timer.timeit(1), 1e-7)
    number = max(1, int(0.05 / once))
    return min(timer.repeat(rounds, number)) / number


if __name__ == "__main__":
    main()
