"""How our models meet the wire: hyphenated names where TrustGraph has them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError


def hyphenated(name: str) -> str:
    return name.replace("_", "-")


class Message(BaseModel):
    """What travels on the bus. Unknown keys are ignored, so that newer senders can talk to older readers."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)


class Item(BaseModel):
    """What is stored as a config value. Unknown keys are kept and written back."""

    model_config = ConfigDict(extra="allow", populate_by_name=True, alias_generator=hyphenated)


def faults_of(error: ValidationError) -> str:
    """Every fault with its path, ``values.0.key: Field required; …``; what was given is not repeated."""
    return "; ".join(
        ": ".join(part for part in (".".join(map(str, fault["loc"])), fault["msg"]) if part)
        for fault in error.errors(include_url=False, include_context=False, include_input=False)
    )
