"""Which items of a run are kept for its result."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING

from dokimos._core.outcome import Outcome
from dokimos._core.results import EvalResult

if TYPE_CHECKING:
    from dokimos.experiment._run_description import Launch
    from dokimos.experiment._run_options import RunOptions


class KeptItems(Enum):
    """Which items of a run are kept for its result; the totals are of all of them in any case."""

    ALL = "all"
    PROBLEMS = "problems"
    """Those of which `is_problem` is true: all that a command looks at which prints a result."""
    NONE = "none"

    @classmethod
    def of(cls, options: RunOptions, launch: Launch | None) -> KeptItems:
        """Return what a run keeps, as its options say and as the command that started it needs."""
        if not options.keep_results:
            return cls.NONE
        # What `fail_fast` left out is found out from all items that are there.
        needs_all = launch is None or launch.needs_all_items or options.fail_fast
        return cls.ALL if needs_all else cls.PROBLEMS


_NOT_PASSED = frozenset((Outcome.FAILED, Outcome.ERRORED))


def is_problem(outcome: Outcome, results: Iterable[EvalResult]) -> bool:
    """Say whether an item did not pass, or a result of it is an error."""
    return outcome in _NOT_PASSED or any([result.error is not None for result in results])
