"""How often each guard would fire although nothing changed, measured on repeats of one system."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, variance
from typing import Any, Final, Self

from dokimos._core.number_format import round_half_up
from dokimos._core.printable import Printable
from dokimos._core.results import ExperimentResult
from dokimos._core.score_range import share_of
from dokimos.comparison._snapshot import EvaluatorFacts, ItemSnapshot, Snapshot
from dokimos.errors import ConfigurationError
from dokimos.gate._decision import Guard, decide
from dokimos.gate._gate_config import GateConfig
from dokimos.gate._variation import NoiseMeasurements, spread
from dokimos.stats._bootstrap import percentile
from dokimos.stats._intervals import Interval, wilson_interval

MOST_DRAWS: Final = 1_000
FEWEST_DRAWS: Final = 100
CONFIRM: Final = 3
# Scores that are dealt for one figure, and items times metrics for guard 1: they bound the time of a report
# on thousands of items.
_EFFORT: Final = 2_000_000
_GATE_EFFORT: Final = 100_000
_MOST_GATES, _FEWEST_GATES = 200, 25
_ERRED: Final = math.inf
"""The fall of a score that is lost to an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorNoise:
    """How much one evaluator's score of the same item varies."""

    name: str
    deterministic: bool
    deviation: float
    """Standard deviation of a repeat around its item's mean."""
    unstable_items: int
    """Items whose repeats differ."""
    unstable_scorings: int
    """Those of them whose outputs are the same in all repeats, so that the evaluator alone differs."""
    items: int
    spreads: Mapping[str, float] = field(default_factory=dict)
    """Of each item, by id or position: the largest difference between two of its repeats."""
    fingerprint: str = ""
    """What stands for its settings and its judge; a gate does not use the figures after they changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatsNoise:
    """What guard 2 does with so many repeats on each side."""

    repeats: int
    fire_rate: float
    """How often it fires at the margin in use, for whatever reason."""
    error_rate: float
    """How often an error makes it fire, against which no margin helps."""
    margin: float
    """The margin, in hundredths, at which scores make it fire with a chance of alpha."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NoiseReport(Printable):
    """How noisy a system and its evaluators are, and what that does to a gate."""

    __dokimos_view__ = "dokimos.gate._noise_console:VIEW"

    items: int
    runs: int
    alpha: float
    severity_margin: float
    pairs: int
    """Pairs of unchanged runs that guard 1 was tried on."""
    guard1_rate: float
    guard1_interval: Interval
    confirmed_rate: float | None
    """How often guard 2 fires with one run on each side and `confirm=3`; None with fewer than five runs."""
    guard2: tuple[RepeatsNoise, ...]
    """For 1, 2 ... repeats on each side, as far as there are runs for both."""
    evaluators: tuple[EvaluatorNoise, ...]
    pass_flips: float
    """Share of items that pass in one run and fail in another."""
    errored: int
    """Items with an error in any run."""

    @property
    def margin(self) -> float:
        """The margin to set for one run on each side; that in use where it is enough."""
        return max(self.severity_margin, self.guard2[0].margin)

    @property
    def repeats(self) -> int:
        """Repeats on each side that make the margin in use enough, extrapolated where runs do not reach."""
        enough = next((one.repeats for one in self.guard2 if one.margin <= self.severity_margin), None)
        if enough is not None or not self.severity_margin:
            return enough or self.runs
        # The spread of a mean falls with the root of the number of repeats.
        last = self.guard2[-1]
        return max(last.repeats + 1, math.ceil(last.repeats * (last.margin / self.severity_margin) ** 2))

    @property
    def measurements(self) -> NoiseMeasurements:
        """What a gate uses of it, see `RegressionGate(noise=...)`."""
        return NoiseMeasurements(
            runs=self.runs,
            evaluators=tuple(one.name for one in self.evaluators),
            spreads={one.name: one.spreads for one in self.evaluators},
            fingerprints={one.name: one.fingerprint for one in self.evaluators if one.fingerprint},
        )

    def tree(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "items": self.items,
            "runs": self.runs,
            "alpha": self.alpha,
            "severityMargin": self.severity_margin,
            "pairs": self.pairs,
            "guard1": {
                "fireRate": round_half_up(self.guard1_rate),
                "interval": [
                    round_half_up(self.guard1_interval.low),
                    round_half_up(self.guard1_interval.high),
                ],
            },
            "guard2": [
                {
                    "repeats": one.repeats,
                    "fireRate": round_half_up(one.fire_rate),
                    "errorRate": round_half_up(one.error_rate),
                    "margin": round_half_up(one.margin),
                }
                for one in self.guard2
            ],
            "confirmedRate": None if self.confirmed_rate is None else round_half_up(self.confirmed_rate),
            "evaluators": [
                {
                    "evaluator": one.name,
                    "deterministic": one.deterministic,
                    "deviation": round_half_up(one.deviation),
                    "unstableItems": one.unstable_items,
                    "sameOutputs": one.unstable_scorings,
                    "items": one.items,
                    "spreads": {key: round_half_up(size) for key, size in one.spreads.items()},
                    "fingerprint": one.fingerprint or None,
                }
                for one in self.evaluators
            ],
            "passFlips": round_half_up(self.pass_flips),
            "errored": self.errored,
            "proposed": {"severityMargin": round_half_up(self.margin), "repeats": self.repeats},
        }


def noise(result: ExperimentResult, *, config: GateConfig | None = None) -> NoiseReport:
    """Measure the noise of a system from a result with two runs or more of it.

    Runs of the same system are dealt out, item by item, to a baseline and a candidate, again and again: every
    such pair is one in which nothing changed.

    Raises:
        ConfigurationError: for a result with fewer than two runs, without scores, or of chosen items only.
    """
    config = config or GateConfig()
    snapshot = Snapshot.of(result)
    if snapshot.partial is not None:
        raise ConfigurationError(
            f"Noise is measured on a whole run, and this one covers only part of its data set "
            f"({snapshot.partial}). Run the whole data set."
        )
    repeats = min((len(scores) for item in snapshot.items for scores in item.scores.values()), default=0)
    if snapshot.runs < 2 or repeats < 1:
        raise ConfigurationError(
            "Measuring noise takes a result with at least two runs, and scores in each of them: run with "
            "runs=5, for example."
        )
    dealing = _Dealing(snapshot, random.Random(config.seed))
    fired = [dealing.guard1_fires(config) for _ in range(dealing.gates)]
    return NoiseReport(
        items=len(snapshot.items),
        runs=snapshot.runs,
        alpha=config.alpha,
        severity_margin=config.severity_margin,
        pairs=len(fired),
        guard1_rate=fmean(fired),
        guard1_interval=wilson_interval(sum(fired), len(fired)),
        confirmed_rate=dealing.rate_with_reruns(config) if snapshot.runs >= 2 + CONFIRM else None,
        guard2=tuple(dealing.guard2(number, config) for number in range(1, snapshot.runs // 2 + 1)),
        evaluators=tuple(_evaluator_noise(snapshot)),
        pass_flips=_share(len(set(item.verdicts)) > 1 for item in snapshot.items if item.verdicts),
        errored=sum(bool(item.errors) for item in snapshot.items),
    )


class _Dealing:
    """Deals the runs of each item at random to two sides with the same number of repeats."""

    def __init__(self, snapshot: Snapshot, draw: random.Random) -> None:
        self._snapshot = snapshot
        self._draw = draw
        # Scores that never vary never fall; without them a draw touches a fraction of the items.
        self._items = [
            (len(item.results), varying)
            for item in snapshot.items
            if (varying := self._find_varying_scores(item))
        ]

    def _find_varying_scores(self, item: ItemSnapshot) -> list[_Scores]:
        """Return the scores of an item that are not the same in all its runs."""
        all_scores = (_Scores.of(item, facts) for facts in self._snapshot.evaluators.values())
        return [scores for scores in all_scores if len(set(scores.values)) > 1]

    @property
    def gates(self) -> int:
        size = len(self._snapshot.items) * (1 + len(self._snapshot.evaluators))
        return max(_FEWEST_GATES, min(_MOST_GATES, _GATE_EFFORT // max(size, 1)))

    def guard1_fires(self, config: GateConfig) -> bool:
        """Say whether guard 1 fires on one unchanged pair."""
        sides = [self._deal(item) for item in self._snapshot.items]
        before = replace(self._snapshot, items=tuple(side[0] for side in sides), runs=1)
        now = replace(self._snapshot, items=tuple(side[1] for side in sides), runs=1)
        # Guard 1 alone. Both sides have the same items in the same places, also where ids are missing.
        options = replace(config, severity="off", require_power=None, pairing="positional")
        decision = decide(before, now, options)
        return any(one.guard is Guard.REGRESSION for one in decision.findings)

    def _deal(self, item: ItemSnapshot) -> tuple[ItemSnapshot, ItemSnapshot]:
        if len(item.results) < 2:
            return item, item
        first, second = self._draw.sample(item.results, 2)
        return ItemSnapshot.of([first]), ItemSnapshot.of([second])

    def guard2(self, repeats: int, config: GateConfig) -> RepeatsNoise:
        """Try guard 2 on many unchanged pairs with so many repeats on each side."""
        pairs = [list(self._falls(repeats)) for _ in range(self._draws(2 * repeats))]
        # The gate fires on the worst item, so its quantile over the pairs is the margin that keeps guard 2
        # quiet.
        worst = sorted(max((fall for fall in falls if fall < _ERRED), default=0.0) for falls in pairs)
        return RepeatsNoise(
            repeats=repeats,
            fire_rate=_share(_is_severe(max(falls, default=0.0), config.severity_margin) for falls in pairs),
            error_rate=_share(_ERRED in falls for falls in pairs),
            # Rounded before rounding up: 100 * 0.07 is a little more than 7.
            margin=min(1.0, math.ceil(round_half_up(100 * percentile(worst, 1 - config.alpha))) / 100),
        )

    def _falls(self, repeats: int) -> Iterator[float]:
        """Yield how far each score falls from one side to the other."""
        for runs, item in self._items:
            if runs >= 2 * repeats:
                drawn = self._draw.sample(range(runs), 2 * repeats)
                for scores in item:
                    yield scores.fall(drawn[:repeats], drawn[repeats:])

    def rate_with_reruns(self, config: GateConfig) -> float:
        """Try guard 2 on one run on each side, where the majority of three more has to agree."""
        draws = range(self._draws(2 + CONFIRM))
        return _share([self._confirms(config.severity_margin) for _ in draws])

    def _confirms(self, margin: float) -> bool:
        for runs, item in self._items:
            if runs < 2 + CONFIRM:
                continue
            # As in a gate, the run that made an item suspicious has no vote on it.
            before, now, *again = self._draw.sample(range(runs), 2 + CONFIRM)
            for scores in item:
                first, *more = (_is_severe(scores.fall([before], [run]), margin) for run in (now, *again))
                if first and 2 * sum(more) > CONFIRM:
                    return True
        return False

    def _draws(self, runs: int) -> int:
        scores = sum(len(item) for _, item in self._items)
        return max(FEWEST_DRAWS, min(MOST_DRAWS, _EFFORT // max(1, scores * runs)))


@dataclass(frozen=True, slots=True)
class _Scores:
    """The scores of one evaluator for one item in each run."""

    values: tuple[float | None, ...]
    """How good each run is; None without a score."""
    errs: bool
    """Whether a score is missing because of an error, in any run."""

    @classmethod
    def of(cls, item: ItemSnapshot, facts: EvaluatorFacts) -> Self:
        scores = [result.score if (result := run.result(facts.name)) else None for run in item.results]
        sign = -1.0 if facts.lower_is_better else 1.0
        return cls(
            tuple(None if score is None else sign * share_of(score, facts.score_range) for score in scores),
            item.error_of(facts.name) is not None,
        )

    def fall(self, before: Sequence[int], now: Sequence[int]) -> float:
        """Return how much worse some runs are than as many others; `_ERRED` where more of them error."""
        befores = [score for run in before if (score := self.values[run]) is not None]
        nows = [score for run in now if (score := self.values[run]) is not None]
        if befores and self.errs and len(nows) < len(befores):
            return _ERRED
        return fmean(befores) - fmean(nows) if befores and nows else 0.0


def _is_severe(fall: float, margin: float) -> bool:
    return fall == _ERRED or round_half_up(fall) > margin


def _evaluator_noise(snapshot: Snapshot) -> Iterator[EvaluatorNoise]:
    for name, facts in sorted(snapshot.evaluators.items()):
        repeated = [item for item in snapshot.items if len(item.scores.get(name, ())) > 1]
        if repeated:
            yield EvaluatorNoise(
                name=name,
                deterministic=facts.deterministic,
                deviation=fmean(variance(item.scores[name]) for item in repeated) ** 0.5,
                unstable_items=sum(_differ(item, name) for item in repeated),
                unstable_scorings=sum(_differ(item, name) and _same_outputs(item) for item in repeated),
                items=len(repeated),
                spreads={item.id or item.index_key: spread(item.scores[name]) for item in repeated},
                fingerprint=facts.fingerprint,
            )


def _differ(item: ItemSnapshot, name: str) -> bool:
    return len(set(item.scores[name])) > 1


def _same_outputs(item: ItemSnapshot) -> bool:
    return all(result.actual_outputs == item.results[0].actual_outputs for result in item.results)


def _share(flags: Iterable[bool]) -> float:
    values = list(flags)
    return sum(values) / len(values) if values else 0.0
