"""Who may come in, and in what shape refusals and answers leave."""

from __future__ import annotations

import hmac
from urllib.parse import urlsplit

import structlog
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from trustgraph_flow.schema.errors import BadRequest, TrustGraphError, to_wire

from .settings import GatewaySettings, is_loopback
from .wire import write

log = structlog.get_logger()

HEALTH = "/api/v1/health"
SOCKET = "/api/v1/socket"
SIGN_IN = "/api/v1/sign-in"
OPEN_PATHS = frozenset({HEALTH, SOCKET, SIGN_IN})
"""Without a token in the headers. The socket asks for it in its first frame; a browser that comes back from
a sign-in has none, and the ``state`` that it brings can't be guessed."""

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; style-src 'self' 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Server": "trustgraph",
}


def token_fits(settings: GatewaySettings, token: str) -> bool:
    """Whether ``token`` lets in; the time taken does not tell how much of it was right."""
    # Header bytes that are no UTF-8 come as surrogates.
    sent = token.encode(errors="surrogateescape")
    return settings.token is None or hmac.compare_digest(settings.token.encode(), sent)


def answer(body: object, status: int = 200) -> web.Response:
    return web.Response(body=write(body), status=status, content_type="application/json")


async def add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    for name, value in HEADERS.items():
        response.headers[name] = value


def guard(settings: GatewaySettings) -> Middleware:
    """The middleware around every handler: turns clients away, and errors into JSON."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            refusal = _refusal(settings, request)
            return refusal if refusal is not None else await handler(request)
        except web.HTTPException as error:
            return answer({"error": _text(request, error)}, error.status)
        except BadRequest as error:
            return answer({"error": error.message}, 400)
        except TrustGraphError as error:
            return answer({"error": to_wire(error)})
        except Exception as error:
            log.exception("request failed", path=request.path)
            return answer({"error": f"internal error: {type(error).__name__}"}, 500)

    return guarded


def _refusal(settings: GatewaySettings, request: web.Request) -> web.Response | None:
    if not _is_own(settings, request):
        return answer({"error": "pages of other sites, and foreign names of this machine, may not call"}, 403)
    if request.path in OPEN_PATHS:
        return None
    scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    if settings.token is None or (scheme.lower() == "bearer" and token_fits(settings, token.strip())):
        return None
    fault = "the token is not right" if token else "a token is needed: Authorization: Bearer <token>"
    refusal = answer({"error": fault}, 401)
    refusal.headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
    return refusal


def _is_own(settings: GatewaySettings, request: web.Request) -> bool:
    """Keeps pages of other sites out, which a browser on this machine would let through to us.

    Browsers send sockets and plain posts across sites and name the sender in ``Origin``. Where no token is
    asked for, the ``Host`` must be this machine too, or a foreign name that points to 127.0.0.1 would do.
    """
    host = request.headers.get(hdrs.HOST, "")
    origin = request.headers.get(hdrs.ORIGIN)
    if origin is not None and origin not in settings.origins and origin.partition("://")[2] != host:
        return False
    return settings.token is not None or is_loopback(_hostname(host))


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _text(request: web.Request, error: web.HTTPException) -> str:
    match error.status:
        case 404 if error.text == "404: Not Found":
            return f"there is nothing at {request.path}"
        case 405:
            return f"{request.method} is not possible at {request.path}"
    return error.text or error.reason
