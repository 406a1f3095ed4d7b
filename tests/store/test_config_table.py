import asyncio

import pytest

from trustgraph_flow.schema.errors import Conflict
from trustgraph_flow.store import ConfigChange, Store


def put(key: str, value: str | None, expected: int | None = None, workspace: str = "w") -> ConfigChange:
    return ConfigChange(workspace, "tool", key, value, expected)


async def values(store: Store) -> dict[str, str]:
    return {item.key: item.value for item in (await store.config.items("w"))[1]}


async def test_an_empty_store_has_version_zero(store: Store) -> None:
    assert await store.config.version() == 0
    assert await store.config.items() == (0, [])


async def test_one_write_of_several_items_is_one_version(store: Store) -> None:
    assert await store.config.write([put("a", "1"), put("b", "2")]) == 1
    assert await store.config.write([put("b", "3"), put("a", None)]) == 2
    assert await values(store) == {"b": "3"}


async def test_items_are_found_by_workspace_and_type(store: Store) -> None:
    await store.config.write(
        [put("a", "1"), put("a", "2", workspace="other"), ConfigChange("w", "mcp", "m", "3")]
    )
    _, everything = await store.config.items()
    assert [(i.workspace, i.type, i.key, i.value) for i in everything] == [
        ("other", "tool", "a", "2"),
        ("w", "mcp", "m", "3"),
        ("w", "tool", "a", "1"),
    ]
    assert [i.value for i in (await store.config.items("w", ["tool"]))[1]] == ["1"]
    assert (await store.config.items("w", []))[1] == []
    version, found = await store.config.get([("w", "tool", "a"), ("w", "tool", "missing")])
    assert version == 1
    assert [(item, entry.value, entry.version) for item, entry in found.items()] == [
        (("w", "tool", "a"), "1", 1)
    ]


async def test_deleting_what_is_not_there_changes_nothing(store: Store) -> None:
    await store.config.write([put("a", "1")])
    assert await store.config.write([put("b", None)]) == 1


async def test_of_several_changes_to_one_item_the_last_counts(store: Store) -> None:
    await store.config.write([put("a", "1"), put("a", "2")])
    assert await values(store) == {"a": "2"}


async def test_a_stale_expected_version_refuses_the_whole_write(store: Store) -> None:
    await store.config.write([put("a", "1")])
    await store.config.write([put("a", "2", expected=1)])
    with pytest.raises(Conflict, match="tool 'a' \\(now at version 2\\)") as caught:
        await store.config.write([put("b", "x"), put("a", "3", expected=1)])
    assert caught.value.data["items"][0]["version"] == 2
    assert await values(store) == {"a": "2"}
    assert await store.config.version() == 2


async def test_expecting_version_zero_means_that_the_item_is_new(store: Store) -> None:
    await store.config.write([put("a", "1", expected=0)])
    with pytest.raises(Conflict):
        await store.config.write([put("a", "2", expected=0)])


async def test_history_tells_who_wrote_what(store: Store) -> None:
    await store.config.write([put("a", "1")], who="ann")
    await store.config.write([put("b", "1")], who="ann")
    await store.config.write([put("a", None)], who="bob")
    edits = await store.config.history(("w", "tool", "a"))
    assert [(e.version, e.value, e.who) for e in edits] == [(1, "1", "ann"), (3, None, "bob")]


async def test_twenty_writers_at_once_lose_no_update(store: Store) -> None:
    versions = await asyncio.gather(*(store.config.write([put(f"t{n}", str(n))]) for n in range(20)))
    assert sorted(versions) == list(range(1, 21))
    assert await values(store) == {f"t{n}": str(n) for n in range(20)}


async def test_of_twenty_that_edit_the_version_they_read_one_wins(store: Store) -> None:
    version = await store.config.write([put("a", "0")])
    results = await asyncio.gather(
        *(store.config.write([put("a", str(n), expected=version)]) for n in range(20)), return_exceptions=True
    )
    assert [r for r in results if not isinstance(r, Conflict)] == [2]


async def test_writers_in_several_processes_lose_no_update_and_versions_only_rise(shared_url: str) -> None:
    stores = [await Store.open(shared_url) for _ in range(3)]
    versions = await asyncio.gather(
        *(store.config.write([put(f"{s}-{n}", "x")]) for n in range(7) for s, store in enumerate(stores))
    )
    assert sorted(versions) == list(range(1, 22))
    assert len(await values(stores[0])) == 21
    for store in stores:
        await store.close()


async def test_a_store_is_filled_only_if_nothing_was_ever_written(store: Store) -> None:
    assert await store.config.fill([put("a", "1")])
    assert not await store.config.fill([put("b", "1")])
    await store.config.write([put("a", None)])
    assert not await store.config.fill([put("a", "1")])
    assert await values(store) == {}
