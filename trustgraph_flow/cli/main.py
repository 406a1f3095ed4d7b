"""``tg``: start the services, ask a question, see what runs."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, NoReturn

import typer

from trustgraph_flow.cli import options as o
from trustgraph_flow.cli._common import new_app
from trustgraph_flow.cli._common import run as run_command

app = new_app()


@app.callback(no_args_is_help=True)
def tg() -> None:
    """A ReACT agent on Apache Pulsar whose MCP tools declare their arguments."""


@app.command()
def up(
    only: o.Only = None,
    data_dir: o.DataDir = None,
    pulsar_host: o.PulsarHost = None,
    pulsar_token: o.PulsarToken = None,
    pulsar_admin: o.PulsarAdmin = None,
    store_url: o.StoreUrl = None,
    config_dir: o.ConfigDir = None,
    llm_url: o.LlmUrl = None,
    llm_model: o.LlmModel = None,
    host: o.Host = "127.0.0.1",
    port: o.Port = 8888,
    token: o.Token = None,
    log_level: o.LogLevel = "info",
) -> None:
    """Start the services and keep them running until Ctrl-C."""
    # Imported here and below, so that `tg --help` and completion answer at once.
    from trustgraph_flow.app import App
    from trustgraph_flow.cli.serving import app_settings, configure_logs, serve

    configure_logs(log_level)
    settings = app_settings(
        data_dir=data_dir,
        only=only,
        pulsar_host=pulsar_host,
        pulsar_token=pulsar_token,
        pulsar_admin=pulsar_admin,
        store_url=store_url,
        config_dir=config_dir,
        llm_url=llm_url,
        llm_model=llm_model,
        host=host,
        port=port,
        token=token,
    )

    async def wait(running: App) -> int:
        names = ", ".join(sorted(settings.services))
        typer.echo(f"running: {names}")
        typer.echo(f"broker:  {running.pulsar_host}")
        if running.gateway_url:
            typer.echo(f"gateway: {running.gateway_url}")
        typer.echo("Ctrl-C ends it.")
        await asyncio.Event().wait()
        return 0

    status = serve(settings, wait)
    raise typer.Exit(0 if status == 130 else status)


@app.command()
def run(
    question: Annotated[str, typer.Argument(help="What to ask the agent.")],
    group: Annotated[
        list[str] | None, typer.Option("--group", "-g", help="Tool groups to offer; '*' offers all.")
    ] = None,
    state: Annotated[str | None, typer.Option("--state", "-s", help="State that the run begins in.")] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the services running after the answer, until Ctrl-C.")
    ] = False,
    data_dir: o.DataDir = None,
    pulsar_host: o.PulsarHost = None,
    pulsar_token: o.PulsarToken = None,
    pulsar_admin: o.PulsarAdmin = None,
    store_url: o.StoreUrl = None,
    config_dir: o.ConfigDir = None,
    llm_url: o.LlmUrl = None,
    llm_model: o.LlmModel = None,
    host: o.Host = "127.0.0.1",
    port: o.Port = 8888,
    token: o.Token = None,
    log_level: o.LogLevel = "warning",
) -> None:
    """Ask one question: starts what is not running, shows thoughts, calls, observations and the answer."""
    from trustgraph_flow.app import App, DataFolder
    from trustgraph_flow.cli.asking import ask
    from trustgraph_flow.cli.serving import app_settings, configure_logs, serve

    configure_logs(log_level)
    settings = app_settings(
        data_dir=data_dir,
        pulsar_host=pulsar_host,
        pulsar_token=pulsar_token,
        pulsar_admin=pulsar_admin,
        store_url=store_url,
        config_dir=config_dir,
        llm_url=llm_url,
        llm_model=llm_model,
        host=host,
        port=port,
        token=token,
    )
    running = DataFolder(settings.data_dir).running()
    if running and running.get("gateway"):
        raise typer.Exit(asyncio.run(ask(running["gateway"], token, question, group, state)))

    async def ask_and_keep(started: App) -> int:
        assert started.gateway_url is not None
        status = await ask(started.gateway_url, token, question, group, state)
        if keep:
            typer.echo("The services keep running; Ctrl-C ends them.")
            await asyncio.Event().wait()
        return status

    raise typer.Exit(serve(settings, ask_and_keep))


@app.command()
def status(
    data_dir: o.DataDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what runs on the data folder; exit status 1 if nothing does."""
    from trustgraph_flow.app import DataFolder

    folder = (data_dir or o.default_data_dir()).expanduser()
    running = DataFolder(folder).running()
    if as_json:
        typer.echo(json.dumps(running))
    elif running is None:
        typer.echo(f"nothing runs on {folder}")
    else:
        for name, value in running.items():
            typer.echo(f"{name + ':':9}{value}")
    raise typer.Exit(0 if running is not None else 1)


def main() -> NoReturn:
    run_command(app, "tg")
