"""Reading the declared list and the server's schema, and what comes of both."""

from __future__ import annotations

from typing import Any, ClassVar

import jsonschema_rs
import pytest

from trustgraph_flow.arguments import ArgumentsError, compile_signature
from trustgraph_flow.arguments.walk import MAX_CHARACTERS, MAX_NODES
from trustgraph_flow.schema.errors import BadRequest, to_wire


def faults(arguments: Any, defs: Any = None) -> list[tuple[int | None, str | None, str]]:
    with pytest.raises(ArgumentsError) as caught:
        compile_signature(arguments, defs=defs)
    return [(entry["index"], entry["name"], entry["fault"]) for entry in caught.value.data["entries"]]


def test_the_list_comes_back_as_it_was_given() -> None:
    given = [{"name": "x", "type": "str", "label": "X", "ui": {"rows": 3}, "description": None}]

    assert compile_signature(given).arguments == given
    assert compile_signature([]).arguments == []
    assert compile_signature(None).arguments == []


def test_the_schema_is_an_object_with_the_declared_names_in_their_order() -> None:
    schema = compile_signature(
        [{"name": "b", "type": "string", "required": True}, {"name": "a", "type": "integer", "minimum": 1}]
    ).schema

    assert schema == {
        "type": "object",
        "properties": {"b": {"type": "string"}, "a": {"type": "integer", "minimum": 1}},
        "required": ["b"],
        "additionalProperties": False,
    }
    assert schema is not None
    assert list(schema["properties"]) == ["b", "a"]


@pytest.mark.parametrize(
    ("word", "standard"),
    [
        *[
            ("str", "string"),
            ("text", "string"),
            ("int", "integer"),
            ("float", "number"),
            ("double", "number"),
        ],
        *[("bool", "boolean"), ("list", "array"), ("dict", "object"), ("map", "object"), ("json", "object")],
        *[("String", "string"), (" INTEGER ", "integer"), ("tuple", "array")],
    ],
)
def test_type_words_of_other_languages_are_known(word: str, standard: str) -> None:
    signature = compile_signature([{"name": "x", "type": word}])

    assert signature.schema is not None
    assert signature.schema["properties"]["x"]["type"] == standard
    assert signature.warnings == []


def test_type_words_are_read_inside_too() -> None:
    entry = {
        "name": "x",
        "type": "list",
        "items": {"type": "dict", "properties": {"n": {"type": ["int", "null"]}}},
    }
    schema = compile_signature([entry]).schema

    assert schema is not None
    assert schema["properties"]["x"] == {
        "type": "array",
        "items": {"type": "object", "properties": {"n": {"type": ["integer", "null"]}}},
    }


@pytest.mark.parametrize("word", ["date", "", "flaot", "Path"])
def test_an_unknown_type_word_is_a_warning_and_a_string(word: str) -> None:
    signature = compile_signature([{"name": "x", "type": word}])

    assert signature.check({"x": 5}).arguments == {"x": "5"}
    (warning,) = signature.warnings
    assert warning == f'argument "x": unknown type "{word}", treated as string'


def test_any_means_any_type() -> None:
    signature = compile_signature([{"name": "x", "type": "any"}])

    assert signature.warnings == []
    for value in ("5", 5, None, [], {}):
        assert signature.check({"x": value}).arguments == {"x": value}


def test_required_marks_inside_objects_mean_what_they_mean_on_arguments() -> None:
    properties = {"a": {"type": "string", "required": True}, "b": {"type": "string", "required": False}}
    entry = {"name": "x", "type": "object", "properties": properties, "required": True}

    assert [fault.path for fault in compile_signature([entry]).check({"x": {}}).faults] == ["x.a"]


def test_a_list_of_required_names_is_the_keyword_of_the_object() -> None:
    entry = {"name": "x", "type": "object", "properties": {"a": {}}, "required": ["a"]}
    signature = compile_signature([entry])

    assert signature.check({}).ok
    assert [fault.path for fault in signature.check({"x": {}}).faults] == ["x.a"]


def test_every_bad_entry_is_named_at_once() -> None:
    found = faults(
        [
            {"type": "string"},
            3,
            {"name": "low", "minimum": "3"},
            {"name": "low"},
            {"name": "good", "type": "string"},
            {"name": "lost", "$ref": "#/$defs/Nope"},
            {"name": "regex", "pattern": "("},
            {"name": "mark", "required": "yes"},
            {"name": "nan", "default": float("nan")},
            {"name": 7},
        ]
    )

    assert [(index, name) for index, name, _ in found] == [
        (0, None),
        (1, None),
        (2, "low"),
        (3, "low"),
        (5, "lost"),
        (6, "regex"),
        (7, "mark"),
        (8, "nan"),
        (9, None),
    ]
    texts = [text for _, _, text in found]
    assert texts[0].startswith("has no name; give it one, such as ")
    assert texts[1].startswith("must be an object such as ")
    assert "minimum" in texts[2]
    assert texts[3] == "the name is taken by arguments[2]; rename or remove one of them"
    assert texts[4].endswith("put what $ref names into the tool's $defs")
    assert texts[6] == 'required must be true or false, not "yes"'
    assert texts[7] == "default is not a finite number"


def test_the_message_names_entry_and_fix_and_crosses_the_bus_as_a_bad_request() -> None:
    with pytest.raises(BadRequest) as caught:
        compile_signature([{"name": "a"}, {"name": "b", "type": {}}, {"type": "string"}])

    lines = caught.value.message.split("\n")
    assert lines[0].startswith('arguments[1] "b": not a valid schema: type')
    assert lines[1].startswith("arguments[2]: has no name")
    assert to_wire(caught.value)["type"] == "bad-request"


@pytest.mark.parametrize("arguments", [{"a": 1}, "text", 5, True])
def test_a_list_that_is_none_is_an_error_with_an_example(arguments: Any) -> None:
    ((index, _, fault),) = faults(arguments)

    assert index is None
    assert fault.startswith('arguments must be a list such as [{"name": "place"')


def test_bad_defs_are_named() -> None:
    assert faults([], defs=[])[0][2].startswith("$defs must be an object of schemas")
    assert faults([{"name": "x"}], defs={"A": {"minimum": "x"}})[0][2].startswith("$defs: not a valid schema")


def test_a_declared_list_over_the_limits_is_an_error() -> None:
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(100):
        deep = {"type": "object", "properties": {"a": deep}}

    assert "deep" in faults([{"name": "x", **deep}])[0][2]
    assert f"{MAX_NODES:,} values" in faults([{"name": f"n{n}"} for n in range(MAX_NODES)])[0][2]
    assert (
        f"{MAX_CHARACTERS:,} characters" in faults([{"name": "x", "description": "x" * MAX_CHARACTERS}])[0][2]
    )


def test_a_key_of_another_base_changes_nothing() -> None:
    entry = {"name": "x", "$id": "https://example.test/x", "$ref": "#/$defs/N", "id": 5, "$schema": "made-up"}

    assert compile_signature([entry], defs={"N": {"type": "int"}}).check({"x": "5"}).arguments == {"x": 5}


class TestDiscovered:
    """Where no arguments are declared, the server's own schema is shown and checked."""

    def test_nothing_declared_and_nothing_known_lets_anything_pass(self) -> None:
        signature = compile_signature(None)

        assert signature.schema is None
        assert signature.check({"any": ["thing"]}).arguments == {"any": ["thing"]}

    @pytest.mark.parametrize(
        "schema", [{"type": "object"}, {}, {"type": "object", "properties": None}, None, True]
    )
    def test_a_schema_without_properties_lets_anything_pass(self, schema: Any) -> None:
        signature = compile_signature(None, input_schema=schema)

        assert signature.check({}).ok
        assert signature.check({"x": 1}).ok

    def test_a_schema_with_properties_and_silent_about_others_takes_no_others(self) -> None:
        signature = compile_signature(
            None, input_schema={"type": "object", "properties": {"a": {"type": "integer"}}}
        )

        assert signature.origin == {"a": "discovered"}
        assert signature.check({"a": "5"}).arguments == {"a": 5}
        assert not signature.check({"b": 5}).ok

    @pytest.mark.parametrize(
        "schema",
        [
            False,
            5,
            [],
            {"type": "array"},
            {"properties": {"a": {"minimum": "x"}}},
            {"properties": 5},
            {"default": float("nan")},
            {"properties": {str(n): {} for n in range(MAX_NODES)}},
            {"description": "x" * (MAX_CHARACTERS + 1)},
        ],
    )
    def test_a_schema_that_can_not_be_used_is_a_warning(self, schema: Any) -> None:
        signature = compile_signature(None, input_schema=schema)

        assert signature.schema is None
        assert signature.warnings[-1].startswith("the server's schema is not used, any arguments pass: ")
        assert signature.check({"x": 1}).ok

    @pytest.mark.parametrize(
        "reference", ["#/$defs/Nope", "https://example.test/x.json", "other.json", "#nowhere"]
    )
    def test_a_reference_that_leads_nowhere_lets_anything_pass_there_and_is_never_fetched(
        self, reference: str
    ) -> None:
        signature = compile_signature(
            None, input_schema={"properties": {"a": {"$ref": reference}, "b": {"type": "integer"}}}
        )

        assert signature.check({"a": ["x"], "b": "5"}).arguments == {"a": ["x"], "b": 5}
        assert not signature.check({"b": "x"}).ok
        assert reference in signature.warnings[0]

    def test_older_drafts_and_own_addresses_are_read(self) -> None:
        signature = compile_signature(
            None,
            input_schema={
                "$schema": "http://json-schema.org/draft-07/schema#",
                "$id": "https://example.test/tool",
                "definitions": {"A": {"type": "integer"}},
                "properties": {
                    "a": {"$ref": "#/definitions/A"},
                    "b": {"$ref": "https://example.test/tool#/definitions/A"},
                },
            },
        )

        assert signature.warnings == []
        assert signature.check({"a": "1", "b": "2"}).arguments == {"a": 1, "b": 2}

    def test_an_unknown_draft_is_read_as_the_newest(self) -> None:
        signature = compile_signature(
            None, input_schema={"$schema": "https://example.test/draft", "properties": {"a": {"type": "int"}}}
        )

        assert signature.check({"a": "1"}).arguments == {"a": 1}

    def test_a_root_that_is_a_reference_is_read(self) -> None:
        signature = compile_signature(
            None,
            input_schema={
                "$ref": "#/$defs/In",
                "$defs": {"In": {"type": "object", "properties": {"a": {"type": "int"}}, "required": ["a"]}},
            },
        )

        assert signature.origin == {"a": "discovered"}
        assert [fault.path for fault in signature.check({}).faults] == ["a"]
        assert signature.check({"a": "1"}).arguments == {"a": 1}


class TestMerged:
    """Where both are known, declared facts win, and differences are drift."""

    server: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "place": {"type": "string", "description": "Where", "maxLength": 5},
            "days": {"type": "integer", "maximum": 9, "default": 3},
            "key": {"type": "string"},
        },
        "required": ["place", "key"],
    }

    def test_what_is_not_declared_of_an_argument_comes_from_the_server(self) -> None:
        signature = compile_signature(
            [{"name": "place"}, {"name": "days", "type": "integer"}], input_schema=self.server
        )

        assert signature.schema is not None
        assert signature.schema["properties"] == {
            "place": {"type": "string", "description": "Where", "maxLength": 5},
            "days": {"type": "integer", "maximum": 9, "default": 3},
        }
        assert signature.schema["required"] == ["place"]
        assert signature.origin == {"place": "both", "days": "both"}

    def test_declared_facts_win(self) -> None:
        signature = compile_signature(
            [
                {"name": "place", "type": "string", "description": "Town", "required": False},
                {"name": "days", "type": "integer", "maximum": 2},
            ],
            input_schema=self.server,
        )

        assert signature.check({"days": 3}).faults[0].expected == "integer, at most 2"
        assert "- place: string (optional), at most 5 characters. Town" in signature.text

    def test_another_declared_type_takes_nothing_but_the_description(self) -> None:
        signature = compile_signature([{"name": "place", "type": "integer"}], input_schema=self.server)

        assert signature.schema is not None
        assert signature.schema["properties"]["place"] == {"type": "integer", "description": "Where"}
        assert signature.drift[0] == "argument place is declared integer, but the server says string"

    def test_drift_names_what_the_server_lacks_and_what_it_requires(self) -> None:
        signature = compile_signature(
            [{"name": "place", "required": False}, {"name": "wind"}], input_schema=self.server
        )

        assert signature.drift == [
            "argument place is declared optional, but the server requires it",
            "argument wind is declared, but the server does not know it",
            "argument key is required by the server, but not declared",
        ]
        assert signature.check({"place": "x", "wind": 1}).ok

    def test_an_argument_that_the_server_has_and_the_list_has_not_is_refused(self) -> None:
        for extra in ({}, {"additionalProperties": True}):
            signature = compile_signature([{"name": "place"}], input_schema={**self.server, **extra})
            assert [fault.path for fault in signature.check({"place": "x", "key": "k"}).faults] == ["key"]

    def test_names_that_neither_knows_pass_only_where_the_server_says_so(self) -> None:
        closed = compile_signature([{"name": "place"}], input_schema=self.server)
        opened = compile_signature(
            [{"name": "place"}], input_schema={**self.server, "additionalProperties": True}
        )

        assert not closed.check({"place": "x", "more": 1}).ok
        assert opened.check({"place": "x", "more": 1}).ok

    def test_an_empty_list_takes_nothing_whatever_the_server_says(self) -> None:
        signature = compile_signature([], input_schema={"additionalProperties": True})

        assert not signature.check({"x": 1}).ok

    def test_references_of_both_sides_are_followed(self) -> None:
        signature = compile_signature(
            [{"name": "a", "$ref": "#/$defs/Mine"}, {"name": "b"}],
            defs={"Mine": {"type": "int"}},
            input_schema={
                "$defs": {"Yours": {"type": "boolean"}},
                "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/$defs/Yours"}},
            },
        )

        assert signature.check({"a": "1", "b": "true"}).arguments == {"a": 1, "b": True}

    def test_a_server_whose_schema_does_not_combine_leaves_the_list_alone(self) -> None:
        signature = compile_signature(
            [{"name": "a", "type": "integer"}, {"name": "b"}],
            input_schema={
                "$schema": "http://json-schema.org/draft-04/schema#",
                "properties": {"b": {"type": "integer", "minimum": 1, "exclusiveMinimum": True}},
            },
        )

        assert signature.check({"a": "1", "b": "x"}).arguments == {"a": 1, "b": "x"}
        assert signature.warnings == [
            "the server's schema does not combine with the declared arguments, which stand alone"
        ]

    def test_a_number_that_is_declared_integer_is_no_drift(self) -> None:
        signature = compile_signature(
            [{"name": "n", "type": "integer"}],
            input_schema={"properties": {"n": {"type": ["number", "null"]}}},
        )

        assert signature.drift == []


def test_every_schema_is_valid_for_others() -> None:
    signature = compile_signature([{"name": "x", "type": "list", "items": {"type": "float"}, "note": None}])

    assert signature.schema is not None
    jsonschema_rs.meta.validate(signature.schema)
