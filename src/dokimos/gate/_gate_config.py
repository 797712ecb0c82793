"""What a regression gate lets through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self, TypeAlias, get_args

from dokimos._core import checks
from dokimos._core.checks import is_count
from dokimos.comparison._config import ComparisonConfig, Correction, Pairing, PairingChoice
from dokimos.comparison._config import amount as check_amount
from dokimos.comparison._config import choice as check_choice
from dokimos.comparison._config import share as check_share
from dokimos.errors import ConfigurationError

Severity: TypeAlias = Literal["auto", "any", "confirmed", "calibrated", "off"]
RemovedEvaluator: TypeAlias = Literal["fail", "warn"]
NoBaseline: TypeAlias = Literal["pass", "fail"]

SEVERITY_MARGIN = 0.15
DETECT_DROP = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class GateConfig:
    """Options of a gate; the defaults need no change to start with.

    Example:
        >>> GateConfig(severity_margin=0.1, fail_on_removed_items=True).severity_margin
        0.1
    """

    bootstrap_passes: bool = True
    """Whether the first run on a developer's machine, which writes the baseline, passes."""
    severity_margin: float = SEVERITY_MARGIN
    """Guard 2 fires where the score of a single item drops by more than this share of the range of scores (in
    0..1: by more than this), or more repeats error."""
    severity: Severity = "auto"
    """Which drops guard 2 takes seriously. `auto`: every one of a deterministic evaluator whose repeats do
    not vary; of one whose repeats vary, those that stand out from that; with a single repeat and nothing
    known, those that running the item again confirms, else the drop is listed and the verdict is
    INCONCLUSIVE, which passes unless power is required. Below six items, or where the baseline says nothing
    of repeats, `auto` is `any`. `any`: every one, noise or not (the documented guard).
    `confirmed`: of an evaluator that is not deterministic, only where at least two repeats all lie below the
    baseline's by more than the margin (in `n` and `m` repeats noise alone does that to at most one score in
    `comb(n + m, n)`). `calibrated`: only those that the repeats make certain at alpha. `off`: none. An error
    is worse than any score."""
    confirm: int = 0
    """Run the items that guard 2 suspects this often again, and let the majority decide; needs `rerun`.
    Nothing is run where the verdict does not depend on them. Under `auto`, a gate that has `rerun` runs them
    3 times unless told otherwise."""
    pairing: PairingChoice = "auto"
    """`auto` pairs by id where every item has one, else by position."""
    fail_on_regression: bool = True
    """Whether guards 1 and 2 fail the gate, or are only reported."""
    fail_on_removed_items: bool = False
    """Whether an item that only the baseline has fails the gate."""
    on_removed_evaluator: RemovedEvaluator = "fail"
    """What an evaluator means that only the baseline has: dropping one can hide a regression."""
    on_no_baseline: NoBaseline = "pass"
    """What a missing baseline means in CI, or anywhere with `fail`."""
    alpha: float = 0.05
    """How often guard 1 may fire although nothing changed."""
    correction: Correction = "westfall-young"
    """How the pass rate and the evaluators share alpha; see `ComparisonConfig`."""
    seed: int = 42
    permutation_iterations: int = 10_000
    bootstrap_iterations: int = 10_000
    require_power: float | None = None
    """The chance with which a drop of `detect_drop` must be seen; with less the verdict is INCONCLUSIVE, and
    no INCONCLUSIVE verdict passes."""
    detect_drop: float = DETECT_DROP
    """The drop, of the pass rate or of a mean score, that the gate must be able to see."""
    allow_errors: bool = False
    """Whether a result with errors may become the baseline; its errored items are recorded as such."""
    update_baseline: bool = False
    """Write a new baseline from this run and pass."""

    def __post_init__(self) -> None:
        for name in ("bootstrap_passes", "fail_on_regression", "fail_on_removed_items", "allow_errors"):
            checks.require_flag(name, getattr(self, name))
        checks.require_flag("update_baseline", self.update_baseline)
        check_amount("severity_margin", self.severity_margin)
        check_choice("severity", self.severity, get_args(Severity))
        check_choice("on_removed_evaluator", self.on_removed_evaluator, get_args(RemovedEvaluator))
        check_choice("on_no_baseline", self.on_no_baseline, get_args(NoBaseline))
        if not is_count(self.confirm) or self.confirm < 0:
            raise ConfigurationError(
                f"confirm must be a whole number of 0 or more, not {self.confirm!r:.80}."
            )
        if self.require_power is not None:
            check_share("require_power", self.require_power)
        check_share("detect_drop", self.detect_drop)
        # Its constructor checks what a comparison shares with a gate: alpha, correction, pairing, seed,
        # iterations.
        self.comparison()

    @classmethod
    def calibrated(cls, alpha: float = 0.05) -> Self:
        """Return a configuration whose gate as a whole fails an unchanged system at most this often.

        Guard 2 then asks for evidence: a drop of a single item counts where the repeats on both sides make it
        certain (an exact permutation test, Bonferroni over all items and evaluators). Where there are
        repeats enough for that, each guard gets half of alpha; else guard 1 has all of it.
        """
        return cls(alpha=alpha, severity="calibrated")

    def comparison(self, pairing: Pairing | None = None, alpha: float | None = None) -> ComparisonConfig:
        """Return how the runs are compared; the baseline's pairing wins over `auto`."""
        return ComparisonConfig(
            alpha=self.alpha if alpha is None else alpha,
            correction=self.correction,
            pairing=self.pairing if pairing is None else pairing.value,
            seed=self.seed,
            permutation_iterations=self.permutation_iterations,
            bootstrap_iterations=self.bootstrap_iterations,
            power=self.require_power or ComparisonConfig().power,
        )
