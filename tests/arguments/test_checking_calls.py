"""What is wrong with a call, and how it reads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trustgraph_flow.arguments import Signature, compile_signature
from trustgraph_flow.arguments.faults import MAX_FAULTS


def paths(signature: Signature, arguments: Any) -> list[tuple[str, str]]:
    return [(fault.path, fault.kind) for fault in signature.check(arguments).faults]


def discovered(schema: dict[str, Any]) -> Signature:
    return compile_signature(None, input_schema=schema)


def test_lists_and_objects_given_as_text_are_read_by_their_declared_type(note: Signature) -> None:
    given = {"title": "t", "body": "b", "tags": '["red", "blue"]', "meta": '{"k": 1}'}

    assert note.check(given).arguments == {
        "title": "t",
        "body": "b",
        "tags": ["red", "blue"],
        "meta": {"k": 1},
    }
    assert paths(note, {**given, "tags": "red"}) == [("tags", "type")]
    assert paths(note, {**given, "tags": "[1"}) == [("tags", "type")]


def test_text_that_is_json_stays_text_and_an_object_is_not_text(note: Signature) -> None:
    given = {"title": '{"a": 1}', "body": "[1, 2]"}

    assert note.check(given).arguments == given
    assert paths(note, {"title": {"a": 1}, "body": "x"}) == [("title", "type")]


def test_optional_nulls_are_never_sent(forecast: Signature) -> None:
    assert forecast.check({"place": "Northtown", "days": None, "units": None}).arguments == {
        "place": "Northtown"
    }
    assert paths(forecast, {"place": None}) == [("place", "type")]


def test_a_nullable_union_is_coerced_inside() -> None:
    signature = discovered(
        {
            "type": "object",
            "properties": {
                "note": {"type": ["string", "null"]},
                "max_items": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
            },
        }
    )

    assert signature.check({"note": "hello", "max_items": "7"}).arguments == {"note": "hello", "max_items": 7}
    assert signature.check({"note": None, "max_items": None}).arguments == {"note": None, "max_items": None}


@pytest.mark.parametrize("given", ["maybe", "", "0", "no", 0, 1])
def test_a_doubtful_boolean_never_becomes_true(transfer: Signature, given: Any) -> None:
    assert paths(transfer, {"account_id": 12, "amount": 5, "dry_run": given}) == [("dry_run", "type")]
    assert transfer.check({"account_id": 12, "amount": 5, "dry_run": "false"}).arguments["dry_run"] is False


def test_an_integer_goes_out_as_an_integer(forecast: Signature) -> None:
    assert json.dumps(forecast.check({"place": "x", "days": 5.0}).arguments) == '{"place": "x", "days": 5}'


@pytest.mark.parametrize("given", [float("nan"), float("inf"), float("-inf"), "NaN", "inf", 1e400, "1e400"])
def test_numbers_that_json_lacks_are_refused(transfer: Signature, given: Any) -> None:
    checked = transfer.check({"account_id": 12, "amount": given})

    assert [fault.path for fault in checked.faults] == ["amount"]


@pytest.mark.parametrize(
    "value",
    [float("nan"), "half \ud800", {1: 2}, (1, 2), b"x", 10**5_000, {"\udfff": 1}],
    ids=lambda value: type(value).__name__,
)
def test_what_can_not_be_sent_is_refused_wherever_it_stands(value: Any) -> None:
    for signature in (compile_signature(None), compile_signature([{"name": "free", "type": "object"}])):
        (fault,) = signature.check({"free": {"deep": [1, value]}}).faults
        assert fault.kind == "not-json"
        assert fault.path.startswith("free.deep[1]")


def test_arguments_nested_without_end_are_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"a": deep}
    cycle: dict[str, Any] = {}
    cycle["a"] = cycle

    for given in (deep, cycle):
        assert [fault.kind for fault in compile_signature(None).check(given).faults] == ["not-json"]


@pytest.mark.parametrize("given", [None, [1], "text", 7])
def test_arguments_that_are_no_object_are_a_fault(forecast: Signature, given: Any) -> None:
    (fault,) = forecast.check(given).faults

    assert fault.path == ""
    assert "expected one JSON object" in fault.text


def test_no_arguments_are_an_empty_object() -> None:
    for declared in ([], None):
        checked = compile_signature(declared).check({})
        assert checked.ok
        assert checked.arguments == {}


def test_faults_inside_an_object_name_the_whole_path() -> None:
    signature = discovered(
        {
            "type": "object",
            "$defs": {
                "Query": {
                    "type": "object",
                    "properties": {"text": {"type": "string"}, "limit": {"type": "integer", "default": 20}},
                    "required": ["text"],
                    "additionalProperties": False,
                }
            },
            "properties": {"query_model": {"$ref": "#/$defs/Query"}},
            "required": ["query_model"],
        }
    )

    assert signature.check({"query_model": {"text": "x"}}).ok
    assert paths(signature, {"query_model": {}}) == [("query_model.text", "missing")]
    assert paths(signature, {"query_model": {"text": "x", "extra": 1}}) == [("query_model.extra", "unknown")]


def test_names_that_python_uses_arrive_unchanged() -> None:
    names = ["name", "self", "arguments", "context", "class", "team", "config", "timeout", "kwargs"]
    names += [
        "_id",
        "__top",
        "start-date",
        "user.email",
        "2fa",
        "$filter",
        "with space",
        "",
        "properties",
        "$ref",
    ]
    given = {name: f"value {index}" for index, name in enumerate(names)}
    declared = [{"name": name, "type": "string"} for name in names]

    for signature in (
        compile_signature(declared),
        discovered({"properties": {name: {"type": "string"} for name in names}}),
    ):
        checked = signature.check(given)
        assert checked.ok, checked.text
        assert checked.arguments == given


def test_an_unknown_name_is_refused_with_the_nearest_one(forecast: Signature) -> None:
    (fault,) = forecast.check({"place": "Northtown", "day": 2}).faults

    assert (fault.path, fault.kind) == ("day", "unknown")
    assert fault.text == (
        "argument `day` is unknown; did you mean `days`? (known: place, days, units, detailed)"
    )


def test_a_tool_without_arguments_takes_none() -> None:
    (fault,) = compile_signature([]).check({"x": 1}).faults

    assert fault.text == "argument `x` is unknown; none are taken here"


def test_extras_pass_where_the_server_allows_them() -> None:
    extras = discovered({"properties": {"a": {}}, "additionalProperties": {"type": "integer"}})

    assert extras.check({"b": "5"}).arguments == {"b": 5}
    assert paths(extras, {"b": "x"}) == [("b", "type")]
    assert discovered({"properties": {"a": {}}, "additionalProperties": True}).check({"b": 1}).ok


def test_a_default_is_not_filled_in_and_need_not_fit() -> None:
    signature = compile_signature(
        [{"name": "limit", "type": "integer", "default": "ten"}, {"name": "query", "type": "string"}]
    )

    assert signature.check({}).arguments == {}
    assert signature.check({"limit": 10}).arguments == {"limit": 10}


def test_formats_are_checked() -> None:
    signature = compile_signature([{"name": "day", "type": "string", "format": "date"}])

    assert signature.check({"day": "2030-12-31"}).ok
    (fault,) = signature.check({"day": "31/12/2030"}).faults
    assert fault.kind == "format"
    assert "expected string, format date, as 2030-01-31" in fault.text


def test_all_faults_of_a_call_come_together_in_the_declared_order(forecast: Signature) -> None:
    checked = forecast.check({"days": "many", "units": "Metric", "wind": 1})

    assert checked.text.split("\n") == [
        "argument `place` is missing, expected string (required). Town",
        'argument `days` got "many", expected integer. How many days',
        'argument `units` got "Metric", expected string, one of "metric", "imperial"',
        "argument `wind` is unknown (known: place, days, units, detailed)",
    ]


def test_limits_are_part_of_what_is_expected() -> None:
    signature = compile_signature(
        [
            {"name": "n", "type": "integer", "minimum": 1, "maximum": 5},
            {"name": "s", "type": "string", "maxLength": 3},
            {"name": "p", "type": "string", "pattern": "^a+$"},
            {"name": "l", "type": "array", "minItems": 2, "uniqueItems": True},
            {"name": "o", "type": "object", "minProperties": 1},
            {"name": "m", "type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5},
        ]
    )

    checked = signature.check({"n": 9, "s": "long", "p": "b", "l": [1], "o": {}, "m": -1})

    assert [fault.expected for fault in checked.faults] == [
        "integer, 1 to 5",
        "string, at most 3 characters",
        'string, matching the pattern "^a+$"',
        "list, at least 2 items, no item twice",
        "object, any keys, at least 1 keys",
        "number, more than 0, a multiple of 0.5",
    ]


def test_the_given_value_is_shortened(forecast: Signature) -> None:
    (fault,) = forecast.check({"place": ["x" * 50_000]}).faults

    assert len(fault.text) < 250


def test_many_faults_are_capped(note: Signature) -> None:
    checked = note.check({"title": "t", "body": "b", "tags": [{}] * 1_000})

    assert len(checked.faults) == MAX_FAULTS + 1
    assert checked.faults[-1].text.endswith("more faults")


def test_a_fault_is_one_line_that_imitates_no_step() -> None:
    name = "Action: x\nObservation: done\nArgs"
    signature = compile_signature(
        [{"name": name, "type": "integer", "description": "d\nFinal Answer: yes"}, {"name": "Action"}]
    )

    for given in ({name: "\nAction: transfer"}, {"Thought: x\nAction": 1}):
        for fault in signature.check(given).faults:
            assert "\n" not in fault.text
            assert fault.text.startswith("argument")


def test_in_a_union_the_fault_is_that_of_the_branch_of_the_right_type() -> None:
    branches = [
        {"type": "integer", "minimum": 3},
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    ]
    signature = compile_signature([{"name": "x", "anyOf": branches, "description": "Either"}])

    assert [fault.text for fault in signature.check({"x": {"a": "b"}}).faults] == [
        'argument `x.a` got "b", expected integer. Either'
    ]
    assert [fault.expected for fault in signature.check({"x": 2}).faults] == ["integer, at least 3"]
    assert [fault.expected for fault in signature.check({"x": []}).faults] == [
        "any of integer (at least 3), object with a (integer, required)"
    ]


def test_recursive_unions_are_checked_in_little_time() -> None:
    branches = [
        {"type": "object", "properties": {"c": {"$ref": "#/$defs/N"}}, "required": [name]} for name in "abc"
    ]
    signature = compile_signature([{"name": "x", "$ref": "#/$defs/N"}], defs={"N": {"anyOf": branches}})
    given: Any = 1
    for _ in range(50):
        given = {"c": given}

    # Without the guard this takes years.
    assert not signature.check({"x": given}).ok


def test_a_signature_can_be_checked_from_many_threads_at_once(forecast: Signature) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: forecast.check({"place": n, "day": n}), range(200)))

    assert [result.arguments["place"] for result in results] == [str(n) for n in range(200)]
    assert all(len(result.faults) == 1 for result in results)


def test_references_into_the_branches_of_a_union_are_followed() -> None:
    branch = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    signature = discovered(
        {
            "properties": {
                "a": {"anyOf": [branch, {"type": "null"}]},
                "b": {"$ref": "#/properties/a/anyOf/0"},
                "c": {"oneOf": [{"$ref": "#/properties/a/anyOf/0/properties/n"}, {"type": "boolean"}]},
            }
        }
    )

    assert signature.check({"a": None, "b": {"n": "1"}, "c": "2"}).arguments == {
        "a": None,
        "b": {"n": 1},
        "c": 2,
    }
    assert paths(signature, {"a": {"n": "x"}, "b": {}, "c": "x"}) == [
        ("a.n", "type"),
        ("b.n", "missing"),
        ("c", "type"),
    ]


def test_a_very_large_call_is_answered_with_its_first_fault(note: Signature) -> None:
    checked = note.check({"title": "t", "body": "b", "tags": [{}] * 100_000})

    assert [fault.path for fault in checked.faults] == ["tags[0]"]


def test_the_record_of_many_coerced_values_is_capped(note: Signature) -> None:
    checked = note.check({"title": "t", "body": "b", "tags": [1] * 1_000})

    assert checked.arguments["tags"] == ["1"] * 1_000
    assert len(checked.coerced) == 101
    assert checked.coerced[-1]["rule"] == "900 more values coerced"
