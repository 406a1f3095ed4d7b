"""Every row of the coercion table, by what goes out and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trustgraph_flow.arguments import compile_signature, show_value
from trustgraph_flow.arguments.rules import RULES, UNFIT


def check(declared: dict[str, Any], given: Any) -> Any:
    return compile_signature([{"name": "x", **declared}]).check({"x": given})


SENT = [
    ("text of an integer", {"type": "integer"}, "5", 5),
    ("text of an integer with spaces", {"type": "integer"}, " 5 ", 5),
    ("a whole number", {"type": "integer"}, 5.0, 5),
    ("text of a whole number", {"type": "integer"}, "140.0", 140),
    ("an integer with an exponent", {"type": "integer"}, json.loads("1e2"), 100),
    ("text of an integer with an exponent", {"type": "integer"}, "1e2", 100),
    ("text of an integer that a float can't hold", {"type": "integer"}, "9007199254740993.0", 2**53 + 1),
    ("text of a negative integer", {"type": "integer"}, "-7", -7),
    ("text of a huge integer", {"type": "integer"}, "9" * 200, int("9" * 200)),
    ("text of a number", {"type": "number"}, "2.5", 2.5),
    ("text of a whole number for a number", {"type": "number"}, " 3 ", 3),
    ("text of a number with an exponent", {"type": "number"}, "-1.5E3", -1500.0),
    ("true as text", {"type": "boolean"}, "true", True),
    ("True as text", {"type": "boolean"}, "True", True),
    ("false as text", {"type": "boolean"}, "false", False),
    ("False as text", {"type": "boolean"}, "False", False),
    ("an integer for text", {"type": "string"}, 417, "417"),
    ("a number for text", {"type": "string"}, 2.5, "2.5"),
    ("true for text", {"type": "string"}, True, "true"),
    ("false for text", {"type": "string"}, False, "false"),
    ("text of a list", {"type": "array"}, '["a"]', ["a"]),
    ("text of an object", {"type": "object"}, '{"k": 1}', {"k": 1}),
    ("null where null may be", {"type": ["integer", "null"]}, None, None),
    ("null where anything may be", {}, None, None),
    ("text that looks like JSON", {"type": "string"}, '{"a": 1}', '{"a": 1}'),
    ("text that looks like a list", {"type": "string"}, "[1, 2]", "[1, 2]"),
    ("code-like text", {"type": "string"}, "00417", "00417"),
    ("an integer of any size", {"type": "integer"}, 10**300, 10**300),
    ("an integer for a number", {"type": "number"}, 3, 3),
    ("a whole number for a number", {"type": "number"}, 3.0, 3.0),
]


@pytest.mark.parametrize(
    ("declared", "given", "sent"), [row[1:] for row in SENT], ids=[row[0] for row in SENT]
)
def test_what_fits_the_declared_type_is_sent_in_that_type(
    declared: dict[str, Any], given: Any, sent: Any
) -> None:
    checked = check(declared, given)

    assert checked.ok, checked.text
    assert checked.arguments == {"x": sent}
    assert type(checked.arguments["x"]) is type(sent)
    assert bool(checked.coerced) == (type(given) is not type(sent))


REFUSED = [
    *[
        ("integer", value)
        for value in (5.5, "5.5", "five", True, "1,000", "", "007", "+5", "٥", "1e-2", "0x10")
    ],
    *[("integer", value) for value in ("1e400000000", "9" * 5_000, "1_000", [], {})],
    *[("number", value) for value in ("NaN", "inf", "Infinity", "1e400", "many", True, "", "1,5", ".5")],
    *[("boolean", value) for value in (0, 1, "0", "1", "yes", "no", "maybe", "", "TRUE", " true", 1.0)],
    *[("string", value) for value in ({}, [], {"a": 1}, ["a"])],
    *[
        ("array", value)
        for value in ("red", "[1", '{"a": 1}', "", 5, {"a": 1}, "[NaN]", "[1e400]", "[" * 5_000)
    ],
    *[("object", value) for value in ("red", '{"k"', "[1]", 5, [1], '{"a": 1, "a": 2}', '{"a": "\\ud800"}')],
]


@pytest.mark.parametrize(("kind", "given"), REFUSED, ids=lambda value: repr(value)[:20])
def test_what_does_not_fit_the_declared_type_is_refused(kind: str, given: Any) -> None:
    checked = check({"type": kind, "description": "What it is"}, given)

    (fault,) = checked.faults
    assert (fault.path, fault.kind) == ("x", "type")
    assert fault.given == show_value(given, 80)
    assert not checked.coerced
    assert fault.text.startswith("argument `x` got ")
    assert f"expected {kind.replace('array', 'list').replace('object', 'object, any keys')}" in fault.text
    assert fault.text.endswith("What it is")


def test_null_for_an_optional_argument_is_left_out() -> None:
    signature = compile_signature(
        [{"name": "a", "type": "integer"}, {"name": "b", "type": "string", "enum": ["x"]}, {"name": "c"}]
    )

    checked = signature.check({"a": None, "b": None, "c": None})

    assert checked.arguments == {"c": None}
    assert [note["path"] for note in checked.coerced] == ["a", "b"]
    assert all("sent" not in note for note in checked.coerced)


def test_null_for_a_required_argument_is_refused() -> None:
    checked = check({"type": "string", "required": True}, None)

    assert [fault.path for fault in checked.faults] == ["x"]


def test_an_enum_is_not_folded_and_lists_what_is_allowed() -> None:
    (fault,) = check({"type": "string", "enum": ["metric", "imperial"]}, "Metric").faults

    assert fault.kind == "value"
    assert 'one of "metric", "imperial"' in fault.text


def test_a_value_is_coerced_before_it_meets_the_enum() -> None:
    assert check({"type": "string", "enum": ["1", "2"]}, 2).arguments == {"x": "2"}
    assert check({"type": "integer", "enum": [1, 2]}, "2").arguments == {"x": 2}


def test_each_row_of_the_table_leaves_a_note_of_its_own() -> None:
    examples = {
        ("string", "integer"): "5",
        ("number", "integer"): 5.0,
        ("string", "number"): "2.5",
        ("string", "boolean"): "true",
        ("integer", "string"): 417,
        ("number", "string"): 2.5,
        ("boolean", "string"): True,
        ("string", "array"): "[]",
        ("string", "object"): "{}",
    }

    assert examples.keys() == RULES.keys()
    for (given, declared), value in examples.items():
        rule = RULES[given, declared]
        assert rule.apply(value) is not UNFIT
        assert check({"type": declared}, value).coerced[0]["rule"] == rule.words


def test_a_note_keeps_what_was_given_and_what_is_sent() -> None:
    assert check({"type": "integer"}, "5").coerced == [
        {"path": "x", "given": "5", "sent": 5, "rule": "text read as integer"}
    ]


def test_what_was_given_is_never_changed() -> None:
    given = {"x": {"n": "5", "list": ["1", "2"]}}
    before = json.dumps(given)
    properties = {"n": {"type": "integer"}, "list": {"type": "array", "items": {"type": "integer"}}}

    checked = compile_signature([{"name": "x", "type": "object", "properties": properties}]).check(given)

    assert checked.arguments == {"x": {"n": 5, "list": [1, 2]}}
    assert json.dumps(given) == before


def test_coercion_reaches_into_lists_and_objects_and_typed_extras() -> None:
    declared = {
        "type": "object",
        "properties": {
            "when": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "int"}}}}
        },
        "additionalProperties": {"type": "boolean"},
    }

    checked = check(declared, {"when": '[{"n": "5"}, {"n": null}]', "flag": "true"})

    assert checked.arguments == {"x": {"when": [{"n": 5}, {}], "flag": True}}
    assert [note["path"] for note in checked.coerced] == ["x.when", "x.when[0].n", "x.when[1].n", "x.flag"]


def test_coercion_reaches_into_tuples() -> None:
    declared = {
        "type": "array",
        "prefixItems": [{"type": "integer"}, {"type": "string"}],
        "items": {"type": "boolean"},
    }

    assert check(declared, ["1", 2, "true"]).arguments == {"x": [1, "2", True]}


def test_nothing_is_coerced_inside_free_form_objects() -> None:
    given = {"BRANCH": "main", "N": "3", "flag": "true", "deep": {"n": None, "list": "[1]"}}

    for declared in ({"type": "object"}, {"type": "object", "additionalProperties": True}, {}):
        checked = check(declared, given)
        assert checked.ok
        assert checked.arguments == {"x": given}
        assert not checked.coerced


UNIONS = [
    ("an exact match wins over an earlier branch", [{"type": "integer"}, {"type": "string"}], "5", "5"),
    (
        "limits beside a type change nothing",
        [{"type": "integer", "minimum": 0}, {"type": "string"}],
        "5",
        "5",
    ),
    ("then each branch in its order", [{"type": "integer"}, {"type": "null"}], "7", 7),
    ("null stays where a branch takes it", [{"type": "integer"}, {"type": "null"}], None, None),
    ("text stays text", [{"type": "string"}, {"type": "null"}], "null", "null"),
    (
        "a branch whose limits fail is passed by",
        [{"type": "integer", "maximum": 3}, {"type": "number"}],
        "7",
        7,
    ),
    (
        "a branch that fits after coercion",
        [{"type": "boolean"}, {"type": "array", "items": {"type": "integer"}}],
        ["1"],
        [1],
    ),
    (
        "the branch whose required name is there",
        [
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]},
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        ],
        {"a": "5"},
        {"a": 5},
    ),
]


@pytest.mark.parametrize(
    ("branches", "given", "sent"), [row[1:] for row in UNIONS], ids=[row[0] for row in UNIONS]
)
@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_in_unions(branches: list[Any], given: Any, sent: Any, keyword: str) -> None:
    if keyword == "oneOf" and {"type": "number"} in branches:
        branches = [branches[0], {"type": "number", "minimum": 4}]

    checked = check({keyword: branches}, given)

    assert checked.ok, checked.text
    assert checked.arguments == {"x": sent}
    assert type(checked.arguments["x"]) is type(sent)


def test_a_failed_branch_leaves_no_note() -> None:
    branches = [
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["z"]},
        {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]},
    ]

    checked = check({"anyOf": branches}, {"a": "true"})

    assert [note["rule"] for note in checked.coerced] == ["text read as boolean"]


def test_lists_of_types_take_an_exact_match_first() -> None:
    assert check({"type": ["integer", "string"]}, "5").arguments == {"x": "5"}
    assert check({"type": ["integer", "null"]}, "5").arguments == {"x": 5}
    assert check({"type": ["null", "integer"]}, "5").arguments == {"x": 5}
    assert check({"type": ["string", "integer"]}, 5).arguments == {"x": 5}


def test_a_list_of_many_union_items_is_coerced_whole() -> None:
    items = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "boolean"}]}

    checked = check({"type": "array", "items": items}, ["1"] * 3_000)

    assert checked.arguments == {"x": [1] * 3_000}


def test_references_and_all_of_are_followed() -> None:
    signature = compile_signature(
        [
            {"name": "tree", "$ref": "#/$defs/Tree"},
            {"name": "n", "allOf": [{"$ref": "#/$defs/Whole"}, {"minimum": 3}]},
        ],
        defs={
            "Whole": {"type": "int"},
            "Tree": {
                "type": "object",
                "properties": {"n": {"type": "int"}, "next": {"$ref": "#/$defs/Tree"}},
            },
        },
    )

    checked = signature.check({"tree": {"n": "1", "next": {"n": "2", "next": {"n": "3"}}}, "n": "4"})

    assert checked.arguments == {"tree": {"n": 1, "next": {"n": 2, "next": {"n": 3}}}, "n": 4}
    assert [fault.path for fault in signature.check({"n": "2"}).faults] == ["n"]
