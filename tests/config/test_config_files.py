import json
from pathlib import Path

import pytest

from trustgraph_flow.config import default_folder, load_defaults, read_folder
from trustgraph_flow.schema.errors import SetupError
from trustgraph_flow.store import ConfigChange, Store


def items(folder: Path) -> dict[tuple[str, str], str | None]:
    return {(change.type, change.key): change.value for change in read_folder(folder)}


async def stored(store: Store) -> dict[tuple[str, str], str]:
    return {(item.type, item.key): item.value for item in (await store.config.items("default"))[1]}


def test_strings_stay_strings_and_other_values_become_json(tmp_path: Path) -> None:
    (tmp_path / "mcp.yaml").write_text("a:\n  name: größe\n  arguments: []\n")
    (tmp_path / "prompt.json").write_text('{"system": "Be {{ brief }}", "template-index": ["ask"]}')
    (tmp_path / "README.md").write_text("no config")
    assert items(tmp_path) == {
        ("mcp", "a"): '{"name": "größe", "arguments": []}',
        ("prompt", "system"): "Be {{ brief }}",
        ("prompt", "template-index"): '["ask"]',
    }


def test_plain_words_keep_their_meaning(tmp_path: Path) -> None:
    text = "a: {enum: [yes, no, on, 12:30, 00417, 2025-01-31, 0x1F], n: [1, -2, 1.5, 1e3, true, null, ~]}"
    (tmp_path / "mcp.yaml").write_text(text)
    value = items(tmp_path)["mcp", "a"]
    assert value is not None
    assert json.loads(value) == {
        "enum": ["yes", "no", "on", "12:30", "00417", "2025-01-31", "0x1F"],
        "n": [1, -2, 1.5, 1000.0, True, None, None],
    }


def test_anchors_may_be_merged(tmp_path: Path) -> None:
    (tmp_path / "mcp.yaml").write_text("a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  y: 3\n")
    assert items(tmp_path)["mcp", "b"] == '{"x": 1, "y": 3}'


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("mcp.yaml", "a: {}\nb: [1, 2\n", r"mcp\.yaml, line 3: .*; correct the file"),
        ("mcp.yaml", "a: {}\na: {}\n", r"mcp\.yaml, line 2: the key 'a' stands twice"),
        ("mcp.yaml", "a: {x: 1, x: 2}\n", r"mcp\.yaml, line 1: the key 'x' stands twice"),
        ("mcp.yaml", "1: {}\n", r"mcp\.yaml, line 1: the key '1' is no string, put it in quotes"),
        ("mcp.yaml", "a: !!python/object:os.system {}\n", r"mcp\.yaml, line 1: could not determine"),
        ("mcp.yaml", "- a\n", r"mcp\.yaml: the file must hold a mapping .*, not a list"),
        ("mcp.yaml", "a: just text\n", r"mcp\.yaml, key 'a': the value must be a JSON object"),
        ("mcp.yaml", "a: &a\n  b: *a\n", r"mcp\.yaml, key 'a': the value is not JSON"),
        ("mcp.json", '{"a": {},\n "b": }', r"mcp\.json, line 2: .*; correct the file"),
        ("mcp.json", '{"a": {}, "a": {}}', r'mcp\.json: the key "a" is there twice'),
        ("mcp.json", '{"a": {"n": NaN}}', r"mcp\.json: NaN is not JSON"),
    ],
)
async def test_a_bad_file_is_named_with_its_line_and_nothing_is_loaded(
    tmp_path: Path, store: Store, file: str, text: str, fault: str
) -> None:
    (tmp_path / "agent-profile.yaml").write_text("good: {}\n")
    (tmp_path / file).write_text(text)
    with pytest.raises(SetupError, match=fault):
        await load_defaults(store, tmp_path)
    assert await store.config.version() == 0


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "mcp.yaml").write_bytes(b"a: \xff\xfe")
    with pytest.raises(SetupError, match=r"mcp\.yaml can't be read"):
        read_folder(tmp_path)


def test_two_files_of_one_type_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mcp.yaml").write_text("")
    (tmp_path / "mcp.json").write_text("{}")
    with pytest.raises(SetupError, match=r"mcp\.yaml and mcp\.json both hold the mcp items"):
        read_folder(tmp_path)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="nowhere does not exist"):
        read_folder(tmp_path / "nowhere")


async def test_defaults_are_loaded_once_and_what_is_deleted_stays_so(tmp_path: Path, store: Store) -> None:
    (tmp_path / "mcp.yaml").write_text("a: {}\nb: {}\n")
    assert await load_defaults(store, tmp_path)
    await store.config.write([ConfigChange("default", "mcp", key, None) for key in "ab"])
    assert not await load_defaults(store, tmp_path)
    assert await stored(store) == {}


async def test_defaults_never_touch_a_store_that_holds_something(tmp_path: Path, store: Store) -> None:
    await store.config.write([ConfigChange("default", "mcp", "a", "{bad json,")])
    (tmp_path / "mcp.yaml").write_text("a: {}\nb: {}\n")
    assert not await load_defaults(store, tmp_path)
    assert await stored(store) == {("mcp", "a"): "{bad json,"}


async def test_the_files_that_come_with_the_package_can_be_loaded(store: Store) -> None:
    assert await load_defaults(store, default_folder())
    assert ("prompt", "system") in await stored(store)
