"""Levels that a result is asked to reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from dokimos.core.results import ExperimentResult
from dokimos.core.shares import parse_share
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
            shown, asked = _apart(_exact(rate) * 100, _exact(self.level) * 100, digits=1)
            return f"pass rate {shown} % is below {asked} %"
        return self._evaluator_miss(result, self.evaluator)

    def _evaluator_miss(self, result: ExperimentResult, name: str) -> str | None:
        self.check_name(result.evaluator_names)
        mean = result.average_score(name)
        if mean is None:
            raise ConfigurationError(f"{name!r} scored nothing, so there is no mean to compare.")
        lower = any(info.name == name and info.lower_is_better for info in result.evaluators)
        if mean <= self.level if lower else mean >= self.level:
            return None
        shown, _ = _apart(_exact(mean), _exact(self.level), digits=4)
        return f"{name} {shown} is {'above' if lower else 'below'} {self.level:.12g}"


def _apart(number: Decimal, level: Decimal, digits: int) -> tuple[str, str]:
    """Write a number and the level that it misses with as many digits as it takes to tell them apart."""
    while round(level, digits) != level or round(number, digits) == level:
        digits += 1
    return f"{number:.{digits}f}", f"{level:.{digits}f}"


def _exact(number: float) -> Decimal:
    return Decimal(repr(float(number)))


def parse_wanted(specs: Sequence[str], option: str = "--fail-under") -> list[Wanted]:
    """Read `0.9`, `90%` and `Name=0.8`. Raises `ConfigurationError` that names the option."""
    return [_one_wanted(spec, option) for spec in specs]


def _one_wanted(spec: str, option: str) -> Wanted:
    name, equals, level = spec.rpartition("=")
    number = parse_share(level)
    if number is None:
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
