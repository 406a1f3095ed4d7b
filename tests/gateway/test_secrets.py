"""Secrets of MCP items: masked on the way out, kept on the way in, and never sent somewhere new."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest
from behind_gateway import Items
from hypothesis import given
from hypothesis import strategies as st

from trustgraph_flow.gateway.secrets import MASK, mask, restore

CONFIG = "/api/v1/config"
SERVER: dict[str, Any] = {
    "url": "http://user:tok-Q0@127.0.0.1:9/mcp?token=tok-Q1&tok-Q1&v=#tok-Q1",
    "headers": {"Authorization": "Bearer tok-Q2", "X-Api-Key": "tok-Q3", "X-Team": {"env": "TEAM"}},
    "env": {"DEMO_PASSWORD": "tok-Q4", "env": "tok-Q4"},
    "command": "python",
    "args": ["-m", "server", "--key", "tok-Q5", "--token=tok-Q6", "API_KEY=tok-Q7", "--tz", "UTC",
             "https://h/?k=tok-Q8", "--auth", {"env": "KEY"}],
    "auth-token": "tok-Q9",
    "oauth": {"client-secret": "tok-Q10", "client-id": "me", "scopes": ["a"]},
    "timeout": 5,
}  # fmt: skip


def test_no_secret_is_left_in_what_is_shown() -> None:
    shown = json.loads(mask(json.dumps(SERVER)))
    assert "tok-Q" not in json.dumps(shown)
    assert shown == {
        "url": f"http://{MASK}@127.0.0.1:9/mcp?token={MASK}&{MASK}&v=#{MASK}",
        "headers": {"Authorization": MASK, "X-Api-Key": MASK, "X-Team": {"env": "TEAM"}},
        "env": {"DEMO_PASSWORD": MASK, "env": MASK},
        "command": "python",
        "args": ["-m", "server", "--key", MASK, f"--token={MASK}", f"API_KEY={MASK}", "--tz", "UTC",
                 f"https://h/?k={MASK}", "--auth", {"env": "KEY"}],
        "auth-token": MASK,
        "oauth": {"client-secret": MASK, "client-id": "me", "scopes": ["a"]},
        "timeout": 5,
    }  # fmt: skip


@pytest.mark.parametrize(
    "item",
    [
        {"auth-token": {"env": "TOKEN"}},
        {"env": {"env": "tok-Q1"}},
        {"env": ["tok-Q1"]},
        {"headers": "tok-Q1"},
        {"auth-token": ["tok-Q1"]},
        {"auth-token": {"env": "A", "default": "tok-Q1"}},
        {"args": ["--token", ["tok-Q1"]]},
        {"url": "http://[tok-Q1"},
        ["tok-Q1"],
        "tok-Q1",
    ],
)
def test_oddly_formed_items_show_no_secret_either(item: Any) -> None:
    assert "tok-Q" not in mask(json.dumps(item))


def test_text_that_is_no_json_is_hidden_whole() -> None:
    assert mask('{"auth-token": "tok-Q1",') == MASK


def test_what_was_read_can_be_written_back_with_nothing_lost() -> None:
    stored = json.dumps(SERVER)
    text, faults = restore(mask(stored), stored)
    assert (json.loads(text), faults) == (SERVER, [])


def test_a_hidden_whole_text_can_be_written_back() -> None:
    assert restore(MASK, "{broken") == ("{broken", [])


def test_other_fields_can_be_changed_beside_a_mask() -> None:
    shown = json.loads(mask(json.dumps(SERVER)))
    changed = {**shown, "timeout": 9, "headers": {**shown["headers"], "X-Api-Key": "new", "X-More": "x"}}
    text, faults = restore(json.dumps(changed), json.dumps(SERVER))
    item = json.loads(text)
    assert faults == []
    assert item["timeout"] == 9
    assert item["headers"] == {**SERVER["headers"], "X-Api-Key": "new", "X-More": "x"}
    assert item["auth-token"] == "tok-Q9"


@pytest.mark.parametrize(
    ("new", "stored", "named"),
    [
        ({"url": "http://a", "auth-token": MASK}, None, "auth-token"),
        ({"url": "http://a", "auth-token": MASK}, {"url": "http://a"}, "auth-token"),
        (
            {"url": "http://a", "headers": {"B": MASK}},
            {"url": "http://a", "headers": {"A": "s"}},
            "headers.B",
        ),
        ({"url": f"http://a?t={MASK}"}, {"url": "http://a?u=secret"}, "url"),
        ({"args": ["--x", MASK]}, {"args": ["--key", "secret"]}, "args"),
        ({"auth-token": MASK}, {"auth-token": {"env": "TOKEN"}}, "auth-token"),
        ({"auth-token": MASK}, ["no object"], "auth-token"),
        ([MASK], {"auth-token": "s"}, "instead of an item"),
    ],
)
def test_a_mask_without_its_secret_is_a_fault(new: Any, stored: Any, named: str) -> None:
    _, faults = restore(json.dumps(new), None if stored is None else json.dumps(stored))
    assert len(faults) == 1
    assert named in faults[0]


@pytest.mark.parametrize(
    "change",
    [
        {"url": "http://evil/"},
        {"command": "evil"},
        {"args": []},
        {"cwd": "/"},
        {"oauth": {"client-secret": MASK, "client-id": "me", "issuer": "http://evil/"}},
    ],
)
def test_a_secret_is_not_kept_for_another_server(change: dict[str, Any]) -> None:
    shown = json.loads(mask(json.dumps(SERVER)))
    _, faults = restore(json.dumps({**shown, **change}), json.dumps(SERVER))
    assert faults == ["names another server or command than before: give its secrets anew"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12) | st.just("http://u:p@h/?q=v"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["url", "headers", "env", "args", "auth-token", "x", "api_key"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(JSON)
def test_masking_never_fails_and_its_result_always_goes_back(item: Any) -> None:
    stored = json.dumps(item)
    shown = mask(stored)
    assert mask(shown) == shown
    text, faults = restore(shown, stored)
    assert faults == []
    if isinstance(item, dict):
        assert json.loads(text) == item


async def test_every_config_read_masks_and_a_write_back_keeps(
    items: Items, http: aiohttp.ClientSession
) -> None:
    async def config(**body: Any) -> dict[str, Any]:
        async with http.post(CONFIG, json=body) as response:
            text = await response.text()
        assert "tok-Q" not in text
        return dict(json.loads(text))

    kept = ("default", "mcp-server", "s")
    items.kept[kept] = json.dumps(SERVER)
    items.kept["default", "mcp", "broken"] = "{tok-Q1"
    items.kept["default", "tool", "t"] = '{"description": "auth-token"}'
    got = await config(operation="get", keys=[{"type": "mcp-server", "key": "s"}])
    shown = got["values"][0]["value"]
    assert (await config(operation="getvalues", type="mcp"))["values"][0]["value"] == MASK
    everything = await config(operation="config")
    assert everything["config"]["mcp-server"]["s"] == shown
    assert everything["config"]["tool"]["t"] == '{"description": "auth-token"}'

    changed = json.dumps({**json.loads(shown), "timeout": 9})
    await config(operation="put", values=[{"type": "mcp-server", "key": "s", "value": changed}])
    assert json.loads(items.kept[kept]) == {**SERVER, "timeout": 9}
    assert items.writers == {"gateway"}

    before = dict(items.kept)
    refused = await config(
        operation="put",
        values=[
            {"type": "mcp", "key": "new", "value": json.dumps({"url": "http://a", "auth-token": MASK})},
            {"type": "tool", "key": "t", "value": "{}"},
        ],
    )
    assert "mcp item 'new': auth-token holds the mask" in refused["error"]
    assert items.kept == before
