"""Simulated systems: items of different difficulty, answers and judges that vary from run to run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Scores: TypeAlias = NDArray[np.float64]
"""Scores by evaluator, item and repeat."""


SPREAD = 0.2
"""Standard deviation of continuous scores from item to item."""


@dataclass(frozen=True)
class Design:
    """What is simulated: so many items, repeats and evaluators of one kind of score."""

    n: int
    kind: str
    repeats: int = 1
    evaluators: int = 1
    sharing: float = 0.0
    """Share of the noise that all evaluators have in common: 0 for independent, 1 for identical ones."""
    noise: float = 0.6
    """Standard deviation of the noise of a run, where items differ by 1."""


def unchanged(design: Design, draw: np.random.Generator) -> tuple[Scores, Scores]:
    """Return the scores of two runs of the same system."""
    shared = np.sqrt(design.sharing)
    own = np.sqrt(1 - design.sharing)
    items = shared * draw.normal(size=(1, design.n, 1)) + own * draw.normal(
        size=(design.evaluators, design.n, 1)
    )
    sides = []
    for _ in range(2):
        common = draw.normal(size=(1, design.n, design.repeats))
        noise = draw.normal(size=(design.evaluators, design.n, design.repeats))
        sides.append(KINDS[design.kind](items + design.noise * (shared * common + own * noise)))
    return sides[0], sides[1]


def _binary(quality: Scores) -> Scores:
    return (quality > -0.8).astype(float)


def _ordinal(quality: Scores) -> Scores:
    return np.clip(np.round(2.5 + 1.2 * quality), 0, 4) / 4


def _continuous(quality: Scores) -> Scores:
    return np.clip(np.round(0.65 + SPREAD * quality, 2), 0.0, 1.0)


KINDS: dict[str, Callable[[Scores], Scores]] = {
    "binary": _binary,
    "ordinal": _ordinal,
    "continuous": _continuous,
}
