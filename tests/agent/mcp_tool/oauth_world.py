"""An MCP server that asks for a sign-in, and its authorization server, in one."""

from __future__ import annotations

import base64
import secrets
from typing import Any

import httpx2
from aiohttp import web
from mcp_world import RawHttp, text_result


class OAuthServer(RawHttp):
    """``tokens`` are those that it takes now; ``asked`` are the forms that came to its token endpoint."""

    def __init__(self, issuer: str | None = None) -> None:
        super().__init__(self._answer)
        self.tokens: set[str] = set()
        self.asked: list[dict[str, str]] = []
        self.registered = 0
        self.expires_in = 3600
        self.token_status = 200
        self._issuer = issuer
        self._codes: set[str] = set()
        self.guard = self._refuse
        self.routes = [
            web.get("/.well-known/oauth-protected-resource/mcp", self._resource),
            web.get("/.well-known/oauth-authorization-server", self._metadata),
            web.post("/register", self._register),
            web.get("/authorize", self._authorize),
            web.post("/token", self._token),
        ]

    @property
    def place(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _answer(self, request: web.Request, message: dict[str, Any]) -> Any:
        return text_result("signed in")

    def _refuse(self, request: web.Request, message: dict[str, Any]) -> web.Response | None:
        if request.headers.get("Authorization", "").removeprefix("Bearer ") in self.tokens:
            return None
        where = f"{self.place}/.well-known/oauth-protected-resource/mcp"
        challenge = f'Bearer resource_metadata="{where}"'
        return web.Response(status=401, headers={"WWW-Authenticate": challenge})

    async def _resource(self, request: web.Request) -> web.Response:
        issuer = self._issuer or self.place
        return web.json_response({"resource": self.url, "authorization_servers": [issuer]})

    async def _metadata(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "issuer": self.place,
                "authorization_endpoint": f"{self.place}/authorize",
                "token_endpoint": f"{self.place}/token",
                "registration_endpoint": f"{self.place}/register",
                "code_challenge_methods_supported": ["S256"],
            }
        )

    async def _register(self, request: web.Request) -> web.Response:
        self.registered += 1
        body = await request.json()
        client = {**body, "client_id": "registered", "token_endpoint_auth_method": "none"}
        return web.json_response(client, status=201)

    async def _authorize(self, request: web.Request) -> web.Response:
        code = secrets.token_hex(8)
        self._codes.add(code)
        back = httpx2.URL(
            request.query["redirect_uri"], params={"code": code, "state": request.query["state"]}
        )
        raise web.HTTPFound(str(back))

    async def _token(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        scheme, _, login = request.headers.get("Authorization", "").partition(" ")
        if scheme == "Basic":
            form["login"] = base64.b64decode(login).decode()
        self.asked.append(form)
        if self.token_status != 200:
            return web.json_response({"error": "invalid_client"}, status=self.token_status)
        if form["grant_type"] == "authorization_code":
            self._codes.remove(form["code"])
        token = secrets.token_hex(16)
        self.tokens.add(token)
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": self.expires_in}
        if form["grant_type"] != "client_credentials":
            answer["refresh_token"] = secrets.token_hex(16)
        return web.json_response(answer)


async def agree(page: str) -> dict[str, str]:
    """A person who agrees: what the browser brings back."""
    async with httpx2.AsyncClient() as http:
        answer = await http.get(page)
    return dict(httpx2.URL(answer.headers["location"]).params)
