"""Answers of the routes of alignment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from dokimos.server._api.http.json_body import WireModel
from dokimos.server._services.reviews.agreement import (
    Alignment,
    AlignmentWarning,
    PairAgreement,
    ReviewerAgreement,
    Share,
)
from dokimos.server._services.reviews.corrected_rates import EvaluatorRate, LabelChoice, RateEstimate
from dokimos.server._services.reviews.label_agreement import LabelAgreement
from dokimos.server._services.reviews.label_schemas import LabelKind
from dokimos.server._services.reviews.reviews import Verdict
from dokimos.server._services.reviews.run_labels import LabelledRun
from dokimos.stats import Interval

_WARNINGS: Final = {
    AlignmentWarning.OTHER_QUESTION: (
        "The annotations say whether the output is right, and this evaluator measures something else: "
        "the two need not agree."
    ),
    AlignmentWarning.NO_BETTER_THAN_CHANCE: (
        "It agrees with people no more than chance would: it may measure something else, or not work."
    ),
    AlignmentWarning.TOO_FEW_LABELS: (
        "Too little is known to tell its agreement from chance: label more items, above all ones that people "
        "fail."
    ),
}


class IntervalAnswer(WireModel):
    """A range that holds the true value with 95 % confidence."""

    low: float
    high: float


class ShareAnswer(IntervalAnswer):
    """A share of items, 0..1, with its exact 95 % interval (Clopper and Pearson)."""

    value: float


class ConfusionAnswer(WireModel):
    """Items by what the evaluator and people say."""

    passed_both: int
    passed_by_judge_only: int
    passed_by_people_only: int
    failed_both: int


class AlignmentWarningAnswer(WireModel):
    """Why the agreement may say little."""

    code: AlignmentWarning
    message: str


class EvaluatorAlignmentAnswer(WireModel):
    """How far one evaluator agrees with people."""

    evaluator_name: str
    comparable_count: int
    agreed_count: int
    excluded_unsure: int
    alignment_rate: float | None
    alignment_interval: IntervalAnswer | None
    kappa: float | None
    kappa_interval: IntervalAnswer | None
    sensitivity: ShareAnswer | None
    specificity: ShareAnswer | None
    confusion: ConfusionAnswer
    warning: AlignmentWarningAnswer | None


class ReviewerPairAnswer(WireModel):
    """How far two reviewers agree on the items that both decided."""

    reviewers: list[str]
    item_count: int
    agreement: ShareAnswer | None
    kappa: float | None
    kappa_interval: IntervalAnswer | None


class ReviewersAnswer(WireModel):
    """How far reviewers agree with one another."""

    item_count: int
    reviewer_count: int
    alpha: float | None
    alpha_interval: IntervalAnswer | None
    pairs: list[ReviewerPairAnswer]


class LabelAgreementAnswer(WireModel):
    """How far reviewers agree on one version of a label."""

    label: str
    version: int
    kind: LabelKind
    item_count: int
    reviewer_count: int
    alpha: float | None
    alpha_interval: IntervalAnswer | None


class AlignmentAnswer(WireModel):
    """How far evaluators agree with people, and these with one another."""

    annotated_items: int
    evaluators: list[EvaluatorAlignmentAnswer]
    reviewers: ReviewersAnswer
    labels: list[LabelAgreementAnswer]


class RateAnswer(IntervalAnswer):
    """A corrected pass rate, 0..1, with its 95 % interval."""

    value: float
    judge_weight: float
    label_only: IntervalAnswer
    labels_needed: int | None


class EvaluatorRateAnswer(WireModel):
    """The pass rate that people would give, with the help of one evaluator."""

    evaluator_name: str | None
    judged_count: int
    judged_pass_rate: float | None
    label_count: int
    chosen_label_count: int
    of_items: RateAnswer | None
    of_further_items: RateAnswer | None
    reason: str | None


class CorrectedRatesAnswer(WireModel):
    """The pass rates of a run, corrected by annotations."""

    half_width: float
    labels: LabelChoice
    annotated_items: int
    unsure_items: int
    item: EvaluatorRateAnswer
    evaluators: list[EvaluatorRateAnswer]


def alignment_answer(
    run: LabelledRun,
    alignments: Sequence[Alignment],
    reviewers: ReviewerAgreement,
    labels: Sequence[LabelAgreement],
) -> dict[str, Any]:
    """Return the answer; items without any score are not counted as annotated, as documented."""
    return {
        "annotatedItems": sum(bool(item.verdicts) for item in run.items),
        "evaluators": [_of_evaluator(each) for each in alignments],
        "reviewers": {
            "itemCount": reviewers.item_count,
            "reviewerCount": reviewers.reviewer_count,
            "alpha": reviewers.alpha,
            "alphaInterval": _interval(reviewers.alpha_interval),
            "pairs": [_of_pair(each) for each in reviewers.pairs],
        },
        "labels": [_of_label(each) for each in labels],
    }


def corrected_rates_answer(
    run: LabelledRun, rates: Sequence[EvaluatorRate], labels: LabelChoice, half_width: float
) -> dict[str, Any]:
    """Return the answer."""
    item, *evaluators = [_rate_of(each) for each in rates]
    return {
        "halfWidth": half_width,
        "labels": labels,
        "annotatedItems": len(run.items),
        "unsureItems": sum(each.verdict is Verdict.UNSURE for each in run.items),
        "item": item,
        "evaluators": evaluators,
    }


def _of_pair(each: PairAgreement) -> dict[str, Any]:
    return {
        "reviewers": [each.first, each.second],
        "itemCount": each.item_count,
        "agreement": _share(each.agreement),
        "kappa": each.kappa,
        "kappaInterval": _interval(each.kappa_interval),
    }


def _of_label(each: LabelAgreement) -> dict[str, Any]:
    return {
        "label": each.label.name,
        "version": each.label.version,
        "kind": each.kind,
        "itemCount": each.item_count,
        "reviewerCount": each.reviewer_count,
        "alpha": each.alpha,
        "alphaInterval": _interval(each.alpha_interval),
    }


def _of_evaluator(each: Alignment) -> dict[str, Any]:
    agreement = each.agreement
    return {
        "evaluatorName": each.evaluator,
        "comparableCount": each.comparable,
        "agreedCount": each.agreed,
        "excludedUnsure": each.unsure,
        "alignmentRate": None if agreement is None else agreement.value,
        "alignmentInterval": None if agreement is None else _interval(agreement.interval),
        "kappa": each.kappa,
        "kappaInterval": _interval(each.kappa_interval),
        "sensitivity": _share(each.sensitivity),
        "specificity": _share(each.specificity),
        "confusion": {
            "passedBoth": each.passed_both,
            "passedByJudgeOnly": each.passed_by_judge_only,
            "passedByPeopleOnly": each.passed_by_people_only,
            "failedBoth": each.failed_both,
        },
        "warning": None
        if each.warning is None
        else {"code": each.warning, "message": _WARNINGS[each.warning]},
    }


def _rate_of(each: EvaluatorRate) -> dict[str, Any]:
    judged = each.judged
    return {
        "evaluatorName": each.evaluator,
        "judgedCount": judged.judged,
        "judgedPassRate": judged.passed / judged.judged if judged.judged else None,
        "labelCount": each.label_count,
        "chosenLabelCount": each.chosen_count,
        "ofItems": _estimate(each.of_items),
        "ofFurtherItems": _estimate(each.of_further_items),
        "reason": each.reason,
    }


def _estimate(found: RateEstimate | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "value": found.rate.value,
        "low": found.rate.interval.low,
        "high": found.rate.interval.high,
        "judgeWeight": found.rate.weight,
        "labelOnly": _interval(found.rate.label_only),
        "labelsNeeded": found.labels_needed,
    }


def _interval(found: Interval | None) -> dict[str, float] | None:
    return None if found is None else {"low": found.low, "high": found.high}


def _share(found: Share | None) -> dict[str, float] | None:
    return (
        None
        if found is None
        else {"value": found.value, "low": found.interval.low, "high": found.interval.high}
    )
