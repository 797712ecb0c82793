"""A suite run from the command line, and what is printed about its result."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from dokimos._cli.echo import echo, is_debugging
from dokimos._cli.estimate import estimate_first
from dokimos._cli.loop import prepare_loop
from dokimos._runtime.start_collector import start_collector

if TYPE_CHECKING:
    from dokimos._cli.exit_codes import Criteria
    from dokimos._cli.item_blocks import ItemBlocks
    from dokimos._cli.run_settings import RunSettings
    from dokimos._core.results import ExperimentResult
    from dokimos.reporting._console import Signs
    from dokimos.suites._console import Line

_COLOURS: Final = {"good": "blue", "bad": "yellow", "doubtful": "magenta"}


@start_collector.manage()
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
    """Run a suite, present its result, and return the exit code; a run cut short is presented too."""
    from dokimos._cli.exit_codes import Criteria
    from dokimos._cli.item_blocks import ItemBlocks
    from dokimos._cli.target_experiment import load_target_suite
    from dokimos._runtime.file_access import files_read
    from dokimos.experiment._required_levels import parse_levels

    files_read.start()
    _check_outputs(outputs, format_)
    criteria = Criteria.of(parse_levels(fail_under), settings.allow_errors, every_item=True, strict=strict)
    suite = load_target_suite(target, settings)
    if not suite.cases_to_run:
        echo("No tests to execute.")
        return 0
    # Under replay no model is asked, so no key is needed.
    if settings.replay is None and os.environ.get("DOKIMOS_CASSETTE_MODE") != "replay":
        suite.check_keys()
    quiet = quiet or (suite.quiet and not verbose)
    loop = prepare_loop(target, replace(settings, extra={**settings.extra, "suite": suite, "quiet": quiet}))
    planned = None if loop is None else estimate_first(target, loop.settings)
    if loop is None or planned is None:
        return 0
    verbose = verbose or suite.verbose
    blocks = None if quiet else ItemBlocks(_signs(), verbose=verbose)
    settings = planned.keep_items(
        all_of_them=bool(outputs) or loop.compares_items,
        on_item_left_out=None if blocks is None else blocks.add,
    )

    def show(result: ExperimentResult) -> None:
        _print(result, settings, blocks, verbose=verbose)
        _write(result, outputs, format_, quiet=quiet)
        loop.print_changes(result)

    return _exit_code(_run_and_show(target, settings, show), criteria)


def _run_and_show(
    target: str, settings: RunSettings, show: Callable[[ExperimentResult], None]
) -> ExperimentResult:
    from dokimos._cli.target_experiment import run_target
    from dokimos.errors import DokimosError, RunInterrupted

    start_collector.resume()
    try:
        result = run_target(target, settings)
    except (RunInterrupted, DokimosError) as cut_short:
        if cut_short.result is not None:
            show(cut_short.result)
        raise
    show(result)
    return result


def _check_outputs(outputs: Sequence[str], format_: str | None) -> None:
    from dokimos._cli.options import check_writable

    if format_ is not None and not outputs:
        raise click.UsageError("--format says how to write a report; name it with -o FILE.")
    for output in outputs:
        check_writable(Path(output))


def _write(result: ExperimentResult, outputs: Sequence[str], format_: str | None, *, quiet: bool) -> None:
    from dokimos.errors import ConfigurationError
    from dokimos.exporters._base import export, exporter_for

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


def _print(
    result: ExperimentResult, settings: RunSettings, blocks: ItemBlocks | None, *, verbose: bool
) -> None:
    """Print a result; without the blocks of its tests only what the summary has."""
    from dokimos._cli.presentation import show_server_runs
    from dokimos.experiment._fail_fast import NOT_RUN
    from dokimos.reporting._worst_items import first_tracebacks
    from dokimos.suites._console import render_not_run, render_skipped, render_summary

    if blocks is not None:
        _print_items(result, blocks)
        _echo(render_skipped(result.metadata.get("skipped") or {}, _signs()))
        if verbose:
            _echo(render_not_run(result.metadata.get(NOT_RUN) or (), _signs()))
    _echo(render_summary(result))
    for warning in result.notices:
        echo(f"! {warning}", err=True)
    if is_debugging():
        for headline, traceback in first_tracebacks(result):
            echo(f"\n{headline}\n{traceback}")
    if result.run_id is not None and settings.has_journal and blocks is not None:
        echo(f"Run {result.run_id}: dokimos show {result.run_id}")
    show_server_runs(result.server_run_ids, quiet=blocks is None)


def _print_items(result: ExperimentResult, blocks: ItemBlocks) -> None:
    for run in result.runs:
        for lines in blocks.render(run, number=run.index if result.run_count > 1 else None):
            _echo(lines)
            echo()


def _signs() -> Signs:
    from dokimos.reporting._console import ASCII_SIGNS, Signs

    encoding = (getattr(sys.stdout, "encoding", "") or "").lower()
    return Signs() if encoding.startswith("utf") else ASCII_SIGNS


def _echo(lines: Iterable[Line]) -> None:
    for line in lines:
        colour = _COLOURS.get(line.tone)
        echo(line.text, color=colour)


def _exit_code(result: ExperimentResult, criteria: Criteria) -> int:
    from dokimos._cli.exit_codes import check_problems, exit_code_of_result
    from dokimos.experiment._required_levels import compare

    misses, problems = compare(criteria.levels, result)
    for miss in misses:
        echo(f"    {miss}")
    check_problems(result, criteria, problems)
    return exit_code_of_result(result, criteria, misses)
