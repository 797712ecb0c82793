"""`dokimos serve`: the server, in this process, until it is stopped."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dokimos._cli.echo import echo

if TYPE_CHECKING:
    from fastapi import FastAPI


@click.command()
@click.option(
    "--host", metavar="ADDRESS", help="The address to bind to.  [default: SERVER_ADDRESS or 0.0.0.0]"
)
@click.option(
    "-p", "--port", type=click.IntRange(0, 65535),
    help="The port; 0 lets the system choose one.  [default: SERVER_PORT or 8080]",
)  # fmt: skip
@click.option(
    "--grpc-port", type=click.IntRange(0, 65535),
    help="Take traces and logs in over gRPC as well, usually at 4317.  [default: DOKIMOS_GRPC_PORT or none]",
)  # fmt: skip
@click.option(
    "--data-dir", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="The folder of the SQLite files.  [default: DOKIMOS_DATA_DIR or ~/.dokimos]",
)  # fmt: skip
@click.option(
    "--mcp/--no-mcp",
    default=True,
    show_default=True,
    help="Offer tools for agents at /mcp, behind the same keys.",
)
def serve(
    host: str | None, port: int | None, grpc_port: int | None, data_dir: Path | None, mcp: bool
) -> None:
    """Start the server: runs, datasets, comparisons and the gate over HTTP.

    It keeps its data in SQLite, or in PostgreSQL where DOKIMOS_DATABASE_URL, DB_HOST, DB_NAME, DB_USERNAME or
    DB_PASSWORD is set. With DOKIMOS_API_KEY, writing needs that key. All other settings are environment
    variables too; the page "Server configuration" of the documentation lists them.

    Ctrl-C or SIGTERM stops it: it goes on answering for DOKIMOS_DRAIN_SECONDS, and then ends once it has
    answered what was asked. A second one, more than two seconds later, stops it at once.
    """
    from dokimos._core.extras import require

    require("fastapi", extra="server")
    # All that is made until the server answers lives as long as it does; looking for garbage among it takes a
    # seventh of the start. The server enables the collector again once it answers.
    gc.disable()
    try:
        _serve({"host": host, "port": port, "grpc_port": grpc_port, "data_dir": data_dir}, mcp=mcp)
    finally:
        gc.enable()
    echo("Stopped.")


def _serve(given: dict[str, Any], *, mcp: bool) -> None:
    from dokimos.server._app import create_app
    from dokimos.server._serve import serve as run_server
    from dokimos.server._settings import ServerSettings

    settings = ServerSettings.from_environment()
    settings = replace(settings, **{name: value for name, value in given.items() if value is not None})

    def make_app(settings: ServerSettings) -> FastAPI:
        app = create_app(settings)
        if mcp:
            from dokimos._cli.server_mcp import mount_mcp

            mount_mcp(app)
        return app

    def announce(address: str) -> None:
        echo(f"dokimos answers at {address}   (Ctrl-C stops it)")

    run_server(settings, on_start=announce, make_app=make_app)
