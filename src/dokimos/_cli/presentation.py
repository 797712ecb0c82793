"""What a command prints about a result, and the reports that it writes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass

from dokimos._cli.echo import echo, is_debugging
from dokimos._cli.exit_codes import Criteria, check_problems, exit_code_of_result
from dokimos._cli.options import write_outputs
from dokimos._core.results import ExperimentResult
from dokimos.experiment._required_levels import compare
from dokimos.reporting._console import make_console, print_result, verdict_line


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
        """Print the result, write the reports, and return the exit code.

        Raises:
            ConfigurationError: for a report that cannot be written, or a level with nothing to compare; the
                result has been printed by then.
        """
        misses, problems = self.print(result)
        # After the result is printed: it was paid for, whatever is wrong with the levels.
        check_problems(result, self.criteria, problems)
        return exit_code_of_result(result, self.criteria, misses)

    def print(self, result: ExperimentResult) -> tuple[list[str], list[str]]:
        """Print the result and write the reports; return the levels missed, and those without a figure."""
        misses, problems = compare(self.criteria.levels, result)
        # rich leaves by SystemExit when nobody reads the output; the exit code must not change by that
        with contextlib.suppress(SystemExit):
            self._print(result, [*misses, *problems])
        written = write_outputs(result, self.outputs)
        if written and not self.quiet:
            echo(f"  reports  {' '.join(map(str, written))}")
        show_server_runs(result.server_run_ids, quiet=self.quiet)
        return misses, problems

    def _print(self, result: ExperimentResult, misses: Sequence[str]) -> None:
        console = make_console()
        criteria_text = self._format_criteria()
        if self.quiet:
            console.print(verdict_line(result, misses, criteria_text, console), soft_wrap=True)
            for miss in misses:
                console.print(f"    {miss}", soft_wrap=True, markup=False)
            for warning in result.notices:
                echo(f"! {warning}", err=True)
            return
        print_result(
            result,
            console,
            misses=misses,
            requirement=criteria_text,
            verbose=self.verbose,
            debug=is_debugging(),
        )
        if self.stored and result.run_id is not None:
            line = f"  run      {result.run_id}   dokimos show {result.run_id}"
            console.print(line, style="dim", soft_wrap=True, markup=False)

    def _format_criteria(self) -> str | None:
        return ", ".join(map(str, self.criteria.levels)) or None


def show_server_runs(ids: Sequence[str], *, quiet: bool) -> None:
    """Name the runs on servers, for people and for the steps of the CI job that follow."""
    if not ids:
        return
    if not quiet:
        echo(f"  server   {' '.join(ids)}")
    set_server_run_ids(ids)


def set_server_run_ids(ids: Sequence[str]) -> None:
    """Set the output `server_run_ids` of a step of a CI job, where this is one."""
    from dokimos.gate._github import write_server_run_ids

    try:
        write_server_run_ids(ids, os.environ)
    except OSError as error:
        echo(f"! The output server_run_ids could not be set: {error}", err=True)
