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


def read_result(raw: dict[str, Any], limits: ResultLimits | None = None) -> McpToolResponse:
    """A ``tools/call`` result as a response; ``duration_ms`` is left open.

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
    texts = [_shown(block) for block in blocks[: limits.parts]]
    if len(blocks) > limits.parts:
        texts.append(f"[{len(blocks) - limits.parts} more parts left out]")
    encoded = None if structured is None else json.dumps(structured, ensure_ascii=False)
    if encoded is not None and not _says_the_same(blocks, structured):
        texts.append(encoded)
    text = "\n".join(part for part in texts if part)
    if not text.strip():
        text = SILENT_ERROR if is_error else NO_CONTENT
    kept = structured if encoded is not None and len(encoded) <= limits.size else None
    return McpToolResponse(
        text=cut_middle(text, limits.text),
        object=kept,
        structured=kept,
        content=_kept(blocks[: limits.parts], limits.size),
        is_error=is_error,
        fault="tool-error" if is_error else None,
    )


def cut_middle(text: str, limit: int) -> str:
    """At most about ``limit`` characters: head and tail, and between them how many were left out."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    return f"{text[:head]}\n... {len(text) - limit:,} characters left out ...\n{text[-tail:]}"


def _shown(block: dict[str, Any]) -> str:
    match block:
        case {"type": "text", "text": str() as text}:
            return text
        case {"type": "image" | "audio" as kind, "data": str() as data}:
            return f"[{_word(block.get('mimeType'), kind)}, {_bytes(data)}]"
        case {"type": "resource", "resource": {"text": str() as text}}:
            return text
        case {"type": "resource", "resource": {"blob": str() as blob, **rest}}:
            name = _word(rest.get("uri"), "resource")
            return f"[{name}, {_word(rest.get('mimeType'), 'binary')}, {_bytes(blob)}]"
        case {"type": "resource_link", "uri": str() as uri}:
            return f"[link {_word(block.get('name'), 'to')}: {_word(uri, '')}]"
        case _:
            return f"[{_word(block.get('type'), 'unknown')} part, can't be shown]"


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


def _kept(blocks: list[dict[str, Any]], size: int) -> list[dict[str, Any]]:
    """The blocks as they came, until ``size`` characters are used up; a block over that keeps what can be
    cut."""
    kept = []
    left = size
    for block in blocks:
        fitting = block if _cost(block) <= left else _reduced(block, left)
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


def _reduced(block: dict[str, Any], left: int) -> dict[str, Any]:
    match block:
        case {"type": "text", "text": str() as text}:
            return {**block, "text": cut_middle(text, max(left, 1)), "truncated": True}
        case {"type": "resource", "resource": {"text": str() as text, **rest}}:
            return {**block, "resource": {**rest, "text": cut_middle(text, max(left, 1))}, "truncated": True}
        case _:
            return {"type": "text", "text": _shown(block), "truncated": True}
