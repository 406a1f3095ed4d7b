"""A model's reply read as the JSON value that a prompt asks for."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

import jsonschema_rs

from trustgraph_flow.arguments import strict_json
from trustgraph_flow.schema.errors import BadRequest, TrustGraphError

INVALID_REPLY = "invalid-reply"
MAX_FAULTS = 5
MAX_SHOWN_CHARS = 200

_FENCED = re.compile(r"\s*```[\w-]*[ \t]*\n(.*?)\n?\s*```\s*", re.DOTALL)


def read(text: str, schema: dict[str, Any] | bool | None, *, name: str) -> Any:
    """The value, where the reply is JSON, in a code fence or not, and fits the schema; nothing is repaired.

    Raises TrustGraphError of the type ``invalid-reply``; BadRequest where the schema itself is none. A
    reference to a schema elsewhere is never fetched.
    """
    validator = _validator(schema, name)
    fenced = _FENCED.fullmatch(text)
    try:
        value = strict_json(fenced[1] if fenced else text)
    except ValueError as error:
        shown = text if len(text) <= MAX_SHOWN_CHARS else text[:MAX_SHOWN_CHARS] + "…"
        raise TrustGraphError(
            f"The model's reply to the prompt {name!r} is no JSON ({error}): {shown!r}.", type=INVALID_REPLY
        ) from None
    faults = [
        f"{'/'.join(map(str, fault.instance_path)) or 'the reply'}: {fault.message}"
        for fault in islice(validator.iter_errors(value), MAX_FAULTS)
    ]
    if faults:
        raise TrustGraphError(
            f"The model's reply to the prompt {name!r} does not fit its schema: {'; '.join(faults)}.",
            type=INVALID_REPLY,
        )
    return value


def _validator(schema: dict[str, Any] | bool | None, name: str) -> jsonschema_rs.Validator:
    try:
        return jsonschema_rs.validator_for(True if schema is None else schema, offline=True)
    except (ValueError, TypeError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        raise BadRequest(f"The schema of the prompt {name!r} is no JSON Schema: {error}.") from None
