"""What a tool gave back, as the model and programs read it.

The model reads text: the text blocks, the structured value where no block says the same, and a short note for
what can't be shown. Errors are what the protocol calls an error; the words of a result are never searched for
any.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from trustgraph_flow.schema.mcp import McpToolResponse

from .artifacts import Shelf

NO_CONTENT = "(no content)"
SILENT_ERROR = "The tool reported an error and said nothing about it."


@dataclass(frozen=True, slots=True)
class ResultLimits:
    parts: int = 16
    """Content blocks of one result that are kept."""
    size: int = 1_000_000
    """Characters of all kept blocks together (base64 for binary ones), and of the structured value."""
    text: int = 50_000
    """Characters that the model reads of one result."""


class NotAResult(ValueError):
    """The server's answer does not have the form of a tool result."""


def read_result(
    raw: dict[str, Any], limits: ResultLimits | None = None, shelf: Shelf | None = None
) -> McpToolResponse:
    """A ``tools/call`` result as a response; ``duration_ms`` is left open.

    Binary parts, and the whole of what is cut or left out, go to the ``shelf``; the notes in the text, and
    the blocks as ``artifact``, name the ids.

    Raises NotAResult, with a reason, for what is no tool result at all. Block types that we don't know are
    noted in the text and never an error.
    """
    limits = limits or ResultLimits()
    if raw.get("resultType") == "input_required":
        raise NotAResult("it asks for an answer from a person, which is not offered here")
    blocks = raw.get("content", [] if "structuredContent" in raw else None)
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise NotAResult('"content" is not a list of blocks')
    is_error = raw.get("isError") is True
    structured = raw.get("structuredContent")
    parts = [_Part(block, shelf, number) for number, block in enumerate(blocks[: limits.parts], 1)]
    texts = [part.text for part in parts]
    if len(blocks) > limits.parts:
        rest = blocks[limits.parts :]
        id = _kept_text(shelf, json.dumps(rest, ensure_ascii=False), "more-parts.json")
        texts.append(f"[{len(rest)} more parts left out{_where(id)}]")
    encoded = None if structured is None else json.dumps(structured, ensure_ascii=False)
    if encoded is not None and not _says_the_same(blocks, structured):
        texts.append(encoded)
    kept = structured
    if encoded is not None and len(encoded) > limits.size:
        kept = None
        id = _kept_text(shelf, encoded, "structured.json")
        texts.append(f"[structured value of {len(encoded):,} characters left out{_where(id)}]")
    text = "\n".join(part for part in texts if part)
    if not text.strip():
        text = SILENT_ERROR if is_error else NO_CONTENT
    whole = _kept_text(shelf, text, "result.txt") if len(text) > limits.text else None
    return McpToolResponse(
        text=cut_middle(text, limits.text, whole),
        object=kept,
        structured=kept,
        content=_kept(parts, limits.size),
        is_error=is_error,
        fault="tool-error" if is_error else None,
    )


def cut_middle(text: str, limit: int, whole: str | None = None) -> str:
    """At most about ``limit`` characters: head and tail, and between them how many were left out, and the id
    of the artifact that has the ``whole``."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    note = f"... {len(text) - limit:,} characters left out{_where(whole)} ..."
    return f"{text[:head]}\n{note}\n{text[-tail:]}"


def _kept_text(shelf: Shelf | None, text: str, name: str) -> str | None:
    mime_type = "application/json" if name.endswith(".json") else "text/plain"
    return shelf.keep(text.encode(errors="replace"), mime_type, name) if shelf is not None else None


def _where(id: str | None) -> str:
    return f", artifact {id}" if id is not None else ""


class _Part:
    """A block, what the model reads of it, and the id of its binary content where that is kept."""

    def __init__(self, block: dict[str, Any], shelf: Shelf | None, number: int) -> None:
        self.block = block
        self.shelf = shelf
        self.name = f"part-{number}"
        self.artifact: str | None = None
        self.text = self._shown(block)

    def _shown(self, block: dict[str, Any]) -> str:
        match block:
            case {"type": "text", "text": str() as text}:
                return text
            case {"type": "image" | "audio" as kind, "data": str() as data}:
                self._keep(data, block.get("mimeType"), self.name)
                return self._note(_word(block.get("mimeType"), kind), data)
            case {"type": "resource", "resource": {"text": str() as text}}:
                return text
            case {"type": "resource", "resource": {"blob": str() as blob, **rest}}:
                name = _word(rest.get("uri"), "resource")
                self._keep(blob, rest.get("mimeType"), name)
                return self._note(f"{name}, {_word(rest.get('mimeType'), 'binary')}", blob)
            case {"type": "resource_link", "uri": str() as uri}:
                return f"[link {_word(block.get('name'), 'to')}: {_word(uri, '')}]"
            case _:
                return f"[{_word(block.get('type'), 'unknown')} part, can't be shown]"

    def _keep(self, encoded: str, mime_type: Any, name: str) -> None:
        if self.shelf is not None:
            self.artifact = self.shelf.keep_encoded(encoded, _word(mime_type, ""), name)

    def _note(self, what: str, encoded: str) -> str:
        return f"[{what}, {_bytes(encoded)}{_where(self.artifact)}]"

    def whole(self) -> dict[str, Any]:
        return self.block if self.artifact is None else {**self.block, "artifact": self.artifact}

    def reduced(self, left: int) -> dict[str, Any]:
        """What can be kept in ``left`` characters; the whole of a text goes to the shelf."""
        match self.block:
            case {"type": "text", "text": str() as text}:
                return self._cut({**self.block, "text": cut_middle(text, max(left, 1))}, text)
            case {"type": "resource", "resource": {"text": str() as text, **rest}}:
                resource = {**rest, "text": cut_middle(text, max(left, 1))}
                return self._cut({**self.block, "resource": resource}, text)
            case _:
                return self._cut({"type": "text", "text": self.text}, None)

    def _cut(self, block: dict[str, Any], text: str | None) -> dict[str, Any]:
        id = self.artifact if text is None else _kept_text(self.shelf, text, f"{self.name}.txt")
        return {**block, "truncated": True} if id is None else {**block, "truncated": True, "artifact": id}


def _word(value: Any, default: str) -> str:
    return " ".join(value.split())[:300] if isinstance(value, str) and value.strip() else default


def _bytes(encoded: str) -> str:
    size = len(encoded) * 3 // 4 - encoded[-2:].count("=")
    return f"{size:,} bytes"


def _says_the_same(blocks: list[dict[str, Any]], structured: Any) -> bool:
    """Whether the text blocks already tell the structured value, whole or as the one value that it wraps."""
    texts = [b["text"] for b in blocks if b.get("type") == "text" and isinstance(b.get("text"), str)]
    if not texts:
        return False
    wanted = [structured]
    if isinstance(structured, dict) and len(structured) == 1:
        wanted += structured.values()
    for value in wanted:
        if value in texts or any(_loads(text) == value for text in texts if _may_be_json(text)):
            return True
        if isinstance(value, list) and len(value) == len(texts):
            return all(item == text or _loads(text) == item for item, text in zip(value, texts, strict=True))
    return False


def _may_be_json(text: str) -> bool:
    return text.lstrip()[:1] in '{["-0123456789tfn' and bool(text)


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return _NOTHING


_NOTHING = object()


def _kept(parts: list[_Part], size: int) -> list[dict[str, Any]]:
    """The blocks as they came, until ``size`` characters are used up; a block over that keeps what can be
    cut."""
    kept = []
    left = size
    for part in parts:
        fitting = part.whole() if _cost(part.block) <= left else part.reduced(left)
        kept.append(fitting)
        left = max(0, left - _cost(fitting))
    return kept


def _cost(block: dict[str, Any]) -> int:
    match block:
        case {"text": str() as long} | {"data": str() as long} | {"resource": {"text": str() as long}}:
            return len(long)
        case {"resource": {"blob": str() as long}}:
            return len(long)
        case _:
            return len(json.dumps(block, ensure_ascii=False, default=str))
