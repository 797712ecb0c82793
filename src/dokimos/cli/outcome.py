"""What a command prints about a result and the status that it exits with."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from dokimos.cli.echo import echo, is_debugging
from dokimos.cli.main import EXIT_BELOW, EXIT_BROKEN, EXIT_INTERRUPTED
from dokimos.cli.options import write_outputs
from dokimos.core.results import ExperimentResult, ItemResult, RunStatus
from dokimos.core.unjudged import (
    ErrorAllowance,
    find_broken_metrics,
    find_skipped_metrics,
    is_allowed,
)
from dokimos.errors import ConfigurationError
from dokimos.experiment.required_levels import RequiredLevel, compare
from dokimos.reporting.console import make_console, print_result, verdict_line


@dataclass(frozen=True, kw_only=True)
class Criteria:
    """What a result has to be like for the exit status to be 0."""

    levels: Sequence[RequiredLevel] = ()
    allowed_errors: ErrorAllowance = 0
    every_item: bool = False
    """Whether each item has to pass where no level is asked for, as in suites."""
    strict: bool = False
    """Whether each item has to be evaluated, and each metric has to have data."""
    of_this_run: bool = True
    """Whether this command ran it, so that how the run ended decides, too."""

    @classmethod
    def of(
        cls,
        levels: Sequence[RequiredLevel],
        allow_errors: str | None,
        *,
        every_item: bool = False,
        strict: bool = False,
        of_this_run: bool = True,
    ) -> Self:
        """Read `--allow-errors`. Raises `ConfigurationError` where it is neither a number nor a share."""
        from dokimos.cli.specs import parse_error_limit

        allowed = 0 if allow_errors is None else parse_error_limit(allow_errors, "--allow-errors")
        return cls(
            levels=levels,
            allowed_errors=allowed,
            every_item=every_item,
            strict=strict,
            of_this_run=of_this_run,
        )


def exit_status(result: ExperimentResult, criteria: Criteria, misses: Sequence[str]) -> int:
    """Return the status that a command exits with because of a result: the first of 130, 3, 1 and 0.

    Every command that presents a run decides here; `misses` are the levels that the result falls short of.
    """
    if criteria.of_this_run and result.status is RunStatus.INTERRUPTED:
        return EXIT_INTERRUPTED
    if criteria.of_this_run and result.status is RunStatus.STOPPED:
        return EXIT_BELOW  # by --fail-fast, so what was judged by then says nothing of the rest
    if _is_broken(result, criteria):
        return EXIT_BROKEN
    return EXIT_BELOW if misses or _falls_short(result, criteria) else 0


def check_problems(result: ExperimentResult, criteria: Criteria, problems: Sequence[str]) -> None:
    """Raise `ConfigurationError` for levels that could not be compared, unless the run was cut short."""
    ended = (RunStatus.COMPLETED, RunStatus.BROKEN)
    if problems and not (criteria.of_this_run and result.status not in ended):
        raise ConfigurationError("--fail-under: " + "; ".join(problems))


def _is_broken(result: ExperimentResult, criteria: Criteria) -> bool:
    """Say whether the run says too little: it ended early, judged nothing, or a metric hardly worked."""
    ended = (RunStatus.COMPLETED, RunStatus.BROKEN)
    if criteria.of_this_run and result.status not in ended:
        return True
    summary = result.summary
    if summary.errored and summary.judged == summary.errored:
        allowed = is_allowed(summary.errored, summary.total, criteria.allowed_errors)
        return not (allowed and summary.informational)
    return bool(find_broken_metrics(result, criteria.allowed_errors))


def _falls_short(result: ExperimentResult, criteria: Criteria) -> bool:
    summary = result.summary
    if criteria.strict and (summary.not_judged or find_skipped_metrics(result)):
        return True
    if criteria.levels:
        return False
    if not is_allowed(summary.errored, summary.total, criteria.allowed_errors):
        return True
    return criteria.every_item and (
        summary.failed > summary.errored or any(map(_is_failed_too, result.item_results))
    )


def _is_failed_too(item: ItemResult) -> bool:
    """Say whether there is a verdict against an item that errored."""
    return item.errored and any(result.success is False for result in item.eval_results)


@dataclass(frozen=True, kw_only=True)
class Presentation:
    """How a result is to be shown, and what it has to reach."""

    criteria: Criteria
    outputs: Sequence[str] = ()
    quiet: bool = False
    verbose: bool = False
    stored: bool = False
    """Whether the run is kept, so that its id is worth printing."""

    def show(self, result: ExperimentResult) -> int:
        """Print the result, write the reports, and return the exit status.

        Raises:
            ConfigurationError: for a report that cannot be written, or a level with nothing to compare; the
                result has been printed by then.
        """
        misses, problems = self.print(result)
        check_problems(result, self.criteria, problems)
        return exit_status(result, self.criteria, misses)

    def print(self, result: ExperimentResult) -> tuple[list[str], list[str]]:
        """Print the result and write the reports; return the levels missed, and those without a figure."""
        misses, problems = compare(self.criteria.levels, result)
        # rich leaves by SystemExit when nobody reads the output; the status must not change by that
        with contextlib.suppress(SystemExit):
            self._print(result, [*misses, *problems])
        written = write_outputs(result, self.outputs)
        if written and not self.quiet:
            echo(f"  reports  {' '.join(map(str, written))}")
        return misses, problems

    def _print(self, result: ExperimentResult, misses: Sequence[str]) -> None:
        console = make_console()
        asked = self._format_criteria()
        if self.quiet:
            console.print(verdict_line(result, misses, asked, console), soft_wrap=True)
            for miss in misses:
                console.print(f"    {miss}", soft_wrap=True, markup=False)
            for warning in result.notices:
                echo(f"! {warning}", err=True)
            return
        print_result(result, console, misses=misses, wanted=asked, verbose=self.verbose, debug=is_debugging())
        if self.stored and result.run_id is not None:
            line = f"  run      {result.run_id}   dokimos show {result.run_id}"
            console.print(line, style="dim", soft_wrap=True, markup=False)

    def _format_criteria(self) -> str | None:
        return ", ".join(map(str, self.criteria.levels)) or None
