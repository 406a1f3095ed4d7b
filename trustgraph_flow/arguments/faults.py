"""What is wrong with a call, one fault a line, worded for the model to act on."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import jsonschema_rs as engine

from .coerce import Path
from .document import Document, guarded_union
from .rules import JSON_TYPES
from .show import Describer
from .text import one_line, show_path, show_value
from .walk import Schema, mapping, parts, types_of

FaultKind = Literal["missing", "unknown", "type", "value", "limit", "format", "union", "not-json", "invalid"]

MAX_FAULTS = 20
_MAX_PARTS = 5_000
_MAX_GIVEN = 80
_MAX_DESCRIPTION = 200
_MAX_KNOWN = 30
_KINDS: Mapping[str, FaultKind] = {
    "type": "type",
    "enum": "value",
    "const": "value",
    "format": "format",
    "pattern": "format",
    "not": "invalid",
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "limit"),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "uniqueItems"), "limit"),
    **dict.fromkeys(("minProperties", "maxProperties"), "limit"),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with a call.

    ``path`` reads like ``query.tags[0]``, "" for the arguments as a whole; ``given`` is the value as short
    JSON, "nothing" where it is missing; ``text`` is the whole line.
    """

    path: str
    kind: FaultKind
    given: str
    expected: str
    text: str


def not_json(path: Path, reason: str) -> Fault:
    """The fault of a value that JSON can't carry."""
    return _fault(
        path, "not-json", reason, "a JSON value", f"is {reason}; give a value that JSON can carry", ""
    )


def not_an_object(value: Any) -> Fault:
    """The fault of arguments that are no object at all."""
    given = show_value(value, _MAX_GIVEN)
    return _fault(
        (), "type", given, "object", f"got {given}, expected one JSON object of names and values", ""
    )


class Explainer:
    """Turns the engine's errors about values of one document into faults."""

    def __init__(self, document: Document) -> None:
        self._document = document.guarded
        self._references = self._document.references
        self._words = Describer(document.references)

    def faults(self, value: Any) -> list[Fault]:
        """Every fault of ``value``, at most ``MAX_FAULTS``, in the order of the declared arguments."""
        order: dict[str | int, int] = {
            name: at for at, name in enumerate(self._properties(self._document.root))
        }
        found: dict[tuple[Path, str, str], Fault] = {}
        for path, fault in self._explain(self._document.root, value, (), value):
            found.setdefault((path, fault.kind, fault.expected), fault)
        ranked = sorted(
            found.items(), key=lambda item: order.get(item[0][0][0], len(order)) if item[0][0] else len(order)
        )
        faults = [fault for _, fault in ranked[:MAX_FAULTS]]
        if len(ranked) > MAX_FAULTS:
            faults.append(_fault((), "invalid", "", "", f"and {len(ranked) - MAX_FAULTS} more faults", ""))
        return faults

    def _explain(self, schema: Any, value: Any, above: Path, whole: Any) -> Iterator[tuple[Path, Fault]]:
        validator = self._document.part(schema)
        for error in _errors(validator, value):
            path = (*above, *error.instance_path)
            node = self._node(schema, error.schema_path)
            part = _at(whole, path)
            branches = guarded_union(node) if error.kind.name == "not" else None
            if branches is None:
                yield from self._one(error, node, path, part)
            else:
                yield from self._union(branches, part, path, whole)

    def _union(self, branches: list[Any], part: Any, path: Path, whole: Any) -> Iterator[tuple[Path, Fault]]:
        """The faults inside the one branch that the value is of the right type for; else the branches."""
        kind = JSON_TYPES[type(part)]
        fitting = [branch for branch in branches if self._takes(branch, kind)]
        if len(fitting) == 1 and len(path) < 60:
            yield from self._explain(fitting[0], part, path, whole)
        else:
            expected = self._words.phrase({"anyOf": fitting or branches})
            yield path, self._got(path, "union" if fitting else "type", part, expected)

    def _takes(self, branch: Any, kind: str) -> bool:
        types = types_of(self._references.flat(branch))
        return branch is not False and (
            not types or kind in types or (kind == "integer" and "number" in types)
        )

    def _one(
        self, error: engine.ValidationError, node: Schema, path: Path, part: Any
    ) -> Iterator[tuple[Path, Fault]]:
        details = error.kind.as_dict()
        match error.kind.name:
            case "required":
                name = str(details.get("property"))
                sub = self._properties(node).get(name, True)
                expected = self._words.phrase(sub)
                yield (
                    (*path, name),
                    self._fault(
                        (*path, name),
                        "missing",
                        "nothing",
                        expected,
                        f"is missing, expected {expected} (required)",
                    ),
                )
            case "additionalProperties" | "unevaluatedProperties":
                for name in details.get("unexpected", [])[: 5 * MAX_FAULTS]:
                    yield (*path, name), self._unknown(path, name, node, part)
            case "propertyNames":
                name = str(details["error"].instance)
                yield (*path, name), self._unknown(path, name, node, part)
            case name:
                expected = self._words.phrase(node)
                if name not in _KINDS or name == "not" or expected == "any value":
                    expected = one_line(error.message, 200)
                yield path, self._got(path, _KINDS.get(name, "invalid"), part, expected)

    def _got(self, path: Path, kind: FaultKind, part: Any, expected: str) -> Fault:
        given = show_value(part, _MAX_GIVEN)
        return self._fault(path, kind, given, expected, f"got {given}, expected {expected}")

    def _unknown(self, path: Path, name: str, node: Schema, part: Any) -> Fault:
        known = list(self._properties(node))
        given = show_value(part.get(name) if isinstance(part, dict) else None, _MAX_GIVEN)
        nearest = _nearest(name, [one for one in known if not isinstance(part, dict) or one not in part])
        advice = f"; did you mean `{one_line(nearest)}`?" if nearest is not None else ""
        shown = ", ".join(one_line(one) or '""' for one in known[:_MAX_KNOWN])
        if len(known) > _MAX_KNOWN:
            shown += f" and {len(known) - _MAX_KNOWN} more"
        expected = f"known: {shown}" if known else "no arguments"
        words = f"is unknown{advice} ({expected})" if known else "is unknown; none are taken here"
        return self._fault((*path, name), "unknown", given, expected, words)

    def _fault(self, path: Path, kind: FaultKind, given: str, expected: str, words: str) -> Fault:
        return _fault(
            path, kind, given, expected, words, self._description(path) if kind != "unknown" else ""
        )

    def _description(self, path: Path) -> str:
        """The description of what is at ``path``, or of the nearest part around it that has one."""
        node: Any = self._document.root
        found = ""
        for step in path:
            flat = self._references.flat(node)
            node = self._properties(flat).get(step) if isinstance(step, str) else flat.get("items")
            text = self._references.flat(node).get("description")
            found = text if isinstance(text, str) and text.strip() else found
        return one_line(found.strip(), _MAX_DESCRIPTION)

    def _properties(self, node: Any) -> Schema:
        return mapping(self._references.flat(node), "properties")

    def _node(self, schema: Any, path: list[str | int]) -> Schema:
        """The schema object that holds the keyword at ``path``; {} where it can't be found."""
        for start in (schema, self._document.root):
            node: Any = start
            for step in path[:-1]:
                try:
                    node = node[step]
                except (KeyError, IndexError, TypeError):
                    break
            else:
                if isinstance(node, dict):
                    return node
        return {}


def _fault(path: Path, kind: FaultKind, given: str, expected: str, words: str, description: str) -> Fault:
    place = show_path(path)
    subject = f"argument `{place}`" if path else "arguments"
    end = f". {description}" if description else ""
    return Fault(place, kind, given, expected, f"{subject} {words}{end}")


def _errors(validator: engine.Validator, value: Any) -> Iterator[engine.ValidationError]:
    """The engine's errors; of a large value only the first, as the engine makes all before it gives one."""
    small = next((False for _ in islice(parts(value), _MAX_PARTS, None)), True)
    if small:
        yield from islice(validator.iter_errors(value), 5 * MAX_FAULTS)
    else:
        try:
            validator.validate(value)
        except engine.ValidationError as error:
            yield error


def _nearest(name: str, known: list[str]) -> str | None:
    """The known name that a misspelt one most likely stands for."""
    if len(name) > 80:
        return None
    folded = {one.casefold(): one for one in reversed(known[:500]) if len(one) <= 80}
    close = difflib.get_close_matches(name.casefold(), folded, 1, 0.6)
    return folded[close[0]] if close else None


def _at(value: Any, path: Path) -> Any:
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value
