import asyncio
import json

import pytest
from config_helpers import Client

from trustgraph_flow.bus import Bus
from trustgraph_flow.config import ConfigService
from trustgraph_flow.schema.config import ConfigResponse
from trustgraph_flow.schema.errors import BadRequest, Conflict
from trustgraph_flow.store import ConfigChange, Store


async def raw(bus: Bus, body: dict[str, object], workspace: str = "default") -> dict[str, object]:
    """The answer as it stands on the wire."""
    response = await bus.request("config", body, ConfigResponse, workspace=workspace, timeout=20)
    return response.model_dump(exclude_unset=True)


async def test_get_answers_every_key_and_null_for_a_missing_one(bus: Bus, client: Client) -> None:
    await client.put(a="{}")
    keys = [{"type": "mcp", "key": "missing"}, {"type": "mcp", "key": "a"}]
    assert await raw(bus, {"operation": "get", "keys": keys}) == {
        "version": 1,
        "values": [
            {"workspace": "default", "type": "mcp", "key": "missing", "value": None, "version": 0},
            {"workspace": "default", "type": "mcp", "key": "a", "value": "{}", "version": 1},
        ],
    }


async def test_list_answers_the_keys_of_a_type(bus: Bus, client: Client) -> None:
    await client.put(b="{}", a="{}")
    assert await raw(bus, {"operation": "list", "type": "mcp"}) == {"version": 1, "directory": ["a", "b"]}
    assert await raw(bus, {"operation": "list", "type": "mcp-server"}) == {"version": 1, "directory": []}


async def test_getvalues_answers_the_items_of_a_type(client: Client) -> None:
    await client.put(a='{"n": 1}')
    response = await client.ask("getvalues", type="mcp")
    assert [(v.workspace, v.type, v.key, v.value) for v in response.values or []] == [
        ("default", "mcp", "a", '{"n": 1}')
    ]


async def test_config_answers_everything_as_it_was_put(client: Client) -> None:
    values = [
        {"type": "mcp", "key": "a", "value": '{"unknown-key": [1]}'},
        {"type": "some-other-type", "key": "x/y z", "value": "plain text: ünïcode"},
    ]
    await client.ask("put", values=values)
    assert (await client.ask("config")).config == {
        "some-other-type": {"x/y z": "plain text: ünïcode"},
        "mcp": {"a": '{"unknown-key": [1]}'},
    }


@pytest.mark.parametrize("operation", ["list", "getvalues"])
async def test_an_operation_that_needs_a_type_says_so(client: Client, operation: str) -> None:
    with pytest.raises(BadRequest, match=f"{operation}.* needs a type"):
        await client.ask(operation)


async def test_an_unknown_operation_is_refused(client: Client) -> None:
    with pytest.raises(BadRequest, match="operation"):
        await client.ask("destroy")


async def test_delete_removes_and_raises_the_version(client: Client) -> None:
    await client.put(a="{}", b="{}")
    assert await client.delete("mcp", "a") == 2
    assert (await client.ask("list", type="mcp")).directory == ["b"]
    assert await client.delete("mcp", "a") == 2


async def test_workspaces_do_not_see_each_other(bus: Bus, client: Client) -> None:
    await client.put(a="{}")
    assert await raw(bus, {"operation": "list", "type": "mcp"}, workspace="other") == {
        "version": 1,
        "directory": [],
    }
    value = {"type": "mcp", "key": "b", "value": "{}"}
    await raw(bus, {"operation": "put", "values": [value], "workspace": "other"})
    assert (await client.ask("list", type="mcp")).directory == ["a"]
    assert (await client.ask("list", type="mcp", workspace="other")).directory == ["b"]


async def test_a_put_of_several_values_is_all_or_nothing(client: Client) -> None:
    values = [
        {"type": "mcp", "key": "good", "value": "{}"},
        {"type": "mcp", "key": "bad", "value": '{"type": "mcp-tool",'},
        {"type": "mcp", "key": "also-bad", "value": '"just text"'},
    ]
    with pytest.raises(BadRequest) as caught:
        await client.ask("put", values=values)
    assert [(f["type"], f["key"]) for f in caught.value.data["faults"]] == [
        ("mcp", "bad"),
        ("mcp", "also-bad"),
    ]
    assert "mcp 'bad': the value must be a JSON object and is no JSON" in caught.value.message
    assert "mcp 'also-bad': the value must be a JSON object, not a string" in caught.value.message
    assert (await client.ask("config")).config == {}


@pytest.mark.parametrize("type_", ["tool", "mcp", "mcp-server", "agent-profile"])
@pytest.mark.parametrize("value", ["null", "[]", "5", "true", '"{}"', "", "{'a': 1}", "[" * 5000])
async def test_what_must_be_an_object_is_checked_when_saved(client: Client, type_: str, value: str) -> None:
    with pytest.raises(BadRequest, match=f"{type_} 'k'"):
        await client.ask("put", values=[{"type": type_, "key": "k", "value": value}])


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"key": ""}, "the key is empty"),
        ({"type": ""}, "the type is empty"),
        ({"key": "k" * 1001}, "the key is longer"),
        ({"value": "nul \0"}, "holds a NUL"),
        ({"value": "x" * 1_100_000}, r"1,100,000 bytes long; at most 1,048,576"),
        ({"workspace": "_system"}, "'_system' is reserved"),
        ({"value": None}, "No value is given"),
    ],
)
async def test_what_can_not_be_stored_is_refused_with_its_fault(
    client: Client, fields: dict[str, str], fault: str
) -> None:
    value = {"type": "parameter", "key": "k", "value": "v", **fields}
    with pytest.raises(BadRequest, match=fault):
        await client.ask("put", values=[value])


async def test_twenty_clients_that_each_add_a_tool_lose_none(client: Client) -> None:
    versions = await asyncio.gather(*(client.put(**{f"t{n}": "{}"}) for n in range(20)))
    assert sorted(versions) == list(range(1, 21))
    directory = (await client.ask("list", type="mcp")).directory
    assert sorted(directory or []) == sorted(f"t{n}" for n in range(20))


async def test_of_twenty_edits_of_the_version_read_one_wins_and_the_others_are_told(client: Client) -> None:
    await client.put(a='{"n": 0}')
    [found] = (await client.ask("getvalues", type="mcp")).values or []

    async def edit(n: int) -> int:
        value = {"type": "mcp", "key": "a", "value": f'{{"n": {n}}}', "expected-version": found.version}
        return (await client.ask("put", values=[value])).version

    results = await asyncio.gather(*(edit(n) for n in range(1, 21)), return_exceptions=True)
    assert [result for result in results if not isinstance(result, Conflict)] == [2]
    with pytest.raises(Conflict, match="mcp 'a' \\(now at version 2\\)"):
        await client.ask("delete", keys=[{"type": "mcp", "key": "a", "expected-version": found.version}])


async def test_a_change_is_announced_with_what_it_touched_and_not_to_what(bus: Bus, client: Client) -> None:
    notices: asyncio.Queue[dict[str, object]] = asyncio.Queue()
    await bus.listen("config", notices.put)
    await client.put(secret='{"auth-token": "tok-1"}')
    notice = await asyncio.wait_for(notices.get(), 20)
    assert notice == {
        "version": 1,
        "changed": [{"workspace": "default", "type": "mcp", "key": "secret"}],
    }
    assert "tok-1" not in json.dumps(notice)


async def test_a_snapshot_too_large_for_one_message_comes_whole(
    bus: Bus, client: Client, store: Store
) -> None:
    text = json.dumps({"description": "d" * 200_000})
    await store.config.write([ConfigChange(f"w{n % 3}", "mcp", f"t{n}", text) for n in range(40)])
    body = {"operation": "snapshot", "types": ["mcp"]}
    frames = [frame async for frame in bus.stream("config", body, ConfigResponse, timeout=20)]
    assert len(frames) > 1
    values = [value for frame in frames for value in frame.values or []]
    assert {(v.workspace, v.key) for v in values} == {(f"w{n % 3}", f"t{n}") for n in range(40)}
    assert {frame.version for frame in frames} == {1}


async def test_the_history_keeps_who_wrote(client: Client, store: Store) -> None:
    await client.ask("put", values=[{"type": "mcp", "key": "a", "value": "{}"}], who="ann")
    assert [edit.who for edit in await store.config.history(("default", "mcp", "a"))] == ["ann"]


async def test_two_config_services_on_one_store_serve_as_one(bus: Bus, client: Client, store: Store) -> None:
    second = ConfigService(bus, store)
    await second.start()
    versions = await asyncio.gather(*(client.put(**{f"t{n}": "{}"}) for n in range(10)))
    assert sorted(versions) == list(range(1, 11))
    await second.close()
