"""What became of an item: derived from its error and its results here, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dokimos._core.eval_result import EvalResult


class Outcome(StrEnum):
    """What became of an item, the worst first."""

    ERRORED = "errored"
    """The task gave no outputs, or a verdict was meant and none could be judged."""
    FAILED = "failed"
    NOT_JUDGED = "not judged"
    """Nothing was meant to be evaluated, or all of it was skipped."""
    INFORMATIONAL = "informational"
    """Evaluated, by scores that decide nothing."""
    PASSED = "passed"


SUCCESS: Final = {Outcome.PASSED: True, Outcome.FAILED: False, Outcome.ERRORED: False}
"""The verdict on an item; None for outcomes that are not listed."""


def derive_outcome(error: str | None, results: Sequence[EvalResult]) -> Outcome:
    """Return what became of an item, given its task's error and what its evaluators found.

    One verdict is enough for an item to be judged: an error beside it is a warning, unless the result says
    that it is more. Without a verdict, an error of what was to give one makes the item errored; so does any
    error where no score was made.
    """
    if error is not None:
        return Outcome.ERRORED
    most = 0
    for result in results:  # `max(map(...))` takes twice as long for one result, as most items have
        # A plain success is most of them, and to call a function for it would take as long as all the rest.
        is_success = result.success is True and result.error is None and result.decides is not False
        weight = _SUCCESS_WEIGHT if is_success else _weigh(result)
        if weight > most:  # noqa: PLR1730 - `max` doubles the time that many results take
            most = weight
    return _OUTCOMES[most]


_OUTCOMES: Final = (
    Outcome.NOT_JUDGED,
    Outcome.ERRORED,  # an error of what only informs
    Outcome.INFORMATIONAL,
    Outcome.ERRORED,  # an error in place of a verdict
    Outcome.PASSED,
    Outcome.FAILED,
    Outcome.ERRORED,  # an error that is never soft
)
"""What a result makes of its item where no other has more weight, by weight."""
_SUCCESS_WEIGHT: Final = _OUTCOMES.index(Outcome.PASSED)


def _weigh(result: EvalResult) -> int:
    if result.error is not None and result.errors_item:
        return 6
    if result.success is False:
        return 5
    if result.success and result.decides is not False:
        return _SUCCESS_WEIGHT
    if result.error is not None:
        return 3 if result.expects_verdict else 1
    return 2 if result.success is None and result.score is not None else 0


def find_culprits(error: str | None, results: Sequence[EvalResult]) -> tuple[EvalResult, ...]:
    """Return the results that keep an item from passing: verdicts against it, and errors that count."""
    culprits = tuple(result for result in results if result.fails_item)
    if culprits or derive_outcome(error, results) is not Outcome.ERRORED:
        return culprits
    erring = tuple(result for result in results if result.error is not None)
    return tuple(result for result in erring if result.expects_verdict) or erring
