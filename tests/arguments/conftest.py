"""The fixture tools that the tests of this room share."""

from __future__ import annotations

from typing import Any

import pytest

from trustgraph_flow.arguments import Signature, compile_signature

FORECAST: list[dict[str, Any]] = [
    {"name": "place", "type": "string", "description": "Town", "required": True},
    {"name": "days", "type": "integer", "description": "How many days", "required": False, "default": 3},
    {"name": "units", "type": "string", "enum": ["metric", "imperial"], "required": False},
    {"name": "detailed", "type": "boolean", "required": False},
]
NOTE: list[dict[str, Any]] = [
    {"name": "title", "type": "string", "required": True},
    {"name": "body", "type": "string", "required": True},
    {"name": "tags", "type": "array", "items": {"type": "string"}, "required": False},
    {"name": "meta", "type": "object", "required": False},
]
TRANSFER: list[dict[str, Any]] = [
    {"name": "account_id", "type": "integer", "required": True},
    {"name": "amount", "type": "number", "minimum": 0, "required": True},
    {"name": "dry_run", "type": "boolean", "required": False, "default": False},
]


@pytest.fixture
def forecast() -> Signature:
    return compile_signature(FORECAST)


@pytest.fixture
def note() -> Signature:
    return compile_signature(NOTE)


@pytest.fixture
def transfer() -> Signature:
    return compile_signature(TRANSFER)
