"""What a request asks of the gate, and how that is hashed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Final, Literal

from dokimos._version import __version__

_ENGINE: Final = f"{__version__}/3"
"""Raised where the same runs and options would give another answer than before, or another stored form."""
DEFAULT_POWER: Final = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions:
    """Options of the library's gate, with the server's defaults.

    By default only a significant change for the worse of the pass rate or of an evaluator fails the gate, and
    a candidate that failed or has no items; the library's other guards are asked for.
    """

    alpha: float = 0.05
    correction: Literal["westfall-young", "holm", "bh", "none"] = "westfall-young"
    pairing: Literal["auto", "positional", "dataset_item_id"] = "auto"
    seed: int = 42
    permutation_iterations: int = 10_000
    bootstrap_iterations: int = 10_000
    severity: Literal["auto", "any", "confirmed", "calibrated", "off"] = "off"
    severity_margin: float = 0.15
    fail_on_regression: bool = True
    fail_on_removed_items: bool = False
    on_removed_evaluator: Literal["fail", "warn"] = "warn"
    fail_on_errors: bool = False
    """Whether a candidate fails that errored for the most part, lost the scores of an evaluator, or shares no
    item with the baseline."""
    require_power: float | None = None
    detect_drop: float = 0.05

    @property
    def configuration(self) -> str:
        """A hash: equal for options that give the same answer by this version of the engine."""
        text = json.dumps([_ENGINE, asdict(self)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


DEFAULTS: Final = GateOptions()
