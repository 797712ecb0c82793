"""`dokimos push`: finished results, sent to a server."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote

import click

from dokimos._cli.echo import echo
from dokimos._cli.options import complete_runs, run_dir_option
from dokimos._cli.server_options import PROJECT_NAME, SPOOL, project_option, require_server, server_option
from dokimos._core.text import pluralize


@click.command()
@click.argument("results", nargs=-1, required=True, shell_complete=complete_runs)
@server_option
@project_option
@run_dir_option
def push(results: Sequence[str], server: str | None, project: str | None, run_dir: str | None) -> int:
    """Send finished results to a server, as if they had been reported while they ran.

    RESULTS are run ids (or 'latest'), run folders or JSON reports. The same result is one run of the server,
    however often it is pushed, and `dokimos gate RESULT --server` finds it there. The key is read from
    DOKIMOS_API_KEY.
    """
    from dokimos._cli.options import load_result_argument
    from dokimos._cli.presentation import set_server_run_ids
    from dokimos.client._push import discard_spooled, push_result
    from dokimos.experiment._run_folders import find_run, runs_root
    from dokimos.experiment._run_loading import record_server_run

    url = require_server(server)
    if not project:
        raise click.UsageError(f"Name the project with --project NAME or {PROJECT_NAME}.")
    ids = []
    for argument in results:
        result = load_result_argument(argument, run_dir)
        try:
            ids.append(push_result(result, server_url=url, project_name=project))
        except KeyboardInterrupt:
            again = f"dokimos push {quote(argument)} with the same options sends the rest"
            echo(f"{argument} was not sent whole; {again}, and stores nothing twice.", err=True)
            raise
        if not Path(argument).is_file():  # a report may be older than what is in the spool
            record_server_run(find_run(argument, runs_root(run_dir)), ids[-1])
            with suppress(OSError):  # then a replay sends it again, as before
                discard_spooled(Path(SPOOL), result, ids[-1])
        count = sum(len(run.item_results) for run in result.runs)
        echo(f"{ids[-1]}   {result.name}, {pluralize(count, 'item')}")
    set_server_run_ids(ids)
    return 0
