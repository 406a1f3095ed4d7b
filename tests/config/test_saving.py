"""An item that could not be used is refused when it is saved, with every fault and its place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trustgraph_flow.config.checks import check, check_names
from trustgraph_flow.schema.errors import BadRequest
from trustgraph_flow.store import ConfigChange

TOOL = {"type": "mcp-tool", "name": "t", "description": "d", "mcp-tool": "t"}


def change(value: Any, kind: str = "tool") -> ConfigChange:
    return ConfigChange("default", kind, "one", value if isinstance(value, str) else json.dumps(value))


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ('{"type": "mcp-tool",', "no JSON"),
        ('"just text"', "not a string"),
        ("null", "not null"),
        ({**TOOL, "arguments": {"a": 1}}, "arguments"),
        ({**TOOL, "arguments": [{"type": "string"}]}, "name"),
        ({**TOOL, "arguments": [{"name": "a"}, {"name": "a"}]}, "taken"),
        ({**TOOL, "arguments": [{"name": "a", "type": "integer", "minimum": "x"}]}, "minimum"),
        ({**TOOL, "type": "no-such-kind"}, "no-such-kind"),
        ({**TOOL, "name": ""}, "name"),
        ({"type": "mcp-tool", "name": "t"}, "mcp-tool"),
        ({"type": "prompt", "name": "t"}, "template"),
        ({**TOOL, "group": "default"}, "group"),
    ],
)
def test_a_tool_that_could_not_be_used_is_refused(value: Any, named: str) -> None:
    with pytest.raises(BadRequest, match=named) as refused:
        check([change(value)])
    assert "tool 'one'" in refused.value.message


@pytest.mark.parametrize(
    "value",
    [
        TOOL,
        {**TOOL, "arguments": []},
        {**TOOL, "$defs": {"d": {"type": "string"}}, "arguments": [{"name": "a", "$ref": "#/$defs/d"}]},
        {"type": "knowledge-query", "name": "Knowledge query", "collection": "c"},
        {"type": "text-completion", "name": "ask"},
    ],
)
def test_a_good_tool_is_saved(value: Any) -> None:
    check([change(value)])


def test_all_faults_of_all_items_are_told_together() -> None:
    with pytest.raises(BadRequest) as refused:
        check([change("null"), change({"timeout": "soon"}, "mcp"), change({"max-tools": 0}, "agent-profile")])
    assert [fault["type"] for fault in refused.value.data["faults"]] == ["tool", "mcp", "agent-profile"]


def test_with_force_an_unusable_item_is_saved_but_what_no_store_can_hold_is_not() -> None:
    check([change("{")], force=True)
    with pytest.raises(BadRequest, match="NUL"):
        check([change('{"a": "\0"}')], force=True)


def test_a_name_that_another_tool_has_is_refused() -> None:
    stored = {"old": json.dumps(TOOL), "new": json.dumps(TOOL), "bad": "{"}
    with pytest.raises(BadRequest, match="tool 'new': the name 't' is taken by the tool 'old'"):
        check_names(["new"], stored)
    check_names(["old"], {"old": json.dumps(TOOL), "new": None})
    check_names(["bad"], stored)


@pytest.mark.parametrize("name", [" ", "a\nAction: x", "None", "n/a", "Final Answer", " padded"])
def test_a_name_that_no_agent_could_call_is_refused(name: str) -> None:
    with pytest.raises(BadRequest, match="name"):
        check([change({**TOOL, "name": name})])


def test_types_that_we_do_not_know_are_saved_as_they_are() -> None:
    check([change("anything", "ontology")])
