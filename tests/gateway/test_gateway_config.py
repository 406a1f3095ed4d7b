"""The gateway in front of the real config service and store."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest_asyncio

from trustgraph_flow.bus import Bus
from trustgraph_flow.config import ConfigService
from trustgraph_flow.gateway.secrets import MASK
from trustgraph_flow.store import Store

MCP = {"url": "http://127.0.0.1:9/mcp", "auth-token": "tok-Q1"}


@pytest_asyncio.fixture(autouse=True)
async def store(bus: Bus, tmp_path: Path) -> AsyncIterator[Store]:
    store = await Store.open(f"sqlite:///{tmp_path}/tg.db")
    service = ConfigService(bus, store)
    await service.start()
    yield store
    await service.close()
    await store.close()


async def config(http: aiohttp.ClientSession, **body: Any) -> tuple[int, Any]:
    async with http.post("/api/v1/config", json=body) as response:
        return response.status, await response.json()


async def test_items_are_put_got_listed_and_deleted_with_rising_versions(http: aiohttp.ClientSession) -> None:
    values = [{"type": "x", "key": "a", "value": "1"}, {"type": "x", "key": "b", "value": "two"}]
    status, first = await config(http, operation="put", workspace="north", values=values)
    assert status == 200
    _, got = await config(
        http, operation="get", workspace="north", keys=[{"type": "x", "key": "b"}, {"type": "x", "key": "c"}]
    )
    assert [(item["workspace"], item["key"], item["value"]) for item in got["values"]] == [
        ("north", "b", "two"),
        ("north", "c", None),
    ]
    _, everything = await config(http, operation="config", workspace="north")
    assert everything == {"version": first["version"], "config": {"x": {"a": "1", "b": "two"}}}
    _, deleted = await config(http, operation="delete", workspace="north", keys=[{"type": "x", "key": "a"}])
    assert deleted["version"] > first["version"]
    _, listed = await config(http, operation="list", workspace="north", type="x")
    assert listed == {"version": deleted["version"], "directory": ["b"]}
    _, elsewhere = await config(http, operation="getvalues", type="x")
    assert elsewhere["values"] == []


async def test_a_value_that_is_not_what_its_type_needs_is_a_bad_request(http: aiohttp.ClientSession) -> None:
    values = [{"type": "tool", "key": "t", "value": "[1]"}]
    status, answer = await config(http, operation="put", values=values)
    assert status == 400
    assert "tool 't'" in answer["error"]


async def test_a_write_over_somebody_else_s_is_a_conflict(http: aiohttp.ClientSession) -> None:
    await config(http, operation="put", values=[{"type": "x", "key": "a", "value": "1"}])
    value = {"type": "x", "key": "a", "value": "2", "expected-version": 0}
    status, answer = await config(http, operation="put", values=[value])
    assert (status, answer["error"]["type"]) == (200, "conflict")


async def test_a_secret_survives_reading_and_writing_back_and_is_never_shown(
    http: aiohttp.ClientSession, store: Store
) -> None:
    await config(http, operation="put", values=[{"type": "mcp", "key": "m", "value": json.dumps(MCP)}])
    _, read = await config(http, operation="getvalues", type="mcp")
    shown = json.loads(read["values"][0]["value"])
    assert shown == {**MCP, "auth-token": MASK}
    changed = json.dumps({**shown, "timeout": 5})
    status, _ = await config(http, operation="put", values=[{"type": "mcp", "key": "m", "value": changed}])
    assert status == 200
    _, found = await store.config.get([("default", "mcp", "m")])
    assert json.loads(found["default", "mcp", "m"].value) == {**MCP, "timeout": 5}
