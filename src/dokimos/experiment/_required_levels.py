"""Required levels of a result: pass rates and mean scores, as in `--fail-under`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite

from dokimos._core.means import UNIT, mean_of_ratios, units_of
from dokimos._core.proportions import parse_proportion
from dokimos._core.results import ExperimentResult, ItemResult, RunResult
from dokimos._core.score_range import USUAL_RANGE, ScoreRange, describe_range
from dokimos.errors import ConfigurationError
from dokimos.evaluators._base import Evaluator
from dokimos.experiment._item_errors import CHOICE


@dataclass(frozen=True, slots=True)
class RequiredLevel:
    """A level that a result has to reach: a pass rate, or the mean score of an evaluator."""

    level: float
    evaluator: str | None = None

    def __str__(self) -> str:
        return f"{self.level * 100:g} %" if self.evaluator is None else f"{self.evaluator} {self.level:g}"

    def check_evaluator(self, evaluators: Sequence[Evaluator]) -> None:
        """Raise `ConfigurationError` before a run if the level cannot belong to any evaluator.

        The scores of an evaluator that gives several are not known yet: it may give any key.
        """
        if self.evaluator is None:
            return
        owner, _, key = self.evaluator.rpartition(".")
        for one in evaluators:
            if one.name == self.evaluator or (key and one.name == owner and one.gives_several):
                self.check_level(one.custom_range() or USUAL_RANGE)
                return
        self.check_name([one.name for one in evaluators])

    def check_name(self, names: Sequence[str]) -> None:
        """Raise `ConfigurationError` if the evaluator is not among `names`."""
        if self.evaluator is not None and self.evaluator not in names:
            available = ", ".join(names)
            raise ConfigurationError(f"there is no evaluator {self.evaluator!r}; there are: {available}.")

    def check_level(self, score_range: ScoreRange) -> None:
        """Raise `ConfigurationError` if the evaluator's scores cannot have this mean."""
        if not score_range[0] <= self.level <= score_range[1]:
            where = describe_range(score_range)
            raise ConfigurationError(
                f"the level of {self.evaluator!r} must be in {where}, not {self.level:g}."
            )

    def explain_miss(self, result: ExperimentResult) -> str | None:
        """Return how the result misses the level, None if it reaches it whatever its errors had scored.

        Raises:
            ConfigurationError: if there is nothing to compare with, and nothing errored.
        """
        if self.evaluator is None:
            return self._explain_rate_miss(result)
        return self._explain_evaluator_miss(result, self.evaluator)

    def _explain_rate_miss(self, result: ExperimentResult) -> str | None:
        rate, summary = result.pass_rate, result.summary  # an errored item counts as one that did not pass
        if rate is None:
            raise ConfigurationError("nothing was judged, so there is no pass rate to compare.")
        if rate >= self.level:
            return None
        shown, asked = _format_distinct(_exact(rate) * 100, _exact(self.level) * 100, digits=1)
        verdicts = summary.judged - summary.errored
        if not verdicts:
            return f"pass rate: nothing was judged, {summary.errored} errored"
        judged_rate = Decimal(summary.passed * 100) / verdicts
        if judged_rate < _exact(self.level) * 100:
            return f"pass rate {shown} % is below {asked} %"
        return (
            f"pass rate {judged_rate:.1f} % over {verdicts} judged; "
            f"{shown} % if the {summary.errored} errored had failed, which is below {asked} %"
        )

    def _explain_evaluator_miss(self, result: ExperimentResult, name: str) -> str | None:
        names = [*result.evaluator_names, *(info.name for info in result.evaluators)]
        errors = count_errors(result, name)
        if names or not errors:
            self.check_name(list(dict.fromkeys(names)))
        mean = result.average_score(name)
        if mean is None and errors:
            return f"{name}: nothing was scored, {errors} errored"
        if mean is None:
            raise ConfigurationError(f"{name!r} scored nothing, so there is no mean to compare.")
        lower = name in result.lower_is_better
        low, high = result.score_range_of(name)
        self.check_level((low, high))
        least = _mean_at_worst(result, name, high if lower else low)
        if not self._is_missed_by(least, lower_is_better=lower):
            return None
        side = "above" if lower else "below"
        if self._is_missed_by(mean, lower_is_better=lower):
            shown, _ = _format_distinct(_exact(mean), _exact(self.level), digits=4)
            return f"{name} {shown} is {side} {self.level:.12g}"
        shown, _ = _format_distinct(_exact(least), _exact(self.level), digits=2)
        totals = result.summary.evaluator(name)
        scored = 0 if totals is None else totals.scored
        return (
            f"{name} {_exact(mean):.2f} over {scored} judged; {shown} if the {errors} errored had failed, "
            f"which is {side} {self.level:.12g}"
        )

    def _is_missed_by(self, mean: float, *, lower_is_better: bool) -> bool:
        return mean > self.level if lower_is_better else mean < self.level


def count_errors(result: ExperimentResult, name: str) -> int:
    """Count the items on which an evaluator errored, or that it could not score since the task failed."""
    owner = _owner_of(name, result)
    return sum(_count_errors(run, name, owner) + _count_without_outputs(run) for run in result.runs)


def _owner_of(name: str, result: ExperimentResult) -> str | None:
    """Return the evaluator that gives a score as one of several, None for a score of its own."""
    return next((info.part_of for info in result.evaluators if info.name == name), None)


def _count_errors(run: RunResult, name: str, owner: str | None) -> int:
    """Count the errors of a score, including those of its whole evaluator."""
    totals = (run.summary.evaluator(each) for each in (name, owner) if each is not None)
    errors = sum(one.errors for one in totals if one is not None)
    if owner is None:
        return errors
    return errors + sum(_gave_nothing(item, name, owner) for item in run.item_results)


def _gave_nothing(item: ItemResult, name: str, owner: str) -> bool:
    """Say whether an evaluator errored and only its other scores, which have thresholds, record it."""
    scores = [result for result in item.eval_results if result.part_of == owner]
    return bool(scores) and all(one.error is not None and one.name != name for one in scores)


def _count_without_outputs(run: RunResult) -> int:
    return sum(item.error is not None or item.result(CHOICE) is not None for item in run.item_results)


def _mean_at_worst(result: ExperimentResult, name: str, worst: float) -> float:
    """Return the mean score if every error counts as the worst score."""
    ratios = []
    owner = _owner_of(name, result)
    for run in result.runs:
        totals = run.summary.evaluator(name)
        scored, total = (0, 0) if totals is None else (totals.scored, totals.score_sum)
        errors = _count_errors(run, name, owner) + _count_without_outputs(run)
        if scored + errors:
            ratios.append((total + units_of(worst) * errors, (scored + errors) * UNIT))
    return mean_of_ratios(ratios) or 0.0


def _format_distinct(number: Decimal, level: Decimal, digits: int) -> tuple[str, str]:
    """Format a number and the level that it misses, with enough digits for them to differ."""
    while round(level, digits) != level or round(number, digits) == level:
        digits += 1
    return f"{number:.{digits}f}", f"{level:.{digits}f}"


def _exact(number: float) -> Decimal:
    # By way of `repr`: the number as it was written, 0.1 and not 0.1000000000000000055.
    return Decimal(repr(float(number)))


def parse_levels(specs: Sequence[str], option: str = "--fail-under") -> list[RequiredLevel]:
    """Parse `0.9`, `90%` and `Name=0.8`. Raises `ConfigurationError` that names the option."""
    return [_parse_level(spec, option) for spec in specs]


def _parse_level(spec: str, option: str) -> RequiredLevel:
    name, equals, level = spec.rpartition("=")
    number = parse_proportion(level)
    if number is None and equals:
        number = _parse_number(level)
    if number is None:
        raise ConfigurationError(f'{option} {spec!r} must be a share such as 0.9 or 90%, or "Evaluator=0.8".')
    return RequiredLevel(number, name.strip() if equals else None)


def _parse_number(text: str) -> float | None:
    """Parse a level of an evaluator with its own score range; None if it is not a finite number."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def compare(levels: Sequence[RequiredLevel], result: ExperimentResult) -> tuple[list[str], list[str]]:
    """Return the levels that a result misses, and those that could not be compared, as sentences."""
    misses, problems = [], []
    for one in levels:
        try:
            miss = one.explain_miss(result)
        except ConfigurationError as problem:
            problems.append(str(problem))
        else:
            misses += [] if miss is None else [miss]
    return misses, problems
