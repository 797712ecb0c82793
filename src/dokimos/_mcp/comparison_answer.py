"""What changed between two runs, in the words of the reference's tool, and in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dokimos._core.number_format import round_half_up, round_half_up_or_none
from dokimos._mcp.answers import Page, clean_name, clean_text, cut_page, foreign
from dokimos._mcp.tool import Answer
from dokimos.comparison._diff import Change, ItemChange, MetricChange, RunComparison
from dokimos.comparison._wording import change_sentence, evidence_sentence, verdict_text

MOST_CASES: Final = 50
_COMPOSITION_NOTE: Final = (
    "Items that only one run has are not tested. The pass rates of run_a and run_b are over all items of "
    "each; the comparison rests on those that both have."
)


def comparison_answer(
    comparison: RunComparison, run_a: Mapping[str, Any], run_b: Mapping[str, Any], start: int
) -> Answer:
    """Return the verdict, the comparison, and the items that changed, the regressed ones first."""
    changed = [item for item in comparison.cases() if item.change is not Change.UNCHANGED]
    page = cut_page([_case(item) for item in changed], start, most=MOST_CASES)
    tree = {
        "pass_rate": {**_metric(comparison.pass_rate), "method": comparison.pass_rate.method.value},
        "evaluators": {clean_name(one.name): _metric(one) for one in comparison.evaluators},
        "regressions": [clean_name(one.name) for one in comparison.regressed_evaluators],
        "has_regressions": comparison.has_regressions,
        "pass_rate_regressed": comparison.pass_rate_regressed,
        "summary_counts": _counts(comparison, changed),
        "composition_changed": comparison.composition_changed,
        **({"composition_note": _COMPOSITION_NOTE} if comparison.composition_changed else {}),
        **_cases(page, len(changed)),
    }
    answer: Answer = {
        "verdict": clean_text(verdict_text(comparison)) + ".",
        "evidence": _evidence(comparison),
        "warnings": [foreign(warning) for warning in comparison.warnings],
        "run_a": dict(run_a),
        "run_b": dict(run_b),
        "comparison": tree,
    }
    return answer if page.next_cursor is None else {**answer, "next_cursor": page.next_cursor}


def _cases(page: Page, count: int) -> dict[str, Any]:
    return {
        "cases": page.entries,
        "cases_truncated": page.next_cursor is not None,
        "changed_case_count": count,
    }


def _evidence(comparison: RunComparison) -> list[str]:
    """Return sentences about what changed, else about what the test could have seen."""
    moved = [one for one in comparison.metrics if one.change in (Change.REGRESSED, Change.IMPROVED)]
    if moved:
        return [clean_text(change_sentence(one)) for one in moved]
    leading = comparison.leading
    return [] if leading is None else [clean_text(evidence_sentence(leading, len(comparison.metrics)))]


def _metric(metric: MetricChange) -> dict[str, Any]:
    return {
        "run_a": round_half_up_or_none(metric.baseline_mean),
        "run_b": round_half_up_or_none(metric.candidate_mean),
        "delta": round_half_up_or_none(metric.delta),
        "status": metric.change.value,
        "significant": metric.significant,
        "p_value": round_half_up(metric.adjusted_p_value),
    }


def _counts(comparison: RunComparison, changed: Sequence[ItemChange]) -> dict[str, int]:
    counts = {change.value.lower(): comparison.count(change) for change in Change}
    for change in (Change.REGRESSED, Change.IMPROVED):
        counts[f"significant_{change.value.lower()}"] = sum(
            item.change is change and any(one.significant for one in item.evaluators) for item in changed
        )
    return counts


def _case(item: ItemChange) -> dict[str, Any]:
    return {
        "index": item.either.index,
        "item": clean_name(item.dataset_item_id or item.either.index_key),
        "input": foreign(item.input),
        "status": item.change.value,
        "pass_flip": item.pass_flip,
        "evaluators": [
            {
                "name": clean_name(one.name),
                "run_a": round_half_up_or_none(one.baseline_mean),
                "run_b": round_half_up_or_none(one.candidate_mean),
                "delta": round_half_up(one.delta),
                "status": one.change.value,
                "significant": one.significant,
            }
            for one in item.evaluators
        ],
    }
