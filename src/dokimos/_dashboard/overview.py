"""What the page says of a run without opening it: its numbers, its evaluators, where it comes from."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Any, Final

from dokimos._core.evaluator_summary import EvaluatorSummary
from dokimos._core.jsonable import JsonValue, jsonable
from dokimos._core.number_format import round_half_up, round_half_up_or_none
from dokimos._core.outcome import Outcome
from dokimos._core.provenance import EvaluatorInfo
from dokimos._core.results import ExperimentResult
from dokimos._core.summary import judge_cost
from dokimos.evaluators.registry import BUILT_IN
from dokimos.exporters._item_runs import ItemRuns, pass_interval, tags_of
from dokimos.exporters._run_facts import facts
from dokimos.stats._mcnemar import mcnemar_p
from dokimos.suites._case_plan import EXPECTED_TOOLS
from dokimos.suites._turn_metric import TurnsAnswered

NOTABLE_DROP: Final = 0.04
"""A pass rate that falls by more than this from one run to the next is marked."""
MOST_TAGS: Final = 40
TAGS: Final = "tags"
_FAMILIES: Final = {
    **{name: name for name in ("rag", "agent", "conversation", "retrieval")},
    "nlp": "standard",
    "llm": "judge",
}
"""The kind of an evaluator, by its package."""

Verdicts = Mapping[str, bool | None]


def build_overview(result: ExperimentResult, items: tuple[ItemRuns, ...]) -> dict[str, JsonValue]:
    """Return the numbers of a run as JSON."""
    source, summary = result.provenance, result.summary
    metadata = {f"metadata: {key}": str(value) for key, value in result.metadata.items() if key != "skipped"}
    tree = {
        "id": result.run_id or "",
        "name": result.name,
        "description": result.description,
        "started": source.started_at or "",
        "seconds": _seconds(source.started_at, source.ended_at),
        "status": result.status.value,
        "repeats": result.run_count,
        "partial": source.partial or "",
        **_counts(result),
        "version": str(result.metadata.get("promptVersion") or ""),
        "model": str(result.metadata.get("model") or summary.metrics.model or ""),
        "commit": (source.git_commit or "")[:10],
        "evaluators": _evaluators(result),
        "cost": round_half_up_or_none(summary.metrics.cost_usd),
        "priced": summary.priced,
        "tokenized": summary.tokenized,
        "tokens": summary.metrics.tokens,
        "judging": judge_cost(summary),
        "latency": round_half_up_or_none(summary.metrics.latency_ms),
        "p95": round_half_up_or_none(summary.latency_p95_ms),
        "tags": _tag_rates(items),
        "warnings": result.notices,
        "skipped": result.metadata.get("skipped") or {},
        "facts": {**facts(result), **metadata},
    }
    return dict(jsonable(tree))


def collect_verdicts(items: Iterable[ItemRuns]) -> dict[str, bool | None]:
    """Return what came of each item, by its key."""
    return {item.key: item.success for item in items}


def drop_since(before: Verdicts, now: Verdicts) -> dict[str, JsonValue] | None:
    """Say how a run did on the items that the run before judged, too; None where nothing was lost.

    `p` is McNemar's exact test: how likely so uneven a change is by chance.
    """
    pairs = [(before[key], verdict) for key, verdict in now.items() if before.get(key) is not None]
    # Only items that both runs judged: rows that were added or skipped are not a drop.
    judged = [(old, new) for old, new in pairs if new is not None]
    worse = sum(bool(old and not new) for old, new in judged)
    better = sum(bool(new and not old) for old, new in judged)
    if not judged or worse - better <= NOTABLE_DROP * len(judged):
        return None
    drop = (worse - better) / len(judged)
    return {
        "drop": round_half_up(drop),
        "worse": worse,
        "better": better,
        "p": round_half_up(mcnemar_p(worse, better)),
    }


def kind_of(name: str, info: EvaluatorInfo | None) -> str:
    """Return the family that an evaluator belongs to."""
    registered = None if info is None else info.registry_name
    if name == EXPECTED_TOOLS:
        return "tools"
    if name == TurnsAnswered.default_name:
        return "conversation"
    if registered is None:
        return "code"
    if registered == "g_eval":
        return "geval"
    package = BUILT_IN.get(registered, "").partition(":")[0].split(".")
    return _FAMILIES.get(package[2].removeprefix("_"), "standard") if len(package) > 3 else "standard"


def _counts(result: ExperimentResult) -> dict[str, Any]:
    interval = pass_interval(result)
    span = None if interval is None else [round_half_up(interval.low), round_half_up(interval.high)]
    return {
        "total": result.total_count,
        "passed": result.pass_count,
        "failed": result.fail_count - result.error_count,
        "errored": result.error_count,
        "informational": result.informational_count,
        "unjudged": result.not_judged_count,
        "warned": result.summary.warned,
        "rate": round_half_up_or_none(result.pass_rate),
        "interval": span,
    }


def _evaluators(result: ExperimentResult) -> list[dict[str, Any]]:
    infos = {info.name: info for info in result.evaluators}
    summary = result.summary
    rows = []
    for name in result.evaluator_names:
        totals = summary.evaluator(name)
        if totals is not None:
            rows.append(_evaluator(result, totals, infos.get(name)))
    return rows


def _evaluator(
    result: ExperimentResult, totals: EvaluatorSummary, info: EvaluatorInfo | None
) -> dict[str, Any]:
    tree = {
        "name": totals.name,
        "kind": kind_of(totals.name, info),
        "lower": info is not None and info.lower_is_better,
        "threshold": None if info is None else info.threshold,
        "mean": round_half_up_or_none(result.average_score(totals.name)),
        "passed": totals.passed,
        "judged": totals.judged,
        "decides": totals.decides,
        "errors": totals.errors,
        "skipped": totals.skipped,
        "parameters": {} if info is None else info.parameters,
    }
    if totals.score_range is not None:
        tree["range"] = list(totals.score_range)
    return tree


def _tag_rates(items: Iterable[ItemRuns]) -> dict[str, list[int]]:
    """Count passed and judged items by tag."""
    rates: dict[str, list[int]] = {}
    for item in items:
        if item.success is None or not item.example.metadata.get(TAGS):
            continue
        for tag in tags_of(item.example, TAGS):
            # Tags that are on the list go on counting when it is full.
            if tag not in rates and len(rates) >= MOST_TAGS:
                continue
            counts = rates.setdefault(tag, [0, 0])
            counts[0] += item.outcome is Outcome.PASSED
            counts[1] += 1
    return rates


def _seconds(started: str | None, ended: str | None) -> float | None:
    if started is None or ended is None:
        return None
    try:
        took = datetime.datetime.fromisoformat(ended) - datetime.datetime.fromisoformat(started)
    except (ValueError, TypeError):
        return None
    return round_half_up(took.total_seconds(), 3)
