"""A step that is written as one JSON object, with or without the names that a schema has imposed."""

from __future__ import annotations

import json
from typing import Any

from .labels import names_no_action
from .objects import Unreadable, arguments_of, load_object
from .steps import AnswerStep, CallStep, Reply, fault
from .stream import Stream

_MEMBERS = {
    "thought": "thought",
    "action": "action",
    "args": "args",
    "action_input": "args",
    "final_answer": "final_answer",
}


def _member(key: str) -> str | None:
    return _MEMBERS.get(key.strip().lower().replace(" ", "_").replace("-", "_"))


class Envelope:
    """Streams thought and answer while the object arrives, and says at its end which step it was.

    The first of ``action`` and ``final_answer`` that has a value is the step; the other one is dropped.
    """

    def __init__(self, thought: Stream, answer: Stream) -> None:
        self._thought = thought
        self._answer = answer
        self._names_action = False

    def add(self, key: str, text: str) -> None:
        """The next piece of the string under ``key``."""
        member = _member(key)
        if member == "thought":
            self._thought.put(text)
        elif member == "action":
            self._names_action = self._names_action or not text.isspace()
        elif member == "final_answer" and not self._names_action:
            self._answer.put(text)

    def close(self, text: str, *, constrained: bool) -> Reply | None:
        """The step of the whole object; None if it is none; raises ``Unreadable``."""
        value, repaired = load_object(text)
        members = _members(value)
        if not members.keys() & {"action", "final_answer"} and len(value) == 1:
            inner = next(iter(value.values()))
            members = _members(inner) if isinstance(inner, dict) else members
            if members.keys() & {"action", "final_answer"} and isinstance(members.get("thought"), str):
                self._thought.put(members["thought"])
        return self._step(members, repaired, constrained)

    def _step(self, members: dict[str | None, Any], repaired: bool, constrained: bool) -> Reply | None:
        thought = self._thought.end()
        names = [name for name in members if name in ("action", "final_answer")]
        for name in names:
            given = members[name]
            if given is None or given == "":
                continue
            if name == "final_answer":
                return self._answered(thought, given, constrained)
            if not isinstance(given, str) or names_no_action(given):
                return fault(thought, "no-action", constrained=constrained)
            if None in members and "args" not in members:
                return fault(thought, "no-args-label", constrained=constrained)
            arguments, mended = arguments_of(members.get("args"))
            return CallStep(thought, given.strip(), arguments, repaired or mended)
        if "final_answer" in names:
            return fault(thought, "empty-answer", constrained=constrained)
        return fault(thought, "no-action", constrained=constrained) if names else None

    def _answered(self, thought: str, given: Any, constrained: bool) -> Reply:
        if not self._answer.started:
            self._answer.put(given if isinstance(given, str) else json.dumps(given, ensure_ascii=False))
        answer = self._answer.end()
        if not answer:
            return fault(thought, "empty-answer", constrained=constrained)
        return AnswerStep(thought, answer)


def _members(value: dict[str, Any]) -> dict[str | None, Any]:
    """The members that make a step by their own names; those that don't are all under None."""
    members: dict[str | None, Any] = {}
    for key, item in value.items():
        member = _member(key)
        if member is not None and member in members:
            raise Unreadable("duplicate-keys", f"names {member} twice; give each name once.")
        members[member] = item
    return members
