"""How our models meet the wire: hyphenated names where TrustGraph has them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


def hyphenated(name: str) -> str:
    return name.replace("_", "-")


class Message(BaseModel):
    """What travels on the bus. Unknown keys are ignored, so that newer senders can talk to older readers."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)


class Item(BaseModel):
    """What is stored as a config value. Unknown keys are kept and written back."""

    model_config = ConfigDict(extra="allow", populate_by_name=True, alias_generator=hyphenated)
