"""A comparison as JSON: the documented names, rounded to 6 decimals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dokimos._core.number_format import round_half_up, round_half_up_or_none
from dokimos.comparison._diff import PASS_RATE, Change, ItemChange, MetricChange, RunComparison


def comparison_tree(comparison: RunComparison, items: Iterable[ItemChange] | None = None) -> dict[str, Any]:
    """Return summary, metrics and cases; the cases are all items, the regressed first, unless given."""
    cases = comparison.cases() if items is None else items
    return {
        "summary": summary_tree(comparison),
        "metrics": [metric_tree(metric) for metric in comparison.metrics],
        "cases": [case_tree(item) for item in cases],
        "warnings": list(comparison.warnings),
    }


def summary_tree(comparison: RunComparison) -> dict[str, Any]:
    """Return the movement of the whole."""
    return {
        "baseline": comparison.baseline_label,
        "candidate": comparison.candidate_label,
        **rates_tree(comparison),
        "hasRegressions": comparison.has_regressions,
        "passRateRegressed": comparison.pass_rate_regressed,
        "compositionChanged": comparison.composition_changed,
        "removedEvaluators": list(comparison.removed_evaluators),
        "addedEvaluators": list(comparison.added_evaluators),
        "alpha": comparison.config.alpha,
        "correction": comparison.config.correction,
    }


def rates_tree(comparison: RunComparison) -> dict[str, Any]:
    """Return pairing, rates and counts.

    The rates are those of the items that both sides have, on which the decision rests. Where items were added
    or removed, `allItems` has those of each whole side.
    """
    rate = comparison.pass_rate
    tree: dict[str, Any] = {
        "pairing": comparison.pairing.value,
        "baselinePassRate": round_half_up_or_none(rate.baseline_mean),
        "candidatePassRate": round_half_up_or_none(rate.candidate_mean),
        "passRateDelta": round_half_up_or_none(rate.delta),
        "significant": comparison.significant,
        "pValue": round_half_up(rate.p_value),
        "adjustedPValue": round_half_up(rate.adjusted_p_value),
        "method": rate.method.value,
        "improvedCount": comparison.count(Change.IMPROVED),
        "regressedCount": comparison.count(Change.REGRESSED),
        "unchangedCount": comparison.count(Change.UNCHANGED),
        "addedCount": comparison.count(Change.ADDED),
        "removedCount": comparison.count(Change.REMOVED),
    }
    if comparison.composition_changed:
        tree["allItems"] = {
            "baselinePassRate": round_half_up_or_none(comparison.baseline_pass_rate),
            "candidatePassRate": round_half_up_or_none(comparison.candidate_pass_rate),
        }
    return tree


def metric_tree(metric: MetricChange) -> dict[str, Any]:
    """Return the change of the pass rate (without a name) or of an evaluator.

    `intervalCoverage` is there where the interval of few items covers the true change in less than 95 %.
    """
    # An evaluator may be called "pass_rate"; its key says what it is.
    name = {"metric": "pass_rate"} if metric.name == PASS_RATE else {"evaluator": metric.name}
    covered = metric.interval_coverage
    return {
        **name,
        "direction": "lower_is_better" if metric.lower_is_better else "higher_is_better",
        "deterministic": metric.deterministic,
        "n": metric.n,
        "baselineMean": round_half_up_or_none(metric.baseline_mean),
        "candidateMean": round_half_up_or_none(metric.candidate_mean),
        "delta": round_half_up_or_none(metric.delta),
        "interval": interval_tree(metric),
        **({} if covered is None else {"intervalCoverage": covered}),
        "effectSize": round_half_up_or_none(metric.effect_size),
        "worse": metric.worse,
        "better": metric.better,
        "pValue": round_half_up(metric.p_value),
        "adjustedPValue": round_half_up(metric.adjusted_p_value),
        "method": metric.method.value,
        "significant": metric.significant,
        "status": metric.change.value,
        "minimumDetectableDrop": round_half_up_or_none(metric.detectable_drop),
        **({} if metric.score_range is None else {"scoreRange": list(metric.score_range)}),
    }


def case_tree(item: ItemChange) -> dict[str, Any]:
    """Return the change of one item."""
    before, now = item.baseline, item.candidate
    tree: dict[str, Any] = {
        "datasetItemId": item.dataset_item_id,
        "index": item.either.index_key,
        "status": item.change.value,
        "passFlip": item.pass_flip,
        "input": item.input,
        "baselinePass": None if before is None else round_half_up_or_none(before.pass_share),
        "candidatePass": None if now is None else round_half_up_or_none(now.pass_share),
        "evaluators": [
            {
                "name": score.name,
                "baselineMean": round_half_up_or_none(score.baseline_mean),
                "candidateMean": round_half_up_or_none(score.candidate_mean),
                "delta": round_half_up(score.delta),
                "status": score.change.value,
                "significant": score.significant,
            }
            for score in item.evaluators
        ],
    }
    if now is not None and now.errors:
        tree["errors"] = dict(now.errors)
    return tree


def interval_tree(metric: MetricChange) -> list[float] | None:
    """Return the interval of a change as two numbers."""
    bounds = metric.interval
    return None if bounds is None else [round_half_up(bounds.low), round_half_up(bounds.high)]
