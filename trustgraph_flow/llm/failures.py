"""What went wrong at a model server, told in one line that names the server and the fix."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import httpx2
import openai

from .provider import (
    ModelBadAnswer,
    ModelError,
    ModelOverloaded,
    ModelRefusedCredentials,
    ModelRejected,
    ModelTimedOut,
    ModelUnreachable,
)
from .wire import server_text

LONGEST_QUOTE = 300
"""Characters of a server's own words that go into a message."""


class Failures:
    """Turns the errors of one server's client into ours. ``url`` is fit to be shown; the key never is."""

    def __init__(self, url: str, key: str | None) -> None:
        self._server = f"The model server at {url}"
        self._key = key

    def status(self, error: openai.APIStatusError) -> ModelError:
        """4xx and 5xx. ``data`` holds ``status``, ``param`` and ``retry_after`` (seconds) where given."""
        status = error.status_code
        said = self.quote(server_text(error.body))
        data: dict[str, Any] = {"status": status, "text": said}
        if error.param:
            data["param"] = error.param
        if (seconds := retry_after(error.response.headers)) is not None:
            data["retry_after"] = seconds
        words = f"{status}: {said}" if said else str(status)
        if status in (401, 403):
            fault = "refused the API key" if self._key else "asks for an API key"
            fix = "set OPENAI_API_KEY or LLM_API_KEY to one that it accepts"
            return ModelRefusedCredentials(f"{self._server} {fault} ({words}); {fix}.", data=data)
        if status in (408, 429) or (status >= 500 and status != 501):
            return ModelOverloaded(
                f"{self._server} could not serve the request ({words}); try again later or check the server.",
                data=data,
            )
        fix = (
            "; check --llm-url (most servers want /v1 at its end) and --llm-model." if status == 404 else "."
        )
        return ModelRejected(f"{self._server} did not take the request ({words}){fix}", data=data)

    def connection(self, error: BaseException) -> ModelError:
        """No connection, a broken one, or an answer that is not HTTP."""
        root = root_cause(error)
        if isinstance(root, aiohttp.ClientResponseError | aiohttp.ClientConnectorCertificateError):
            return self.bad_answer(f"something that is not proper HTTP or TLS ({self.quote(str(root))})")
        if isinstance(root, aiohttp.ServerDisconnectedError):
            return self.unreachable("closed the connection without an answer", "check its log")
        if isinstance(root, aiohttp.SocketTimeoutError):
            return ModelTimedOut(f"{self._server} did not answer in time; check its log and load.")
        if isinstance(root, aiohttp.ClientPayloadError | httpx2.ReadError):
            return self.broken_off()
        why = self.quote(_reason(root))
        return self.unreachable(f"can't be reached ({why})", "check that it runs and that --llm-url is right")

    def broken_off(self) -> ModelError:
        return self.unreachable("broke off in the middle of its reply", "check its log")

    def unreachable(self, fault: str, fix: str) -> ModelError:
        return ModelUnreachable(f"{self._server} {fault}; {fix}.")

    def bad_answer(self, got: str) -> ModelError:
        fix = "check that --llm-url names an OpenAI-compatible API (most end in /v1)"
        return ModelBadAnswer(f"{self._server} answered with {got} instead of a completion; {fix}.")

    def unreadable(self, body: str | bytes) -> ModelError:
        """An answer with a good status whose body is no JSON."""
        text = body if isinstance(body, str) else body.decode(errors="replace")
        start = text.lstrip()[:200].lower()
        if not start:
            return self.bad_answer("nothing")
        if start.startswith("<"):
            return self.bad_answer("a web page")
        return self.bad_answer(f"text that is no JSON ({self.quote(text)[:80]!r})")

    def rejected(self, said: str) -> ModelError:
        return ModelRejected(f"{self._server} reports an error: {self.quote(said) or 'no reason given'}")

    def no_model(self, listed: Sequence[str]) -> ModelError:
        """No model was asked for, and the server does not offer exactly one."""
        if not listed:
            return ModelRejected(f"{self._server} does not list its models; name one by --llm-model.")
        names = self.quote(", ".join(listed))
        return ModelRejected(f"{self._server} has {len(listed)} models ({names}); choose one by --llm-model.")

    def quote(self, text: str) -> str:
        """A server's words on one line, short, and without the key: some servers repeat it."""
        if text.lstrip()[:1] == "<":
            return "a web page"
        line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        if self._key:
            line = line.replace(self._key, "…")
        return line if len(line) <= LONGEST_QUOTE else line[:LONGEST_QUOTE] + "…"


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__


def root_cause(error: BaseException) -> BaseException:
    """The library's own error under the wrappers of the client and its transport."""
    while (cause := error.__cause__) is not None and not isinstance(error, aiohttp.ClientError):
        error = cause
    return error


def retry_after(headers: httpx2.Headers) -> float | None:
    """The waiting time that the server asks for, in seconds: a number or an HTTP date; None without one."""
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None
