"""How long to wait before a model call is tried again, and when to give up."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from .provider import ModelError, ModelOverloaded, ModelTimedOut, ModelUnreachable


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waiting times double from ``first_seconds``, spread at random so that callers don't return together.

    A server that is not there gets fewer tries than a busy one: a wrong address should be told soon.
    """

    first_seconds: float = 0.5
    longest_seconds: float = 8.0
    longest_asked_seconds: float = 120.0
    """A server that asks for a longer wait than this is not waited for."""
    overloaded_retries: int = 5
    unreachable_retries: int = 2

    def wait(self, error: ModelError, failures: int, deadline: float | None) -> float | None:
        """Seconds until the next try after ``failures`` failed ones (1 or more); None: give up.

        ``deadline`` in Unix seconds: a wait that would outlast it is not begun.
        """
        if isinstance(error, ModelOverloaded):
            retries = self.overloaded_retries
        elif isinstance(error, ModelUnreachable) and not isinstance(error, ModelTimedOut):
            retries = self.unreachable_retries
        else:
            retries = 0
        if failures > retries:
            return None
        doubled: float = self.first_seconds * 2 ** (failures - 1)
        seconds = min(doubled, self.longest_seconds) * random.uniform(0.5, 1)
        asked: float | None = error.data.get("retry_after")
        if asked is not None:
            if not asked <= self.longest_asked_seconds:
                return None
            seconds = max(seconds, asked)
        if deadline is not None and time.time() + seconds >= deadline:
            return None
        return seconds
