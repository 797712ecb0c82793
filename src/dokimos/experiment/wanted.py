"""Levels that a result is asked to reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dokimos.core.results import ExperimentResult
from dokimos.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a result has to reach: a pass rate, or the mean score of an evaluator."""

    level: float
    evaluator: str | None = None

    def __str__(self) -> str:
        return f"{self.level * 100:g} %" if self.evaluator is None else f"{self.evaluator} {self.level:g}"

    def check_name(self, names: Sequence[str]) -> None:
        """Raise `ConfigurationError` where the evaluator is none of `names`."""
        if self.evaluator is not None and self.evaluator not in names:
            known = ", ".join(names)
            raise ConfigurationError(f"there is no evaluator {self.evaluator!r}; there are: {known}.")

    def miss(self, result: ExperimentResult) -> str | None:
        """Say how the result falls short, None where it does not.

        Raises:
            ConfigurationError: when there is nothing to compare with.
        """
        if self.evaluator is None:
            rate = result.pass_rate
            if rate is None:
                raise ConfigurationError("nothing was judged, so there is no pass rate to compare.")
            if rate >= self.level:
                return None
            return f"pass rate {rate:.1%} is below {self.level:.1%}".replace("%", " %")
        return self._evaluator_miss(result, self.evaluator)

    def _evaluator_miss(self, result: ExperimentResult, name: str) -> str | None:
        self.check_name(result.evaluator_names)
        mean = result.average_score(name)
        if mean is None:
            raise ConfigurationError(f"{name!r} scored nothing, so there is no mean to compare.")
        lower = any(info.name == name and info.lower_is_better for info in result.evaluators)
        if mean <= self.level if lower else mean >= self.level:
            return None
        return f"{name} {mean:.4f} is {'above' if lower else 'below'} {self.level:g}"


def parse_wanted(specs: Sequence[str], option: str = "--fail-under") -> list[Wanted]:
    """Read `0.9`, `90%` and `Name=0.8`. Raises `ConfigurationError` that names the option."""
    return [_one_wanted(spec, option) for spec in specs]


def _one_wanted(spec: str, option: str) -> Wanted:
    name, equals, level = spec.rpartition("=")
    text = level.strip()
    try:
        number = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise ConfigurationError(f'{option} {spec!r} must be a share such as 0.9 or 90%, or "Evaluator=0.8".')
    return Wanted(number, name.strip() if equals else None)


def compare(wanted: Sequence[Wanted], result: ExperimentResult) -> tuple[list[str], list[str]]:
    """Return what a result falls short of, and what could not be compared."""
    misses, problems = [], []
    for one in wanted:
        try:
            miss = one.miss(result)
        except ConfigurationError as problem:
            problems.append(str(problem))
        else:
            misses += [] if miss is None else [miss]
    return misses, problems
