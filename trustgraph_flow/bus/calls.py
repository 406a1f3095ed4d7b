"""Awaiting the Pulsar client library.

``pulsar.asyncio`` would do, but for two things: its callbacks bring the whole process down when the event
loop has closed meanwhile, and it has no listeners. So the bus calls the layer beneath it, and it is through
``call_threadsafe`` alone that a thread of the library reaches the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import _pulsar
import structlog
from pulsar.asyncio import PulsarException

log = structlog.get_logger(__name__)

CLOSE_SECONDS = 5

OK = _pulsar.Result.Ok

__all__ = ["OK", "PulsarException", "call_threadsafe", "completed", "fault_text", "quietly"]


async def completed(start: Callable[[Callable[..., None]], Any]) -> Any:
    """Make one asynchronous call of the library: ``start`` gets the callback. Raises PulsarException."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    start(lambda outcome, value=None: call_threadsafe(loop, _finish, future, outcome, value))
    return await future


def _finish(future: asyncio.Future[Any], outcome: Any, value: Any) -> None:
    """``outcome`` is a result code beside the value, or an error or the value itself, as the call pleases."""
    if future.done():
        return
    if isinstance(outcome, _pulsar.Error):
        future.set_exception(PulsarException(outcome.error, outcome.message))
    elif not isinstance(outcome, _pulsar.Result):
        future.set_result(outcome)
    elif outcome == OK:
        future.set_result(value)
    else:
        future.set_exception(PulsarException(outcome))


def call_threadsafe(loop: asyncio.AbstractEventLoop, call: Callable[..., Any], *args: Any) -> None:
    """Run ``call`` on the loop, or not at all once that has closed; for the library's threads."""
    try:
        loop.call_soon_threadsafe(call, *args)
    except RuntimeError:
        if not loop.is_closed():
            raise


async def quietly(closing: Awaitable[Any]) -> None:
    """Close something of the library; that it is closed or gone already is no fault."""
    try:
        await asyncio.wait_for(closing, CLOSE_SECONDS)
    except (TimeoutError, PulsarException) as error:
        log.debug("close did not end well", fault=fault_text(error))


def fault_text(error: BaseException) -> str:
    return str(error) or type(error).__name__
