"""Which topics there are, and which of them outlive a broker: the whole policy, in one place."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trustgraph_flow.schema.errors import BadRequest

NAMESPACES = ("request", "reply", "notify")
WORKERS = "workers"
"""The one subscription that all workers of a service share."""
DEAD_LETTER_SUFFIX = "-DLQ"
DEAD_LETTERS = "dead-letters"
"""The subscription that keeps dead letters until somebody reads them."""
CANCEL = "cancel"
"""The notice channel on which askers say that they no longer wait."""

PERSISTENT_SERVICES = frozenset({"agent"})
"""Services whose requests must not be lost with a broker or a worker.

A run asks for everything else again from its log, so the price of a synced write is paid once a question.
"""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def is_persistent(service: str) -> bool:
    return service in PERSISTENT_SERVICES


def durable_subscription(topic: str) -> str | None:
    """The subscription that must exist before a message is sent: a topic without one keeps nothing."""
    if not topic.startswith("persistent://"):
        return None
    return DEAD_LETTERS if topic.endswith(DEAD_LETTER_SUFFIX) else WORKERS


@dataclass(frozen=True, slots=True)
class Topics:
    """Full topic names of one tenant."""

    tenant: str

    def request(self, service: str) -> str:
        return self._topic("request", service, persistent=is_persistent(service))

    def dead_letters(self, service: str) -> str:
        return self._topic("request", f"{service}{DEAD_LETTER_SUFFIX}", persistent=True)

    def reply(self, process: str) -> str:
        return self._topic("reply", process, persistent=False)

    def notice(self, channel: str) -> str:
        return self._topic("notify", channel, persistent=False)

    def _topic(self, namespace: str, name: str, *, persistent: bool) -> str:
        if not _NAME.fullmatch(name):
            raise BadRequest(
                f"{name!r} can't name a queue: use letters, digits, '.', '_' and '-', "
                "beginning with a letter or digit, at most 200 of them"
            )
        domain = "persistent" if persistent else "non-persistent"
        return f"{domain}://{self.tenant}/{namespace}/{name}"
