"""The whole result as one JSON document, and the way back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import stdev
from typing import Any, ClassVar, Final

from dokimos._core.json_parsing import parse_json
from dokimos._core.jsonable import JsonValue, jsonable
from dokimos._core.keys import OUTPUT
from dokimos._core.means import exact_mean
from dokimos._core.number_format import round_half_up, round_half_up_or_none
from dokimos._core.provenance import EvaluatorInfo
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, RunResult
from dokimos._core.summary import RunSummary
from dokimos._core.wire import from_json
from dokimos.errors import ConfigurationError, TypeConversionError
from dokimos.exporters._item_runs import (
    ItemRuns,
    items_of,
    pass_interval,
    render_expected,
    render_inputs,
    render_value,
)
from dokimos.exporters._json_document import DocumentWriter
from dokimos.exporters._plain_items import order_results, summarize_result
from dokimos.exporters._shared_texts import is_long, join_texts

VERSION: Final = 1
RESULT_VERSION: Final = 2
"""Of a `result` whose long texts are references. One without any has no version: earlier readers know it."""

_ATTRIBUTES: Final = {"errorKind": "error_kind", "errorDetail": "error_detail"}


class JsonExporter:
    """Summary and items for any reader, and under `result` all that `load_result` needs."""

    name: ClassVar = "json"
    extensions: ClassVar = (".json",)

    def render(self, result: ExperimentResult) -> str:
        return "".join(self.render_parts(result))

    def render_parts(self, result: ExperimentResult) -> Iterator[str]:
        """Yield the report in parts, so that a long one is never in memory as a whole."""
        about: dict[str, JsonValue] = {
            "version": VERSION,
            "experimentName": result.name,
            "timestamp": result.provenance.ended_at or result.provenance.started_at,
            "description": result.description,
            "metadata": result.metadata,
            "status": result.status,
            "config": {"runs": result.run_count},
            **({"serverRunIds": list(result.server_run_ids)} if result.server_run_ids else {}),
            "summary": _summary(result),
            "warnings": result.notices,
            "provenance": result.provenance,
        }
        writer = DocumentWriter(result)
        yield from writer.render_parts(about, items_of(result), _item, result_version=RESULT_VERSION)


def load_result(source: str | Path) -> ExperimentResult:
    """Read a result back from a JSON report: its path or its text.

    Raises:
        ConfigurationError: where there is no such file, or it is no JSON report that dokimos wrote.

    Example:
        >>> result = evaluate([Example.of("a", "A")], str.upper, [ExactMatch()], quiet=True, journal=False)
        >>> load_result(render(result, "json")).pass_rate
        1.0
    """
    if isinstance(source, str) and source.lstrip().startswith(("{", "[")):
        return _parse_report(source, "the JSON text")
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as cause:
        why = getattr(cause, "strerror", None) or cause
        raise ConfigurationError(f"Cannot read the report {path}: {why}") from cause
    return _parse_report(text, str(path))


def _parse_report(text: str, where: str) -> ExperimentResult:
    try:
        tree = parse_json(text)
    except (ValueError, RecursionError) as cause:
        raise ConfigurationError(f"{where} is not JSON: {cause}. Give a JSON report.") from cause
    if not isinstance(tree, dict):
        raise ConfigurationError(
            f"{where} is not a JSON report: expected an object, got {type(tree).__name__}."
        )
    for member, supported in (("version", VERSION), ("resultVersion", RESULT_VERSION)):
        version = tree.get(member)
        if isinstance(version, int) and version > supported:
            raise ConfigurationError(
                f"{where} has {member} {version}; this dokimos reads {supported}. Update dokimos."
            )
    if not isinstance(tree.get("result"), dict):
        raise ConfigurationError(
            f"{where} has no 'result' member, so it cannot be read back. It may have been written by another "
            "implementation or by hand; export the run again with dokimos for Python."
        )
    try:
        exact = join_texts(tree, "result") if "resultVersion" in tree else tree["result"]
        result = from_json(ExperimentResult, exact)
    except (TypeConversionError, ValueError, RecursionError) as cause:
        raise ConfigurationError(f"{where}: its 'result' member is damaged. {cause}") from cause
    return replace(result, runs=tuple(map(_recount, result.runs)))


def _recount(run: RunResult) -> RunResult:
    """Return a run with totals of its items, which an earlier version may have counted in another way."""
    if not run.item_results:
        return run
    return RunResult(index=run.index, item_results=run.item_results, server_run_ids=run.server_run_ids)


def _summary(result: ExperimentResult) -> dict[str, JsonValue]:
    summary = result.summary
    interval = pass_interval(result)
    infos = {info.name: info for info in result.evaluators}
    return {
        "totalExamples": result.total_count,
        "passCount": _round_count(result.pass_count),
        "failCount": _round_count(result.fail_count),
        "errorCount": _round_count(result.error_count),
        "informationalCount": _round_count(result.informational_count),
        "notJudgedCount": _round_count(result.not_judged_count),
        "warningCount": summary.warned,
        "passRate": round_half_up_or_none(result.pass_rate),
        "passRateInterval": None
        if interval is None
        else [round_half_up(interval.low), round_half_up(interval.high)],
        "runCount": result.run_count,
        "runs": [_run(run.index, run.summary) for run in result.runs],
        "cost": {
            "totalUsd": round_half_up_or_none(summary.metrics.cost_usd),
            "priced": summary.priced,
            "tokenized": summary.tokenized,
        },
        "judge": _judge(summary),
        "tokens": {"in": summary.metrics.tokens_in, "out": summary.metrics.tokens_out},
        "latencyMs": {
            "median": round_half_up_or_none(summary.metrics.latency_ms),
            "p95": round_half_up_or_none(summary.latency_p95_ms),
        },
        "evaluators": {
            name: _evaluator(name, result, summary, infos.get(name)) for name in result.evaluator_names
        },
    }


def _judge(summary: RunSummary) -> dict[str, JsonValue]:
    judging = summary.judging
    return {
        "totalUsd": round_half_up_or_none(judging.metrics.cost_usd),
        "priced": judging.priced,
        "tokenized": judging.tokenized,
        "tokens": {"in": judging.metrics.tokens_in, "out": judging.metrics.tokens_out},
        "evaluators": {
            evaluator.name: round_half_up_or_none(evaluator.metrics.cost_usd)
            for evaluator in summary.evaluators
            if evaluator.tokenized or evaluator.metrics.cost_usd is not None
        },
    }


def _round_count(value: float) -> float:
    return value if isinstance(value, int) else round_half_up(value)


def _run(index: int, summary: RunSummary) -> dict[str, JsonValue]:
    return {
        "run": index + 1,
        "totalExamples": summary.total,
        "passCount": summary.passed,
        "failCount": summary.failed,
        "errorCount": summary.errored,
        "informationalCount": summary.informational,
        "notJudgedCount": summary.not_judged,
        "passRate": round_half_up_or_none(summary.pass_rate),
        "evaluators": {
            evaluator.name: round_half_up_or_none(evaluator.mean) for evaluator in summary.evaluators
        },
    }


def _evaluator(
    name: str, result: ExperimentResult, summary: RunSummary, info: EvaluatorInfo | None
) -> dict[str, JsonValue]:
    totals = summary.evaluator(name)
    assert totals is not None, "names come from the summaries"
    tree: dict[str, JsonValue] = {
        "averageScore": round_half_up_or_none(result.average_score(name)),
        "stdDev": round_half_up(result.score_std_dev(name)),
        "passRate": round_half_up_or_none(totals.pass_rate),
        "scored": totals.scored,
        "passCount": totals.passed,
        "failCount": totals.failed,
        "errorCount": totals.errors,
        "decides": totals.decides,
        "skippedCount": totals.skipped,
    }
    if totals.labels:
        tree["labels"] = dict(totals.labels)
    if info is not None:
        tree |= {"threshold": info.threshold, "direction": info.direction}
        if info.score_range is not None:
            tree["scoreRange"] = list(info.score_range)
    return tree


def _item(item: ItemRuns, result: ExperimentResult) -> dict[str, JsonValue]:
    tree: dict[str, JsonValue] = {
        "id": item.example.id,
        "index": item.index,
        "input": render_inputs(item),
        "expectedOutput": render_expected(item),
        "actualOutput": render_value(item.results[0].actual_outputs, OUTPUT),
        "success": item.success,
        "evaluations": _evaluations(item, result),
    }
    if item.errors:
        tree["errors"] = item.errors
    detail = next((run.error_detail for run in item.results if run.error_detail is not None), None)
    if detail is not None:
        tree["errorDetail"] = jsonable(detail)
    if item.warnings:
        tree["warnings"] = item.warnings
    if result.run_count == 1:
        tree["metrics"] = jsonable(item.results[0].metrics)
    else:
        tree["runs"] = [
            _repeat(run.index, repeat, tree["actualOutput"])
            for run, repeat in zip(result.runs, item.runs, strict=True)
            if repeat
        ]
    return tree


def _repeat(index: int, item: ItemResult, first_output: str | None) -> dict[str, JsonValue]:
    """Return one repeat of an item, without a long output that is the one of the item."""
    output = render_value(item.actual_outputs, OUTPUT)
    tree: dict[str, JsonValue] = {"run": index + 1, "actualOutput": output}
    # Repeats of a deterministic application would otherwise multiply the size of the report.
    if output == first_output and is_long(output):
        del tree["actualOutput"]
    tree |= {"success": item.success, "outcome": item.outcome, "metrics": jsonable(item.metrics)}
    if item.errors:
        tree["errors"] = item.errors
    if item.error_detail is not None:
        tree["errorDetail"] = jsonable(item.error_detail)
    return tree


def _evaluations(item: ItemRuns, result: ExperimentResult) -> list[JsonValue]:
    if len(item.runs) == 1:
        ordered = order_results(item.results[0], list(result.evaluator_names))
        return [summarize_result(each) for each in ordered]
    by_name = ((name, item.results_of(name)) for name in result.evaluator_names)
    return [_evaluation(name, results) for name, results in by_name if any(results)]


def _evaluation(name: str, runs: tuple[EvalResult | None, ...]) -> dict[str, JsonValue]:
    results = [r for r in runs if r is not None]
    scores = [r.score for r in results if r.score is not None]
    tree: dict[str, Any] = {
        "evaluator": name,
        "averageScore": round_half_up(exact_mean(scores)) if scores else None,
        **_scores_of_repeats(runs, scores),
        **_first(results, "threshold"),
        "success": _all_passed(results),
    }
    for member in ("label", "reason", "error", "errorKind", "errorDetail", "skipped"):
        tree |= _first(results, member)
    return tree


def _scores_of_repeats(runs: tuple[EvalResult | None, ...], scores: list[float]) -> dict[str, Any]:
    # stdev() needs two values; a single score does not spread.
    tree: dict[str, Any] = {"stdDev": round_half_up(stdev(scores)) if len(scores) > 1 else 0.0}
    tree["scores"] = [None if r is None else r.score for r in runs]
    labels = [None if r is None else r.label for r in runs]
    return {**tree, "labels": labels} if any(labels) else tree


def _first(results: list[EvalResult], name: str) -> dict[str, Any]:
    """Return the first value of a field that is there, as a member of an object; nothing where none is."""
    attribute = _ATTRIBUTES.get(name, name)
    values = [value for result in results if (value := getattr(result, attribute)) not in (None, "")]
    return {name: jsonable(values[0])} if values else {}


def _all_passed(results: list[EvalResult]) -> bool | None:
    """True if every repeat that decided passed, None if none did; an error that is never soft is a no."""
    if any(r.fails_item for r in results):
        return False
    return True if any(r.success for r in results) else None
