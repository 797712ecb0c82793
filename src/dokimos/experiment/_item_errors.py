"""Errors of items as values: their text, the most common one, and the limit on their number."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Final

from dokimos._core.error_detail import ErrorDetail, append_place
from dokimos._core.error_groups import error_key
from dokimos._core.means import UNIT, units_of
from dokimos._core.number_format import to_single_line
from dokimos._core.results import ItemResult, RunResult, RunStatus
from dokimos._core.summary import Tally
from dokimos._core.text import error_text

MOST_KINDS: Final = 1000
LONGEST_SHOWN: Final = 300
CHOICE: Final = "evaluators"
"""The name of the errored result of an item whose evaluators could not be chosen."""
SHARE_FROM_ITEMS: Final = 20
"""How many items there must be for a share to count: of the first item, one error would be 100 %."""

_OTHER_LOOP_SIGNS: Final = (
    "different loop",
    "different event loop",
    "attached to a different",
    "loop is closed",
    "await wasn't used with future",  # what asyncio says the second time of the same future
)

_OTHER_LOOP_ADVICE: Final = (
    "the task uses something that belongs to another event loop: await experiment.run_async() there"
)


def describe_error(error: BaseException) -> str:
    """Return `Type: message`, with advice where the error comes from mixing event loops."""
    text = error_text(error)
    if any(sign in text.lower() for sign in _OTHER_LOOP_SIGNS):
        text += f" ({_OTHER_LOOP_ADVICE})"
    return text


def describe_located_error(error: BaseException) -> str:
    """Return what `describe_error` does, with the place in the user's code where it is known."""
    return append_place(describe_error(error), ErrorDetail.of(error))


def status_of(runs: Sequence[RunResult]) -> RunStatus:
    """Return the status of a run whose repeats went through the whole data set."""
    broken = all(run.total_count and run.error_count == run.total_count for run in runs)
    return RunStatus.BROKEN if broken else RunStatus.COMPLETED


class CommonErrors:
    """Counts errors by kind, to report the most common one at the end."""

    def __init__(self) -> None:
        self._counts: Counter[Hashable] = Counter()
        self._examples: dict[Hashable, tuple[int, str]] = {}
        """The index and the text of the first item, in the order of the data set, with each kind."""
        self._lock = threading.Lock()

    def add(self, item: ItemResult) -> None:
        if item.error is not None:
            self._count(item.index, "", item.error, item.error_detail)
            return
        for result in item.eval_results:
            if result.error is not None:
                self._count(item.index, f"{result.name}: ", result.error, result.error_detail)

    def common(self) -> str:
        """Return one line that names the most common error, "" if there is none."""
        if not self._counts:
            return ""
        # Items end in another order each time; what is said of them should not depend on it.
        kind = min(self._counts, key=lambda kind: (-self._counts[kind], self._examples[kind]))
        count, (_, text) = self._counts[kind], self._examples[kind]
        times = "once" if count == 1 else f"{count} times"
        return f"The most common error ({times}): {text}"

    def _count(self, index: int, source: str, error: str, detail: ErrorDetail | None) -> None:
        kind = (source, error_key(error, detail))
        with self._lock:
            earlier = self._examples.get(kind)
            if earlier is None and len(self._examples) >= MOST_KINDS:
                return
            if earlier is None or index < earlier[0]:
                text = append_place(to_single_line(source + error, LONGEST_SHOWN), detail)
                self._examples[kind] = index, text
            self._counts[kind] += 1


class ErrorLimit:
    """The limit on the errors of a repeat (`max_errors`)."""

    def __init__(self, limit: int | float | None) -> None:
        self._limit = limit

    def is_exceeded(self, tally: Tally) -> bool:
        if self._limit is None or not tally.errored:
            return False
        if isinstance(self._limit, float):
            allowed = units_of(self._limit) * tally.total
            return tally.total >= SHARE_FROM_ITEMS and tally.errored * UNIT > allowed
        return tally.errored > self._limit

    def is_kept_by_success(self, tally: Tally) -> bool:
        """Say whether it stays kept, where it is, with any number of further items without an error.

        A share of the errors counts from a number of items on, which such an item may make up.
        """
        is_share = isinstance(self._limit, float)
        return not (is_share and tally.errored) or tally.total >= SHARE_FROM_ITEMS
