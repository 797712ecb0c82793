"""A detector of changes whose setting is how many false alarms there may be in a year."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, Final, Self, TypedDict, Unpack

from dokimos.stats import _change_state as change_state
from dokimos.stats import _e_process_state as e_process_state
from dokimos.stats._baseline_bars import baseline_bars
from dokimos.stats._betting import Alternative, Game, finite
from dokimos.stats._change_alarm import ChangeAlarm, Direction
from dokimos.stats._change_players import Bar, Side, Start
from dokimos.stats._intervals import Interval
from dokimos.stats._joining import DAYS_PER_YEAR, JoiningClock
from dokimos.stats._paired_estimates import Estimate
from dokimos.stats._weighted_mean import NO_SUMS, WeightedSums, add_sums, estimate_of_sums, subtract_sums

_FEWEST: Final = 2
_PLAIN: Final = frozenset((float, int, bool))


class ChangeSettings(TypedDict, total=False):
    """The settings of a `ChangeDetector` that do not depend on its reference."""

    false_alarms_per_year: float
    alternative: Alternative
    tolerance: float
    largest_weight: float
    observations_per_day: float | None


class ChangeDetector:
    """Watches whether the mean of what an application does moves away from where it was, for years.

    The setting is the number of false alarms in a year. It is an e-detector (J. Shin, A. Ramdas, A. Rinaldo,
    E-detectors: a nonparametric framework for sequential change detection, 2022): at each observation players
    join who bet on a change, so it is as quick after a year of quiet as on the first day, and what the
    players of a day may bring is the false alarms of a day.

    The promise: while nothing changes, the expected number of alarms from the start until any moment is at
    most `false_alarms_per_year` times the years so far, with a `restart` after each alarm. A day (of UTC)
    that has begun counts in full, and days without observations do not count. So the chance of any false
    alarm in the first month is a twelfth of the setting or less. It holds for any number of observations, for
    looks at any time, and for values of any distribution in `low`..`high`, as long as the mean of each next
    observation, whatever came before, is not beyond the reference (with "less": is the reference or more).
    Detectors share a number of false alarms by `split_false_alarms`: however they depend on each other, the
    expected numbers add up.

    Against a baseline (`from_baseline`) the reference is unknown. The promise is then one on average over
    baselines (all except one in a million), and the chance that a baseline was so unlucky that the number is
    more than c times the setting is at most 1/c, for any c.

    Values that depend on each other, such as the scores of one trace, are added as one: see `merge_trace`. A
    value without bounds, such as a latency, is squashed first: see `squash`.

    Example:
        >>> detector = ChangeDetector(0.9, alternative="less", observations_per_day=500)
        >>> alarms = [detector.add(n % 10 != 0) for n in range(5_000)]  # 90 % pass
        >>> any(alarms)
        False
        >>> alarm = detector.add_many(n % 5 != 0 for n in range(1_000))  # 80 % pass
        >>> alarm.direction, alarm.since_n > 4_900, round(alarm.after.value, 1)
        ('less', True, 0.8)
        >>> ChangeDetector.from_state(detector.state()).alarm == alarm
        True
    """

    def __init__(
        self,
        reference: float,
        low: float = 0.0,
        high: float = 1.0,
        *,
        false_alarms_per_year: float = 1.0,
        alternative: Alternative = "two-sided",
        tolerance: float = 0.0,
        largest_weight: float = 1.0,
        observations_per_day: float | None = None,
    ) -> None:
        """Start without any observation, against a reference that is known, such as a promised pass rate.

        Args:
            reference: The mean as it should be, between `low` and `high` and at neither end.
            low: The smallest value that can occur.
            high: The largest value that can occur.
            false_alarms_per_year: How many alarms there may be in a year where nothing changes, expected;
                above 0, at most 365. Two-sided, both sides have half of it.
            alternative: Which changes to find: "two-sided", drops ("less") or rises ("greater").
            tolerance: How far the mean may be from the reference without being a change, in units of the
                values.
            largest_weight: The largest weight that can occur. The further it is above the usual weight, the
                longer the detector takes.
            observations_per_day: How many observations a day has, where `add` is not given their time: then
                that many are a day. With r times as many there may be r times as many false alarms. None
                where `add` is given the time; the promise then holds whatever the traffic is.

        Raises:
            ValueError: If a setting is out of its range.
            TypeError: If a setting is not a number where it has to be one.
        """
        game = Game(reference, low, high, alternative, tolerance, largest_weight)
        bars = {side: [Bar(bound, 1.0)] for side, bound in zip(game.sides, game.bounds, strict=True)}
        self._begin(game, game.target, bars, JoiningClock(false_alarms_per_year, observations_per_day))

    @classmethod
    def from_baseline(
        cls,
        values: Sequence[float],
        low: float = 0.0,
        high: float = 1.0,
        *,
        weights: Sequence[float] | None = None,
        **settings: Unpack[ChangeSettings],
    ) -> Self:
        """Return a detector against a baseline period: whether the mean is still what it was then.

        The baseline is frozen: its values are read once, and the detector keeps a few numbers of them. The
        more there are, the sooner a change is found; a thousand are few. A change that is smaller than the
        uncertainty of the baseline is not found, however long it lasts.

        Args:
            values: The observations of the baseline period, in the order in which they came, each in
                `low`..`high`; at least 2.
            low: The smallest value that can occur.
            high: The largest value that can occur.
            weights: Their weights, in 0..`largest_weight`; 1 each if None. One at least is above 0.
            settings: Those of a detector with a known reference, with the same defaults.

        Raises:
            ValueError: If a setting or a value is out of its range, or there are too few values.
            TypeError: If one of them is not a number where it has to be one.
        """
        game = _range_of(
            low, high, settings.get("alternative", "two-sided"), settings.get("largest_weight", 1.0)
        )
        tolerance = finite("tolerance", settings.get("tolerance", 0.0))
        allowed = tolerance / (game.high - game.low)
        if not 0 <= allowed < 1:
            raise ValueError(f"tolerance must be 0 or more and less than high - low, not {tolerance}.")
        clock = JoiningClock(settings.get("false_alarms_per_year", 1.0), settings.get("observations_per_day"))
        shares, stakes = _read_baseline(game, values, weights)
        seen: dict[Direction, list[float]] = {"greater": shares, "less": [1 - share for share in shares]}
        bars = {side: baseline_bars(seen[side], stakes, tolerance=allowed) for side in game.sides}
        mean = math.fsum(share * stake for share, stake in zip(shares, stakes, strict=True))
        reference = game.low + (game.high - game.low) * mean / math.fsum(stakes)
        detector = cls.__new__(cls)
        detector._begin(game, reference, bars, clock)
        return detector

    def _begin(
        self, game: Game, reference: float, bars: Mapping[Direction, Sequence[Bar]], clock: JoiningClock
    ) -> None:
        self._game, self._reference, self._clock = game, reference, clock
        self._low, self._high, self._scale = game.low, game.high, 1 / (game.high - game.low)
        self._unit = 1 / game.largest_weight
        self._sides: dict[Direction, Side] = {side: Side(bars[side]) for side in game.sides}
        self._sums, self._sums_at_alarm = NO_SUMS, NO_SUMS
        self._n = 0
        self._alarm: ChangeAlarm | None = None

    @property
    def reference(self) -> float:
        """The mean as it should be, or that of the baseline."""
        return self._reference

    @property
    def false_alarms_per_year(self) -> float:
        """How many alarms there may be in a year where nothing changes."""
        return self._clock.per_year

    @property
    def n(self) -> int:
        """How many observations were added, those before a restart included."""
        return self._n

    @property
    def alarm(self) -> ChangeAlarm | None:
        """The alarm that was raised, until `restart`; None where all is well."""
        return self._alarm

    @property
    def evidence(self) -> float:
        """The evidence for a change now, 0 or more: an alarm is raised when it reaches `needed`."""
        return max(side.evidence for side in self._sides.values()) * self.needed

    @property
    def needed(self) -> float:
        """The evidence that raises an alarm: the days of a year for each false alarm that it may have."""
        return DAYS_PER_YEAR / self._clock.per_year

    @property
    def mean(self) -> Estimate | None:
        """The mean since the start or restart, with its 95 % interval; None for fewer than two observations.

        The interval is for a number of observations that was fixed beforehand.
        """
        return self._estimate(self._sums)

    @property
    def mean_since_alarm(self) -> Estimate | None:
        """The mean of what came after the alarm, with its 95 % interval; None for fewer than two of it.

        Unlike `alarm.after` it holds nothing that helped to raise the alarm, so it is not exaggerated.
        """
        return None if self._alarm is None else self._estimate(subtract_sums(self._sums, self._sums_at_alarm))

    def add(self, value: float, weight: float = 1.0, *, at: float | None = None) -> ChangeAlarm | None:
        """Add one observation and return the alarm that it raised, if any.

        While an alarm stands, observations count for `mean_since_alarm` only, until `restart`.

        With one over the chance that a trace was sampled as its weight, the mean watched is that of all
        traces, sampled or not.

        Args:
            value: The observation, in `low`..`high`; True counts as 1 and False as 0.
            weight: What the observation stands for, in 0..`largest_weight`.
            at: When it is added, in seconds since 1970, by the clock of the caller. Not when the trace began:
                a trace from the year 2100 would end the day for all after it. A time before that of an
                earlier observation counts as that one's. Not read with `observations_per_day`.

        Raises:
            ValueError: If a number is out of its range, NaN or infinite, or `at` is needed and None. Nothing
                changes then.
            TypeError: If one of them is not a number.
        """
        return self._play(*self._parse(value, weight), self._clock.read(at, self._n))

    def add_many(
        self, values: Iterable[float], weights: Iterable[float] | None = None, *, at: float | None = None
    ) -> ChangeAlarm | None:
        """Add observations in their order and return the alarm that one of them raised, if any.

        It is the same as to `add` each of them. If one is refused, none is added.

        Args:
            values: The observations.
            weights: Their weights, as many as values; 1 each if None.
            at: When they are added, see `add`.

        Raises:
            ValueError: As `add`, or if there are not as many weights as values.
            TypeError: If one of them is not a number.
        """
        numbers = list(values)
        pairs = zip(numbers, repeat(1.0, len(numbers)) if weights is None else list(weights), strict=True)
        observations = [self._parse(value, weight) for value, weight in pairs]
        self._clock.read(at, self._n)
        raised: ChangeAlarm | None = None
        for share, weight in observations:
            raised = self._play(share, weight, self._clock.read(at, self._n)) or raised
        return raised

    def restart(self) -> None:
        """Forget the alarm and all observations, such as after its cause was found; the reference stays."""
        self._sides = {name: Side(side.bars) for name, side in self._sides.items()}
        self._sums, self._sums_at_alarm = NO_SUMS, NO_SUMS
        self._alarm = None

    def set_false_alarms_per_year(self, per_year: float) -> None:
        """Change the setting from here on, such as when rules that share a number are added or removed.

        The promise is then one for the sum of what each day was allowed.

        Raises:
            ValueError: If it is not above 0 and at most 365.
            TypeError: If it is not a number.
        """
        self._clock.set_per_year(per_year)

    def state(self) -> dict[str, Any]:
        """Return the detector as values of JSON, from which `from_state` makes the same detector again.

        It is about 2 kB for each side of a known reference and 3 kB for a baseline, however much was added.
        """
        settings = {
            "low": self._game.low,
            "high": self._game.high,
            "alternative": self._game.alternative,
            "largest_weight": self._game.largest_weight,
            "reference": self._reference,
        }
        own = {
            "n": self._n,
            "sums": list(self._sums),
            "sums_at_alarm": list(self._sums_at_alarm),
            "alarm": None if self._alarm is None else self._alarm.to_dict(),
            "sides": {name: change_state.dump_side(side) for name, side in self._sides.items()},
        }
        return {
            "kind": change_state.KIND,
            "version": change_state.VERSION,
            **settings,
            **self._clock.state(),
            **own,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the detector that had this state; it continues exactly where that one was.

        Raises:
            ValueError: If the state is of another kind or version, incomplete or damaged.
        """
        members = change_state.members(state)
        low, high, weight, reference = (
            e_process_state.number(members, name) for name in ("low", "high", "largest_weight", "reference")
        )
        game = _range_of(low, high, members["alternative"], weight)
        sides = change_state.load_sides(members["sides"], game.sides)
        detector = cls.__new__(cls)
        bars = {name: side.bars for name, side in sides.items()}
        detector._begin(game, reference, bars, JoiningClock.from_state(members))
        detector._sides = sides
        detector._n = e_process_state.whole(members, "n")
        detector._sums = change_state.load_sums(members["sums"])
        detector._sums_at_alarm = change_state.load_sums(members["sums_at_alarm"])
        alarm = members["alarm"]
        detector._alarm = None if alarm is None else change_state.load_alarm(alarm)
        return detector

    def _parse(self, value: float, weight: float) -> tuple[float, float]:
        """Return an observation as a share of the range, and its weight as a share of the largest."""
        # Nearly all are plain numbers in range, for which a comparison is check enough (NaN fails it).
        is_plain = type(value) in _PLAIN and self._low <= value <= self._high
        number = value if is_plain else self._game.clip(value)
        stake = self._unit if weight == 1.0 and self._unit <= 1 else self._game.stake(weight)
        return (number - self._low) * self._scale, stake

    def _play(self, share: float, stake: float, time: float) -> ChangeAlarm | None:
        joining = self._clock.join(time)
        here = Start(self._n, time, self._sums)
        self._n += 1
        self._sums = add_sums(self._sums, share, stake)
        if self._alarm is not None:
            return None
        joining /= len(self._sides)
        for name, side in self._sides.items():
            seen = share if name == "greater" else 1 - share
            if side.play(seen, stake, joining, here) >= 1:
                return self._raise_alarm(name, side, here)
        return None

    def _raise_alarm(self, direction: Direction, side: Side, here: Start) -> ChangeAlarm:
        since = side.start
        self._sums_at_alarm = self._sums
        self._alarm = ChangeAlarm(
            direction=direction,
            evidence=side.evidence * self.needed,
            needed=self.needed,
            n=here.n + 1,
            at=here.at,
            since_n=since.n + 1,
            since_at=since.at,
            reference=self._reference,
            before=self._estimate(since.sums),
            after=self._estimate(subtract_sums(self._sums, since.sums)),
        )
        return self._alarm

    def _estimate(self, sums: WeightedSums) -> Estimate | None:
        """Return the estimate in units of the values: the sums are of shares of the range."""
        found = estimate_of_sums(sums, (0.0, 1.0))
        if found is None:
            return None
        low, span = self._low, self._game.high - self._low
        ends = Interval(low + span * found.interval.low, low + span * found.interval.high)
        return Estimate(low + span * found.value, span * found.standard_error, ends)


def _range_of(low: float, high: float, alternative: Alternative, largest_weight: float) -> Game:
    """Return the game of a baseline, whose target is not read: any between the ends will do."""
    return Game((low + high) / 2, low, high, alternative, 0.0, largest_weight)


def _read_baseline(
    game: Game, values: Sequence[float], weights: Sequence[float] | None
) -> tuple[list[float], list[float]]:
    """Return the values as shares of the range, and the weights as shares of the largest."""
    if len(values) < _FEWEST:
        raise ValueError(f"A baseline needs {_FEWEST} values or more, not {len(values)}.")
    if weights is not None and len(weights) != len(values):
        raise ValueError(f"The baseline has {len(values)} values and {len(weights)} weights.")
    stakes = [game.stake(weight) for weight in (repeat(1.0, len(values)) if weights is None else weights)]
    if not any(stakes):
        raise ValueError("A baseline needs a weight above 0.")
    return [(game.clip(value) - game.low) / (game.high - game.low) for value in values], stakes
