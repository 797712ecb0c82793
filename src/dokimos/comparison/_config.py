"""How two sides are compared: which items belong together, and what counts as a change."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, TypeAlias, get_args

from dokimos._core import checks
from dokimos._core.checks import is_count, is_number
from dokimos.errors import ConfigurationError

Correction: TypeAlias = Literal["westfall-young", "holm", "bh", "none"]
PairingChoice: TypeAlias = Literal["auto", "positional", "dataset_item_id"]


class Pairing(StrEnum):
    """What tells that two items are the same one."""

    POSITIONAL = "positional"
    """Their place in the data set."""
    DATASET_ITEM_ID = "dataset_item_id"
    """Their id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonConfig:
    """Options of `compare_runs`."""

    alpha: float = 0.05
    """How often a comparison of two runs of the same system may report a change."""
    epsilon: float = 0.001
    """Mean changes up to this share of the scores' range are none, however certain."""
    correction: Correction = "westfall-young"
    """How the pass rate and the evaluators share alpha: `westfall-young` and `holm` bound the chance of any
    false alarm, `bh` the share of false alarms among the alarms, `none` only that of each test."""
    pairing: PairingChoice = "auto"
    """`auto` pairs by id where all items have one, else by position."""
    seed: int = 42
    permutation_iterations: int = 10_000
    bootstrap_iterations: int = 10_000
    power: float = 0.8
    """The power at which the minimum detectable drop is stated."""

    def __post_init__(self) -> None:
        share("alpha", self.alpha)
        share("power", self.power)
        amount("epsilon", self.epsilon)
        choice("correction", self.correction, get_args(Correction))
        choice("pairing", self.pairing, get_args(PairingChoice))
        # A whole number, since it becomes part of a text that is hashed: 42 and 42.0 would give other swaps.
        if not is_count(self.seed):
            raise ConfigurationError(f"seed must be a whole number, not {self.seed!r:.80}.")
        checks.require_positive("permutation_iterations", self.permutation_iterations)
        checks.require_positive("bootstrap_iterations", self.bootstrap_iterations)


def share(name: str, value: Any) -> None:
    """Raise `ConfigurationError` unless this is between 0 and 1, both excluded."""
    if not is_number(value) or not 0 < value < 1:
        raise ConfigurationError(f"{name} must be between 0 and 1, both excluded, not {value!r:.80}.")


def amount(name: str, value: Any) -> None:
    """Raise `ConfigurationError` unless this is in 0..1."""
    if not is_number(value) or not 0 <= value <= 1:
        raise ConfigurationError(f"{name} must be from 0 to 1, not {value!r:.80}.")


def choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Raise `ConfigurationError` unless this is one of some words."""
    if value not in allowed:
        raise ConfigurationError(f"{name} must be one of {', '.join(allowed)}, not {value!r:.80}.")
