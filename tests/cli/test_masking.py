"""Secrets of MCP items are not printed, wherever they stand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trustgraph_flow.cli.masking import MASK, holds_mask, mask_item, mask_url, mask_value

SECRET = "canary-7f3a"


@pytest.mark.parametrize(
    "item",
    [
        {"url": f"http://127.0.0.1:9/mcp?token={SECRET}"},
        {"url": f"http://127.0.0.1:9/mcp?a=b&{SECRET}"},
        {"url": f"http://127.0.0.1:9/mcp#{SECRET}"},
        {"url": f"http://user:{SECRET}@127.0.0.1:9/mcp"},
        {"url": f"http://[{SECRET}"},
        {"auth-token": SECRET},
        {"auth-token": {"value": SECRET}},
        {"headers": {"Authorization": f"Bearer {SECRET}", "X-Other": SECRET}},
        {"headers": [SECRET]},
        {"env": {"DEMO": SECRET}},
        {"args": ["--key", SECRET]},
        {"args": ["--password", f"a={SECRET}"]},
        {"args": ["--password", f"-{SECRET}"]},
        {"args": [f"--token={SECRET}"]},
        {"args": [f"API_KEY={SECRET}"]},
        {"args": [f"--db=postgresql://u:{SECRET}@127.0.0.1/d"]},
        {"args": f"--key {SECRET}"},
        {"oauth": {"client-secret": SECRET}},
        {"more": [{"password": SECRET}]},
        SECRET,
        [SECRET],
    ],
    ids=lambda item: json.dumps(item),
)
def test_a_secret_is_masked(item: Any) -> None:
    for type_ in ("mcp", "mcp-server"):
        shown = mask_value(type_, json.dumps(item))
        assert SECRET not in shown
        assert MASK in shown
        assert holds_mask(type_, shown)


def test_a_value_that_is_no_json_is_hidden() -> None:
    assert SECRET not in mask_value("mcp", '{"auth-token": "' + SECRET)


def test_what_is_no_secret_stays() -> None:
    item = {
        "command": "python3",
        "args": ["-m", "server", "--verbose", "--port=80", 5],
        "url": "http://127.0.0.1/mcp",
        "timeout": 3,
        "auth-token": "",
        "env": {},
    }
    assert mask_item(item) == item
    assert not holds_mask("mcp", json.dumps(item))


def test_other_types_are_shown_as_they_are() -> None:
    assert mask_value("tool", '{"auth-token": 1') == '{"auth-token": 1'
    assert not holds_mask("prompt", MASK)


def test_an_address_keeps_what_tells_it_from_others() -> None:
    assert (
        mask_url("https://u:p@host:8443/a/mcp?key=1&v=2")
        == f"https://{MASK}@host:8443/a/mcp?key={MASK}&v={MASK}"
    )
