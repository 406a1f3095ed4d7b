"""What every command shares: connection options, running on an event loop, one line for an error."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from trustgraph_flow.cli.text import one_line, to_json
from trustgraph_flow.schema.config import DEFAULT_WORKSPACE
from trustgraph_flow.schema.errors import TrustGraphError

if TYPE_CHECKING:
    from trustgraph_flow.client import AsyncClient

    Client = AsyncClient
else:
    # The client brings aiohttp, which ``--help`` need not wait for; typer reads annotations at run time.
    Client = Any

DEFAULT_URL = "http://127.0.0.1:8888"
"""As in the client, which is not imported for its name."""

Json = Annotated[bool, typer.Option("--json", help="Print JSON, with nothing left out.")]

_CONNECTION = {
    "url": (
        str,
        typer.Option(
            DEFAULT_URL, "--api-url", "--url", "-u", envvar="TRUSTGRAPH_URL", help="Where the gateway is."
        ),
    ),
    "token": (
        str | None,
        typer.Option(
            None, "--token", "-t", envvar="TRUSTGRAPH_TOKEN", help="The gateway's token, if it wants one."
        ),
    ),
    "workspace": (
        str,
        typer.Option(
            DEFAULT_WORKSPACE,
            "--workspace",
            "-w",
            envvar="TRUSTGRAPH_WORKSPACE",
            help="The workspace to work in.",
        ),
    ),
}


def command(name: str) -> Callable[[Callable[..., Awaitable[None]]], Callable[[], NoReturn]]:
    """Makes a console command of a coroutine whose first parameter is the connected client.

    The other parameters are typer's; the connection options are added. The docstring is the help text.
    """

    def decorate(act: Callable[..., Awaitable[None]]) -> Callable[[], NoReturn]:
        def body(*, url: str, token: str | None, workspace: str, **options: Any) -> None:
            asyncio.run(_connected(act, options, url, token, workspace))

        own = list(inspect.signature(act, eval_str=True).parameters.values())[1:]
        parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own] + [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=annotation)
            for key, (annotation, option) in _CONNECTION.items()
        ]
        body.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        body.__annotations__ = {}
        body.__doc__ = act.__doc__
        app = new_app()
        app.command()(body)

        def main() -> NoReturn:
            run(app, name)

        return main

    return decorate


async def _connected(
    act: Callable[..., Awaitable[None]], options: dict[str, Any], url: str, token: str | None, workspace: str
) -> None:
    from trustgraph_flow.client import AsyncClient

    async with AsyncClient(url, token=token or None, workspace=workspace) as client:
        await act(client, **options)


def new_app() -> typer.Typer:
    """A typer application in the style of this command line; to be run by ``run``."""
    return typer.Typer(
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )


def run(app: typer.Typer, name: str) -> NoReturn:
    """Runs a command and ends the process: 0 done, 1 failed, 2 wrongly called, 130 interrupted.

    Every failure is one line on stderr, and no traceback unless ``TRUSTGRAPH_DEBUG`` is set.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    program = typer.main.get_command(app)
    try:
        status = program.main(args=_spread(program, sys.argv[1:]), prog_name=name, standalone_mode=False)
    except TrustGraphError as error:
        _fail(name, error.message, 1)
    except typer.TyperException as error:
        _fail(name, f"{error.format_message()} See: {name} --help", 2)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)
    except Exception as error:
        if os.environ.get("TRUSTGRAPH_DEBUG"):
            raise
        _fail(name, f"internal error, please report it: {type(error).__name__}: {error}", 1)
    sys.exit(status if isinstance(status, int) else 0)


def _fail(name: str, message: str, status: int) -> NoReturn:
    print(f"{name}: {one_line(message)}", file=sys.stderr)
    sys.exit(status)


def _spread(program: Any, given: list[str]) -> list[str]:
    """``--group a b`` as ``--group a --group b``: TrustGraph's own commands take lists in that form."""
    if any(parameter.param_type_name == "argument" for parameter in program.params):
        return given
    lists = {
        name
        for parameter in program.params
        if getattr(parameter, "multiple", False)
        for name in parameter.opts
    }
    spread: list[str] = []
    current: str | None = None
    fresh = False
    for word in given:
        if word in lists:
            current, fresh = word, True
        elif word.startswith("-") and len(word) > 1:
            current = None
        elif current is not None and not fresh:
            spread.append(current)
        else:
            fresh = False
        spread.append(word)
    return spread


def masked(type_: str, value: str) -> str:
    """The value of a config item without its secrets. Our gateway masks them; other ones may not."""
    from trustgraph_flow.gateway.secrets import SECRET_TYPES, mask

    return mask(value) if type_ in SECRET_TYPES else value


def print_json(value: Any) -> None:
    print(to_json(value))
