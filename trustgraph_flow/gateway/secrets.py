"""What ``mcp`` and ``mcp-server`` items keep to themselves: readers get a mask, and the mask is never stored.

Secret are the values of ``auth-token``, ``headers`` and ``env``, of other fields and of options in ``args``
that are named like a secret, and a URL's password and query. A reference ``{"env": NAME}`` says where a
secret stands and not what it is, and is shown.
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urlsplit, urlunsplit

MASK = "********"
SECRET_TYPES = frozenset({"mcp", "mcp-server"})

_HOLDERS = ("headers", "env")
_TARGET = ("url", "server", "command", "args", "cwd")
"""The fields that say who gets the secret."""
_PLAIN = frozenset({"oauth", "auth-method"})
"""They sound like a secret and only hold one, or none."""
_SECRET_NAME = re.compile(r"(?i)auth|bearer|cookie|credential|key|passw|secret|signature|token")
_ASSIGNED = re.compile(r"([\w.-]+)=(.+)", re.DOTALL)
_QUERY_VALUE = re.compile(r"(?<==)[^&]+|(?<![^&])[^&=]+(?![^&])")


def mask(text: str) -> str:
    """The value of an item as it may be read; what is no JSON object is hidden whole."""
    item = _object(text)
    return MASK if item is None else _text(_masked_object(item))


def holds_mask(text: str) -> bool:
    return MASK in text


def restore(text: str, stored: str | None) -> tuple[str, list[str]]:
    """``text`` with the secrets of ``stored`` in place of its masks, and the faults that forbid to store it.

    A secret is kept only for whom it was given: where the item now names another server or command, the
    secret must be given anew, or else whoever may write could have it sent to himself.
    """
    if stored is not None and text == MASK == mask(stored):
        return stored, []
    new, old = _object(text), _object(stored or "{}")
    if new is None:
        return text, ["holds the mask instead of an item"]
    faults: list[str] = []
    restored = _restore(new, old or {}, faults)
    if not faults and _recipients(restored) != _recipients(old or {}):
        faults.append("names another server or command than before: give its secrets anew")
    return _text(restored), faults


def _recipients(item: dict[str, Any]) -> list[Any]:
    oauth = item.get("oauth")
    issuer = oauth.get("issuer") if isinstance(oauth, dict) else None
    return [*(item.get(field) for field in _TARGET), issuer]


def _restore(
    new: dict[str, Any], old: dict[str, Any], faults: list[str], path: str = "", *, hidden: bool = False
) -> dict[str, Any]:
    result = {}
    for key, value in new.items():
        before = old.get(key)
        result[key] = value
        if not holds_mask(_text(value)):
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            inside = hidden or _is_secret(key)
            result[key] = _restore(value, before, faults, f"{path}{key}.", hidden=inside)
        elif key in old and value == _masked(key, before, hidden=hidden):
            result[key] = before
        else:
            faults.append(f"{path}{key} holds the mask, and no such secret is stored: give the secret itself")
    return result


def _masked_object(item: dict[str, Any], *, hidden: bool = False) -> dict[str, Any]:
    return {key: _masked(key, value, hidden=hidden) for key, value in item.items()}


def _masked(key: str, value: Any, *, hidden: bool) -> Any:
    """``value`` of ``key``; ``hidden`` says that it stands inside of something secret."""
    if value in (None, "", [], {}) or (_is_reference(value) and key not in _HOLDERS):
        return value
    hidden = hidden or _is_secret(key)
    if isinstance(value, dict):
        return _masked_object(value, hidden=hidden)
    if hidden:
        return MASK
    if isinstance(value, list):
        return _masked_words(value)
    return _masked_url(value) if isinstance(value, str) else value


def _is_secret(key: str) -> bool:
    return key in _HOLDERS or (key not in _PLAIN and bool(_SECRET_NAME.search(key)))


def _masked_words(words: list[Any]) -> list[Any]:
    """A command line: ``--token X``, ``--token=X``, ``TOKEN=X`` and URLs lose their secrets."""
    masked: list[Any] = []
    secret_next = False
    for word in words:
        assigned = _ASSIGNED.fullmatch(word) if isinstance(word, str) else None
        if secret_next or isinstance(word, (dict, list)):
            masked.append(word if _is_reference(word) else MASK)
        elif assigned and _SECRET_NAME.search(assigned[1]):
            masked.append(f"{assigned[1]}={MASK}")
        else:
            masked.append(_masked_url(word) if isinstance(word, str) else word)
        is_option = isinstance(word, str) and word.startswith("-") and not assigned
        secret_next = is_option and bool(_SECRET_NAME.search(word))
    return masked


def _masked_url(text: str) -> str:
    if "://" not in text:
        return text
    try:
        parts = urlsplit(text)
    except ValueError:
        return MASK
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(
        parts._replace(
            netloc=f"{MASK}@{host}" if "@" in parts.netloc else host,
            query=_QUERY_VALUE.sub(MASK, parts.query),
            fragment=MASK if parts.fragment else "",
        )
    )


def _is_reference(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"env"} and isinstance(value["env"], str)


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
