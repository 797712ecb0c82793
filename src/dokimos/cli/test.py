"""`dokimos test`: suites in YAML."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dokimos.cli.echo import echo, is_debugging
from dokimos.cli.estimate import ESTIMATE_OPTIONS, check_estimate, estimate_first, estimate_options
from dokimos.cli.loop import LOOP_OPTIONS, loop_options, names_target, prepare_loop, resolve_target
from dokimos.cli.optimize import optimize
from dokimos.cli.options import (
    allow_errors_option,
    call_options,
    complete_runs,
    endpoint_options,
    fail_under_option,
    run_dir_option,
)
from dokimos.cli.view import view
from dokimos.cli.watched import check_watch, reporting_files

if TYPE_CHECKING:
    from dokimos.cli.outcome import Criteria
    from dokimos.cli.run import RunSettings
    from dokimos.core.results import ExperimentResult
    from dokimos.experiment.experiment import Experiment
    from dokimos.suites.console import Line
    from dokimos.suites.suite import Suite

DEFAULT_FILE: Final = "agent.yaml"
_COLOURS: Final = {"good": "blue", "bad": "yellow", "doubtful": "magenta"}


class SuiteGroup(click.Group):
    """Runs a suite where no subcommand is named: `dokimos test agent.yaml`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
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
@click.option("--resume", metavar="RUN", shell_complete=complete_runs, help="Go on with this run.")
@click.option("--retry-errors", is_flag=True, help="With --resume: repeat what errored.")
@click.option("--fail-fast", is_flag=True, help="Stop at the first case that fails; --resume runs the rest.")
@loop_options
@estimate_options
@endpoint_options
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
@click.option("-q", "--quiet", is_flag=True, help="Print only what came of it.")
def run(suite: str | None, tags: Sequence[str], case: str | None, **given: Any) -> int:
    """Run a suite.

    \b
    dokimos test agent.yaml
    dokimos test agent.yaml -j 8 --tags smoke -o out/report.html
    """
    from dokimos.cli.options import check_volume
    from dokimos.cli.run import RunSettings

    if given["retry_errors"] and given["resume"] is None:
        raise click.UsageError("--retry-errors needs --resume RUN.")
    if given["no_journal"] and given["resume"] is not None:
        raise click.UsageError("--resume goes on with a journal, so --no-journal cannot be combined with it.")
    check_volume(given["quiet"], given["verbose"])
    filters = [f"tags={tag.strip()}" for tag in ",".join(tags).split(",") if tag.strip()]
    filters += [] if case is None else [f"id:{case}"]
    shown = {name: given.pop(name) for name in ("outputs", "format_", "fail_under", "strict", "verbose")}
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
    extra = {name: given.pop(name) for name in names}
    settings = RunSettings(**given, filters=filters, extra=extra)
    named = any(names_target(extra[name]) for name in ("failed", "reuse"))
    if suite is None and not named and (extra["failed"] is None or Path(DEFAULT_FILE).is_file()):
        suite = DEFAULT_FILE
    suite, settings = resolve_target(suite, settings, of_suites=True)
    check_estimate(extra)
    if extra["watch"]:
        check_watch(extra, suite)
        from dokimos.cli.watch import strip_watch_option, watch

        return watch(strip_watch_option())
    with reporting_files(suite):
        return execute_suite(suite, settings, quiet=bool(extra["quiet"]), **shown)


test.add_command(view)
test.add_command(optimize)


@test.command("schema")
@click.option("-o", "--output", metavar="FILE", type=click.Path(dir_okay=False), help="Write it to a file.")
def schema(output: str | None) -> int:
    """Print the JSON Schema of suite files, for editors."""
    import json

    from dokimos.exporters.base import write_report
    from dokimos.suites.schema import json_schema

    text = json.dumps(json_schema(), indent=2, ensure_ascii=False)
    if output is None:
        echo(text)
    else:
        echo(f"wrote {write_report(Path(output), text + chr(10))}")
    return 0


def suite_experiment(target: str, settings: RunSettings) -> tuple[Experiment, RunSettings]:
    """Return the experiment of a suite, and the settings that are left for the run."""
    from dataclasses import replace

    loaded = settings.extra.get("suite") or _load(target, settings)
    return loaded.experiment(), replace(settings, timeout=None)


def _load(target: str, settings: RunSettings) -> Suite:
    from dokimos.suites.environment import export_dotenv
    from dokimos.suites.loader import load_suite

    export_dotenv(Path(target).resolve().parent)
    loaded = load_suite(target, llm_timeout=settings.timeout)
    for warning in loaded.warnings:
        echo(f"! {warning}", err=True)
    return loaded


def execute_suite(
    target: str,
    settings: RunSettings,
    *,
    outputs: Sequence[str] = (),
    format_: str | None = None,
    fail_under: Sequence[str] = (),
    strict: bool = False,
    quiet: bool = False,
    verbose: bool = False,
) -> int:
    """Carry out a suite and present its result; what is cut short is presented too."""
    from dataclasses import replace

    from dokimos.cli.outcome import Criteria
    from dokimos.cli.run import carry_out
    from dokimos.errors import DokimosError, RunInterrupted
    from dokimos.experiment.required_levels import parse_levels
    from dokimos.runtime.opened_files import files_read

    files_read.start()
    _check_outputs(outputs, format_)
    criteria = Criteria.of(parse_levels(fail_under), settings.allow_errors, every_item=True, strict=strict)
    suite = _load(target, settings)
    if not suite.cases_to_run:
        echo("No tests to execute.")
        return 0
    if settings.replay is None and os.environ.get("DOKIMOS_CASSETTE_MODE") != "replay":
        suite.check_keys()
    quiet = quiet or (suite.quiet and not verbose)
    loop = prepare_loop(target, replace(settings, extra={**settings.extra, "suite": suite, "quiet": quiet}))
    planned = None if loop is None else estimate_first(target, loop.settings)
    if loop is None or planned is None:
        return 0
    settings = planned
    is_kept = not settings.extra.get("no_journal")

    def show(result: ExperimentResult) -> None:
        _print(result, quiet=quiet, verbose=verbose or suite.verbose, is_kept=is_kept)
        _write(result, outputs, format_, quiet=quiet)
        loop.tell_changes(result)

    try:
        result = carry_out(target, settings)
    except (RunInterrupted, DokimosError) as cut_short:
        if cut_short.result is not None:
            show(cut_short.result)
        raise
    show(result)
    return _status(result, criteria)


def _check_outputs(outputs: Sequence[str], format_: str | None) -> None:
    from dokimos.cli.options import check_writable

    if format_ is not None and not outputs:
        raise click.UsageError("--format says how to write a report; name it with -o FILE.")
    for output in outputs:
        check_writable(Path(output))


def _write(result: ExperimentResult, outputs: Sequence[str], format_: str | None, *, quiet: bool) -> None:
    from dokimos.errors import ConfigurationError
    from dokimos.exporters.base import export, exporter_for

    for output in outputs:
        chosen = format_
        if chosen is None:
            try:
                chosen = exporter_for(output).name
            except ConfigurationError:
                chosen = "json"
        path = export(result, output, format=chosen)
        if not quiet:
            echo(f"Report saved to {path}")


def _print(result: ExperimentResult, *, quiet: bool, verbose: bool, is_kept: bool) -> None:
    from dokimos.experiment.fail_fast import NOT_RUN
    from dokimos.reporting.console import ASCII_SIGNS, Signs
    from dokimos.reporting.worst_items import first_tracebacks
    from dokimos.suites.console import render_item, render_not_run, render_skipped, render_summary

    encoding = (getattr(sys.stdout, "encoding", "") or "").lower()
    signs = Signs() if encoding.startswith("utf") else ASCII_SIGNS
    if not quiet:
        for run in result.runs:
            number = run.index if result.run_count > 1 else None
            for item in run.item_results:
                _echo(render_item(item, signs, run=number, verbose=verbose))
                echo()
        _echo(render_skipped(result.metadata.get("skipped") or {}, signs))
        if verbose:
            _echo(render_not_run(result.metadata.get(NOT_RUN) or (), signs))
    _echo(render_summary(result))
    for warning in result.notices:
        echo(f"! {warning}", err=True)
    if is_debugging():
        for headline, traceback in first_tracebacks(result):
            echo(f"\n{headline}\n{traceback}")
    if result.run_id is not None and is_kept and not quiet:
        echo(f"Run {result.run_id}: dokimos show {result.run_id}")


def _echo(lines: Iterable[Line]) -> None:
    for line in lines:
        colour = _COLOURS.get(line.tone)
        echo(line.text, color=colour)


def _status(result: ExperimentResult, criteria: Criteria) -> int:
    from dokimos.cli.outcome import check_problems, exit_status
    from dokimos.experiment.required_levels import compare

    misses, problems = compare(criteria.levels, result)
    for miss in misses:
        echo(f"    {miss}")
    check_problems(result, criteria, problems)
    return exit_status(result, criteria, misses)
