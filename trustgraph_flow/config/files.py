"""Config items as a folder of files: one YAML or JSON file a type, in it one mapping from key to value."""

from __future__ import annotations

import json
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from trustgraph_flow.arguments import strict_json
from trustgraph_flow.schema.config import DEFAULT_WORKSPACE
from trustgraph_flow.schema.errors import SetupError
from trustgraph_flow.store import ConfigChange, Store

from .checks import faults_in, kind

SUFFIXES = (".yaml", ".yml", ".json")


def default_folder() -> Traversable:
    """The files that come with the package."""
    return files("trustgraph_flow.defaults")


async def load_defaults(store: Store, folder: Traversable, *, workspace: str = DEFAULT_WORKSPACE) -> bool:
    """Fills a store to which nothing was ever written, and says whether it did.

    What an operator deletes later thus stays deleted. All of the files or none: raises SetupError, naming
    the file, the line and what to do.
    """
    if await store.config.version():
        return False
    return await store.config.fill(read_folder(folder, workspace=workspace), who="defaults")


def read_folder(folder: Traversable, *, workspace: str = DEFAULT_WORKSPACE) -> list[ConfigChange]:
    """The items of a folder. A string is a value as it is; anything else becomes its JSON text."""
    if not folder.is_dir():
        raise SetupError(f"The config folder {folder} does not exist; name one with files like tool.yaml.")
    changes: list[ConfigChange] = []
    seen: dict[str, str] = {}
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        type_, dot, suffix = file.name.rpartition(".")
        if dot + suffix not in SUFFIXES or not type_ or not file.is_file():
            continue
        if type_ in seen:
            raise SetupError(f"{file} and {seen[type_]} both hold the {type_} items; put them into one file.")
        seen[type_] = file.name
        for key, value in _read(file).items():
            change = ConfigChange(workspace, type_, key, _text(file, key, value))
            for fault in faults_in(change):
                raise SetupError(f"{file}, key {key!r}: {fault}.")
            changes.append(change)
    return changes


def _read(file: Traversable) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{file} can't be read ({error}); make it a UTF-8 file that we may read.") from None
    try:
        content = strict_json(text) if file.name.endswith(".json") else _yaml(text)
    except ValueError as error:
        line = getattr(error, "lineno", None)
        where = f", line {line}" if line else ""
        raise SetupError(f"{file}{where}: {getattr(error, 'msg', error)}; correct the file.") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise SetupError(f"{file}: the file must hold a mapping from key to value, not {kind(content)}.")
    return content


def _text(file: Traversable, key: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise SetupError(f"{file}, key {key!r}: the value is not JSON ({error}).") from None


def _yaml(text: str) -> Any:
    from .plain_yaml import loads  # only who fills a store needs it

    return loads(text)
