"""The schema that steers a model's reply."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from trustgraph_flow.arguments import Signature, compile_signature, response_schema

SHARED_KEYWORDS = frozenset(
    {
        *("type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf"),
        *("minItems", "maxItems", "minLength", "maxLength", "minimum", "maximum", "format"),
    }
)


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for sub in schema.get("properties", {}).values():
            yield from nodes(sub)
        for key in ("items", "additionalProperties"):
            yield from nodes(schema.get(key))
        for branch in schema.get("anyOf", []):
            yield from nodes(branch)


def accepts(schema: dict[str, Any], reply: Any) -> bool:
    return jsonschema_rs.is_valid(schema, reply, validate_formats=True)


def test_a_reply_is_a_thought_and_then_a_call_or_an_answer(forecast: Signature) -> None:
    schema = response_schema([("get_forecast", forecast), ("list_servers", compile_signature([]))])

    assert accepts(schema, {"thought": "t", "action": "get_forecast", "args": {"place": "x", "days": 2}})
    assert accepts(schema, {"thought": "t", "action": "list_servers", "args": {}})
    assert accepts(schema, {"thought": "t", "final_answer": "done"})
    assert not accepts(schema, {"thought": "t", "action": "get_forecast", "args": {}})
    assert not accepts(
        schema, {"thought": "t", "action": "get_forecast", "args": {"place": "x", "units": "Metric"}}
    )
    assert not accepts(schema, {"thought": "t", "action": "list_servers", "args": {"place": "x"}})
    assert not accepts(schema, {"thought": "t", "action": "other", "args": {}})
    assert not accepts(schema, {"thought": "t", "action": "list_servers", "args": {}, "final_answer": "x"})
    assert not accepts(schema, {"thought": "t" * 301, "final_answer": "x"})
    assert not accepts(schema, {"thought": "t", "final_answer": ""})


def test_the_order_of_writing_is_kept(forecast: Signature) -> None:
    call, answer = response_schema([("get_forecast", forecast)])["anyOf"]

    assert list(call["properties"]) == call["required"] == ["thought", "action", "args"]
    assert list(call["properties"]["args"]["properties"]) == ["place", "days", "units", "detailed"]
    assert list(answer["properties"]) == answer["required"] == ["thought", "final_answer"]


def test_one_branch_alone_is_an_object(forecast: Signature) -> None:
    tools = [("get_forecast", forecast)]

    assert list(response_schema(tools, only_final=True)["properties"]) == ["thought", "final_answer"]
    assert list(response_schema([])["properties"]) == ["thought", "final_answer"]
    assert list(response_schema(tools, final=False)["properties"]) == ["thought", "action", "args"]


def test_a_tool_whose_arguments_are_not_known_takes_any_object() -> None:
    schema = response_schema([("t", compile_signature(None))])

    assert accepts(schema, {"thought": "t", "action": "t", "args": {"a": [1, {}]}})


HARD: list[dict[str, Any]] = [
    {"name": "pattern", "type": "string", "pattern": "^(?=a)\\w+$", "maxLength": 10_000, "required": True},
    {"name": "number", "type": "number", "multipleOf": 0.1, "minimum": 0, "examples": [1]},
    {"name": "huge", "type": "integer", "minimum": -(10**30), "maximum": 10**30},
    {"name": "tree", "$ref": "#/$defs/Tree"},
    {
        "name": "all",
        "allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}}, {"required": ["a"]}],
    },
    {"name": "one", "oneOf": [{"type": "string", "format": "email"}, {"type": "null"}]},
    {"name": "not", "type": "string", "not": {"const": "x"}},
    {"name": "tuple", "type": "array", "prefixItems": [{"type": "integer"}], "contains": {"const": 1}},
    {"name": "map", "type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1},
    {"name": "free", "type": "object", "patternProperties": {"^x": {}}, "propertyNames": {"maxLength": 3}},
    {"name": "any"},
    {"name": "if", "type": "string", "if": {"const": "a"}, "then": {"minLength": 1}},
]
TREE = {"Tree": {"type": "object", "properties": {"n": {"type": "int"}, "next": {"$ref": "#/$defs/Tree"}}}}


def test_only_shared_keywords_are_left() -> None:
    schema = response_schema([("t", compile_signature(HARD, defs=TREE))])

    for node in nodes(schema):
        assert node.keys() <= SHARED_KEYWORDS
    assert "$ref" not in json.dumps(schema)


def test_what_fits_the_signature_fits_the_narrowed_schema() -> None:
    signature = compile_signature(HARD, defs=TREE)
    given = {
        "pattern": "abc",
        "number": 0.5,
        "huge": 10**20,
        "tree": {"n": 1, "next": {"n": 2, "next": {"next": {"next": {"next": {"n": 3}}}}}},
        "all": {"a": 1},
        "one": None,
        "tuple": [1, "x"],
        "map": {"a": 1},
        "free": {"xy": 1},
        "any": [{}],
    }

    assert signature.check(given).ok
    assert accepts(signature.response, given)


def test_a_schema_that_would_grow_without_end_becomes_free_form() -> None:
    defs = {
        f"A{n}": {"type": "object", "properties": {k: {"$ref": f"#/$defs/A{n + 1}"} for k in "abcdefgh"}}
        for n in range(20)
    }
    signature = compile_signature(
        [{"name": "x", "$ref": "#/$defs/A0"}], defs={**defs, "A20": {"type": "string"}}
    )

    assert len(json.dumps(signature.response)) < 500_000
    assert accepts(signature.response, {"x": {"a": {"a": {}}}})


def test_the_schema_of_a_signature_is_made_once(forecast: Signature) -> None:
    assert forecast.response is forecast.response


@pytest.mark.parametrize("name", ["天气_查询", "New Tool", 'quo"te', "a.b/c"])
def test_the_name_of_a_tool_appears_letter_for_letter(name: str) -> None:
    schema = response_schema([(name, compile_signature([]))], final=False)

    assert accepts(schema, {"thought": "", "action": name, "args": {}})


def test_llama_cpp_turns_the_schemas_into_grammars(forecast: Signature) -> None:
    xllamacpp = pytest.importorskip("xllamacpp")
    tools = [
        ("get_forecast", forecast),
        ("hard", compile_signature(HARD, defs=TREE)),
        ("any", compile_signature(None)),
    ]

    for options in ({}, {"final": False}, {"only_final": True}):
        assert xllamacpp.json_schema_to_grammar(json.dumps(response_schema(tools, **options)))
