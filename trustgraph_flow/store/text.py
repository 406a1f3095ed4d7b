"""JSON text as it stands in the database."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json


def dump(value: Any) -> str:
    """JSON text. Raises TypeError for what is no JSON value."""
    try:
        return to_json(value).decode()
    except (PydanticSerializationError, ValueError):  # half a surrogate pair, from a model that cut it
        return json.dumps(value)


def load(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError:
        return json.loads(text)
