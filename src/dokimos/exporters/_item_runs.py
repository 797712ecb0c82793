"""The items of a result with all their repeats side by side, and the ways to group them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any, Final

from dokimos._core.example import Example
from dokimos._core.jsonable import text_form
from dokimos._core.keys import INPUT, OUTPUT
from dokimos._core.outcome import SUCCESS, Outcome
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, lowest_score
from dokimos.stats._intervals import Interval, wilson_interval

MAX_TAGS: Final = 12
MAX_TAG_LENGTH: Final = 60
ABSENT_TAG: Final = "(none)"


@dataclass(frozen=True)
class ItemRuns:
    """One example with its result in each repeat; None where a repeat did not reach it."""

    index: int
    example: Example
    runs: tuple[ItemResult | None, ...]

    @cached_property
    def results(self) -> tuple[ItemResult, ...]:
        return tuple(item for item in self.runs if item is not None)

    @property
    def key(self) -> str:
        return self.results[0].key

    @cached_property
    def outcome(self) -> Outcome:
        """The worst of the repeats that judged the item."""
        outcomes = {item.outcome for item in self.results}
        for outcome in (Outcome.ERRORED, Outcome.FAILED, Outcome.PASSED, Outcome.INFORMATIONAL):
            if outcome in outcomes:
                return outcome
        return Outcome.NOT_JUDGED

    @property
    def success(self) -> bool | None:
        """True if every repeat that judged the item passed it, None if none did."""
        return SUCCESS.get(self.outcome)

    @property
    def errors(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for item in self.results for text in item.errors))

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for item in self.results for text in item.warnings))

    @property
    def first_bad(self) -> ItemResult:
        """The first repeat with the worst outcome."""
        return next(item for item in self.results if item.outcome is self.outcome)

    def results_of(self, name: str) -> tuple[EvalResult | None, ...]:
        """Return the results of the evaluator `name`, one for each repeat."""
        return tuple(None if item is None else item.result(name) for item in self.runs)


def items_of(result: ExperimentResult) -> tuple[ItemRuns, ...]:
    """Merge the repeats of each item, in the order of the data set."""
    repeats: dict[tuple[int, int], list[ItemResult | None]] = {}
    for position, run in enumerate(result.runs):
        seen: Counter[int] = Counter()
        for item in run.item_results:
            # A merged result may have an index more than once; the n-th of each repeat belong together.
            occurrence = (item.index, seen[item.index])
            seen[item.index] += 1
            repeats.setdefault(occurrence, [None] * result.run_count)[position] = item
    return tuple(_merge_repeats(occurrence[0], repeats[occurrence]) for occurrence in sorted(repeats))


def _merge_repeats(index: int, runs: list[ItemResult | None]) -> ItemRuns:
    first = next(item for item in runs if item is not None)
    return ItemRuns(index, first.example, tuple(runs))


def worst_first(items: Iterable[ItemRuns], result: ExperimentResult) -> list[ItemRuns]:
    """Sort the items of a result: by outcome, warnings before none, the lowest score and position.

    The page of the HTML report sorts them in the same way.
    """
    outcomes, lower = list(Outcome), result.lower_is_better

    def sort_key(item: ItemRuns) -> tuple[int, bool, float, int]:
        scores = (score for repeat in item.results for score in repeat.eval_results)
        return outcomes.index(item.outcome), not item.warnings, lowest_score(scores, lower), item.index

    return sorted(items, key=sort_key)


def pass_interval(result: ExperimentResult) -> Interval | None:
    """Wilson's 95 % interval of the pass rate; repeats of one item do not count as new items."""
    if result.pass_rate is None:
        return None
    # The mean per repeat: three repeats of 50 items are 50 items, or the interval would be too narrow.
    judged = fmean(run.summary.judged for run in result.runs if run.summary.judged)
    return wilson_interval(result.pass_rate * judged, judged)


def render_inputs(item: ItemRuns | ItemResult) -> str | None:
    """Return the inputs as one text."""
    return render_value(item.example.inputs, INPUT)


def render_expected(item: ItemRuns | ItemResult) -> str | None:
    """Return the expected outputs as one text."""
    return render_value(item.example.expected_outputs, OUTPUT)


def render_value(values: Mapping[str, Any], key: str) -> str | None:
    """Return a map as one text: its only value, else the conventional one, else the whole as JSON."""
    if not values:
        return None
    if len(values) == 1:
        return text_form(next(iter(values.values())))
    return text_form(values[key]) if key in values else text_form(values)


def tags_of(example: Example, key: str) -> tuple[str, ...]:
    """Return the values under a metadata key as tags; `ABSENT_TAG` where there are none."""
    tags = [text_form(value) for value in _values(example.metadata.get(key))]
    return tuple(tag or ABSENT_TAG for tag in tags) or (ABSENT_TAG,)


def tag_keys(items: Iterable[ItemRuns]) -> tuple[str, ...]:
    """Return the metadata keys that group the items: those with few, short, repeated values."""
    counts: dict[str, Counter[str]] = {}
    unfit: set[str] = set()
    for item in items:
        for key, value in item.example.metadata.items():
            if key not in unfit:
                _count_tags(key, value, counts, unfit)
    # Keys whose values are all different, such as ids, group nothing.
    return tuple(key for key, tags in counts.items() if key not in unfit and 1 < len(tags) < tags.total())


def by_tag(result: ExperimentResult, key: str) -> dict[str, ExperimentResult]:
    """Split the result by a metadata key, in the order of its values."""
    groups = result.by(key)
    return {tag or ABSENT_TAG: groups[tag] for tag in sorted(groups, key=lambda tag: (not tag, tag))}


def _count_tags(key: str, value: object, counts: dict[str, Counter[str]], unfit: set[str]) -> None:
    values = _values(value)
    if not all(isinstance(v, str | int) and len(str(v)) <= MAX_TAG_LENGTH for v in values):
        unfit.add(key)
        return
    tags = counts.setdefault(key, Counter())
    tags.update(text_form(v) or ABSENT_TAG for v in values)
    if len(tags) > MAX_TAGS:
        unfit.add(key)


def _values(value: object) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple | set | frozenset) else [value]
