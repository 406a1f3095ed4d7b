"""BFCL's public calls against our signatures: every good call passes unchanged, every bad one is refused.

    python benchmarks/bfcl.py [--cache FOLDER]

Downloads `bfcl-eval` (Apache-2.0) with pip, once, and reads its data only; its schemas use Python's type
names. `jsonschema` is the reference: it judges the same calls by schemas that are converted here, apart from
our code. Each call is made of the first accepted value of every argument; "" stands for leaving an optional
argument out.

Prints the figures, then every difference with its cause.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema

from trustgraph_flow.arguments import Signature, compile_signature

CATEGORIES = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
)
TYPES = {"dict": "object", "float": "number", "tuple": "array"}
WORDS = {"object": "object", "array": "list"}
WRONG: dict[str, Any] = {
    "string": {"not": "text"},
    "integer": "five",
    "number": "much",
    "boolean": "maybe",
    "array": "red",
    "object": "blue",
}
MENDED = {"string": 417, "integer": "5", "number": "2.5", "boolean": "true", "array": "[]", "object": "{}"}


@dataclass(frozen=True)
class Call:
    """One call of the data, with the function that it is for."""

    id: str
    function: dict[str, Any]
    arguments: dict[str, Any]


@dataclass
class Tally:
    """What happened; `notes` are printed one a line."""

    count: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def note(self, kind: str, text: str) -> None:
        self.count[kind] += 1
        self.notes.append(f"{kind}: {text}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    parser.add_argument("--cache", type=Path, default=home / "trustgraph-flow-react" / "bfcl")
    items, calls, functions = read(wheel(parser.parse_args().cache))
    goods, mutants, shown = Tally(), Tally(), Tally()
    for call in calls:
        judge(call, goods, mutants)
    for function in functions:
        round_trip(function, shown)
    print(f"items {items:,}, calls {len(calls):,}, functions {len(functions):,}")
    for title, tally in (("calls", goods), ("mutants", mutants), ("prompt text", shown)):
        print(f"\n{title}")
        for kind, number in sorted(tally.count.items()):
            print(f"  {number:7,}  {kind}")
    for tally in (goods, mutants, shown):
        print()
        print("\n".join(tally.notes))
    return 0


def wheel(cache: Path) -> Path:
    """The wheel in the cache, downloaded if it is not there."""
    cache.mkdir(parents=True, exist_ok=True)
    found = sorted(cache.glob("bfcl_eval-*.whl"))
    if not found:
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--dest",
                str(cache),
                "bfcl-eval",
            ],
            check=True,
        )
        found = sorted(cache.glob("bfcl_eval-*.whl"))
    return found[-1]


def read(path: Path) -> tuple[int, list[Call], list[dict[str, Any]]]:
    """Number of items, their calls, and each different function."""
    items, calls, functions = 0, [], {}
    with zipfile.ZipFile(path) as archive:

        def lines(name: str) -> Iterator[dict[str, Any]]:
            text = archive.read(f"bfcl_eval/data/{name}.json").decode()
            return (json.loads(line) for line in text.splitlines() if line)

        for category in CATEGORIES:
            answers = {
                answer["id"]: answer["ground_truth"]
                for answer in lines(f"possible_answer/BFCL_v4_{category}")
            }
            for item in lines(f"BFCL_v4_{category}"):
                items += 1
                offered = {function["name"]: function for function in item["function"]}
                for function in item["function"]:
                    functions.setdefault(json.dumps(function, sort_keys=True), function)
                for answer in answers[item["id"]]:
                    ((name, accepted),) = answer.items()
                    required = offered[name]["parameters"].get("required", ())
                    calls.append(Call(item["id"], offered[name], choose(accepted, required)))
    return items, calls, list(functions.values())


def choose(accepted: Any, required: Any = ()) -> Any:
    """The first accepted value, all the way down."""
    if isinstance(accepted, dict):
        chosen = {}
        for name, listed in accepted.items():
            values = list(listed) if isinstance(listed, list) else [listed]
            if values and values[0] == "" and name in required:
                values.sort(key=lambda value: value == "")
            elif not values or values[0] == "":
                continue
            chosen[name] = choose(values[0])
        return chosen
    if isinstance(accepted, list):
        return [choose(value) for value in accepted]
    return accepted


def declared(function: dict[str, Any]) -> list[dict[str, Any]]:
    """The function's parameters as an operator would declare them, with their Python type names."""
    parameters = function["parameters"]
    required = parameters.get("required", [])
    # The required list of an object argument stands where our own mark stands, so it moves into allOf.
    entries = []
    for name, schema in parameters["properties"].items():
        inner = (
            {"allOf": [{"required": schema["required"]}]} if isinstance(schema.get("required"), list) else {}
        )
        entries.append({**schema, **inner, "name": name, "required": name in required})
    return entries


def reference(schema: dict[str, Any]) -> dict[str, Any]:
    """The same schema in JSON Schema's words; read apart from our code, to be a check of it."""
    schema = dict(schema)
    if schema.get("type") == "any":
        del schema["type"]
    elif "type" in schema:
        schema["type"] = TYPES.get(schema["type"], schema["type"])
    if "properties" in schema:
        schema["properties"] = {name: reference(sub) for name, sub in schema["properties"].items()}
    if "items" in schema:
        schema["items"] = reference(schema["items"])
    return schema


def judge(call: Call, goods: Tally, mutants: Tally) -> None:
    """One call, and if the reference accepts it every mutant of it."""
    schema = {**reference(call.function["parameters"]), "additionalProperties": False}
    validator = jsonschema.Draft202012Validator(schema)
    signature = compile_signature(declared(call.function))
    errors = [f"{error.json_path} {error.message[:80]}" for error in validator.iter_errors(call.arguments)]
    checked = signature.check(call.arguments)
    place = f"{call.id} {call.function['name']}"
    if errors:
        goods.count["contradict their own schema, says the reference"] += 1
        if checked.ok:
            rules = ", ".join(f"{note['path']} {note['rule']}" for note in checked.coerced)
            goods.note("of these passed after coercion", f"{place}: {rules}")
        else:
            goods.note("of these refused", f"{place}: {errors[0]}")
        return
    goods.count["valid, says the reference"] += 1
    if not checked.ok:
        goods.note("of these REFUSED", f"{place}: {checked.text}")
    elif not same(checked.arguments, call.arguments):
        goods.note("of these passed with OTHER values", f"{place}: {checked.coerced}")
    else:
        goods.count["of these passed with equal values"] += 1
    for kind, path, arguments in mutations(call, schema):
        judge_mutant(kind, path, arguments, place, signature, validator, mutants)


def judge_mutant(
    kind: str,
    path: str,
    arguments: dict[str, Any],
    place: str,
    signature: Signature,
    validator: jsonschema.Draft202012Validator,
    mutants: Tally,
) -> None:
    checked = signature.check(arguments)
    if validator.is_valid(arguments):
        mutants.note(f"{kind}: valid to the reference too", f"{place} {path}")
    elif checked.ok and kind == "type that the table mends":
        (note,) = checked.coerced
        mutants.count[f"{kind}: {note['rule']}"] += 1
    elif checked.ok:
        mutants.note(f"{kind}: PASSED", f"{place} {path}")
    elif any(fault.path == path or fault.path.startswith(f"{path}.") for fault in checked.faults):
        mutants.count[f"{kind}: refused with its path"] += 1
    else:
        mutants.note(f"{kind}: refused with ANOTHER path", f"{place} {path}: {checked.text}")


def mutations(call: Call, schema: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Kind, path and arguments of each mutant."""
    given = call.arguments
    for name in schema.get("required", []):
        yield "required argument dropped", name, {key: given[key] for key in given if key != name}
    yield "undeclared argument added", "not_declared", {**given, "not_declared": 1}
    for name in given:
        sub = schema["properties"][name]
        if sub.get("type") in WRONG:
            yield "type made wrong", name, {**given, name: WRONG[sub["type"]]}
            if "enum" not in sub and not sub.get("properties"):
                yield "type that the table mends", name, {**given, name: MENDED[sub["type"]]}
        if isinstance(sub.get("enum"), list) and sub.get("type") == "string":
            yield "value outside the enum", name, {**given, name: "no such value"}


def same(first: Any, second: Any) -> bool:
    """Equal, and with equal JSON types; 5.0 and 5 are one integer."""
    return json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True) or first == second


def round_trip(function: dict[str, Any], shown: Tally) -> None:
    """Whether the text names every argument, type, allowed value and required mark, nested ones too."""
    text = compile_signature(declared(function)).text
    parameters = reference(function["parameters"])
    lines = {line.split(": ")[0]: line for line in text.split("\n") if line.startswith("- ")}
    for name, schema in parameters["properties"].items():
        line = lines.get(f"- {name}") or lines.get(f"- {json.dumps(name, ensure_ascii=False)}")
        missing = ["the name"] if line is None else list(lost(line.split(": ", 1)[1], schema))
        need = "(required)" if name in parameters.get("required", []) else "(optional)"
        if line is not None and need not in line:
            missing.append(need)
        if missing:
            shown.note("argument shown with something MISSING", f"{function['name']} {name}: {missing}")
        else:
            shown.count["arguments shown whole"] += 1


def lost(words: str, schema: dict[str, Any]) -> Iterator[str]:
    """What of a schema is not in its words."""
    kind = schema.get("type")
    if kind is not None and not re.match(rf"{WORDS.get(kind, kind)}\b", words):
        yield f"type {kind}"
    for value in schema.get("enum", []):
        if json.dumps(value, ensure_ascii=False) not in words:
            yield f"value {value!r}"
    if "items" in schema:
        item = schema["items"]
        yield from (f"items: {thing}" for thing in lost(words.removeprefix("list of "), item))
    for name, sub in schema.get("properties", {}).items():
        start = re.search(rf"(?:with|,) {re.escape(name)} \(", words)
        if start is None:
            yield f"member {name}"
            continue
        inner = balanced(words[start.end() :])
        if name in schema.get("required", []) and not re.search(r", required(?:[,:]|$)", inner):
            yield f"required mark of {name}"
        yield from (f"{name}: {thing}" for thing in lost(inner, sub))


def balanced(words: str) -> str:
    """What stands before the closing bracket of the bracket that has been opened."""
    depth = 1
    for index, letter in enumerate(words):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 0:
            return words[:index]
    return words


if __name__ == "__main__":
    sys.exit(main())
