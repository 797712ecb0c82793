"""What a command prints about a result and the status that it exits with."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from dokimos.cli.echo import echo
from dokimos.cli.main import EXIT_BELOW, EXIT_BROKEN, EXIT_INTERRUPTED
from dokimos.cli.options import write_outputs
from dokimos.core.results import ExperimentResult, RunStatus
from dokimos.errors import ConfigurationError
from dokimos.experiment.wanted import Wanted, compare
from dokimos.reporting.console import make_console, print_result, verdict_line


@dataclass(frozen=True, kw_only=True)
class Presentation:
    """How a result is to be shown, and what it has to reach."""

    outputs: Sequence[str] = ()
    wanted: Sequence[Wanted] = ()
    quiet: bool = False
    verbose: bool = False
    stored: bool = False
    """Whether the run is kept, so that its id is worth printing."""
    of_this_run: bool = True
    """Whether this command ran it, so that how the run ended decides the exit status."""

    def show(self, result: ExperimentResult) -> int:
        """Print the result, write the reports, and return the exit status.

        Raises:
            ConfigurationError: for a report that cannot be written, or a level with nothing to compare; the
                result has been printed by then.
        """
        misses, problems = compare(self.wanted, result)
        # rich leaves by SystemExit when nobody reads the output; the status must not change by that
        with contextlib.suppress(SystemExit):
            self._print(result, [*misses, *problems])
        written = write_outputs(result, self.outputs)
        if written and not self.quiet:
            echo(f"  reports  {' '.join(map(str, written))}")
        if problems:
            raise ConfigurationError("--fail-under: " + "; ".join(problems))
        return self._status(result, misses)

    def _print(self, result: ExperimentResult, misses: Sequence[str]) -> None:
        console = make_console()
        asked = self._asked_for()
        if self.quiet:
            console.print(verdict_line(result, misses, asked, console), soft_wrap=True)
            for miss in misses:
                console.print(f"    {miss}", soft_wrap=True, markup=False)
            for warning in result.warnings:
                echo(f"! {warning}", err=True)
            return
        print_result(result, console, misses=misses, wanted=asked, verbose=self.verbose)
        if self.stored and result.run_id is not None:
            line = f"  run      {result.run_id}   dokimos show {result.run_id}"
            console.print(line, style="dim", soft_wrap=True, markup=False)

    def _status(self, result: ExperimentResult, misses: Sequence[str]) -> int:
        if self.of_this_run and result.status is RunStatus.INTERRUPTED:
            return EXIT_INTERRUPTED
        if self.of_this_run and result.status is RunStatus.STOPPED:
            return EXIT_BELOW  # by --fail-fast: too many errors are an exception
        if self.of_this_run and result.status is not RunStatus.COMPLETED:
            return EXIT_BROKEN
        return EXIT_BELOW if misses else 0

    def _asked_for(self) -> str | None:
        return ", ".join(map(str, self.wanted)) or None
