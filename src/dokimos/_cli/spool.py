"""`dokimos spool`: what could not be sent to a server."""

from __future__ import annotations

import click

from dokimos._cli.echo import echo
from dokimos._cli.exit_codes import EXIT_BELOW
from dokimos._cli.server_options import SPOOL, require_server, server_option


@click.group()
def spool() -> None:
    """Send what could not be sent to a server before."""


@spool.command()
@click.argument("folder", required=False, default=SPOOL, type=click.Path(file_okay=False))
@server_option
def replay(folder: str, server: str | None) -> int:
    """Send what a reporter kept in FOLDER.

    FOLDER is the reporter's spool directory, .dokimos/spool unless given. What still cannot be sent is kept.
    The command may be repeated and stopped at any time: nothing is stored twice. Exit code: 0 where nothing
    was kept, 1 otherwise.
    """
    from dokimos.client._replay import replay_spool

    done = replay_spool(folder, server_url=require_server(server))
    echo(f"items sent: {done.sent_items:,}, kept: {done.kept_items:,}; runs started: {done.started_runs:,}")
    for problem in done.problems:
        echo(f"! {problem}", err=True)
    return 0 if done.is_complete else EXIT_BELOW
