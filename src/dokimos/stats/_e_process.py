"""Sequential tests that are stored between looks: whether a mean is still where it should be.

Observations come in for as long as an application runs, and somebody may look after each of them. `EProcess`
tests one hypothesis for good; `EDetector` watches for a change that may come after a year of quiet. The
`betting` module says what their evidence is. Both have a state of about 1 kB, however much was observed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Literal, Self

from dokimos.stats import _e_process_state as e_process_state
from dokimos.stats._betting import Alternative, Game, Players, count, finite, power, reciprocal

_NOTHING: Final = 1e-9
"""Logarithm of a payoff that only rounding makes."""


class EProcess:
    """Tests whether a mean differs from its target, with a look after each observation if you like.

    The chance that `p` ever falls to alpha is at most alpha, as long as the mean of each next observation,
    whatever came before it, is the target. Observations need not have one distribution. Values that depend on
    each other, such as those of one conversation, are added as one: their mean.

    What is seen in a long quiet time counts against a later change. To watch for a change, use `EDetector`.

    Example:
        >>> test = EProcess(0.9)
        >>> for passed in [False] * 8:
        ...     p = test.add(passed)
        >>> p < 0.01
        True
        >>> EProcess.from_state(test.state()).p == p
        True
    """

    def __init__(
        self,
        target: float,
        low: float = 0.0,
        high: float = 1.0,
        *,
        alternative: Alternative = "two-sided",
        tolerance: float = 0.0,
        largest_weight: float = 1.0,
    ) -> None:
        """Start without any observation.

        Args:
            target: The mean that is tested, between `low` and `high` and at neither end.
            low: The smallest value that can occur.
            high: The largest value that can occur.
            alternative: Which means are evidence: "two-sided", only lower ones ("less") or only higher ones
                ("greater"). With "less", the hypothesis is that the mean is the target or more.
            tolerance: How far the mean may be from the target without being evidence, in units of the values.
            largest_weight: The largest weight that can occur. The further it is above the usual weight, the
                longer the test takes; from fifty times on, much longer.

        Raises:
            ValueError: If a setting is out of its range.
            TypeError: If a setting is not a number where it has to be one.
        """
        game = Game(target, low, high, alternative, tolerance, largest_weight)
        self._players = Players(game, log_capital=0.0)

    @property
    def n(self) -> int:
        """How many observations were added."""
        return self._players.n

    @property
    def log_e_value(self) -> float:
        """The natural logarithm of `e_value`."""
        return self._players.log_mean

    @property
    def e_value(self) -> float:
        """The evidence against the target now: 1 at the start, 20 or more at a p-value of 0.05 or less."""
        return power(self.log_e_value)

    @property
    def p(self) -> float:
        """The p-value, above 0 and at most 1: one over the largest e-value so far. It never rises."""
        return reciprocal(self._players.log_peak)

    @property
    def direction(self) -> Literal["less", "greater"]:
        """Whether the evidence is rather for a lower or for a higher mean than the target."""
        return self._players.richer_side

    def add(self, value: float, *, weight: float = 1.0) -> float:
        """Add one observation and return the p-value.

        With one over the chance that a trace was sampled as its weight, the mean tested is that of all
        traces, sampled or not.

        Args:
            value: The observation, in `low`..`high`; True counts as 1 and False as 0.
            weight: What the observation stands for, in 0..`largest_weight`.

        Raises:
            ValueError: If the value or the weight is out of its range, NaN or infinite. Nothing changes then.
            TypeError: If one of them is not a number.
        """
        self._players.play(self._players.game.log_payoffs(value, weight), 1)
        return self.p

    def add_mean(self, mean: float, n: int, *, weight: float = 1.0) -> float:
        """Add `n` observations of which only the mean is known, such as a day's, and return the p-value.

        For verdicts, and other values that are either `low` or `high`, it is the same as to add each of them.
        For others it is weaker evidence, since the mean does not tell how close together they are.

        Args:
            mean: The mean of the observations, in `low`..`high`; not read if `n` is 0.
            n: How many there are, 0 or more.
            weight: The weight of each of them, in 0..`largest_weight`.

        Raises:
            ValueError: If a number is out of its range, NaN or infinite. Nothing changes then.
            TypeError: If one of them is not a number, or `n` not a whole one.
        """
        # Without observations the mean may be anything, also NaN: it is not read.
        if n := count("n", n):
            self._players.play(self._players.game.log_payoffs_of_mean(mean, n, weight), n)
        return self.p

    def state(self) -> dict[str, Any]:
        """Return the test as values of JSON, from which `from_state` makes the same test again."""
        return e_process_state.dump("e-process", self._players, {})

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the test that had this state; it goes on exactly where that one was.

        Raises:
            ValueError: If the state is of another kind or version, incomplete or damaged.
        """
        members = e_process_state.members(state, "e-process", ())
        test = cls(**e_process_state.settings(members))
        e_process_state.restore(test._players, members)
        if -math.inf in test._players.log_capital:  # no bet loses everything
            raise ValueError("The state is damaged: log_capital must be numbers.")
        return test


class EDetector:
    """Watches for a change of a mean, and is as quick after a year of quiet as on the first day.

    At each look, such as once a day, players with new capital join. `evidence` is the capital of all of them,
    and there is an alarm when it reaches `average_run_length` (J. Shin, A. Ramdas, A. Rinaldo, E-detectors,
    2022; of the kind of A. N. Shiryaev and S. W. Roberts). While the mean stays at the target, an alarm takes
    that many looks or more on average, and the chance of one within n looks is at most n divided by it. Both
    hold, too, if `alarm` is read after each observation and not only at the end of a look.

    For one false alarm in a year of daily looks, set 365; for one a year from 20 detectors, 20 * 365.

    Example:
        >>> detector = EDetector(0.9, average_run_length=3_650, alternative="less")
        >>> for passed in [450] * 365 + [420] * 3:  # of 500 a day
        ...     detector.start_look()
        ...     alarm = detector.add_mean(passed / 500, 500)
        >>> alarm
        True
        >>> EDetector.from_state(detector.state()).alarm
        True
    """

    def __init__(
        self,
        target: float,
        low: float = 0.0,
        high: float = 1.0,
        *,
        average_run_length: float,
        alternative: Alternative = "two-sided",
        tolerance: float = 0.0,
        largest_weight: float = 1.0,
    ) -> None:
        """Start without any observation.

        Args:
            target: The mean as it should be, between `low` and `high` and at neither end.
            low: The smallest value that can occur.
            high: The largest value that can occur.
            average_run_length: How many looks an alarm takes on average, at least, where nothing changes;
                above 1. Looks without any observation do not count.
            alternative: Which changes to find: "two-sided", drops ("less") or rises ("greater").
            tolerance: How far the mean may be from the target without being a change, in units of the values.
                A target that was itself measured needs one: half the width of its interval.
            largest_weight: The largest weight that can occur. The further it is above the usual weight, the
                longer the detector takes; from fifty times on, much longer.

        Raises:
            ValueError: If a setting is out of its range.
            TypeError: If a setting is not a number where it has to be one.
        """
        self._average_run_length = finite("average_run_length", average_run_length)
        if self._average_run_length <= 1:
            raise ValueError(f"average_run_length must be greater than 1, not {average_run_length}.")
        game = Game(target, low, high, alternative, tolerance, largest_weight)
        # Nobody plays before the first look begins: `join` brings the capital.
        self._players = Players(game, log_capital=-math.inf)
        self._looks = 0
        self._look_is_new = True

    @property
    def n(self) -> int:
        """How many observations were added."""
        return self._players.n

    @property
    def looks(self) -> int:
        """How many looks had an observation."""
        return self._looks

    @property
    def evidence(self) -> float:
        """The evidence for a change now, 0 or more; about 1 a look is usual where nothing changed."""
        return power(self._players.log_mean)

    @property
    def alarm(self) -> bool:
        """Whether the evidence has ever reached `average_run_length`."""
        return self._players.log_peak >= math.log(self._average_run_length)

    @property
    def direction(self) -> Literal["less", "greater"]:
        """Whether the evidence is rather for a drop or for a rise."""
        return self._players.richer_side

    def start_look(self) -> None:
        """Begin a look, such as a day: observations from here on belong to it. The first begins by itself."""
        self._look_is_new = True

    def add(self, value: float, *, weight: float = 1.0) -> bool:
        """Add one observation and return whether there is an alarm.

        With one over the chance that a trace was sampled as its weight, the mean watched is that of all
        traces, sampled or not.

        Args:
            value: The observation, in `low`..`high`; True counts as 1 and False as 0.
            weight: What the observation stands for, in 0..`largest_weight`.

        Raises:
            ValueError: If the value or the weight is out of its range, NaN or infinite. Nothing changes then.
            TypeError: If one of them is not a number.
        """
        self._play(self._players.game.log_payoffs(value, weight), 1)
        return self.alarm

    def add_mean(self, mean: float, n: int, *, weight: float = 1.0) -> bool:
        """Add `n` observations of which only the mean is known, and return whether there is an alarm.

        For verdicts, and other values that are either `low` or `high`, it is the same as to add each of them.
        For others it is weaker evidence, since the mean does not tell how close together they are.

        Args:
            mean: The mean of the observations, in `low`..`high`; not read if `n` is 0.
            n: How many there are, 0 or more.
            weight: The weight of each of them, in 0..`largest_weight`.

        Raises:
            ValueError: If a number is out of its range, NaN or infinite. Nothing changes then.
            TypeError: If one of them is not a number, or `n` not a whole one.
        """
        if n := count("n", n):
            self._play(self._players.game.log_payoffs_of_mean(mean, n, weight), n)
        return self.alarm

    def reset(self) -> None:
        """Forget all observations, such as after an alarm whose cause was found."""
        self._players = Players(self._players.game, log_capital=-math.inf)
        self._looks = 0
        self._look_is_new = True

    def state(self) -> dict[str, Any]:
        """Return the detector as values of JSON, from which `from_state` makes the same detector again."""
        own = {
            "average_run_length": self._average_run_length,
            "looks": self._looks,
            "look_is_new": self._look_is_new,
        }
        return e_process_state.dump("e-detector", self._players, own)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the detector that had this state; it goes on exactly where that one was.

        Raises:
            ValueError: If the state is of another kind or version, incomplete or damaged.
        """
        members = e_process_state.members(state, "e-detector", ("average_run_length", "looks", "look_is_new"))
        average_run_length = e_process_state.number(members, "average_run_length")
        detector = cls(**e_process_state.settings(members), average_run_length=average_run_length)
        detector._looks = e_process_state.whole(members, "looks")
        detector._look_is_new = e_process_state.flag(members, "look_is_new")
        e_process_state.restore(detector._players, members)
        return detector

    def _play(self, payoffs: list[float], n: int) -> None:
        if max(map(abs, payoffs)) < _NOTHING:
            # A value at the target, or one without weight. If it began a look, the evidence would grow by 1
            # with every look of a system that never varies, up to an alarm.
            self._players.n += n
            return
        if self._look_is_new:
            self._players.join()
            self._looks += 1
            self._look_is_new = False
        self._players.play(payoffs, n)
