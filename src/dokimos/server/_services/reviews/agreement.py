"""How far the evaluators of a run agree with people: the library's figures of what `run_labels` reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import Final

from dokimos.server._services.reviews.reviews import Verdict
from dokimos.server._services.reviews.run_labels import LabelledRun
from dokimos.stats import (
    Interval,
    clopper_pearson_interval,
    cohen_kappa,
    cohen_kappa_interval,
    krippendorff_alpha,
    krippendorff_alpha_interval,
)

_DECIDED: Final = (Verdict.CORRECT, Verdict.INCORRECT)
MOST_PAIRS: Final = 50
"""Pairs of reviewers that are compared one by one."""
LEAST_FOR_WARNING: Final = 20
"""With fewer verdicts, agreement that may be chance is not warned of."""
LITTLE_AGREEMENT: Final = 0.4
"""Kappa below this is no more than fair agreement."""
OTHER_QUESTIONS: Final = frozenset(
    {
        "bias",
        "conciseness",
        "cost",
        "latency",
        "length",
        "max_tool_calls",
        "misuse",
        "pii_leakage",
        "refusal",
        "step_efficiency",
        "tokens",
        "tone",
        "tool_efficiency",
        "toxicity",
        "user_frustration",
    }
)
"""Built-in evaluators of something else than whether an output is right."""


class AlignmentWarning(StrEnum):
    """Why agreement with people may say little about an evaluator."""

    OTHER_QUESTION = "OTHER_QUESTION"
    """It measures something else than people judge: by its name, one of `OTHER_QUESTIONS`."""
    NO_BETTER_THAN_CHANCE = "NO_BETTER_THAN_CHANCE"
    """The interval of kappa reaches down to 0, and ends below `LITTLE_AGREEMENT`."""
    TOO_FEW_LABELS = "TOO_FEW_LABELS"
    """The interval of kappa reaches from 0 or less to `LITTLE_AGREEMENT` or more."""


@dataclass(frozen=True, slots=True)
class Share:
    """A share of items with its exact interval (Clopper and Pearson)."""

    value: float
    interval: Interval

    @classmethod
    def of(cls, count: int, n: int) -> Share | None:
        """Return the share of `n` items, None where there are none."""
        return cls(count / n, clopper_pearson_interval(count, n)) if n else None


@dataclass(frozen=True, slots=True)
class Alignment:
    """How far one evaluator agrees with people."""

    evaluator: str
    passed_both: int
    passed_by_judge_only: int
    passed_by_people_only: int
    failed_both: int
    unsure: int
    kappa: float | None
    kappa_interval: Interval | None
    warning: AlignmentWarning | None

    @property
    def comparable(self) -> int:
        """Items on which both gave a verdict."""
        return self.agreed + self.passed_by_judge_only + self.passed_by_people_only

    @property
    def agreed(self) -> int:
        """Items on which both say the same."""
        return self.passed_both + self.failed_both

    @property
    def agreement(self) -> Share | None:
        """The share of items on which both say the same."""
        return Share.of(self.agreed, self.comparable)

    @property
    def sensitivity(self) -> Share | None:
        """The share of what people pass that the evaluator passes."""
        return Share.of(self.passed_both, self.passed_both + self.passed_by_people_only)

    @property
    def specificity(self) -> Share | None:
        """The share of what people fail that the evaluator fails."""
        return Share.of(self.failed_both, self.failed_both + self.passed_by_judge_only)


@dataclass(frozen=True, slots=True)
class PairAgreement:
    """How far two reviewers agree on the items that both decided."""

    first: str
    second: str
    item_count: int
    agreement: Share | None
    kappa: float | None
    kappa_interval: Interval | None


@dataclass(frozen=True, slots=True)
class ReviewerAgreement:
    """How far all reviewers of a run agree with one another."""

    item_count: int
    """Items that at least two of them decided."""
    reviewer_count: int
    """Reviewers of these items."""
    alpha: float | None
    alpha_interval: Interval | None
    pairs: Sequence[PairAgreement]
    """Those with the most items in common first."""


def measure_reviewers(run: LabelledRun) -> ReviewerAgreement:
    """Compare the reviewers of a run with one another; who is unsure of an item says nothing of it."""
    units = [
        {name: verdict is Verdict.CORRECT for name, verdict in item.reviews.items() if verdict in _DECIDED}
        for item in run.items
    ]
    units = [unit for unit in units if len(unit) > 1]
    common: dict[tuple[str, str], list[tuple[bool, bool]]] = {}
    for unit in units:
        for first, second in combinations(sorted(unit), 2):
            common.setdefault((first, second), []).append((unit[first], unit[second]))
    most_common = sorted(common, key=lambda names: (-len(common[names]), names))[:MOST_PAIRS]
    ratings = [list(unit.values()) for unit in units]
    return ReviewerAgreement(
        item_count=len(units),
        reviewer_count=len({name for unit in units for name in unit}),
        alpha=krippendorff_alpha(ratings),
        alpha_interval=krippendorff_alpha_interval(ratings),
        pairs=[_measure_pair(names, common[names]) for names in most_common],
    )


def _measure_pair(names: tuple[str, str], verdicts: Sequence[tuple[bool, bool]]) -> PairAgreement:
    first, second = [pair[0] for pair in verdicts], [pair[1] for pair in verdicts]
    return PairAgreement(
        first=names[0],
        second=names[1],
        item_count=len(verdicts),
        agreement=Share.of(sum(a == b for a, b in verdicts), len(verdicts)),
        kappa=cohen_kappa(first, second),
        kappa_interval=cohen_kappa_interval(first, second),
    )


def measure_alignment(run: LabelledRun) -> list[Alignment]:
    """Compare each evaluator of a run with people, in the order in which they first occur."""
    pairs: dict[str, list[tuple[bool, bool]]] = {}
    unsure: dict[str, int] = {}
    for item in run.items:
        for name, verdict in (item.verdicts or {}).items():
            of_evaluator = pairs.setdefault(name, [])
            if item.verdict is Verdict.UNSURE:
                unsure[name] = unsure.get(name, 0) + 1
            elif verdict is not None:
                of_evaluator.append((verdict, item.verdict is Verdict.CORRECT))
    return [_measure(name, of_evaluator, unsure.get(name, 0)) for name, of_evaluator in pairs.items()]


def _measure(name: str, pairs: Sequence[tuple[bool, bool]], unsure: int) -> Alignment:
    judge, people = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    interval = cohen_kappa_interval(judge, people)
    return Alignment(
        evaluator=name,
        passed_both=pairs.count((True, True)),
        passed_by_judge_only=pairs.count((True, False)),
        passed_by_people_only=pairs.count((False, True)),
        failed_both=pairs.count((False, False)),
        unsure=unsure,
        kappa=cohen_kappa(judge, people),
        kappa_interval=interval,
        warning=_find_warning(name, len(pairs), interval),
    )


def _find_warning(name: str, comparable: int, kappa: Interval | None) -> AlignmentWarning | None:
    if registry_form(name) in OTHER_QUESTIONS:
        return AlignmentWarning.OTHER_QUESTION
    if kappa is not None and comparable >= LEAST_FOR_WARNING and kappa.low <= 0:
        # A wide interval says that little is known, and not that the evaluator guesses.
        if kappa.high < LITTLE_AGREEMENT:
            return AlignmentWarning.NO_BETTER_THAN_CHANCE
        return AlignmentWarning.TOO_FEW_LABELS
    return None


def registry_form(name: str) -> str:
    """Return the name of an evaluator as the registry spells it: `PIILeakage` and `PII leakage` alike."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")
