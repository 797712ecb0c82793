"""What a comparison looks like on the wire: the documented fields, and those that are added.

Numbers are rounded to 6 decimals, half up, as documented; the decision rests on the unrounded ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from dokimos._core.number_format import round_half_up, round_half_up_or_none
from dokimos.comparison._diff import Change, ItemChange, MetricChange, RunComparison
from dokimos.comparison._tree import interval_tree, metric_tree
from dokimos.comparison._wording import evidence_sentence
from dokimos.gate._decision import Decision
from dokimos.gate._verdict import GateStatus, GateVerdict
from dokimos.server._services.runs.run_snapshots import StoredItem

if TYPE_CHECKING:
    from dokimos.server._services.comparisons.run_comparison import Sides

_MAX_CASES: Final = 50
Rounder = Callable[[float | None], float | None]


def summary_json(verdict: GateVerdict, sides: Sides) -> str:
    """Return the answer of the gate."""
    return to_json(_summary(verdict, sides)).decode()


def case_lines(decision: Decision, sides: Sides) -> Iterator[str]:
    """Yield a line for each case: the id of the item that has its input, a tab, and the case as JSON.

    The worst outcome comes first, and within an outcome the order of the runs.
    """
    # Scores repeat, and rounding by decimals is what costs most here.
    rounded: Rounder = cache(round_half_up_or_none)
    for item in decision.comparison.cases():
        before, now = _read_items(item, sides)
        shown = now or before
        assert shown is not None, "an item comes from at least one side"
        case = {
            "datasetItemId": shown.dataset_item_id,
            "index": item.either.index_key,
            "status": item.change.value,
            "passFlip": item.pass_flip,
            "evaluators": [
                {
                    "name": score.name,
                    "baselineMean": rounded(score.baseline_mean),
                    "candidateMean": rounded(score.candidate_mean),
                    "delta": rounded(score.delta),
                    "status": score.change.value,
                    "significant": score.significant,
                }
                for score in item.evaluators
            ],
            "baselineItemId": before and before.item_id,
            "candidateItemId": now and now.item_id,
            "baselinePass": None if item.baseline is None else rounded(item.baseline.pass_share),
            "candidatePass": None if item.candidate is None else rounded(item.candidate.pass_share),
        }
        yield f"{shown.item_id}\t{to_json(case).decode()}"


def _read_items(item: ItemChange, sides: Sides) -> tuple[StoredItem | None, StoredItem | None]:
    before = None if item.baseline is None else sides.baseline.items[item.baseline.index]
    now = None if item.candidate is None else sides.candidate.items[item.candidate.index]
    return before, now


def _summary(verdict: GateVerdict, sides: Sides) -> dict[str, Any]:
    decision = verdict.decision
    assert decision is not None
    comparison = decision.comparison
    before, now = comparison.baseline_pass_rate or 0.0, comparison.candidate_pass_rate or 0.0
    worst = _find_worst(comparison, decision)
    return {
        "status": "PASS" if verdict.passed else "FAIL",
        "passed": verdict.passed,
        "candidateRunId": sides.candidate_run.id,
        "baselineRunId": sides.baseline_run.id,
        "pairing": comparison.pairing.value,
        "baselinePassRate": round_half_up(before),
        "candidatePassRate": round_half_up(now),
        "passRateDelta": round_half_up(now - before),
        "significant": comparison.significant,
        **_counts(comparison),
        "regressedCount": len(worst),
        "regressedEvaluators": [_describe_regression(metric) for metric in comparison.regressed_evaluators],
        "cases": [_gate_case(item, comparison, decision, sides) for item in worst[:_MAX_CASES]],
        "casesTruncated": len(worst) > _MAX_CASES,
        **_list_added(verdict, comparison, sides),
    }


def _counts(comparison: RunComparison) -> dict[str, int]:
    return {f"{change.value.lower()}Count": comparison.count(change) for change in Change}


def _describe_regression(metric: MetricChange) -> dict[str, Any]:
    return {
        "evaluator": metric.name,
        "baselineMean": round_half_up_or_none(metric.baseline_mean),
        "candidateMean": round_half_up_or_none(metric.candidate_mean),
        "delta": round_half_up_or_none(metric.delta),
        "pValue": round_half_up(metric.adjusted_p_value),
        "rawPValue": round_half_up(metric.p_value),
        "interval": interval_tree(metric),
        "itemCount": metric.n,
    }


def _list_added(verdict: GateVerdict, comparison: RunComparison, sides: Sides) -> dict[str, Any]:
    """The fields that the documentation does not have."""
    rate = comparison.pass_rate
    return {
        "inconclusive": verdict.status is GateStatus.INCONCLUSIVE,
        "powered": _sees_drops(comparison, verdict.config.detect_drop),
        "minimumDetectableDrop": round_half_up_or_none(rate.detectable_drop),
        "pValue": round_half_up(rate.adjusted_p_value),
        "rawPValue": round_half_up(rate.p_value),
        "method": rate.method.value,
        "pairedCount": len(comparison.items)
        - comparison.count(Change.ADDED)
        - comparison.count(Change.REMOVED),
        "notJudgedCount": _count_not_judged(comparison),
        "pairedBaselinePassRate": round_half_up_or_none(rate.baseline_mean),
        "pairedCandidatePassRate": round_half_up_or_none(rate.candidate_mean),
        "pairedDelta": round_half_up_or_none(rate.delta),
        "pairedDeltaInterval": interval_tree(rate),
        "pairedBy": sides.key.value,
        "metrics": [_describe_metric(metric) for metric in comparison.evaluators],
        "removedEvaluators": list(comparison.removed_evaluators),
        "addedEvaluators": list(comparison.added_evaluators),
        "evaluatorChanges": _evaluator_changes(sides),
        "reasons": list(verdict.reasons),
        "warnings": list(verdict.warnings),
        "baselineWarnings": list(verdict.baseline_warnings),
        "guards": [
            {
                "guard": finding.guard.value,
                "reason": finding.reason,
                "fails": finding.fails,
                "inconclusive": finding.is_inconclusive,
            }
            for finding in verdict.findings
        ],
        "evidence": None
        if comparison.leading is None
        else evidence_sentence(comparison.leading, len(comparison.metrics)),
        "itemGuardsInWords": list(verdict.item_guards),
        "alpha": verdict.config.alpha,
        "correction": verdict.config.correction,
    }


def _describe_metric(metric: MetricChange) -> dict[str, Any]:
    """An evaluator: as the library describes it, with p-values that mean what they do in the whole answer."""
    tree = metric_tree(metric)
    tree["rawPValue"], tree["pValue"] = tree["pValue"], tree.pop("adjustedPValue")
    return tree


def _sees_drops(comparison: RunComparison, drop: float) -> bool:
    """Whether a drop by so much of any metric would have been seen with the power asked for."""
    metrics = [metric for metric in comparison.metrics if metric.n]
    seen = [metric.detectable_drop for metric in metrics]
    return bool(seen) and all(smallest is not None and smallest <= drop for smallest in seen)


def _count_not_judged(comparison: RunComparison) -> int:
    """Count the items of both runs that have no verdict on one of them."""
    return sum(
        item.baseline is not None
        and item.candidate is not None
        and not (item.baseline.verdicts and item.candidate.verdicts)
        for item in comparison.items
    )


def _evaluator_changes(sides: Sides) -> list[dict[str, str]]:
    """The evaluators whose configuration is another one than in the baseline."""
    before, now = sides.baseline.fingerprints, sides.candidate.fingerprints
    return [
        {"evaluator": name, "baselineFingerprint": before[name], "candidateFingerprint": now[name]}
        for name in sorted(before.keys() & now.keys())
        if before[name] != now[name]
    ]


def _find_worst(comparison: RunComparison, decision: Decision) -> list[ItemChange]:
    """The regressed items and those that guard 2 names, the largest drops first."""
    largest_drops: dict[str, float] = {}
    for drop in decision.drops:
        largest_drops[drop.key] = max(drop.size, largest_drops.get(drop.key, 0.0))
    metrics = {metric.name: metric for metric in comparison.evaluators}

    def size(item: ItemChange) -> float:
        drops = (metrics[score.name].worsening(score.share) for score in item.evaluators)
        return max(largest_drops.get(item.key, 0.0), max(drops, default=0.0))

    worst = [
        item for item in comparison.items if item.change is Change.REGRESSED or item.key in largest_drops
    ]
    return sorted(worst, key=lambda item: (-size(item), item.either.index))


def _gate_case(
    item: ItemChange, comparison: RunComparison, decision: Decision, sides: Sides
) -> dict[str, Any]:
    before, now = _read_items(item, sides)
    shown = now or before
    assert shown is not None
    named = {drop.evaluator for drop in decision.drops if drop.key == item.key}
    metrics = {metric.name: metric for metric in comparison.evaluators}
    epsilon = comparison.config.epsilon
    drops = [
        score
        for score in item.evaluators
        if score.name in named or metrics[score.name].worsening(score.share) > epsilon
    ]
    drops.sort(key=lambda score: -metrics[score.name].worsening(score.share))
    return {
        "datasetItemId": shown.dataset_item_id,
        "index": item.either.index_key,
        "evaluatorDrops": [
            {
                "evaluator": score.name,
                "baselineMean": round_half_up_or_none(score.baseline_mean),
                "candidateMean": round_half_up_or_none(score.candidate_mean),
                "delta": round_half_up(score.delta),
            }
            for score in drops
        ],
        "candidateItemId": now and now.item_id,
    }
