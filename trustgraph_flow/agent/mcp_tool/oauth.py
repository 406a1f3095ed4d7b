"""OAuth for HTTP servers that ask for it, by the flows of the SDK.

The SDK's provider holds its lock while a request is under way, and with it every other call to the server.
Here a request goes out with the token that is known; only after a refusal is the flow driven, one at a time,
and the request is sent again once the flow has brought a new token.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.auth.utils import extract_field_from_www_auth, issuers_match, union_scopes
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl, ValidationError

from trustgraph_flow.schema.errors import TrustGraphError
from trustgraph_flow.store import SignInTable

from . import faults
from .target import OAuth, Target

Ask = Callable[[str], Awaitable[AuthorizationCodeResult]]
"""Has a person open the page, and returns what it sends back. Raises OAuthFlowError when that fails."""

_ROUNDS = 2
"""Sign-ins for one request: for a token, and for more scopes."""
_REQUEST_SECONDS = 10.0
_TIMEOUT = httpx2.Timeout(_REQUEST_SECONDS).as_dict()


class NobodyToAsk(OAuthFlowError):
    """A person has to sign in, and this is not the time to ask one."""


class Keeper:
    """The SDK's token storage on our store."""

    def __init__(self, table: SignInTable, target: Target) -> None:
        assert target.oauth is not None
        self._table = table
        self._place = (target.workspace, f"{target.url} {target.oauth.client_id or ''}".strip())
        self.expires_at: float | None = None

    async def get_tokens(self) -> OAuthToken | None:
        known = await self._table.get(*self._place)
        self.expires_at = known.expires_at
        return OAuthToken.model_validate(known.tokens) if known.tokens else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.expires_at = time.time() + tokens.expires_in if tokens.expires_in else None
        await self._table.put_tokens(*self._place, tokens.model_dump(mode="json"), self.expires_at)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        client = (await self._table.get(*self._place)).client
        return OAuthClientInformationFull.model_validate(client) if client else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        await self._table.put_client(*self._place, client_info.model_dump(mode="json"))


class _Kept(OAuthClientProvider):
    """What both flows do otherwise than the SDK: the end of a stored token is known, the item's scopes are
    asked for besides those that the server names, and a secret goes to one authorization server only."""

    _keeper: Keeper
    _oauth: OAuth

    async def _initialize(self) -> None:
        await super()._initialize()
        self.context.token_expiry_time = self._keeper.expires_at

    async def _perform_authorization(self) -> httpx2.Request:
        metadata = self.context.client_metadata
        metadata.scope = union_scopes(metadata.scope, self._oauth.scopes or None)
        return await super()._perform_authorization()

    def _select_authorization_server(self, advertised: list[str]) -> str:
        trusted = self._oauth.issuer
        if self._oauth.client_secret:
            trusted = _issuer(self.context.server_url, self._oauth)
        for server in advertised:
            if trusted is None or issuers_match(server, trusted):
                return server
        raise OAuthFlowError(
            f"the server leads to the authorization server {advertised[0]}, and the item trusts "
            f'{trusted}; name the right one as "issuer"'
        )


class _ByCode(_Kept):
    """A person signs in; known clients are not registered anew."""

    def __init__(self, url: str, oauth: OAuth, keeper: Keeper, ask: Ask | None) -> None:
        page = ""

        async def show(address: str) -> None:
            nonlocal page
            page = address

        async def wait() -> AuthorizationCodeResult:
            if ask is None:
                raise NobodyToAsk
            return await ask(page)

        by_url = oauth.client_id is not None and oauth.client_id.startswith("https://")
        super().__init__(
            url,
            OAuthClientMetadata(
                redirect_uris=[AnyUrl(oauth.redirect_uri)],
                client_name="trustgraph-flow-react",
                token_endpoint_auth_method=oauth.auth_method if oauth.client_secret else None,
            ),
            keeper,
            show,
            wait,
            client_metadata_url=oauth.client_id if by_url else None,
        )
        self._oauth, self._keeper = oauth, keeper
        self._fixed: OAuthClientInformationFull | None = None
        if oauth.client_id is not None and not by_url:
            self._fixed = OAuthClientInformationFull(
                redirect_uris=[AnyUrl(oauth.redirect_uri)],
                client_id=oauth.client_id,
                client_secret=oauth.client_secret,
                token_endpoint_auth_method=oauth.auth_method if oauth.client_secret else "none",
                issuer=_issuer(url, oauth) if oauth.client_secret else oauth.issuer,
            )

    async def _initialize(self) -> None:
        await super()._initialize()
        if self._fixed is not None:
            self.context.client_info = self._fixed


class _ByCredentials(_Kept, ClientCredentialsOAuthProvider):
    """The client's own id and secret."""

    def __init__(self, url: str, oauth: OAuth, keeper: Keeper) -> None:
        assert oauth.client_id is not None
        assert oauth.client_secret is not None
        super().__init__(
            url,
            keeper,
            oauth.client_id,
            oauth.client_secret,
            oauth.auth_method,
            issuer=_issuer(url, oauth),
        )
        self._oauth, self._keeper = oauth, keeper


def _issuer(url: str, oauth: OAuth) -> str:
    """Where a secret may go: the server itself, unless the item names another place."""
    parts = urlsplit(url)
    return oauth.issuer or f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


class SignInAuth(httpx2.Auth):
    """The tokens of one server. A refused request is sent again after a sign-in: it has not run.

    Raises McpFault where a sign-in fails, or needs a person and there is no ``ask``.
    """

    def __init__(self, target: Target, table: SignInTable, ask: Ask | None = None) -> None:
        assert target.url is not None
        assert target.oauth is not None
        self._target = target
        self._by_person = target.oauth.flow == "authorization-code"
        self._ask = ask
        keeper = Keeper(table, target)
        self._provider: _ByCode | _ByCredentials
        if self._by_person:
            self._provider = _ByCode(target.url, target.oauth, keeper, ask)
        else:
            self._provider = _ByCredentials(target.url, target.oauth, keeper)
        self._lock = asyncio.Lock()
        self._loaded = False

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        for last in (False,) * _ROUNDS + (True,):
            tried = await self._stamp(request)
            response = yield request
            if last or not _asks_for_more(response):
                return
            async with self._lock:
                if not await self._has_another(tried):
                    signing_in = self._sign_in(request, response, tried)
                    try:
                        outgoing = await anext(signing_in)
                        while True:
                            outgoing = await signing_in.asend((yield outgoing))
                    except StopAsyncIteration:
                        pass
                    finally:
                        await signing_in.aclose()

    async def _stamp(self, request: httpx2.Request) -> OAuthToken | None:
        if not self._loaded:
            await self._load()
        tokens = self._provider.context.current_tokens
        if tokens is not None:
            request.headers["Authorization"] = f"Bearer {tokens.access_token}"
        return tokens

    async def _load(self) -> None:
        try:
            await self._provider._initialize()
        except TrustGraphError as error:
            raise faults.not_reached(self._target.label, f"its tokens can't be read ({error})") from None
        self._loaded = True

    async def _has_another(self, tried: OAuthToken | None) -> bool:
        """Whether another call, or another process, has signed in meanwhile."""
        context = self._provider.context
        if context.current_tokens is tried:
            await self._load()
        known = context.current_tokens
        return known is not None and (tried is None or known.access_token != tried.access_token)

    async def _sign_in(
        self, request: httpx2.Request, refused: httpx2.Response, tried: OAuthToken | None
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Drives the SDK's flow with the answer that is there already, until there are new tokens."""
        context = self._provider.context
        server = self._target.label
        if refused.status_code == 401 and context.can_refresh_token():
            context.token_expiry_time = 1.0
        elif self._by_person and self._ask is None:
            raise faults.sign_in_needed(server)
        before = context.current_tokens
        flow = self._provider.async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while outgoing is not request or context.current_tokens in (None, before):
                if outgoing is request:
                    answer = refused
                else:
                    outgoing.extensions["timeout"] = _TIMEOUT
                    answer = yield outgoing
                outgoing = await flow.asend(answer)
        except NobodyToAsk:
            raise faults.sign_in_needed(server) from None
        except StopAsyncIteration:
            raise faults.sign_in_failed(server, "the server gave no token") from None
        except (OAuthFlowError, ValidationError, ValueError) as error:
            raise faults.sign_in_failed(server, _reason(error)) from None
        except TrustGraphError as error:
            raise faults.sign_in_failed(server, f"its tokens can't be kept ({error})") from None
        finally:
            await flow.aclose()


def _asks_for_more(response: httpx2.Response) -> bool:
    if response.status_code == 403:
        return extract_field_from_www_auth(response, "error") == "insufficient_scope"
    return response.status_code == 401


def _reason(error: Exception) -> str:
    """The first line: those after it may quote what was received, and with it a token."""
    return next(iter(str(error).splitlines()), type(error).__name__)
