"""The pass rates of a run as people would give them: the library's figures of what `run_labels` reads."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, Literal

from dokimos.server._services.reviews.reviews import Verdict
from dokimos.server._services.reviews.run_labels import JudgedCounts, LabelledItem, LabelledRun
from dokimos.stats import (
    CorrectedRate,
    LabelCounts,
    PickedLabel,
    VerdictCounts,
    corrected_finite_rate,
    corrected_rate,
    count_labels,
    labels_needed,
)

LEAST_LABELS: Final = 5
"""With fewer labels there is no estimate."""
LabelChoice = Literal["random", "all"]
"""Which labels count as picked at random: those that the queue picked so, or, on the caller's word, all."""


@dataclass(frozen=True, slots=True)
class RateEstimate:
    """A corrected rate, and how many more labels its interval needs."""

    rate: CorrectedRate
    labels_needed: int | None
    """None where even labels of all items are too few."""


@dataclass(frozen=True, slots=True)
class EvaluatorRate:
    """The rate that people would give, with the help of one evaluator; or why there is none."""

    evaluator: str | None
    """None for the verdict on the whole item."""
    judged: JudgedCounts
    label_count: int
    """Labels that chance picked; the estimate rests on these."""
    chosen_count: int
    """Labels of items that somebody chose, which count for these items only."""
    of_items: RateEstimate | None = None
    """Of the items of this run."""
    of_further_items: RateEstimate | None = None
    """Of all items of which those of the run are a sample; None where some of the labels were chosen."""
    reason: str | None = None


@dataclass(slots=True)
class _Labels:
    """The labels of the items that one evaluator gave a verdict on, in the order in which they were given."""

    labels: list[PickedLabel] = field(default_factory=list)
    is_repeated: bool = False


def measure_rates(run: LabelledRun, choice: LabelChoice, half_width: float) -> list[EvaluatorRate]:
    """Correct the pass rate of whole items, which comes first, and of each evaluator by people's labels."""
    decided = [item for item in run.items if item.verdict is not Verdict.UNSURE]
    decided.sort(key=lambda item: item.labelled_at)
    whole = _Labels([_label(item, item.passed, choice) for item in decided if item.judged])
    of_evaluator = {name: _Labels() for item in run.items for name in item.verdicts or {}}
    for item in decided:
        for name, verdict in (item.verdicts or {}).items():
            if verdict is not None:
                of_evaluator[name].labels.append(_label(item, verdict, choice))
                of_evaluator[name].is_repeated |= name in item.repeated
    nothing = JudgedCounts(0, 0)
    return [
        _measure(None, whole, run.run, half_width),
        *(
            _measure(name, labels, run.evaluators.get(name, nothing), half_width)
            for name, labels in of_evaluator.items()
        ),
    ]


def _label(item: LabelledItem, verdict: bool, choice: LabelChoice) -> PickedLabel:
    return PickedLabel(
        passed=item.verdict is Verdict.CORRECT,
        judge_passed=verdict,
        is_random=item.is_random or choice == "all",
    )


def _measure(name: str | None, given: _Labels, judged: JudgedCounts, half_width: float) -> EvaluatorRate:
    random = sum(label.is_random for label in given.labels)
    chosen = len(given.labels) - random
    reason = _find_reason(given, random, judged)
    if reason is not None:
        return EvaluatorRate(name, judged, random, chosen, reason=reason)
    labels, is_complete = given.labels, len(given.labels) == judged.judged
    if is_complete:
        # With a label on every item, it does not matter who picked it.
        labels = [replace(label, is_random=True) for label in labels]
    try:
        split = count_labels(labels, judged_passed=judged.passed, judged=judged.judged)
    except ValueError:
        # Labels and counts are not of one moment while items are stored, on PostgreSQL.
        reason = "The counts of the run are changing; ask again once no more items come."
        return EvaluatorRate(name, judged, random, chosen, reason=reason)
    can_say_of_others = is_complete or not chosen
    further = _estimate_further(split.counts, half_width) if can_say_of_others else None
    of_items = _estimate_items(split, half_width, judged.judged - len(labels))
    return EvaluatorRate(name, judged, random, chosen, of_items, further)


def _find_reason(given: _Labels, random: int, judged: JudgedCounts) -> str | None:
    if given.is_repeated:
        return "It has several scores of one item, so its verdicts cannot be counted by item."
    if len(given.labels) == judged.judged > 0:
        return None  # all is known, whoever picked it
    if random >= LEAST_LABELS:
        return None
    if len(given.labels) >= LEAST_LABELS:
        return (
            f"{random} of its {len(given.labels)} labels are of items that were picked at random, and "
            f"{LEAST_LABELS} are needed. If all were picked at random, ask with labels=all."
        )
    return f"{LEAST_LABELS} labels are needed, and there are {len(given.labels)}."


def _estimate_items(split: LabelCounts, half_width: float, unlabelled: int) -> RateEstimate | None:
    def estimate(counts: VerdictCounts) -> CorrectedRate | None:
        return corrected_finite_rate(counts, apart=split.apart)

    rate = estimate(split.counts)
    if rate is None:
        return None
    needed = labels_needed(split.counts, half_width, estimate=estimate)
    # The counts average over how many items were left to pick. With a label on each, the rate is certain.
    return RateEstimate(rate, unlabelled if needed is None else min(needed, unlabelled))


def _estimate_further(counts: VerdictCounts, half_width: float) -> RateEstimate | None:
    rate = corrected_rate(counts)
    if rate is None:
        return None
    return RateEstimate(rate, labels_needed(counts, half_width, estimate=corrected_rate))
