"""Running services from the command line: logs, signals, and an end that leaves nothing behind."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from trustgraph_flow.app import BROKER, SERVICES, App, AppSettings
from trustgraph_flow.cli.options import default_data_dir
from trustgraph_flow.schema.errors import SetupError

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def app_settings(*, data_dir: Path | None, only: str | None = None, **options: object) -> AppSettings:
    """The settings behind the options of a command. Raises SetupError for a service that does not exist."""
    folder = (data_dir or default_data_dir()).expanduser()
    services: tuple[str, ...] = (BROKER, *SERVICES)
    if only is not None:
        services = tuple(name for name in (part.strip() for part in only.split(",")) if name)
        if not services:
            raise SetupError("--only names no service")
    return AppSettings(data_dir=folder, services=frozenset(services), **options)  # type: ignore[arg-type]


def configure_logs(level: str) -> None:
    """Log lines go to stderr, so that stdout holds what a command was asked for."""
    number = LEVELS.get(level.lower())
    if number is None:
        raise SetupError(f"unknown --log-level {level!r}; known are {', '.join(LEVELS)}")
    logging.basicConfig(level=max(number, logging.WARNING), stream=sys.stderr, format="%(message)s")
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(number),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
            # Plain: the default prints local variables, and with them request bodies and tokens.
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(),
                sort_keys=False,
                exception_formatter=structlog.dev.plain_traceback,
            ),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def serve(settings: AppSettings, body: Callable[[App], Awaitable[int]]) -> int:
    """Starts the services, runs ``body``, ends them again; a signal ends it early, with status 130."""
    return asyncio.run(_serve(settings, body))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


async def _serve(settings: AppSettings, body: Callable[[App], Awaitable[int]]) -> int:
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    stopped = False

    def stop() -> None:
        nonlocal stopped
        if not stopped:
            stopped = True
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        async with App(settings, progress=_say) as app:
            return await body(app)
    except asyncio.CancelledError:
        if not stopped:
            raise
        return 130
