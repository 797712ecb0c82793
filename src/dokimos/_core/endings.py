"""Describe how a run ended, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dokimos._core.number_format import percent
from dokimos._core.text import pluralize

if TYPE_CHECKING:
    from dokimos._core.results import ExperimentResult

EVERYTHING_ERRORED: Final = "Every item errored."
"""How the warning of a broken run begins."""
_COMPLETED: Final = "completed"
"""By value: `RunStatus` is in the module of results, which imports this one."""


def describe_counts(result: ExperimentResult) -> str:
    """Say how many items passed, and what else became of them: `50.0 % passed (1/2), 1 errored`."""
    summary, rate = result.summary, result.pass_rate
    parts = [
        f"{percent(rate)} passed ({summary.passed}/{summary.judged})" if rate is not None else "",
        f"{summary.errored} errored" if summary.errored else "",
        f"{summary.informational} informational" if summary.informational else "",
        f"{summary.not_judged} not judged" if summary.not_judged else "",
        "" if result.status.value == _COMPLETED else result.status.in_words,
    ]
    return ", ".join(filter(None, parts)) or "no items"


def describe_failure(result: ExperimentResult) -> str | None:
    """Say why a run did not come to its end or found nothing out, None where it did."""
    if result.status.value == _COMPLETED:
        return None
    done = (
        f"Run {result.name!r:.60}: {result.status.in_words} after {pluralize(result.summary.total, 'item')}."
    )
    return f"{done} {result.warnings[0]}" if result.warnings else done
