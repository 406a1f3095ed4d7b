"""Which server and tool a call goes to: read from the config items of a workspace.

A bad item disables itself alone; the reason is kept for the answer to a call of it, and names no value, since
values may be credentials.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import ValidationError

from trustgraph_flow.config import ConfigView
from trustgraph_flow.schema.items import McpItem, McpServerItem, ToolItem

from .stdio import Command
from .target import OAuth, Target

TYPES = ("mcp", "mcp-server", "mcp-schema", "tool")
"""The item types that are read here."""

_SECRET_FLAG = re.compile(r"key|token|secret|passw|auth|credential", re.IGNORECASE)
_SHORTEST_SECRET = 4
"""Shorter values are not masked: they would be found in ordinary words."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An ``mcp`` item that can be called. ``timeout`` is the tool's, else the server's, else None.

    A ``pinned`` tool is called only as long as the server describes it as it did when it was accepted.
    """

    key: str
    tool: str
    target: Target
    timeout: float | None = None
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class Declared:
    """What a ``tool`` item says about the arguments of the ``mcp`` item that it points to."""

    arguments: Any
    defs: dict[str, Any] | None


class ItemFault(ValueError):
    """Why an item can't be used, in words for an operator."""


class Directory:
    """All ``mcp`` items, by workspace and key."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], Entry | ItemFault] = {}
        self._declared: dict[tuple[str, str], list[Declared]] = {}
        self._servers: dict[tuple[str, str], Target | ItemFault] = {}
        self._schemas: dict[tuple[str, str], str] = {}

    @classmethod
    def read(cls, view: ConfigView) -> Directory:
        directory = cls()
        for workspace, types in view.items.items():
            for key, text in types.get("mcp-server", {}).items():
                directory._servers[workspace, key] = _tried(_read_server, workspace, key, text, True)
            for key, text in types.get("mcp", {}).items():
                directory._entries[workspace, key] = _tried(_read_entry, workspace, key, text, types)
            for key, text in types.get("mcp-schema", {}).items():
                directory._schemas[workspace, key] = text
            for text in types.get("tool", {}).values():
                directory._declare(workspace, text)
        return directory

    def _declare(self, workspace: str, text: str) -> None:
        try:
            item = ToolItem.model_validate_json(text)
        except ValidationError:
            return  # the agent reports bad tool items
        if item.type == "mcp-tool" and item.mcp_tool and item.arguments is not None:
            declared = Declared(item.arguments, item.defs)
            self._declared.setdefault((workspace, item.mcp_tool), []).append(declared)

    def find(self, workspace: str, key: str) -> Entry | None:
        """The item; None where there is none. Raises ItemFault for one that can't be used."""
        entry = self._entries.get((workspace, key))
        if isinstance(entry, ItemFault):
            raise entry
        return entry

    def server(self, workspace: str, key: str) -> Target | None:
        """An ``mcp-server`` item by its id, as ``find``."""
        target = self._servers.get((workspace, key))
        if isinstance(target, ItemFault):
            raise target
        return target

    def declared(self, workspace: str, key: str) -> list[Declared]:
        """The argument lists of the tool items that point to an ``mcp`` item."""
        return self._declared.get((workspace, key), [])

    def schema(self, workspace: str, key: str) -> str | None:
        """What the server said of the tool when it was accepted: the value of its ``mcp-schema`` item."""
        return self._schemas.get((workspace, key))

    def entries(self) -> Iterator[Entry]:
        return (entry for entry in self._entries.values() if isinstance(entry, Entry))

    def targets(self) -> set[Target]:
        """Every server that an ``mcp`` item leads to."""
        return {entry.target for entry in self.entries()}

    def faults(self) -> Iterator[tuple[str, str, ItemFault]]:
        """Workspace, key and reason of every ``mcp`` item that can't be used."""
        for (workspace, key), entry in self._entries.items():
            if isinstance(entry, ItemFault):
                yield workspace, key, entry


def _tried(read: Any, *arguments: Any) -> Any:
    try:
        return read(*arguments)
    except ItemFault as fault:
        return fault
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(step) for step in first["loc"]) or "the item"
        return ItemFault(
            f"{place}: {first['msg']}" if first["type"] != "json_invalid" else "it is not valid JSON"
        )


def _read_entry(workspace: str, key: str, text: str, types: Mapping[str, Mapping[str, str]]) -> Entry:
    item = McpItem.model_validate_json(text)
    timeout = _timeout(item.timeout)
    if item.server is not None:
        server_text = types.get("mcp-server", {}).get(item.server)
        if server_text is None:
            raise ItemFault(f'"server" names "{item.server}", and there is no mcp-server item of that id')
        try:
            target = _read_server(workspace, item.server, server_text, named=True)
        except (ItemFault, ValidationError):
            raise ItemFault(f'its mcp-server item "{item.server}" can\'t be used') from None
        server = McpServerItem.model_validate_json(server_text)
    else:
        target = _read_server(workspace, key, text, named=False)
        server = McpServerItem.model_validate_json(text)
    return Entry(
        key=key,
        tool=item.remote_name or key,
        target=target,
        timeout=timeout or _timeout(server.timeout),
        pinned=server.pin,
    )


def _read_server(workspace: str, key: str, text: str, named: bool) -> Target:
    """``named`` says that the item is an ``mcp-server``, whose key is the server's name."""
    item = McpServerItem.model_validate_json(text)
    _timeout(item.timeout)
    if (item.url is None) == (item.command is None):
        raise ItemFault('it needs either "url" or "command"' + ("" if named else ' (or "server")'))
    token = _value("auth-token", item.auth_token) if item.auth_token else ""
    oauth = _read_oauth(item)
    secrets = [token, oauth.client_secret or "" if oauth is not None else ""]
    if item.url is not None:
        headers = {name: _value(f"headers.{name}", value) for name, value in item.headers.items()}
        if token and not any(name.lower() == "authorization" for name in headers):
            headers["Authorization"] = f"Bearer {token}"
        for name, value in headers.items():
            if not _sendable(name) or not _sendable(value):
                raise ItemFault(f"headers.{name}: it holds characters that a header can't carry")
        host, hidden = _read_url(item.url)
        secrets += [*hidden, *headers.values(), *(value.partition(" ")[2] for value in headers.values())]
        return Target(
            workspace=workspace,
            label=key if named else host,
            url=item.url,
            headers=tuple(sorted(headers.items())),
            mode=item.mode if item.transport != "sse" else "legacy",
            sse=item.transport == "sse",
            oauth=oauth,
            answers_forms=item.elicitation == "defaults",
            secrets=_masked(secrets),
        )
    argv = [_value(f"args.{place}", value) for place, value in enumerate(item.args)]
    env = {name: _value(f"env.{name}", value) for name, value in item.env.items()}
    if item.cwd is not None and not os.path.isdir(item.cwd):
        raise ItemFault('"cwd" is not a folder')
    assert item.command is not None
    command = Command(argv=(item.command, *argv), env=tuple(sorted(env.items())), cwd=item.cwd)
    return Target(
        workspace=workspace,
        label=key,
        command=command,
        mode=item.mode,
        answers_forms=item.elicitation == "defaults",
        secrets=_masked([*secrets, *env.values(), *_secret_arguments(argv)]),
    )


def _read_oauth(item: McpServerItem) -> OAuth | None:
    given = item.oauth
    if given is None:
        return None
    if item.url is None:
        raise ItemFault('oauth: only a server with a "url" can be signed in at')
    if item.auth_token or any(name.lower() == "authorization" for name in item.headers):
        raise ItemFault('oauth: it can\'t stand beside "auth-token" or an Authorization header')
    secret = _value("oauth.client-secret", given.client_secret) if given.client_secret else None
    if given.flow == "client-credentials" and not (given.client_id and secret):
        raise ItemFault('oauth: the flow client-credentials needs "client-id" and "client-secret"')
    if secret and not given.client_id:
        raise ItemFault('oauth: "client-secret" needs its "client-id"')
    for name, url in (("issuer", given.issuer), ("redirect-uri", given.redirect_uri)):
        if url is not None and not url.startswith(("http://", "https://")):
            raise ItemFault(f"oauth.{name}: it has to begin with http:// or https://")
    scopes = given.scopes if isinstance(given.scopes, str) else " ".join(given.scopes)
    return OAuth(
        flow=given.flow,
        client_id=given.client_id,
        client_secret=secret,
        scopes=scopes,
        issuer=given.issuer,
        auth_method="client_secret_post" if given.auth_method == "post" else "client_secret_basic",
        redirect_uri=given.redirect_uri,
    )


def _value(place: str, value: Any) -> str:
    """A string as it is, or ``{"env": "NAME"}`` as that variable of our environment."""
    match value:
        case str():
            return value
        case bool():
            return json.dumps(value)
        case int() | float():
            return str(value)
        case {"env": str() as name}:
            if name not in os.environ:
                raise ItemFault(f"{place}: the environment variable {name} is not set")
            return os.environ[name]
        case _:
            raise ItemFault(f'{place}: it has to be a string or {{"env": "NAME"}}')


def _read_url(url: str) -> tuple[str, list[str]]:
    """Host and port of a URL, and the credentials that it holds."""
    try:
        parts = urlsplit(url)
        host = f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname
    except ValueError:
        raise ItemFault('"url" is not a URL') from None
    if parts.scheme not in ("http", "https") or not host:
        raise ItemFault('"url" has to begin with http:// or https:// and name a host')
    hidden = [value for _, value in parse_qsl(parts.query)]
    if parts.password:
        login = f"{unquote(parts.username or '')}:{unquote(parts.password)}"
        hidden += [parts.password, unquote(parts.password), base64.b64encode(login.encode()).decode()]
    return host, hidden


def _sendable(text: str) -> bool:
    return text.isprintable() and text.isascii() and bool(text)


def _secret_arguments(argv: list[str]) -> Iterator[str]:
    """Values of arguments whose flag sounds like a credential: ``--key VALUE`` and ``--key=VALUE``."""
    for flag, following in zip(argv, [*argv[1:], ""], strict=False):
        if flag.startswith("-") and _SECRET_FLAG.search(flag.partition("=")[0]):
            yield flag.partition("=")[2] or following


def _masked(values: list[str]) -> tuple[str, ...]:
    return tuple(sorted({v for v in values if len(v) >= _SHORTEST_SECRET}, key=len, reverse=True))


def _timeout(value: float | None) -> float | None:
    if value is not None and not 0 < value <= 86_400:
        raise ItemFault("timeout: it has to be more than 0 and at most 86400 seconds")
    return value
