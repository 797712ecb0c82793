"""`dokimos run`: an experiment from Python, or recorded outputs from a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from dokimos._cli.estimate import ESTIMATE_OPTIONS, check_estimate, estimate_options
from dokimos._cli.executors import executor_options
from dokimos._cli.loop import LOOP_OPTIONS, loop_options, resolve_target
from dokimos._cli.options import (
    allow_errors_option,
    call_options,
    complete_runs,
    endpoint_options,
    evaluator_option,
    fail_under_option,
    output_option,
    run_dir_option,
    volume_options,
)
from dokimos._cli.run_settings import RunSettings
from dokimos._cli.server_options import check_report_options, report_options
from dokimos._cli.target_run import execute_target
from dokimos._cli.watch_report import check_watch, reporting_files


@click.command()
@click.argument("target", required=False, shell_complete=lambda *_: [])
@evaluator_option(required=False)
@output_option
@click.option("-j", "--parallelism", type=click.IntRange(min=1), help="Items at once.")
@executor_options
@click.option("--runs", type=click.IntRange(min=1), help="Repeats of the whole data set.")
@click.option("-n", "--limit", type=click.IntRange(min=1), help="Only the first N items (after filters).")
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="KEY=VALUE",
    help="Only items with this metadata; id:PATTERN for ids. Repeatable, all must hold.",
)
@click.option(
    "--columns",
    "columns",
    multiple=True,
    metavar="FROM=TO",
    help="Read a column of a data file as another, such as question=input. Repeatable.",
)
@click.option("--shard", metavar="I/N", help="Only every N-th item, starting with the I-th.")
@click.option("--name", help="Name of the experiment.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Abandon a call of the task after this long.")
@click.option("--retries", type=click.IntRange(min=0), help="Repeat a failed call of the task this often.")
@click.option(
    "--max-errors", metavar="N|SHARE", help="Stop when more items errored: a number, or a share such as 0.2."
)
@click.option(
    "--resume",
    metavar="RUN",
    shell_complete=complete_runs,
    help="Continue this run ('latest' for the last one).",
)
@click.option("--retry-errors", is_flag=True, help="With --resume: repeat what errored.")
@click.option("--force", is_flag=True, help="With --resume: continue although data or configuration changed.")
@click.option("--fail-fast", is_flag=True, help="Stop at the first item that fails.")
@loop_options
@estimate_options
@endpoint_options
@report_options
@allow_errors_option
@call_options
@click.option("--no-journal", is_flag=True, help="Keep nothing on disk; the run cannot be resumed.")
@run_dir_option
@fail_under_option
@volume_options
def run(
    target: str | None,
    outputs: Sequence[str],
    fail_under: Sequence[str],
    quiet: bool,
    verbose: bool,
    **options: Any,
) -> int:
    """Run an experiment, or score recorded outputs.

    TARGET is module:attribute or file.py:attribute (an Experiment, or a function that returns one), or a data
    file whose rows carry recorded outputs, scored by the evaluators given with -e.

    \b
    dokimos run evals.py
    dokimos run my.package:experiment -j 8 --runs 3 -o out/report.html
    dokimos run answers.jsonl -e exact_match -e numeric:relative_tolerance=0.01 --fail-under 0.9
    """
    for flag in ("retry_errors", "force"):
        if options[flag] and options["resume"] is None:
            raise click.UsageError(f"--{flag.replace('_', '-')} needs --resume RUN.")
    if options["no_journal"] and options["resume"] is not None:
        raise click.UsageError("--resume continues a journal, so --no-journal cannot be combined with it.")
    check_report_options(options["server"], options["project"], options["no_server"])
    names = (
        "resume",
        "retry_errors",
        "force",
        "fail_fast",
        "no_journal",
        "run_dir",
        *LOOP_OPTIONS,
        *ESTIMATE_OPTIONS,
    )
    extra = {name: options.pop(name) for name in names}
    target, settings = resolve_target(target, RunSettings(**options, extra={**extra, "quiet": quiet}))
    check_estimate(settings.extra)
    if settings.extra["watch"]:
        check_watch(settings.extra, target)
        from dokimos._cli.watch import strip_watch_option, watch

        return watch(strip_watch_option())
    with reporting_files(target):
        return execute_target(
            target, settings, outputs=outputs, fail_under=fail_under, quiet=quiet, verbose=verbose
        )
