"""`dokimos test`: suites in YAML."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from dokimos._cli.echo import echo
from dokimos._cli.estimate import ESTIMATE_OPTIONS, check_estimate, estimate_options
from dokimos._cli.executors import executor_options
from dokimos._cli.loop import LOOP_OPTIONS, loop_options, names_target, resolve_target
from dokimos._cli.optimize import optimize
from dokimos._cli.options import (
    allow_errors_option,
    call_options,
    complete_runs,
    endpoint_options,
    fail_under_option,
    run_dir_option,
)
from dokimos._cli.server_options import check_report_options, report_options
from dokimos._cli.view import view_suite
from dokimos._cli.watch_report import check_watch, reporting_files

DEFAULT_FILE: Final = "agent.yaml"


class SuiteGroup(click.Group):
    """Runs a suite where no subcommand is named: `dokimos test agent.yaml`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # `dokimos test FILE` is the short form; a file called like a subcommand needs `run` before it.
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=SuiteGroup)
def test() -> None:
    """Run suites: an agent, its metrics and its test cases in one YAML file.

    `dokimos test FILE` is `dokimos test run FILE`; the file is agent.yaml unless given.
    """


@test.command()
@click.argument("suite", required=False, type=click.Path(dir_okay=False))
@click.option(
    "-o", "--output", "outputs", multiple=True, metavar="FILE", type=click.Path(dir_okay=False),
    help="Write a report: .json .html .md .csv .junit.xml; any other ending is JSON. Repeatable.",
)  # fmt: skip
@click.option(
    "--format", "format_", type=click.Choice(["json", "markdown", "html", "junit", "csv"]),
    help="The format of the reports, whatever their names.",
)  # fmt: skip
@click.option(
    "-j", "--parallelism", "--parallel-test-cases", type=click.IntRange(min=1), help="Cases at once."
)
@executor_options
@click.option("-n", "--limit", type=click.IntRange(min=1), help="Only the first N cases (after filters).")
@click.option("--tags", "tags", multiple=True, metavar="TAG[,TAG]", help="Only cases with all these tags.")
@click.option("--case", "case", metavar="PATTERN", help="Only cases whose name matches, such as 'price*'.")
@click.option("--runs", type=click.IntRange(min=1), help="Repeats of the whole suite.")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="For one reply."
)
@click.option("--retries", type=click.IntRange(min=0), help="Repeat a case whose agent failed this often.")
@click.option(
    "--max-errors", metavar="N|SHARE", help="Stop when more cases errored: a number, or a share such as 0.2."
)
@click.option("--resume", metavar="RUN", shell_complete=complete_runs, help="Continue this run.")
@click.option("--retry-errors", is_flag=True, help="With --resume: repeat what errored.")
@click.option("--fail-fast", is_flag=True, help="Stop at the first case that fails; --resume runs the rest.")
@loop_options
@estimate_options
@endpoint_options
@report_options
@allow_errors_option
@call_options
@click.option("--no-journal", is_flag=True, help="Keep nothing on disk; the run cannot be resumed.")
@run_dir_option
@fail_under_option
@click.option(
    "--strict",
    is_flag=True,
    help="Fail too where a case was not evaluated, or a metric lacked data on every case.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show replies too.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the summary.")
def run(suite: str | None, tags: Sequence[str], case: str | None, **options: Any) -> int:
    """Run a suite.

    \b
    dokimos test agent.yaml
    dokimos test agent.yaml -j 8 --tags smoke -o out/report.html
    """
    from dokimos._cli.options import check_volume
    from dokimos._cli.run_settings import RunSettings
    from dokimos._cli.suite_run import execute_suite

    if options["retry_errors"] and options["resume"] is None:
        raise click.UsageError("--retry-errors needs --resume RUN.")
    if options["no_journal"] and options["resume"] is not None:
        raise click.UsageError("--resume continues a journal, so --no-journal cannot be combined with it.")
    check_volume(options["quiet"], options["verbose"])
    check_report_options(options["server"], options["project"], options["no_server"])
    filters = [f"tags={tag.strip()}" for tag in ",".join(tags).split(",") if tag.strip()]
    filters += [] if case is None else [f"id:{case}"]
    presentation = {
        name: options.pop(name) for name in ("outputs", "format_", "fail_under", "strict", "verbose")
    }
    names = (
        "resume",
        "retry_errors",
        "fail_fast",
        "no_journal",
        "run_dir",
        "quiet",
        *LOOP_OPTIONS,
        *ESTIMATE_OPTIONS,
    )
    extra = {name: options.pop(name) for name in names}
    settings = RunSettings(**options, filters=filters, extra=extra)
    named = any(names_target(extra[name]) for name in ("failed", "reuse"))
    # `--failed` without a file and without agent.yaml here means the newest run of any suite.
    if suite is None and not named and (extra["failed"] is None or Path(DEFAULT_FILE).is_file()):
        suite = DEFAULT_FILE
    suite, settings = resolve_target(suite, settings, of_suites=True)
    check_estimate(extra)
    if extra["watch"]:
        check_watch(extra, suite)
        from dokimos._cli.watch import strip_watch_option, watch

        return watch(strip_watch_option())
    with reporting_files(suite):
        return execute_suite(suite, settings, quiet=bool(extra["quiet"]), **presentation)


test.add_command(view_suite)
test.add_command(optimize)


@test.command("schema")
@click.option("-o", "--output", metavar="FILE", type=click.Path(dir_okay=False), help="Write it to a file.")
def schema(output: str | None) -> int:
    """Print the JSON Schema of suite files, for editors."""
    import json

    from dokimos.exporters._base import write_report
    from dokimos.suites._schema import json_schema

    text = json.dumps(json_schema(), indent=2, ensure_ascii=False)
    if output is None:
        echo(text)
    else:
        echo(f"wrote {write_report(Path(output), text + chr(10))}")
    return 0
