"""What the API of a server answers, as an agent reads it: texts marked, names as the reference has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dokimos._core.score_range import is_score_range, share_of
from dokimos._mcp.answers import clean_name, cut_parts, foreign, foreign_map

if TYPE_CHECKING:
    from dokimos.comparison._planning import Assumption

_ITEM_TEXT: Final = 8_000
_NOT_FAILING: Final = "pu"
"""Outcomes of an outline that are not failures: passed, and not judged."""
_VERDICTS: Final = {"p": 1.0, "f": 0.0}
Tree = Mapping[str, Any]


def find_failing(outline: Tree, threshold: float, lower_is_better: set[str]) -> list[tuple[int, int]]:
    """Return ordinal and repetition of each item that failed, errored, or has a score below the threshold."""
    columns = [one["scores"] for one in outline["evaluators"] if one["evaluatorName"] not in lower_is_better]
    places = zip(outline["ordinals"], outline["repetitions"], outline["outcomes"], strict=True)
    return [
        (ordinal, repetition)
        for index, (ordinal, repetition, outcome) in enumerate(places)
        if outcome not in _NOT_FAILING
        or any(scores[index] is not None and scores[index] < threshold for scores in columns)
    ]


def past_scores(run: Tree, outline: Tree, noise: float) -> list[Assumption]:
    """Return what the scores of a run say about those of a later one."""
    from dokimos.comparison._diff import PASS_RATE
    from dokimos.comparison._planning import assumptions_of_scores

    verdicts = [_VERDICTS.get(outcome) for outcome in outline["outcomes"]]
    repeats = {PASS_RATE: _group_by_item(outline["ordinals"], verdicts)}
    facts = {one["name"]: one for one in run["evaluators"]}
    for column in outline["evaluators"]:
        fact = facts.get(column["evaluatorName"], {})
        ends = (fact.get("rangeLow"), fact.get("rangeHigh"))
        within = ends if is_score_range(ends) else None
        shares = [None if score is None else share_of(score, within) for score in column["scores"]]
        repeats[column["evaluatorName"]] = _group_by_item(outline["ordinals"], shares)
    return assumptions_of_scores(repeats, lower_is_better(run), noise_share=noise)


def lower_is_better(run: Tree) -> set[str]:
    """Return the evaluators of a run of which lower scores are better."""
    return {one["name"] for one in run["evaluators"] if one["direction"] == "LOWER_IS_BETTER"}


def _group_by_item(ordinals: Sequence[int], scores: Sequence[float | None]) -> list[Sequence[float]]:
    items: dict[int, list[float]] = {}
    for ordinal, score in zip(ordinals, scores, strict=True):
        if score is not None:
            items.setdefault(ordinal, []).append(score)
    return list(items.values())


def verdict_of(summary: Tree) -> str:
    """Say in one sentence what a comparison of the server found."""
    changes = {clean_name(one["evaluator"]): one["status"] for one in summary["metrics"]}
    delta = summary["pairedDelta"] or 0.0
    if summary["significant"] and delta:
        changes = {"pass rate": "REGRESSED" if delta < 0 else "IMPROVED", **changes}
    worse = [name for name, status in changes.items() if status == "REGRESSED"]
    better = [name for name, status in changes.items() if status == "IMPROVED"]
    if not summary["pairedCount"]:
        return "Nothing was compared."
    parts = [f"Worse: {', '.join(worse)}"] if worse else []
    if better:
        parts.append(f"{'better' if worse else 'Better'}: {', '.join(better)}")
    return (
        f"{'; '.join(parts) or 'No significant change'}, over {summary['pairedCount']:,} items of both runs."
    )


def comparison_tree(summary: Tree) -> dict[str, Any]:
    """Return what a comparison of the server found, in the words of the reference's tool."""
    metrics = {clean_name(one["evaluator"]): one for one in summary["metrics"]}
    regressions = [name for name, one in metrics.items() if one["status"] == "REGRESSED"]
    has_dropped = summary["significant"] and (summary["pairedDelta"] or 0.0) < 0
    names = ("improved", "regressed", "unchanged", "added", "removed")
    return {
        "pass_rate": {
            "run_a": summary["pairedBaselinePassRate"],
            "run_b": summary["pairedCandidatePassRate"],
            "delta": summary["pairedDelta"],
            "interval": summary["pairedDeltaInterval"],
            "significant": summary["significant"],
            "p_value": summary["pValue"],
            "method": summary["method"],
        },
        "evaluators": {
            name: {
                "run_a": one["baselineMean"],
                "run_b": one["candidateMean"],
                "delta": one["delta"],
                "status": one["status"],
                "significant": one["significant"],
                "p_value": one["pValue"],
            }
            for name, one in metrics.items()
        },
        "regressions": regressions,
        "has_regressions": has_dropped or bool(regressions),
        "pass_rate_regressed": has_dropped,
        "summary_counts": {name: summary[f"{name}Count"] for name in names},
        "composition_changed": bool(summary["addedCount"] or summary["removedCount"]),
    }


def experiment_tree(experiment: Tree) -> dict[str, Any]:
    """Return an experiment by its latest run."""
    latest = experiment["latestRun"] or {}
    return {
        "run_id": latest.get("runId"),
        "timestamp": latest.get("startedAt"),
        "experiment_name": clean_name(experiment["name"]),
        "pass_rate": latest.get("passRate"),
        "judged_examples": latest.get("judgedCount"),
        "status": latest.get("status"),
        "run_count": experiment["runCount"],
    }


def run_tree(run: Tree, experiment: str) -> dict[str, Any]:
    """Return a run as lists and comparisons show it."""
    dataset = run.get("datasetName")
    return {
        "run_id": run["id"],
        "timestamp": run["startedAt"],
        "experiment_name": clean_name(experiment),
        "dataset": None if dataset is None else clean_name(dataset),
        "total_examples": run.get("itemCount", run.get("totalItems")),
        "pass_rate": run["passRate"],
        "judged_examples": run.get("judgedCount"),
        "status": run["status"],
        "branch": None if run["gitBranch"] is None else clean_name(run["gitBranch"]),
    }


def case_tree(case: Tree) -> dict[str, Any]:
    """Return an item that changed."""
    return {
        "index": case["index"],
        "item_id": case["candidateItemId"],
        "input": foreign(case["input"]),
        "status": case["status"],
        "pass_flip": case["passFlip"],
        "evaluators": [
            {
                "name": clean_name(one["name"]),
                "run_a": one["baselineMean"],
                "run_b": one["candidateMean"],
                "delta": one["delta"],
                "status": one["status"],
                "significant": one["significant"],
            }
            for one in case["evaluators"]
        ],
    }


def query_tree(item: Tree) -> dict[str, Any]:
    """Return an item that failed."""
    return {
        "index": item["ordinal"],
        "item_id": item["id"],
        "input": foreign(_value_of(item["input"], "input")),
        "expected_output": foreign(_value_of(item["expectedOutput"], "output")),
        "actual_output": foreign(_value_of(item["actualOutput"], "output")),
        "evaluations": cut_parts([_evaluation_tree(one) for one in item["evalResults"]]),
        "error": foreign(item["error"]),
    }


def _value_of(values: object, name: str) -> object:
    """Return the one value of a map that has only this one, else the map."""
    return values[name] if isinstance(values, dict) and list(values) == [name] else values


def _evaluation_tree(result: Tree, **limits: int) -> dict[str, Any]:
    return {
        "evaluator": clean_name(result["evaluatorName"]),
        "score": result["score"],
        "threshold": result["threshold"],
        "success": result["success"],
        "reason": foreign(result["reason"], **limits),
    }


def item_tree(item: Tree, start: int) -> dict[str, Any]:
    """Return an item whole."""
    limits = {"start": start, "limit": _ITEM_TEXT}
    parts = {"inputs": "input", "expected_outputs": "expectedOutput", "actual_outputs": "actualOutput"}
    shown = {
        name: foreign_map(item[key], **limits)
        if isinstance(item[key], dict)
        else foreign(item[key], **limits)
        for name, key in parts.items()
    }
    return {
        "index": item["ordinal"],
        "repeat": item["repetition"],
        "item_id": item["id"],
        **shown,
        "evaluations": cut_parts([_evaluation_tree(one, **limits) for one in item["evalResults"]]),
        "error": foreign(item["error"], **limits),
        "annotation": foreign(item["annotation"], **limits),
    }


def trace_tree(trace: Tree) -> dict[str, Any]:
    """Return a trace as its list has it, with its texts marked."""
    return {
        name: foreign(value) if isinstance(value, str | dict | list) and not _is_plain(name) else value
        for name, value in trace.items()
        if value is not None
    }


def _is_plain(name: str) -> bool:
    """Whether a field of a trace is the server's own, and no text of an application."""
    return name in ("id", "traceId", "projectId", "status") or name.endswith(("At", "Time", "NanoText"))
