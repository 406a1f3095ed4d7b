"""What a message looks like on the wire: a JSON body and a few string properties.

Requests carry ``id``, ``reply-to``, ``attempt``, ``workspace`` and, where there is one, ``deadline`` (Unix
seconds) and ``traceparent``; with ``last-only`` the asker wants no interim frames. Replies carry ``id``,
``attempt``, ``seq`` (counts from 0), ``kind`` and, on the last one, ``end``. A reply of kind ``alive`` stands
for many requests: its body lists [id, attempt] of each.
"""

from __future__ import annotations

import json
from typing import Any, Final

from pydantic import BaseModel

from trustgraph_flow.schema.errors import BadRequest, to_wire

FRAME: Final = "frame"
ERROR: Final = "error"
ALIVE: Final = "alive"

MAX_BODY_BYTES: Final = 5 * 1024 * 1024 - 64 * 1024
"""Brokers take 5 MiB a message by default, properties and framing included."""


def encode(body: BaseModel | dict[str, Any]) -> bytes:
    """Compact JSON; a model's absent (None) fields are left out, nulls inside its dicts stay."""
    if isinstance(body, BaseModel):
        return body.model_dump_json(exclude_none=True).encode()
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def encode_error(error: BaseException) -> bytes:
    return encode(to_wire(error))


def encode_alive(requests: list[tuple[str, int]]) -> bytes:
    return json.dumps(requests, separators=(",", ":")).encode()


def decode_alive(payload: bytes) -> list[tuple[str, int]]:
    """Empty where the body is not what ``encode_alive`` writes."""
    try:
        return [(str(request_id), int(attempt)) for request_id, attempt in json.loads(payload)]
    except (TypeError, ValueError):
        return []


def check_size(payload: bytes, what: str) -> None:
    if len(payload) > MAX_BODY_BYTES:
        raise BadRequest(
            f"{what} is {len(payload):,} bytes of JSON; a bus message takes at most {MAX_BODY_BYTES:,}",
            data={"bytes": len(payload), "limit": MAX_BODY_BYTES},
        )


def integer(text: str | None) -> int:
    """A number property, 0 where it is absent or unreadable: what others send is not to be trusted."""
    try:
        return int(text or 0)
    except ValueError:
        return 0


def moment(text: str | None) -> float | None:
    """A deadline property in Unix seconds, None where it is absent or unreadable."""
    try:
        value = float(text) if text else 0.0
    except ValueError:
        return None
    return value if 0 < value < float("inf") else None
