"""The prompts of one workspace, as its config items say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from trustgraph_flow.schema.base import faults_of
from trustgraph_flow.schema.errors import BadRequest, NotFound
from trustgraph_flow.schema.items import PromptItem

from .templates import render

SYSTEM = "system"
TEMPLATE = "template."


class PromptSet:
    """Made of a workspace's ``prompt`` items. A bad item is a fault of its template alone, when asked for."""

    def __init__(self, items: Mapping[str, str]) -> None:
        self._values = dict(items)
        self._read: dict[str, PromptItem] = {}
        self.system = _text(self._values.get(SYSTEM, ""))

    def ids(self) -> list[str]:
        return sorted(key.removeprefix(TEMPLATE) for key in self._values if key.startswith(TEMPLATE))

    def get(self, id: str) -> PromptItem:
        """The item ``template.<id>``. Raises NotFound, or BadRequest for an item that can't be used."""
        found = self._read.get(id)
        if found is None:
            value = self._values.get(TEMPLATE + id)
            if value is None:
                raise NotFound(f"There is no prompt {id!r} here; save a prompt item {TEMPLATE + id!r}.")
            found = self._read[id] = _item(id, value)
        return found

    def render(self, id: str, variables: Mapping[str, Any]) -> str:
        """The prompt's text. Also raises BadRequest that names the template, the line and the variable."""
        return render(self.get(id).prompt, variables, name=id)


def _text(value: str) -> str:
    """TrustGraph's tools save texts as JSON strings, people save them plain."""
    if value.startswith('"'):
        try:
            parsed = json.loads(value)
        except ValueError:
            return value
        if isinstance(parsed, str):
            return parsed
    return value


def _item(id: str, value: str) -> PromptItem:
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        parsed = None  # then it is the template itself
    if not isinstance(parsed, dict):
        return PromptItem(id=id, prompt=_text(value))
    try:
        return PromptItem.model_validate(parsed)
    except ValidationError as error:
        raise BadRequest(f"The prompt item {TEMPLATE + id!r} can't be used: {faults_of(error)}.") from None
