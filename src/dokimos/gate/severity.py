"""Guard 2: which single items got much worse, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from dokimos.comparison.diff import ItemChange, RunComparison, ScoreChange
from dokimos.comparison.snapshot import EvaluatorFacts, ItemSnapshot, Snapshot
from dokimos.core.figures import half_up
from dokimos.core.figures import score as score_text
from dokimos.core.means import complement
from dokimos.core.text import counted, listed
from dokimos.gate.config import GateConfig
from dokimos.stats.permutation import exchange_p

_ERRORED: Final = -1.0
"""How good a repeat is that errors: worse than any score."""
_ONLY_ERRORS: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """One evaluator that got worse on one item by more than the margin, or errors where it had a score."""

    key: str
    dataset_item_id: str | None
    evaluator: str
    baseline_mean: float
    candidate_mean: float | None
    """Of the repeats that have a score; None where all of them error."""
    error: str | None = None
    """What the first repeat that errors says, and of several repeats how many do."""
    size: float
    """How much the scores fell and which share of the repeats errors; 2.0 where all do."""

    @property
    def name(self) -> str:
        """How to name the item to a person."""
        return self.key if self.dataset_item_id is None else self.dataset_item_id

    @property
    def sentence(self) -> str:
        """Which score of which item dropped."""
        now = [] if self.candidate_mean is None else [score_text(self.candidate_mean)]
        now += [f"error ({self.error:.80})"] if self.error else []
        return f"{self.name}: {self.evaluator} {score_text(self.baseline_mean)} -> {' and '.join(now)}"


@dataclass(frozen=True, slots=True)
class Level:
    """How the guards share alpha."""

    regression: float
    drop: float | None = None
    """The level of each drop's own test; None where drops are not tested."""
    deals: int = 1
    """The ways to deal the repeats of a score out to the two sides."""
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, baseline: Snapshot, candidate: Snapshot, config: GateConfig) -> Level:
        """Split alpha by the design alone, so that the data have no say in it."""
        repeats = (_repeats(baseline), _repeats(candidate))
        deals = math.comb(sum(repeats), repeats[0])
        if config.severity == "confirmed":
            return cls._of_confirmed(candidate, config, repeats[1], deals)
        if config.severity != "calibrated":
            return cls(config.alpha)
        tests = max(1, len(baseline.items) * len(set(baseline.evaluators) & set(candidate.evaluators)))
        level = config.alpha / 2 / tests
        if 1 / deals > level:
            note = (
                f"Guard 2 cannot fire: {counted(repeats[0], 'run')} of the baseline and {repeats[1]} of the "
                f"candidate are too few to make the drop of a single item among {tests:,} scores certain at "
                f"alpha = {config.alpha:g}. Guard 1 has all of alpha."
            )
            return cls(config.alpha, notes=(note,))
        return cls(config.alpha / 2, level)

    @classmethod
    def _of_confirmed(cls, candidate: Snapshot, config: GateConfig, repeats: int, deals: int) -> Level:
        noisy = [name for name, facts in candidate.evaluators.items() if not facts.deterministic]
        if not noisy or repeats > 1:
            return cls(config.alpha, deals=deals if noisy else 1)
        note = (
            f"Guard 2 takes no drop of {listed(noisy)} seriously: of an evaluator that is not deterministic, "
            "a single run confirms none. Run the candidate at least twice."
        )
        return cls(config.alpha, notes=(note,))

    @property
    def chance(self) -> str:
        """How often all repeats of an unchanged but noisy score are worse than all of the baseline's."""
        return f" (noise alone does that to up to 1 score in {self.deals:,})" if self.deals > 1 else ""


def _repeats(side: Snapshot) -> int:
    return max((item.repeats for item in side.items), default=1)


def drops_of(
    comparison: RunComparison, candidate: Snapshot, config: GateConfig, level: Level
) -> tuple[Drop, ...]:
    """Return the single items that guard 2 takes seriously, the worst first."""
    if config.severity == "off" or (config.severity == "calibrated" and level.drop is None):
        return ()
    lower = frozenset(metric.name for metric in comparison.evaluators if metric.lower_is_better)
    watch = _Watch(config, level, candidate, lower)
    found = [drop for item in comparison.items for drop in watch.drops(item)]
    return tuple(sorted(found, key=lambda drop: -drop.size))


@dataclass(frozen=True, slots=True)
class _Watch:
    """Looks for single items that got much worse."""

    config: GateConfig
    level: Level
    candidate: Snapshot
    lower_is_better: frozenset[str]

    def drops(self, item: ItemChange) -> Iterator[Drop]:
        before, now = item.baseline, item.candidate
        if before is None or now is None:
            return
        for score in item.evaluators:
            if score.baseline_mean is not None and self.is_severe(score, before, now):
                yield Drop(
                    key=item.key,
                    dataset_item_id=item.dataset_item_id,
                    evaluator=score.name,
                    baseline_mean=score.baseline_mean,
                    candidate_mean=score.candidate_mean,
                    error=_error(now, score.name),
                    size=self.size(score, now),
                )

    def is_severe(self, score: ScoreChange, before: ItemSnapshot, now: ItemSnapshot) -> bool:
        name, margin = score.name, self.config.severity_margin
        more_errors = _errored_share(now, name) > _errored_share(before, name)
        if not more_errors and half_up(self.fall(score)) <= margin:
            return False
        befores, nows = self.repeats(before, name), self.repeats(now, name)
        if self.config.severity == "calibrated":
            return exchange_p(befores, nows) <= (self.level.drop or 0.0)
        if self.config.severity == "any" or self.is_deterministic(name) or score.candidate_mean is None:
            return True
        return len(nows) > 1 and half_up(min(befores) - max(nows)) > margin

    def is_deterministic(self, evaluator: str) -> bool:
        return self.candidate.evaluators.get(evaluator, EvaluatorFacts(name=evaluator)).deterministic

    def size(self, score: ScoreChange, now: ItemSnapshot) -> float:
        if score.candidate_mean is None:
            return _ONLY_ERRORS
        return self.fall(score) + _errored_share(now, score.name)

    def fall(self, score: ScoreChange) -> float:
        """How much worse the mean of those repeats is that have a score; 0.0 where none has."""
        return score.delta if score.name in self.lower_is_better else -score.delta

    def repeats(self, item: ItemSnapshot, evaluator: str) -> list[float]:
        """Return how good each repeat is."""
        scores = item.scores.get(evaluator, ())
        good = [*map(complement, scores)] if evaluator in self.lower_is_better else list(scores)
        return good + [_ERRORED] * item.errored_repeats(evaluator)


def _error(item: ItemSnapshot, evaluator: str) -> str | None:
    """Say what an evaluator or the task failed with, and of several repeats how often."""
    error, times = item.error_of(evaluator), item.errored_repeats(evaluator)
    return error if error is None or item.repeats == 1 else f"{times} of {item.repeats} runs: {error}"


def _errored_share(item: ItemSnapshot, evaluator: str) -> float:
    errored = item.errored_repeats(evaluator)
    return errored / (errored + len(item.scores.get(evaluator, ()))) if errored else 0.0
