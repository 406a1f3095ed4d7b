"""Arguments of a tool, declared on the command line."""

from __future__ import annotations

from typing import Any

import pytest

from trustgraph_flow.cli.argument_options import parse_arguments
from trustgraph_flow.schema.errors import BadRequest


@pytest.mark.parametrize(
    ("option", "entry"),
    [
        (
            "account_id:string:Bank account identifier",
            {"name": "account_id", "type": "string", "description": "Bank account identifier"},
        ),
        (
            "date:string:Format: YYYY-MM-DD, as in date:2030-01-02",
            {"name": "date", "type": "string", "description": "Format: YYYY-MM-DD, as in date:2030-01-02"},
        ),
        ("limit:integer", {"name": "limit", "type": "integer"}),
        (
            '{"name": "a:b", "type": "string", "enum": ["x"], "required": true}',
            {"name": "a:b", "type": "string", "enum": ["x"], "required": True},
        ),
    ],
)
def test_an_argument_is_words_or_json(option: str, entry: dict[str, Any]) -> None:
    assert parse_arguments([option]) == [entry]


def test_a_json_list_and_words_keep_their_order() -> None:
    given = ['[{"name": "a"}, {"name": "b"}]', "c:string:"]
    assert [entry["name"] for entry in parse_arguments(given)] == ["a", "b", "c"]


@pytest.mark.parametrize("option", ["name", "name:", "name: :text", "{", '{"type": "string"}', "[1]"])
def test_what_can_not_be_read_is_named_with_the_right_form(option: str) -> None:
    with pytest.raises(BadRequest, match="name:type:description"):
        parse_arguments([option])
