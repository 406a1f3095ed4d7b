"""Config items, and the messages of the config service."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from .base import Message

DEFAULT_WORKSPACE = "default"
NOTICE_CHANNEL = "config"


class ConfigKey(Message):
    """``expected_version`` refuses the delete if the item has been written since."""

    type: str
    key: str
    expected_version: int | None = Field(default=None, alias="expected-version", ge=0)


class ConfigValue(Message):
    """One item. ``value`` is a string, normally JSON text; None where an asked-for key is not there.

    ``version`` is the store's version that wrote the item, 0 where it is not there; given back as
    ``expected_version`` it refuses a put over what somebody else has written since.
    """

    workspace: str | None = None
    type: str
    key: str
    value: str | None = None
    version: int | None = None
    expected_version: int | None = Field(default=None, alias="expected-version", ge=0)


class ConfigRequest(Message):
    """``snapshot`` is for our own watchers: every workspace, only the types asked for.

    It comes in as many frames as it needs, and without ``values`` where the store still has the version
    ``unless_version``. ``who`` names the writer in the history; the gateway sets it. ``force`` saves items
    that could not be used as they are.
    """

    operation: Literal["get", "list", "getvalues", "put", "delete", "config", "snapshot"]
    workspace: str | None = None
    keys: list[ConfigKey] = Field(default_factory=list)
    values: list[ConfigValue] = Field(default_factory=list)
    type: str | None = None
    types: list[str] | None = None
    unless_version: int | None = None
    who: str | None = None
    force: bool = False


class ConfigResponse(Message):
    """``version`` is the store's, and only rises."""

    version: int
    values: list[ConfigValue] | None = None
    directory: list[str] | None = None
    config: dict[str, dict[str, str]] | None = None


class ConfigNotice(Message):
    """Broadcast after every change; it says what changed, not to what: readers fetch. [] may be anything."""

    version: int
    changed: list[dict[str, Any]] = Field(default_factory=list)
