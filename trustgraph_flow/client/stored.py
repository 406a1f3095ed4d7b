"""Config items as they are read back: what can't be understood is shown beside what can."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from trustgraph_flow.schema.base import faults_of

ItemT = TypeVar("ItemT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Stored(Generic[ItemT]):
    """One stored item. Exactly one of ``item`` and ``fault`` is None; ``value`` is the text as stored."""

    key: str
    value: str
    item: ItemT | None = None
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Download:
    """An artifact: ``name`` is a file name, and holds no folders."""

    name: str
    mime_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ConfigContents:
    """All items of one workspace, ``{type: {key: value}}``, and the store's version they were read at."""

    version: int
    items: Mapping[str, Mapping[str, str]]


def read_item(key: str, value: str, model: type[ItemT]) -> Stored[ItemT]:
    try:
        return Stored(key, value, item=model.model_validate_json(value))
    except ValidationError as error:
        return Stored(key, value, fault=faults_of(error))


def write_item(item: BaseModel) -> str:
    """The JSON text to store: names as on the wire, and no field that was left out or is None."""
    absent = {name for name in type(item).model_fields if getattr(item, name) is None}
    body = item.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude=absent)
    return json.dumps(body, ensure_ascii=False, allow_nan=False)
