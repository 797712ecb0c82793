"""How much the scores of an unchanged item vary between repeats, and which drops stand out from that."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import nlargest
from pathlib import Path
from typing import Any, Final, Self

from dokimos._core.checks import is_count, is_number
from dokimos.comparison._diff import ItemChange
from dokimos.comparison._snapshot import EvaluatorFacts
from dokimos.errors import ConfigurationError

_DIGITS: Final = 9
"""Where differences are cut, so that binary fractions leave no dust."""

_LEAST: Final = 1e-6
"""What a margin of 0 counts as, beside which any variation is infinitely large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseMeasurements:
    """The part of a `dokimos noise` measurement of an unchanged system that a gate uses."""

    runs: int
    evaluators: tuple[str, ...]
    spreads: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By evaluator and item that was seen: the largest difference between two runs."""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """By evaluator, what stands for its settings and its judge; missing where it has none."""

    def spread(self, evaluator: str, item: str) -> float:
        return self.spreads.get(evaluator, {}).get(item, 0.0)

    def covering(self, items: Iterable[ItemChange]) -> Self:
        """Return the figures with only those evaluators of which all items of both sides were seen.

        What is known of other items says nothing about these. Spreads that were seen stay: they are noise.
        """
        unseen = {
            name
            for item in items
            if item.baseline is not None and item.candidate is not None
            for name in self.evaluators
            if name in item.baseline.scores and name in item.candidate.scores
            if (item.dataset_item_id or item.key) not in self.spreads.get(name, {})
        }
        return replace(self, evaluators=tuple(name for name in self.evaluators if name not in unseen))

    def stale(self, *sides: Mapping[str, EvaluatorFacts]) -> tuple[str, ...]:
        """Return the evaluators whose settings or judge have changed since the measurement."""
        return tuple(
            name
            for name in self.evaluators
            if (seen := self.fingerprints.get(name))
            and any(name in side and side[name].fingerprint not in ("", seen) for side in sides)
        )

    def without(self, evaluators: Iterable[str]) -> Self:
        """Return the measurements of the other evaluators."""
        excluded = frozenset(evaluators)
        return replace(
            self,
            evaluators=tuple(name for name in self.evaluators if name not in excluded),
            spreads={name: by_item for name, by_item in self.spreads.items() if name not in excluded},
        )

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the JSON that `dokimos noise -o` wrote.

        Raises:
            ConfigurationError: where it cannot be read, or holds something else.
        """
        try:
            tree = json.loads(path.read_text(encoding="utf-8-sig"))
        except (OSError, ValueError, RecursionError) as cause:
            raise ConfigurationError(f"Cannot read the noise figures {path}: {cause}.") from cause
        try:
            return cls.of_tree(tree)
        except (KeyError, TypeError, AttributeError, ValueError) as cause:
            raise ConfigurationError(
                f"{path} does not hold the figures of dokimos noise ({cause!r:.80}). "
                "Write it with: dokimos noise TARGET -o FILE"
            ) from cause

    @classmethod
    def of_tree(cls, tree: Any) -> Self:
        """Return the measurements in the JSON of a `NoiseReport`."""
        runs = tree["runs"]
        if not is_count(runs) or runs < 2:
            raise ValueError(f"runs is {runs!r:.80}")
        entries = {str(entry["evaluator"]): dict(entry["spreads"]) for entry in tree["evaluators"]}
        values = [value for spreads in entries.values() for value in spreads.values()]
        if not all(is_number(value) and 0 <= value < float("inf") for value in values):
            raise ValueError("a spread is not a number")
        fingerprints = {
            str(entry["evaluator"]): str(entry["fingerprint"])
            for entry in tree["evaluators"]
            if entry.get("fingerprint")
        }
        return cls(runs=runs, evaluators=tuple(entries), spreads=entries, fingerprints=fingerprints)


def spread(scores: Sequence[float]) -> float:
    """Return the difference between the highest and the lowest score of repeats; 0.0 for a single one."""
    return round(max(scores) - min(scores), _DIGITS) if len(scores) > 1 else 0.0


@dataclass(frozen=True)
class Variation:
    """The spread of each item's repeats, by evaluator and item key."""

    spreads: Mapping[str, Mapping[str, float]]
    margins: Mapping[str, float]
    """By evaluator: variation up to the severity margin, in the unit of its scores, counts as this much."""

    @classmethod
    def of(
        cls,
        items: Iterable[ItemChange],
        margins: Mapping[str, float],
        *,
        lower_is_better: Iterable[str] = (),
        reruns: Mapping[tuple[str, str], Sequence[float]] | None = None,
        noise: NoiseMeasurements | None = None,
    ) -> Self:
        """Collect the spreads of the evaluators that have a margin, on the items of both sides."""
        lower, spreads = frozenset(lower_is_better), {name: dict[str, float]() for name in margins}
        for item in items:
            if item.baseline is None or item.candidate is None:
                continue
            for name in margins:
                before = item.baseline.scores.get(name, ())
                now = item.candidate.scores.get(name, ())
                again = (reruns or {}).get((item.key, name), ())
                measured = 0.0 if noise is None else noise.spread(name, item.dataset_item_id or item.key)
                rise = _rise(before, now, name in lower)
                largest = max(spread(before), spread((*now, *again)), measured, rise)
                if largest:
                    spreads[name][item.key] = largest
        return cls(spreads, margins)

    def own(self, evaluator: str, key: str) -> float:
        return self.spreads[evaluator].get(key, 0.0)

    def around(self, evaluator: str, key: str) -> float:
        """Return the largest spread of any other item, and no less than the margin."""
        # An item is held against the others: its own spread must not hide its own fall.
        first, second, item_key = self._largest[evaluator]
        return max(self.margins[evaluator], _LEAST, second if item_key == key else first)

    def prominence(self, evaluators: Iterable[str]) -> float:
        """Return how far any item's spread exceeds those of the others of its evaluator, 1.0 at least."""
        ratios = [1.0]
        for name in evaluators:
            first, second, _ = self._largest[name]
            ratios.append(first / max(self.margins[name], _LEAST, second))
        return max(ratios)

    def loudest(self, evaluator: str, key: str, among: Iterable[str]) -> tuple[str, str, float]:
        """Return whose spread speaks most against a fall: the evaluator, the item and the spread."""
        name = max(among, key=lambda one: self.prominence([one]))
        if self.prominence([name]) > 1.0:
            return name, self._largest[name][2], self._largest[name][0]
        others = {other: size for other, size in self.spreads[evaluator].items() if other != key}
        item_key = max(others, key=others.__getitem__, default=key)
        return evaluator, item_key, others.get(item_key, 0.0)

    @cached_property
    def _largest(self) -> Mapping[str, tuple[float, float, str]]:
        """By evaluator: the two largest spreads, and whose the first is."""
        largest = {}
        for name, spreads in self.spreads.items():
            ranked = nlargest(2, ((size, key) for key, size in spreads.items()))
            (first, item_key), (second, _) = (*ranked, (0.0, ""), (0.0, ""))[:2]
            largest[name] = (first, second, item_key)
        return largest

    def stands_out(self, fall: float, evaluator: str, key: str, among: Iterable[str]) -> bool:
        """Say whether a fall is larger than the measured noise explains.

        It has to exceed the spreads of the other items by a larger factor than any spread that was seen, its
        own included, exceeds those beside it. So an unchanged item gives an alarm only where its repeats part
        exactly between the two sides, and no other item shows such noise.

        Args:
            fall: How much the mean score fell.
            evaluator: Whose score it is.
            key: Of which item.
            among: The evaluators whose spreads count.
        """
        return round(fall / self.around(evaluator, key) - self.prominence(among), _DIGITS) > 0


def _rise(before: Sequence[float], now: Sequence[float], lower_is_better: bool) -> float:
    """Return how much a score rose where a side has but one repeat.

    Noise raises a score as easily as it lowers one, so where repeats are too few to show it, rises do.
    """
    if not before or not now or min(len(before), len(now)) > 1:
        return 0.0
    change = sum(now) / len(now) - sum(before) / len(before)
    return max(0.0, round(-change if lower_is_better else change, _DIGITS))
