"""Where requests go that no worker could finish."""

from __future__ import annotations

import time

import structlog
from prometheus_client import Counter

from .link import Link
from .topics import Topics

log = structlog.get_logger(__name__)

BURIED = Counter("tg_bus_dead_letters_total", "Requests given up", ["service"])


class DeadLetters:
    """The dead-letter topic of one service: the request as it was, with ``reason`` and ``buried-at``."""

    def __init__(self, link: Link, topics: Topics, service: str) -> None:
        self._link = link
        self._topic = topics.dead_letters(service)
        self._service = service

    async def bury(self, body: bytes, properties: dict[str, str], reason: str) -> None:
        """Returns when the broker has it; raises Unavailable where it does not take it."""
        stamped = {**properties, "reason": reason, "buried-at": f"{time.time():.3f}"}
        await self._link.outlet(self._topic).send(body, stamped)
        BURIED.labels(self._service).inc()
        log.error("request dead-lettered", service=self._service, request=properties.get("id"), reason=reason)
