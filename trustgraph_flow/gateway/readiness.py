"""Whether the services behind the gateway answer now."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from trustgraph_flow.bus import Bus
from trustgraph_flow.schema.errors import DeadlineExceeded, TrustGraphError, Unavailable

from .services import SERVICES

PROBE_SECONDS = 2.0
KEEP_SECONDS = 2.0
ANSWERS = "answers"
PROBE = {"operation": "probe"}
"""No service has this operation: each refuses it at once and does nothing, which shows that it lives."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """What each service did when asked, ``answers`` or what is wrong."""

    services: dict[str, str]

    @property
    def ready(self) -> bool:
        return all(state == ANSWERS for state in self.services.values())

    def body(self) -> dict[str, Any]:
        return {"ready": self.ready, "services": self.services}


class Prober:
    """Asks all services side by side, and not again while the last answers are fresh."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._lock = asyncio.Lock()
        self._last: Readiness | None = None
        self._asked = 0.0

    async def readiness(self) -> Readiness:
        async with self._lock:
            if self._last is None or time.monotonic() - self._asked > KEEP_SECONDS:
                states = await asyncio.gather(*(self._probe(name) for name in SERVICES))
                self._last = Readiness(dict(zip(SERVICES, states, strict=True)))
                self._asked = time.monotonic()
            return self._last

    async def _probe(self, service: str) -> str:
        try:
            await self._bus.request(service, PROBE, BaseModel, timeout=PROBE_SECONDS)
        except (Unavailable, DeadlineExceeded) as error:
            return error.message
        except TrustGraphError:
            return ANSWERS
        return ANSWERS
