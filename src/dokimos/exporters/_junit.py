"""Test results for build servers: each item is a test case."""

from __future__ import annotations

import re
from typing import ClassVar, Final
from xml.etree import ElementTree as ET

from dokimos._core import number_format
from dokimos._core.error_detail import append_place
from dokimos._core.error_groups import errors_of
from dokimos._core.keys import OUTPUT
from dokimos._core.number_format import format_or_unknown
from dokimos._core.outcome import Outcome
from dokimos._core.results import ExperimentResult, ItemResult, RunResult
from dokimos._core.summary import judge_cost
from dokimos._core.text import join_statements
from dokimos._runtime.terminal_text import escape_control_characters
from dokimos.exporters._item_runs import render_expected, render_inputs, render_value

MAX_TEXT: Final = 20_000
MAX_MESSAGE: Final = 1_000
MAX_NAME: Final = 200

# The Char production of XML 1.0; ElementTree writes others, and readers reject the whole file.
_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class JUnitExporter:
    """One suite per repeat: errors are errors, failed verdicts are failures, and not judged is skipped."""

    name: ClassVar = "junit"
    extensions: ClassVar = (".junit.xml", ".xml")

    def render(self, result: ExperimentResult) -> str:
        suites = [_suite(run, result) for run in result.runs]
        root = ET.Element("testsuites", {"name": _clean(result.name), **_totals(result)})
        root.extend(suites)
        ET.indent(root)
        return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _totals(result: ExperimentResult) -> dict[str, str]:
    summary = result.summary
    return {
        "tests": str(summary.total),
        "failures": str(summary.failed - summary.errored),
        "errors": str(summary.errored),
        "time": _seconds(sum(_latency(item) for item in result.item_results)),
    }


def _suite(run: RunResult, result: ExperimentResult) -> ET.Element:
    summary = run.summary
    name = result.name if result.run_count == 1 else f"{result.name} run {run.index + 1}"
    suite = ET.Element(
        "testsuite",
        {
            "name": _clean(name),
            "tests": str(summary.total),
            "failures": str(summary.failed - summary.errored),
            "errors": str(summary.errored),
            "skipped": str(summary.not_judged),
            "time": _seconds(sum(_latency(item) for item in run.item_results)),
        },
    )
    if moment := _moment(result):
        suite.set("timestamp", moment)
    suite.append(_properties(run, result))
    suite.extend(_case(item, result.name) for item in run.item_results)
    return suite


def _properties(run: RunResult, result: ExperimentResult) -> ET.Element:
    source = result.provenance
    facts: dict[str, str | None] = {
        "status": str(result.status),
        "pass rate": format_or_unknown(number_format.percent, run.pass_rate),
        "cost": format_or_unknown(number_format.usd, run.summary.metrics.cost_usd),
        "judge cost": judge_cost(run.summary),
        "run id": source.run_id,
        "dokimos version": source.dokimos_version,
        "git commit": source.git_commit,
        "git branch": source.git_branch,
        "pull request": source.pull_request,
        "trigger": source.trigger,
        "build": source.build_url,
        "dataset": source.dataset_name,
        "dataset source": source.dataset_uri,
        "dataset version": None if source.dataset_version is None else str(source.dataset_version),
        "dataset fingerprint": source.dataset_fingerprint,
    }
    for summary in run.summary.evaluators:
        facts[f"average score: {summary.name}"] = number_format.format_score(summary.mean)
    properties = ET.Element("properties")
    for key, value in facts.items():
        if value is not None:
            ET.SubElement(properties, "property", {"name": _clean(key), "value": _clean(value)})
    return properties


def _case(item: ItemResult, experiment: str) -> ET.Element:
    case = ET.Element(
        "testcase",
        {
            "name": _clean(number_format.to_single_line(item.key, MAX_NAME)),
            "classname": _clean(experiment),
            "time": _seconds(_latency(item)),
        },
    )
    _add_outcome(case, item)
    ET.SubElement(case, "system-out").text = _clean(_details(item))
    return case


def _add_outcome(case: ET.Element, item: ItemResult) -> None:
    match item.outcome:
        case Outcome.ERRORED:
            errors = errors_of(item)
            message = "\n".join(append_place(text, detail) for text, detail in errors)
            tracebacks = [detail.traceback for _, detail in errors if detail is not None and detail.traceback]
            _add_problem(case, "error", message, "\n\n".join([message, *dict.fromkeys(tracebacks)]))
        case Outcome.FAILED:
            _add_problem(case, "failure", "\n".join(_reasons(item)))
        case Outcome.NOT_JUDGED:
            ET.SubElement(case, "skipped", {"message": _clean(_why_not_judged(item))})
        case Outcome.PASSED | Outcome.INFORMATIONAL:
            pass


def _add_problem(case: ET.Element, kind: str, text: str, body: str | None = None) -> None:
    attributes = {
        "type": f"evaluation.{kind}",
        "message": _clean(number_format.to_single_line(text, MAX_MESSAGE)),
    }
    ET.SubElement(case, kind, attributes).text = _clean(number_format.truncate_middle(body or text, MAX_TEXT))


def _reasons(item: ItemResult) -> list[str]:
    return [
        f"{r.name} {number_format.format_score(r.score)}: {r.reason or 'below what was asked for'}"
        for r in item.eval_results
        if r.success is False
    ]


def _why_not_judged(item: ItemResult) -> str:
    skipped = [f"{r.name}: {r.skipped}" for r in item.eval_results if r.skipped]
    return number_format.to_single_line(
        join_statements(["Nothing judged this item.", *skipped, *item.warnings]), MAX_MESSAGE
    )


def _details(item: ItemResult) -> str:
    lines = [
        f"input: {render_inputs(item)}",
        f"expected: {render_expected(item)}",
        f"actual: {render_value(item.actual_outputs, OUTPUT)}",
    ]
    lines += [
        " ".join(filter(None, (f"{r.name}:", number_format.format_score(r.score), r.label, r.reason)))
        for r in item.eval_results
    ]
    lines += [f"warning: {text}" for text in item.warnings]
    return number_format.truncate_middle("\n".join(lines), MAX_TEXT)


def _latency(item: ItemResult) -> float:
    return (item.metrics.latency_ms or 0.0) if item.metrics else 0.0


def _seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.3f}"


def _moment(result: ExperimentResult) -> str | None:
    """The start in the form that readers of these files expect: without fraction and offset."""
    match = re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", result.provenance.started_at or "")
    return match[0] if match else None


def _clean(text: str) -> str:
    """Replace the characters that XML 1.0 does not allow, not even escaped."""
    return _FORBIDDEN.sub("\ufffd", escape_control_characters(text))
