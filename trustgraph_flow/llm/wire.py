"""The OpenAI chat protocol as plain values: what is sent, and what is read of an answer. No I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from trustgraph_flow.schema.llm import TextCompletionRequest

from .grammar import portable

PROBE = TextCompletionRequest(
    prompt="Say hello in one word.",
    max_tokens=256,
    response_schema={
        "anyOf": [
            {
                "type": "object",
                "properties": {"kind": {"const": kind}, "ok": {"type": "boolean"}},
                "required": ["kind", "ok"],
                "additionalProperties": False,
            }
            for kind in ("first", "second")
        ]
    },
)
"""Finds out whether a server constrains replies: the text invites prose, and the schema, which has the shape
of those that agents send, forbids it."""

CONSTRAINTS = frozenset({"response_format", "grammar"})
"""The parameters that hold a reply to a schema."""

DROPPABLE = ("response_format", "grammar", "stream_options", "temperature", "stop", "max_tokens")
"""Parameters that some servers or models refuse and that a request can do without."""


REFUSAL = re.compile(
    r"unsupported|support|unrecognized|unknown|unexpected|not (?:permitted|allowed|available)|extra|invalid",
    re.I,
)
"""What servers say of a parameter that they don't take, and don't say of one whose value is too large."""


class NotTheProtocol(ValueError):
    """The document is no chat completion; the text says what it is instead."""


class ErrorInReply(ValueError):
    """The server reports a failure inside an answer with status 200; the text is the server's."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one document or stream event adds to a reply. None: it says nothing of this."""

    text: str = ""
    finish_reason: str | None = None
    in_token: int | None = None
    out_token: int | None = None
    model: str | None = None

    def followed_by(self, later: Part) -> Part:
        """What is known at the end of a stream after one more event; the text has been passed on by then."""
        return Part(
            finish_reason=later.finish_reason or self.finish_reason,
            in_token=self.in_token if later.in_token is None else later.in_token,
            out_token=self.out_token if later.out_token is None else later.out_token,
            model=later.model or self.model,
        )


def response_format(schema: dict[str, Any]) -> dict[str, Any]:
    """The body's part that holds a reply to ``schema``, as the protocol has it."""
    form = {"name": "reply", "strict": True, "schema": portable(schema)}
    return {"response_format": {"type": "json_schema", "json_schema": form}}


def request_body(
    request: TextCompletionRequest,
    model: str,
    *,
    without: Set[str],
    constrain: Callable[[dict[str, Any]], dict[str, Any]] = response_format,
) -> dict[str, Any]:
    """The JSON body of one call, less the parameters that the server is known to refuse."""
    messages = [{"role": "system", "content": request.system}] if request.system else []
    body: dict[str, Any] = {
        "model": model,
        "messages": [*messages, {"role": "user", "content": request.prompt}],
    }
    if request.streaming:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.stop:
        body["stop"] = request.stop
    if request.max_tokens is not None:
        body["max_completion_tokens" if "max_tokens" in without else "max_tokens"] = request.max_tokens
    if request.response_schema is not None:
        body |= constrain(request.response_schema)
    return {name: value for name, value in body.items() if name not in without}


def obeyed_probe(reply: str) -> bool:
    """Whether a server that took the probe also kept to its schema; the mere taking proves nothing."""
    try:
        document = json.loads(reply)
    except ValueError:
        return False
    return isinstance(document, dict) and document.get("kind") in ("first", "second")


def read_completion(document: object) -> Part:
    """A whole reply. Raises NotTheProtocol or ErrorInReply."""
    return _read(document, "message")


def read_event(document: object) -> Part:
    """One event of a streamed reply; an event with usage alone has no text. Raises as ``read_completion``."""
    return _read(document, "delta")


def _read(document: object, holder: str) -> Part:
    if not isinstance(document, dict):
        raise NotTheProtocol(f"a JSON {type(document).__name__}")
    if document.get("error"):
        raise ErrorInReply(server_text(document))
    choices = document.get("choices")
    if not isinstance(choices, list) or (not choices and holder == "message"):
        raise NotTheProtocol("a JSON document without choices")
    in_token, out_token = _usage(document.get("usage"))
    choice = choices[0] if choices and isinstance(choices[0], dict) else {}
    said = choice.get(holder)
    return Part(
        text=_text(said) if isinstance(said, dict) else "",
        finish_reason=_string(choice.get("finish_reason")),
        in_token=in_token,
        out_token=out_token,
        model=_string(document.get("model")),
    )


def _text(said: dict[str, Any]) -> str:
    content = said.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return _string(content) or _string(said.get("refusal")) or ""


def _usage(usage: object) -> tuple[int | None, int | None]:
    if not isinstance(usage, dict):
        return None, None
    return _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _string(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def server_text(body: object) -> str:
    """What a server says in an error body, in whichever of the usual places; "" where it says nothing."""
    if isinstance(body, dict):
        for key in ("message", "detail", "error"):
            if body.get(key):
                return server_text(body[key])
        return json.dumps(body) if body else ""
    if isinstance(body, list):
        return "; ".join(server_text(entry) for entry in body)
    return "" if body is None else str(body)


def read_models(document: object) -> dict[str, object]:
    """The entries of a server's model list by id. Raises NotTheProtocol."""
    entries = document.get("data") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise NotTheProtocol("no list of models")
    return {str(entry["id"]): entry for entry in entries if isinstance(entry, dict) and entry.get("id")}


def context_tokens(entry: object) -> int | None:
    """The context length out of an entry of the model list; each kind of server names it its own way."""
    if not isinstance(entry, dict):
        return None
    meta = entry.get("meta")
    places = [entry, meta] if isinstance(meta, dict) else [entry]
    names = (
        "max_model_len",
        "context_length",
        "context_window",
        "max_context_length",
        "n_ctx",
        "n_ctx_train",
    )
    found = (_count(place.get(name)) for place in places for name in names)
    return next((count for count in found if count), None)


def refused_parameters(said: str, param: str | None, body: Mapping[str, Any]) -> set[str]:
    """Which parameters of ``body`` a server turned down by what it said; empty when it was something else."""
    sent = {name for name in DROPPABLE if name in body}
    if param and (named := {name for name in sent if param.split(".")[0] == name}):
        return named
    if named := {name for name in sent if re.search(rf"\b{name}\b", said) and REFUSAL.search(said)}:
        return named
    # Some servers don't say what they dislike; this one is refused most often and missed least.
    return sent & {"stream_options"}
