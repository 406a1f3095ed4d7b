"""The examples of the specification page are what the code says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from trustgraph_flow.arguments import ArgumentsError, compile_signature

PAGE = Path(__file__).parents[2] / "docs" / "tech-specs" / "mcp-tool-arguments.md"
BLOCKS = re.findall(
    r"^```(json|text)\n(.*?)\n```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)
JSON = [json.loads(text) for kind, text in BLOCKS if kind == "json"]
TEXT = [text for kind, text in BLOCKS if kind == "text"]


def test_the_declared_list_reads_as_the_page_shows() -> None:
    assert compile_signature(JSON[0]).text == TEXT[0]


def test_the_faulty_call_is_answered_as_the_page_shows() -> None:
    assert compile_signature(JSON[0]).check(JSON[1]).text == TEXT[1]


def test_drift_reads_as_the_page_shows() -> None:
    declared = [{"name": "place", "type": "integer"}, {"name": "days", "required": False}, {"name": "wind"}]
    properties = {"place": {"type": "string"}, "days": {"type": "integer"}, "key": {"type": "string"}}
    server = {"properties": properties, "required": ["days", "key"]}

    assert compile_signature(declared, input_schema=server).drift == TEXT[2].split("\n")


def test_mistakes_read_as_the_page_shows() -> None:
    entries = [
        {"type": "string"},
        {"name": "place"},
        {"name": "days", "minimum": "1"},
        {"name": "days"},
        {"name": "query", "$ref": "#/$defs/Query"},
    ]

    with pytest.raises(ArgumentsError) as caught:
        compile_signature(entries)

    assert caught.value.message == TEXT[3]
