"""JSON at the door."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trustgraph_flow.gateway.wire import MAX_DEPTH, read_object, write
from trustgraph_flow.schema.errors import BadRequest


@given(
    st.binary() | st.text().map(str.encode) | st.text(alphabet='{}[]":,\\u0123dD8cNaInfity').map(str.encode)
)
def test_bytes_are_read_or_refused_and_nothing_else_happens(text: bytes) -> None:
    with suppress(BadRequest):
        assert json.loads(write(read_object(text, "it"))) is not None


@given(
    st.dictionaries(st.text(), st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text())
)
def test_what_is_valid_comes_back_as_it_was(value: dict[str, object]) -> None:
    assert read_object(write(value), "it") == value


def test_nesting_is_read_up_to_the_limit() -> None:
    inner = MAX_DEPTH - 1
    assert read_object('{"a": ' + "[" * inner + "]" * inner + "}", "it")
    with pytest.raises(BadRequest, match="deeper than 100"):
        read_object('{"a": ' + "[" * (inner + 1) + "]" * (inner + 1) + "}", "it")


def test_numbers_that_json_lacks_become_null() -> None:
    assert write({"a": float("nan"), "b": [float("inf")]}) == b'{"a":null,"b":[null]}'
