"""Coercion by the declared type, through objects, arrays and unions. Free-form parts are left untouched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .rules import LEFT_OUT, fit
from .text import show_path
from .walk import References, Schema, mapping, names, types_of

Path = tuple[str | int, ...]
IsValid = Callable[[Any], bool]
Compile = Callable[[Any], IsValid]
"""Makes the exact check of one schema inside the document."""

_MAX_PLANS = 5_000
_MAX_DEPTH = 64
_MAX_NESTED_TRIES = 200
_MAX_RECORDED = 100
_EXACT: dict[str, frozenset[type]] = {
    "string": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
    "null": frozenset({type(None)}),
    "array": frozenset({list}),
    "object": frozenset({dict}),
}
_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated", "$comment"})


@dataclass(frozen=True, slots=True)
class Note:
    """One value that was coerced. ``sent`` is absent from the record where the argument was left out."""

    path: Path
    given: Any
    sent: Any
    rule: str

    def record(self) -> dict[str, Any]:
        entry = {"path": show_path(self.path), "given": self.given, "rule": self.rule}
        return entry if self.rule == LEFT_OUT else {**entry, "sent": self.sent}


@dataclass(slots=True)
class Notes:
    """What one call's coercion did, and how many more union branches it may try inside a tried branch.

    Without that limit a recursive union would be tried twice as often at each level.
    """

    entries: list[Note] = field(default_factory=list)
    trying: int = 0
    room: int = 0

    def record(self) -> list[dict[str, Any]]:
        """The first ``_MAX_RECORDED`` notes, and how many more there are."""
        shown = [note.record() for note in self.entries[:_MAX_RECORDED]]
        more = len(self.entries) - len(shown)
        return (
            [*shown, {"path": "", "given": None, "rule": f"{more:,} more values coerced"}] if more else shown
        )


@dataclass(slots=True)
class Plan:
    """What coercion needs of one schema.

    ``exact`` holds the Python types that can be passed over; ``droppable`` the optional properties that
    don't take null; a child of None needs no work.
    """

    types: tuple[str, ...] = ()
    exact: frozenset[type] = frozenset()
    properties: dict[str, Plan | None] = field(default_factory=dict)
    droppable: frozenset[str] = frozenset()
    extra: Plan | None = None
    prefix: tuple[Plan | None, ...] = ()
    items: Plan | None = None
    union: tuple[tuple[Plan | None, IsValid], ...] = ()

    def mend(self, value: Any, path: Path, notes: Notes) -> Any:
        """``value`` as it is sent; never changes what was given. What was done is added to ``notes``."""
        if type(value) in self.exact:
            return value
        if self.types:
            fitted, rule = fit(value, self.types)
            if rule:
                notes.entries.append(Note(path, value, fitted, rule))
            value = fitted
        if self.union:
            value = self._in_union(value, path, notes)
        if type(value) is dict:
            return self._in_object(value, path, notes)
        if type(value) is list:
            return self._in_array(value, path, notes)
        return value

    def _in_object(self, value: dict[str, Any], path: Path, notes: Notes) -> dict[str, Any]:
        mended: dict[str, Any] | None = None
        for name, item in value.items():
            plan = self.properties.get(name, self.extra)
            if item is None and name in self.droppable:
                notes.entries.append(Note((*path, name), None, None, LEFT_OUT))
                mended = dict(value) if mended is None else mended
                del mended[name]
            elif plan is not None and type(item) not in plan.exact:
                new = plan.mend(item, (*path, name), notes)
                if new is not item:
                    mended = dict(value) if mended is None else mended
                    mended[name] = new
        return value if mended is None else mended

    def _in_array(self, value: list[Any], path: Path, notes: Notes) -> list[Any]:
        if self.items is None and not self.prefix:
            return value
        mended: list[Any] | None = None
        for index, item in enumerate(value):
            plan = self.prefix[index] if index < len(self.prefix) else self.items
            if plan is not None and type(item) not in plan.exact:
                new = plan.mend(item, (*path, index), notes)
                if new is not item:
                    mended = list(value) if mended is None else mended
                    mended[index] = new
        return value if mended is None else mended

    def _in_union(self, value: Any, path: Path, notes: Notes) -> Any:
        for plan, fits in self.union:
            if fits(value):
                return value if plan is None else plan.mend(value, path, notes)
        if notes.trying == 0:
            notes.room = _MAX_NESTED_TRIES
        for plan, fits in self.union:
            notes.room -= 1
            if plan is None or notes.room < 0:
                continue
            done = len(notes.entries)
            notes.trying += 1
            mended = plan.mend(value, path, notes)
            notes.trying -= 1
            if fits(mended):
                return mended
            del notes.entries[done:]
        return value


class Planner:
    """Makes the plans of a document: one for each schema in it, however often it is referred to."""

    def __init__(self, references: References, compile_check: Compile) -> None:
        self._references = references
        self._compile = compile_check
        # Keyed by identity; the schema is kept so that the identity stays its own.
        self._plans: dict[int, tuple[Schema, Plan | None]] = {}

    def plan(self, schema: Any, depth: int = 0) -> Plan | None:
        """The plan of ``schema``; None where nothing in it can need coercion."""
        if not isinstance(schema, dict) or depth > _MAX_DEPTH or len(self._plans) > _MAX_PLANS:
            return None
        known = self._plans.get(id(schema))
        if known is not None:
            return known[1]
        plan = Plan()
        self._plans[id(schema)] = (schema, plan)
        self._fill(plan, self._references.flat(schema), depth + 1)
        if plan == Plan():
            self._plans[id(schema)] = (schema, None)
            return None
        return plan

    def _fill(self, plan: Plan, node: Schema, depth: int) -> None:
        plan.types = types_of(node)
        branches = _branches(node)
        simple = _plain_types(branches)
        if simple and not plan.types:
            plan.types = simple
        elif branches:
            plan.union = tuple((self.plan(branch, depth), self._compile(branch)) for branch in branches)
        self._fill_object(plan, node, depth)
        prefix, items = node.get("prefixItems"), node.get("items")
        if isinstance(items, list):
            prefix, items = items, node.get("additionalItems")
        if isinstance(prefix, list):
            plan.prefix = tuple(self.plan(sub, depth) for sub in prefix)
        plan.items = self.plan(items, depth)
        passed = {*plan.types}
        if plan.properties or plan.extra:
            passed.discard("object")
        if plan.items or any(plan.prefix):
            passed.discard("array")
        if not plan.union:
            plan.exact = frozenset().union(*(_EXACT.get(kind, frozenset()) for kind in passed))

    def _fill_object(self, plan: Plan, node: Schema, depth: int) -> None:
        required = set(names(node))
        droppable = set()
        for name, sub in mapping(node, "properties").items():
            plan.properties[name] = self.plan(sub, depth)
            if name not in required and isinstance(sub, dict) and not self._compile(sub)(None):
                droppable.add(name)
        plan.droppable = frozenset(droppable)
        if isinstance(node.get("additionalProperties"), dict):
            plan.extra = self.plan(node["additionalProperties"], depth)


def _branches(node: Schema) -> list[Any]:
    for key in ("anyOf", "oneOf"):
        if isinstance(node.get(key), list):
            return list(node[key])
    return []


def _plain_types(branches: list[Any]) -> tuple[str, ...]:
    """The types of a union whose branches say nothing but a type; () where one says more."""
    types: list[str] = []
    for branch in branches:
        if not isinstance(branch, dict) or branch.keys() - _ANNOTATIONS != {"type"}:
            return ()
        types.extend(types_of(branch))
    return tuple(dict.fromkeys(types))
