"""Questions that a server puts to a person, answered by their defaults where an operator allows it.

There is nobody to ask. A question that has no default for something required, or that wants a page opened, is
declined.
"""

from __future__ import annotations

from typing import Any

from mcp.client.session import ClientRequestContext, ClientSession
from mcp_types import ClientCapabilities, ElicitationCapability, ElicitRequestParams, ElicitResult
from pydantic import ValidationError

METHOD = "elicitation/create"
MAX_ROUNDS = 10
"""How often one call may come back with questions."""


async def by_defaults(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    return answered(params.model_dump(by_alias=True, mode="json"))


def answered(params: dict[str, Any]) -> ElicitResult:
    schema = params.get("requestedSchema")
    if params.get("mode", "form") != "form" or not isinstance(schema, dict):
        return ElicitResult(action="decline")
    fields = schema.get("properties")
    fields = fields if isinstance(fields, dict) else {}
    content = {
        name: field["default"]
        for name, field in fields.items()
        if isinstance(field, dict) and "default" in field
    }
    required = schema.get("required")
    if isinstance(required, list) and any(name not in content for name in required):
        return ElicitResult(action="decline")
    try:
        return ElicitResult(action="accept", content=content)
    except ValidationError:
        return ElicitResult(action="decline")


def answers_to(raw: dict[str, Any]) -> dict[str, ElicitResult] | None:
    """The answers to a result that asks for input; None where it asks for something else than a person."""
    requests = raw.get("inputRequests") or {}
    if not isinstance(requests, dict):
        return None
    answers = {}
    for key, request in requests.items():
        if not isinstance(request, dict) or request.get("method") != METHOD:
            return None
        params = request.get("params")
        answers[key] = answered(params if isinstance(params, dict) else {})
    return answers


class FormSession(ClientSession):
    """Says that forms are answered, and does not say that pages are opened."""

    def _build_capabilities(self, version: str) -> ClientCapabilities:
        capabilities = super()._build_capabilities(version)
        if capabilities.elicitation is not None:
            form = ElicitationCapability(form=capabilities.elicitation.form)
            capabilities = capabilities.model_copy(update={"elicitation": form})
        return capabilities
