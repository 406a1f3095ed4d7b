"""Config items, and the messages of the config service."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from .base import Message

DEFAULT_WORKSPACE = "default"


class ConfigKey(Message):
    type: str
    key: str


class ConfigValue(Message):
    """One item. ``value`` is a string, normally JSON text; None where an asked-for key is not there."""

    workspace: str | None = None
    type: str
    key: str
    value: str | None = None


class ConfigRequest(Message):
    """``snapshot`` is for our own watchers: every workspace, only the types asked for."""

    operation: Literal["get", "list", "getvalues", "put", "delete", "config", "snapshot"]
    workspace: str | None = None
    keys: list[ConfigKey] = Field(default_factory=list)
    values: list[ConfigValue] = Field(default_factory=list)
    type: str | None = None
    types: list[str] | None = None


class ConfigResponse(Message):
    """``version`` is the store's, and only rises."""

    version: int
    values: list[ConfigValue] | None = None
    directory: list[str] | None = None
    config: dict[str, dict[str, str]] | None = None


class ConfigNotice(Message):
    """Broadcast after every change; it says what changed, not to what: readers fetch."""

    version: int
    changed: list[dict[str, Any]] = Field(default_factory=list)
