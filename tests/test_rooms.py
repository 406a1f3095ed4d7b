"""The rules between the rooms, as docs/architecture.md states them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "trustgraph_flow"
MAY_IMPORT = {
    "schema": set[str](),
    "arguments": {"schema"},
    "bus": {"schema"},
    "store": {"schema"},
    "config": {"schema", "arguments", "bus", "store"},
    "prompt": {"schema", "arguments", "bus", "config"},
    "llm": {"schema", "bus"},
    "agent/react": {"schema", "arguments", "bus", "store", "config", "prompt"},
    "agent/mcp_tool": {"schema", "arguments", "bus", "store", "config"},
    "gateway": {"schema", "arguments", "bus"},
    "client": {"schema"},
    "examples": set[str](),
}
NO_IO = {
    "aiohttp",
    "asyncio",
    "httpx",
    "mcp",
    "openai",
    "pulsar",
    "requests",
    "socket",
    "sqlalchemy",
    "subprocess",
}


def room_of(parts: list[str]) -> str:
    return "/".join(parts[:2]) if parts[:1] == ["agent"] else parts[0]


def imported(file: Path) -> Iterator[list[str]]:
    """The full dotted names that a module imports, relative ones resolved."""
    here = [PACKAGE.name, *file.relative_to(PACKAGE).with_suffix("").parts]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.split(".")
        elif isinstance(node, ast.ImportFrom):
            base = here[: -node.level] if node.level else []
            yield [*base, *(node.module or "").split(".")] if node.module else base


def modules(room: str) -> list[Path]:
    return sorted((PACKAGE / room).rglob("*.py"))


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_imports_run_downward_only(room: str) -> None:
    wrong = [
        f"{file.relative_to(PACKAGE)} imports {'.'.join(name)}"
        for file in modules(room)
        for name in imported(file)
        if name[0] == PACKAGE.name and len(name) > 1
        if room_of(name[1:]) not in MAY_IMPORT[room] | {room}
    ]
    assert modules(room)
    assert wrong == []


@pytest.mark.parametrize("room", ["schema", "arguments"])
def test_the_heart_does_no_io(room: str) -> None:
    wrong = [
        f"{file.name} imports {name[0]}"
        for file in modules(room)
        for name in imported(file)
        if name[0] in NO_IO
    ]
    assert wrong == []


def test_every_room_of_the_package_stands_in_the_architecture_page() -> None:
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = {room_of(list(file.relative_to(PACKAGE).parts)) for file in PACKAGE.rglob("*/*.py")}
    missing = [room for room in sorted(rooms) if f"`trustgraph_flow/{room}/`" not in page]
    assert missing == ["agent/__init__.py"], "which is only the folder of two rooms"
