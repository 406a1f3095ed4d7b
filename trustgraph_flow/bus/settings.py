"""Where the broker is and whose topics we use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BusSettings:
    """``url`` may name several brokers: ``pulsar://a:6650,b:6650``."""

    url: str
    token: str | None = None
    tenant: str = "tg"
    client_log: str | None = None
    """A file for the messages of the Pulsar client library; None drops them."""
