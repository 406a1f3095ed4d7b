"""Config values without their secrets: what ``mcp`` and ``mcp-server`` items may hold is never printed."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

MASK = "********"
SECRET_TYPES = frozenset({"mcp", "mcp-server"})

_SECRET_NAME = re.compile(r"(?i)auth|bearer|cookie|credential|key|passw|secret|signature|token")
_OPTION = re.compile(r"(-{1,2}[\w.-]+)(?:=(.*))?|([\w.-]+)=(.*)", re.DOTALL)


def mask_value(type_: str, text: str) -> str:
    """The text of a config item as it may be shown; text that can't be read is hidden whole."""
    if type_ not in SECRET_TYPES:
        return text
    try:
        item = json.loads(text)
    except ValueError:
        return f"{MASK} (not valid JSON; hidden because it may hold a secret)"
    return json.dumps(mask_item(item), ensure_ascii=False)


def mask_item(item: Any) -> Any:
    """An ``mcp`` or ``mcp-server`` item with the mask in each place where a secret can stand."""
    if not isinstance(item, dict):
        return MASK
    return _plain(item)


def holds_mask(type_: str, text: str) -> bool:
    """Whether a value to be stored has the mask where the secret should be."""
    return type_ in SECRET_TYPES and MASK in text


def mask_url(url: str) -> str:
    """``url`` without its user's password and the values of its query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return MASK
    host = parts.netloc.rpartition("@")[2]
    user = f"{MASK}@" if "@" in parts.netloc else ""
    query = re.sub(r"(?:([^&=]+=)|(?<![^&]))[^&]+", rf"\g<1>{MASK}", parts.query)
    fragment = MASK if parts.fragment else ""
    return urlunsplit(SplitResult(parts.scheme, user + host, parts.path, query, fragment))


def _field(key: str, value: Any) -> Any:
    if value in (None, "", [], {}):
        return value
    if key in ("headers", "env"):
        return dict.fromkeys(value, MASK) if isinstance(value, dict) else MASK
    if key == "args":
        return _words(value) if isinstance(value, list) else MASK
    if _SECRET_NAME.search(key):
        return MASK
    return _plain(value)


def _plain(value: Any) -> Any:
    """A value under a name that is no secret's; what is nested in it may be one."""
    if isinstance(value, dict):
        return {key: _field(key, inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return mask_url(value) if isinstance(value, str) and "://" in value else value


def _words(words: list[Any]) -> list[Any]:
    """A command line, with the values of options that are named like a secret masked."""
    masked: list[Any] = []
    hide_next = False
    for word in words:
        if hide_next:
            masked.append(MASK)
            hide_next = False
            continue
        found = _OPTION.fullmatch(word) if isinstance(word, str) else None
        name, value = (found[1] or found[3], found[2] or found[4]) if found else (None, None)
        if name is None:
            masked.append(_plain(word))
        elif value is None:
            masked.append(word)
        else:
            masked.append(f"{name}={MASK if _SECRET_NAME.search(name) else _plain(value)}")
        hide_next = name is not None and value is None and bool(_SECRET_NAME.search(name))
    return masked
