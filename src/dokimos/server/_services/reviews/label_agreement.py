"""How far reviewers agree on labels: the library's figures of what `run_labels` reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from dokimos.server._services.reviews.label_schemas import LabelKind, LabelVersion
from dokimos.server._services.reviews.reviews import Verdict
from dokimos.server._services.reviews.run_labels import LabelledRun
from dokimos.stats import Interval, krippendorff_alpha, krippendorff_alpha_interval

_LEVELS: Final[Mapping[LabelKind, Literal["nominal", "interval"]]] = {
    LabelKind.VERDICT: "nominal",
    LabelKind.CHOICE: "nominal",
    LabelKind.NUMBER: "interval",
}


@dataclass(frozen=True, slots=True)
class LabelAgreement:
    """How far reviewers agree on one version of a label."""

    label: LabelVersion
    kind: LabelKind
    item_count: int
    """Items to which at least two reviewers gave it."""
    reviewer_count: int
    """Reviewers of these items."""
    alpha: float | None
    alpha_interval: Interval | None


def measure_labels(run: LabelledRun) -> list[LabelAgreement]:
    """Compare what reviewers say with each label that they gave to items of a run, in the order of names.

    Versions of a label are not compared with one another: what a value means may have changed.
    """
    given = {label for item in run.items for label in item.labels}
    return [_measure(run, label, run.label_kinds[label]) for label in sorted(given)]


def _measure(run: LabelledRun, label: LabelVersion, kind: LabelKind) -> LabelAgreement:
    values = [item.labels[label] for item in run.items if label in item.labels]
    if kind is LabelKind.VERDICT:  # who is unsure of an item says nothing of it
        values = [{name: value for name, value in unit.items() if value != Verdict.UNSURE} for unit in values]
    units = [unit for unit in values if len(unit) > 1]
    ratings: list[list[Any]] = [list(unit.values()) for unit in units]
    if kind is LabelKind.NUMBER:
        ratings = _scale(ratings)
    return LabelAgreement(
        label=label,
        kind=kind,
        item_count=len(units),
        reviewer_count=len({name for unit in units for name in unit}),
        alpha=krippendorff_alpha(ratings, level=_LEVELS[kind]),
        alpha_interval=krippendorff_alpha_interval(ratings, level=_LEVELS[kind]),
    )


def _scale(ratings: Sequence[Sequence[float]]) -> list[list[float]]:
    # Alpha is the same in any unit, and the squares of very large numbers do not fit into a float.
    largest = max((abs(value) for unit in ratings for value in unit), default=0) or 1
    return [[value / largest for value in unit] for unit in ratings]
