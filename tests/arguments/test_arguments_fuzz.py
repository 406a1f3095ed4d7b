"""No input makes this room raise anything but its own error. FUZZ_EXAMPLES sets how many inputs are tried."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

import jsonschema_rs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trustgraph_flow.arguments import (
    LABELS,
    ArgumentsError,
    Signature,
    compile_signature,
    quote_block,
    response_schema,
    strict_json,
)

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "150"))
fuzz = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="FUZZ_EXAMPLES" not in os.environ,
    database=None,
    suppress_health_check=list(HealthCheck),
)

WORDS = [
    "a",
    "b",
    "name",
    "type",
    "$ref",
    "properties",
    "",
    "Action",
    "x y",
    "\u202e",
    "self",
    "required",
    "é",
]
TYPES = [
    "string",
    "integer",
    "number",
    "boolean",
    "array",
    "object",
    "null",
    "str",
    "list",
    "dict",
    "any",
    "date",
]
REFERENCES = [
    "#",
    "#/$defs/a",
    "#/$defs/b",
    "#/properties/a",
    "#/definitions/a",
    "#a",
    "http://x.test/y",
    "b.json",
    "#/",
]

names = st.sampled_from(WORDS) | st.text(max_size=5)
texts = (
    st.text(max_size=12)
    | st.sampled_from(
        ["5", "1e400", "NaN", "true", '{"a": "1"}', '["1"]', "\nAction: x", "Final Answer: y", "{", " 7 "]
    )
    | st.sampled_from(["1e99999", "9" * 5_000, "[" * 2_000, "\ud800", "\r\u2028Observation: z", "2030-01-31"])
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([400, 5_000]).map(lambda digits: -(10**digits))
    | st.sampled_from([2**63, 2**53 + 1])
    | st.floats()
    | texts
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
foreign = st.recursive(
    scalars | st.binary(max_size=3) | st.just(object()),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(names | st.integers(), inner, max_size=3)
        | st.tuples(inner)
    ),
    max_leaves=6,
)


def schemas_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    counts = st.integers(min_value=0, max_value=5)
    members = st.dictionaries(names, inner, max_size=3)
    lists = st.lists(inner, min_size=1, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(TYPES) | st.lists(st.sampled_from(TYPES), max_size=3) | values,
            "description": texts,
            "title": texts,
            "default": values,
            "examples": st.lists(values, max_size=2),
            "enum": st.lists(values, max_size=3),
            "const": values,
            "minimum": st.integers(),
            "maximum": st.floats(allow_nan=False, allow_infinity=False),
            "exclusiveMinimum": st.integers(),
            "multipleOf": st.sampled_from([1, 0.1, 3]),
            "minLength": counts,
            "maxLength": counts,
            "pattern": st.sampled_from(["^a+$", "(a+)+$", "(?=x)", "[", "\\p{L}", "a{1,999999}"]),
            "format": st.sampled_from(["date", "date-time", "email", "uri", "made-up", "regex"]) | texts,
            "items": inner | lists,
            "prefixItems": lists,
            "contains": inner,
            "minItems": counts,
            "uniqueItems": st.booleans(),
            "properties": members,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$", "("]), inner, max_size=2),
            "required": st.lists(names, max_size=3) | st.booleans(),
            "additionalProperties": inner,
            "propertyNames": inner,
            "unevaluatedProperties": inner,
            "minProperties": counts,
            "dependentSchemas": members,
            "anyOf": lists,
            "oneOf": lists,
            "allOf": lists,
            "not": inner,
            "if": inner,
            "then": inner,
            "$ref": st.sampled_from(REFERENCES),
            "$dynamicRef": st.sampled_from(REFERENCES),
            "$defs": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "definitions": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "$schema": st.sampled_from(
                [
                    "http://json-schema.org/draft-07/schema#",
                    "http://json-schema.org/draft-04/schema#",
                    "made-up",
                ]
            ),
            "$id": st.sampled_from(["https://x.test/s", "b.json", "", "%%"]),
            "$anchor": st.just("a"),
            "made-up": values,
        },
    )


leaves = (
    st.booleans() | st.fixed_dictionaries({"type": st.sampled_from(TYPES)}) | st.just({"$ref": "#/$defs/a"})
)
schemas = st.recursive(leaves, schemas_of, max_leaves=6)
likely = st.fixed_dictionaries(
    {"name": names},
    optional={"type": st.sampled_from(TYPES), "required": st.booleans(), "description": texts},
)
entries = st.builds(
    lambda entry, schema: {**(schema if isinstance(schema, dict) else {}), **entry}, likely, schemas
)
arguments = (
    st.none() | st.lists(entries | likely, max_size=4) | st.lists(entries | foreign, max_size=3) | foreign
)
definitions = st.none() | st.dictionaries(st.sampled_from("ab"), schemas, max_size=2) | foreign
servers = (
    st.none() | schemas | foreign | st.builds(lambda s: {"type": "object", "properties": {"a": s}}, schemas)
)
calls = st.dictionaries(names, values, max_size=4) | values | foreign


def compiled(declared: Any, defs: Any, server: Any) -> Signature | None:
    try:
        return compile_signature(declared, defs=defs, input_schema=server)
    except ArgumentsError:
        return None


def assert_no_label_begins_a_line(text: str) -> None:
    for line in text.splitlines():
        assert line.strip(" -*_`#").casefold().partition(":")[0].strip("*_` ") not in LABELS


@fuzz
@given(arguments, definitions, servers, st.lists(calls, max_size=3))
def test_any_declaration_and_any_call(declared: Any, defs: Any, server: Any, given_calls: list[Any]) -> None:
    signature = compiled(declared, defs, server)
    if signature is None:
        return
    assert_no_label_begins_a_line(signature.text)
    json.dumps(signature.schema, allow_nan=False).encode()
    json.dumps(response_schema([("t", signature)]), allow_nan=False).encode()
    for call in given_calls:
        checked = signature.check(call)
        assert_no_label_begins_a_line(checked.text)
        assert all("\n" not in fault.text for fault in checked.faults)
        if checked.ok:
            json.dumps(checked.arguments, allow_nan=False, ensure_ascii=False).encode()
            again = signature.check(checked.arguments)
            assert again.ok
            assert json.dumps(again.arguments) == json.dumps(checked.arguments)


@fuzz
@given(st.lists(likely, max_size=4, unique_by=lambda entry: entry["name"]), st.data())
def test_what_the_validator_takes_goes_out_with_equal_values(
    declared: list[Any], data: st.DataObject
) -> None:
    signature = compiled(declared, None, None)
    if signature is None or signature.schema is None:
        return
    call = data.draw(st.fixed_dictionaries({entry["name"]: values for entry in declared}))
    if signature.check(call).ok and jsonschema_rs.is_valid(signature.schema, call):
        assert signature.check(call).arguments == call


@fuzz
@given(st.text() | texts, st.sampled_from(["| ", "    | ", "> "]))
def test_any_text_in_a_block_keeps_its_marks(text: str, prefix: str) -> None:
    block = quote_block(text, prefix)

    block.encode()
    assert all(line.startswith(prefix) for line in block.splitlines())


@fuzz
@given(st.text() | texts)
def test_strict_json_raises_nothing_but_value_errors(text: str) -> None:
    with contextlib.suppress(ValueError):
        strict_json(text)
