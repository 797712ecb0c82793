"""The exit codes of the command line, and how they are decided for an error and for the result of a run.

Commands with another outcome than that of a run decide their own: `gate` (1 and 4), `doctor`,
`datasets diff`, `db check`, `db upgrade --check`, `import --strict`, `size` and `spool replay` (1),
`mutate` and `invariance` (1 and 3), `perturb` and `generate` (3), `optimize` (3) and `judge attack` (130).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from dokimos.errors import DokimosError

if TYPE_CHECKING:
    from dokimos._core.metric_coverage import ErrorAllowance
    from dokimos._core.results import ExperimentResult, ItemResult
    from dokimos.experiment._required_levels import RequiredLevel

# Imported before it is known which command is asked for, so the functions import what they need of results.

EXIT_BELOW: Final = 1
"""The result is below what was asked for, or items errored."""
EXIT_USAGE: Final = 2
"""Wrong usage, or a wrong configuration: nothing was run."""
EXIT_BROKEN: Final = 3
"""The run broke off, or judged too little to say anything."""
EXIT_INCONCLUSIVE: Final = 4
"""A gate that could not decide."""
EXIT_INTERRUPTED: Final = 130
"""Ctrl-C."""
EXIT_SIGNAL: Final = 128
"""What is added to the number of a signal other than that of Ctrl-C which ended a command."""


def exit_code_of_error(error: Exception) -> int:
    """Return the exit code of a command that raised an error."""
    # An error that carries a result comes from a run that had begun; without one, nothing was run.
    broke_off = not isinstance(error, DokimosError) or error.result is not None
    return EXIT_BROKEN if broke_off else EXIT_USAGE


@dataclass(frozen=True, kw_only=True)
class Criteria:
    """What a result has to be like for the exit code to be 0."""

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
        """Parse `--allow-errors`. Raises `ConfigurationError` where it is neither a number nor a share."""
        from dokimos._cli.specs import parse_error_limit

        allowed = 0 if allow_errors is None else parse_error_limit(allow_errors, "--allow-errors")
        return cls(
            levels=levels,
            allowed_errors=allowed,
            every_item=every_item,
            strict=strict,
            of_this_run=of_this_run,
        )


def exit_code_of_result(result: ExperimentResult, criteria: Criteria, misses: Sequence[str]) -> int:
    """Return the exit code of a command that presents a run: the first that applies of 130, 3, 1 and 0.

    `misses` are the levels of `--fail-under` that the result falls short of.
    """
    from dokimos._core.results import RunStatus

    if criteria.of_this_run and result.status is RunStatus.INTERRUPTED:
        return EXIT_INTERRUPTED
    if criteria.of_this_run and result.status is RunStatus.STOPPED:
        return EXIT_BELOW  # by --fail-fast, so what was judged by then says nothing of the rest
    if _is_broken(result, criteria):
        return EXIT_BROKEN
    return EXIT_BELOW if misses or _falls_short(result, criteria) else 0


def check_problems(result: ExperimentResult, criteria: Criteria, problems: Sequence[str]) -> None:
    """Raise `ConfigurationError` for levels that could not be compared, unless the run was cut short."""
    from dokimos._core.results import RunStatus
    from dokimos.errors import ConfigurationError

    ended = (RunStatus.COMPLETED, RunStatus.BROKEN)
    if problems and not (criteria.of_this_run and result.status not in ended):
        raise ConfigurationError("--fail-under: " + "; ".join(problems))


def _is_broken(result: ExperimentResult, criteria: Criteria) -> bool:
    """Say whether the run says too little: it ended early, judged nothing, or a metric hardly worked."""
    from dokimos._core.metric_coverage import find_broken_metrics, is_allowed
    from dokimos._core.results import RunStatus

    ended = (RunStatus.COMPLETED, RunStatus.BROKEN)
    if criteria.of_this_run and result.status not in ended:
        return True
    summary = result.summary
    if summary.errored and summary.judged == summary.errored:
        allowed = is_allowed(summary.errored, summary.total, criteria.allowed_errors)
        # All that was judged errored. With errors allowed, items that only inform still say something.
        return not (allowed and summary.informational)
    return bool(find_broken_metrics(result, criteria.allowed_errors))


def _falls_short(result: ExperimentResult, criteria: Criteria) -> bool:
    from dokimos._core.metric_coverage import find_skipped_metrics, is_allowed

    summary = result.summary
    if criteria.strict and (summary.not_judged or find_skipped_metrics(result)):
        return True
    # Whoever names levels has said what is good enough; single failures do not decide then.
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
