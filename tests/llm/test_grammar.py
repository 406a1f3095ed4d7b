"""Schemas made readable for grammar-based servers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trustgraph_flow.llm.grammar import plain_pattern, portable


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"properties": {"a": True, "b": {}}}, {"properties": {"a": {}, "b": {}}}),
        ({"properties": {"a": False}}, {"properties": {}}),
        ({"type": "array", "items": True}, {"type": "array"}),
        ({"type": "array", "prefixItems": [True], "items": False}, {"type": "array", "prefixItems": [{}]}),
        ({"additionalProperties": False}, {"additionalProperties": False}),
        ({"additionalProperties": True}, {"additionalProperties": True}),
        ({"anyOf": [{"properties": {"a": True}}]}, {"anyOf": [{"properties": {"a": {}}}]}),
        ({"allOf": [{"$ref": "#/$defs/x"}]}, {"$ref": "#/$defs/x"}),
        ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, {"type": "integer", "minimum": 3}),
        ({"allOf": [{"minimum": 1}, {"minimum": 3}], "type": "integer"}, {"type": "integer"}),
        ({"$defs": {"x": True}}, {"$defs": {"x": {}}}),
        ({"const": {"pattern": "x", "allOf": 1}}, {"const": {"pattern": "x", "allOf": 1}}),
        ({"enum": [True, {"items": True}]}, {"enum": [True, {"items": True}]}),
        ({"properties": {"pattern": {"type": "string"}}}, {"properties": {"pattern": {"type": "string"}}}),
        ({"type": "string", "pattern": "a"}, {"type": "string"}),
    ],
)
def test_what_converters_cannot_read_is_said_otherwise_or_left_out(
    schema: dict[str, Any], expected: dict[str, Any]
) -> None:
    before = json.dumps(schema)
    assert portable(schema) == expected
    assert json.dumps(schema) == before


def test_keys_keep_their_order() -> None:
    schema = {"properties": {"z": True, "a": {"type": "string"}, "m": {"items": True}}, "required": ["z"]}
    assert list(portable(schema)["properties"]) == ["z", "a", "m"]
    assert list(portable(schema)) == ["properties", "required"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"^\d{4}-\d{2}$", "^[0-9]{4}-[0-9]{2}$"),
        (r"^[\w.-]+$", "^[A-Za-z0-9_.-]+$"),
        (r"^a\/b$", "^a/b$"),
        (r"^\$[0-9]+\.$", r"^\$[0-9]+\.$"),
        (r"^(?:a|b)$", "^(?:a|b)$"),
        ("abc", None),
        (r"^(?=a)b$", None),
        (r"^\bword$", None),
        (r"^\p{L}+$", None),
        ("^[[:alpha:]]$", None),
        ("^ü+$", None),
    ],
)
def test_a_pattern_is_spelled_out_or_left_to_the_later_check(pattern: str, expected: str | None) -> None:
    assert plain_pattern(pattern) == expected
