"""`dokimos export`: a result as a report."""

from __future__ import annotations

from collections.abc import Sequence

import click

from dokimos._cli.collector import pause_collector
from dokimos._cli.echo import echo
from dokimos._cli.options import complete_runs, output_option, run_dir_option


@click.command("export")
@click.argument("result", shell_complete=complete_runs)
@output_option
@click.option(
    "--format",
    "format_",
    metavar="NAME",
    help="json, html, markdown, csv or junit, printed unless -o is given.",
)
@run_dir_option
@pause_collector()
def export_result(result: str, outputs: Sequence[str], format_: str | None, run_dir: str | None) -> int:
    """Write a result as reports, or print one of them.

    RESULT is a run id (or its start, or 'latest'), a run folder or a JSON report.
    """
    from dokimos._cli.options import check_outputs, load_result_argument
    from dokimos.exporters._base import export, render

    if not outputs and format_ is None:
        raise click.UsageError("Say what to write: -o FILE, or --format NAME to print it.")
    if format_ is None:
        check_outputs(outputs)
    loaded = load_result_argument(result, run_dir)
    if not outputs and format_ is not None:
        echo(render(loaded, format_))
    for output in outputs:
        echo(export(loaded, output, format=format_))
    return 0
