"""A step that is written as one JSON object, with or without the names that a schema has imposed."""

from __future__ import annotations

import json
from typing import Any

from .labels import names_no_action
from .objects import Unreadable, arguments_of, load_object
from .steps import AnswerStep, CallStep
from .stream import Stream

_MEMBERS = {
    "thought": "thought",
    "action": "action",
    "args": "args",
    "action_input": "args",
    "final_answer": "final_answer",
}
_STEPS = {"action", "final_answer"}


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

    def step(self, text: str) -> CallStep | AnswerStep | None:
        """The step of the whole object; None if it is none; raises ``Unreadable``."""
        value, repaired = load_object(text)
        members = _members(value)
        if not members.keys() & _STEPS and len(value) == 1:
            inner = next(iter(value.values()))
            members = _members(inner) if isinstance(inner, dict) else members
            if members.keys() & _STEPS and isinstance(members.get("thought"), str):
                self._thought.put(members["thought"])
        names = [name for name in members if name in _STEPS]
        for name in names:
            given = members[name]
            if given is None or given == "":
                continue
            return self._call(given, members, repaired) if name == "action" else self._answered(given)
        if names:
            raise Unreadable("empty-answer" if "final_answer" in names else "no-action")
        return None

    def _call(self, name: Any, members: dict[str | None, Any], repaired: bool) -> CallStep:
        if not isinstance(name, str) or names_no_action(name):
            raise Unreadable("no-action")
        if None in members and "args" not in members:
            raise Unreadable("no-args-label")
        arguments, mended = arguments_of(members.get("args"))
        return CallStep(self._thought.end(), name.strip(), arguments, repaired or mended)

    def _answered(self, given: Any) -> AnswerStep:
        if not self._answer.started:
            self._answer.put(given if isinstance(given, str) else json.dumps(given, ensure_ascii=False))
        answer = self._answer.end()
        if not answer:
            raise Unreadable("empty-answer")
        return AnswerStep(self._thought.end(), answer)


def _members(value: dict[str, Any]) -> dict[str | None, Any]:
    """The members that make a step by their own names; those that don't are all under None."""
    members: dict[str | None, Any] = {}
    for key, item in value.items():
        member = _member(key)
        if member is not None and member in members:
            raise Unreadable("duplicate-keys", f"names {member} twice; give each name once.")
        members[member] = item
    return members
