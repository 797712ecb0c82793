"""A summary for pull requests and job logs, short enough for both."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import ClassVar, Final, TypeVar

from dokimos._core import number_format
from dokimos._core.error_detail import ErrorDetail
from dokimos._core.error_groups import error_key, errors_of
from dokimos._core.keys import OUTPUT
from dokimos._core.number_format import format_or_unknown
from dokimos._core.outcome import Outcome
from dokimos._core.results import EvalResult, ExperimentResult, RunStatus
from dokimos._core.summary import RunSummary, describe_labels, judge_cost
from dokimos._runtime.terminal_text import escape_control_characters
from dokimos.exporters._item_runs import (
    ItemRuns,
    by_tag,
    items_of,
    pass_interval,
    render_expected,
    render_inputs,
    render_value,
    tag_keys,
    worst_first,
)
from dokimos.exporters._run_facts import facts

T = TypeVar("T")

MAX_LENGTH: Final = 60_000
"""A comment on GitHub holds 65,536 characters, a job summary a megabyte."""
MAX_ITEMS: Final = 25
MAX_TEXT: Final = 1_000
MAX_HEADING: Final = 80
MAX_REASON: Final = 300
MAX_NAMED: Final = 10

_PUNCTUATION: Final = re.compile(r"([\\`*_\[\]<>|~&!#$])")
# A list, a rule or an underlined heading, where the text stands at the start of a line.
_BLOCK_START: Final = re.compile(r"^(\d*)([-+=.)])")
# What GitHub turns into links and mentions even when its punctuation is escaped.
_LINKED: Final = re.compile(r"[@#]|www|://|\b[0-9a-f]{7,40}\b|GH-", re.IGNORECASE)
_PIPE: Final = re.compile(r"(?<!\\)\|")


class MarkdownExporter:
    """Verdict, evaluators, then what failed and what errored; all foreign text is fenced or escaped."""

    name: ClassVar = "markdown"
    extensions: ClassVar = (".md", ".markdown")

    def render(self, result: ExperimentResult) -> str:
        items = items_of(result)
        worst = worst_first(items, result)
        closing = "\n".join(_provenance(result))
        opening = "\n".join([*_head(result), *_evaluators(result), *_runs(result), *_tags(result, items)])
        # Head and provenance are always whole; failures get the larger part of the rest.
        room = MAX_LENGTH - len(closing) - len(opening)
        failed = _select_outcome(worst, Outcome.FAILED)
        errors = _group_by_error(_select_outcome(worst, Outcome.ERRORED))
        sections = (
            _section("Failed Examples", failed, _render_failure, room * 3 // 5),
            _section("Errors", errors, _render_error_group, room // 4),
            _section("Warnings", [item for item in worst if item.warnings], _render_warnings, room // 8),
        )
        parts = (part.strip("\n") for part in (opening, *sections, closing))
        return "\n\n".join(part for part in parts if part) + "\n"


def _select_outcome(items: Iterable[ItemRuns], outcome: Outcome) -> list[ItemRuns]:
    return [item for item in items if item.outcome is outcome]


def _head(result: ExperimentResult) -> Iterator[str]:
    yield f"# Experiment: {plain(result.name, MAX_HEADING)}\n"
    if moment := result.provenance.ended_at or result.provenance.started_at:
        yield f"**Date:** {code(moment)}\\"
    yield f"**Pass Rate:** {_verdict(result)}\\"
    if result.status is not RunStatus.COMPLETED:
        yield f"**Status:** {result.status.in_words}, the numbers cover what was finished\\"
    yield f"**Items:** {_counts(result)}\\"
    summary = result.summary
    yield f"**Cost:** {_cost(summary)}{_judge_cost(summary)} · **Latency:** {_latency(summary)}\n"
    if result.description:
        yield f"{plain(result.description, MAX_TEXT)}\n"
    for warning in result.notices:
        yield f"> Warning: {plain(warning, MAX_REASON)}\n"


def _verdict(result: ExperimentResult) -> str:
    interval = pass_interval(result)
    if result.pass_rate is None or interval is None:
        return "not judged"
    passed, judged = result.pass_count, result.pass_count + result.fail_count
    spread = f"95 % interval {number_format.percent(interval.low)} to {number_format.percent(interval.high)}"
    counts = f"{number_format.format_count(passed)}/{number_format.format_count(judged)}"
    return f"{number_format.percent(result.pass_rate)} ({counts}), {spread}"


def _counts(result: ExperimentResult) -> str:
    failed = result.fail_count - result.error_count
    runs = "1 run" if result.run_count == 1 else f"{result.run_count} runs"
    parts = [
        f"{number_format.format_count(result.total_count)} in {runs}",
        f"{number_format.format_count(result.pass_count)} passed",
        f"{number_format.format_count(failed)} failed",
        f"{number_format.format_count(result.error_count)} errored",
        f"{number_format.format_count(result.not_judged_count)} not judged",
    ]
    if result.informational_count:
        parts.insert(-1, f"{number_format.format_count(result.informational_count)} informational")
    return " · ".join(parts)


def _cost(summary: RunSummary) -> str:
    if summary.metrics.cost_usd is None:
        return "unpriced"
    amount = number_format.usd(summary.metrics.cost_usd)
    if summary.priced < summary.tokenized:
        return f"{amount} ({summary.priced:,}/{summary.tokenized:,} priced)"
    return amount


def _judge_cost(summary: RunSummary) -> str:
    judging = judge_cost(summary)
    return "" if judging is None else f" · **Judge:** {judging}"


def _latency(summary: RunSummary) -> str:
    if summary.metrics.latency_ms is None:
        return "not measured"
    p95 = format_or_unknown(number_format.duration, summary.latency_p95_ms)
    return f"median {number_format.duration(summary.metrics.latency_ms)}, p95 {p95}"


def _evaluators(result: ExperimentResult) -> Iterator[str]:
    if not result.evaluator_names:
        return
    yield "## Evaluator Summary\n"
    yield "| Evaluator | Avg Score | Std Dev | Pass Rate | Passed | Errors | Skipped |"
    yield "|-----------|----------:|--------:|----------:|-------:|-------:|--------:|"
    summary = result.summary
    for name in result.evaluator_names:
        yield _evaluator_row(name, result, summary)
    yield ""
    yield from _labels(summary)


def _labels(summary: RunSummary) -> Iterator[str]:
    labelled = [evaluator for evaluator in summary.evaluators if evaluator.labels]
    if not labelled:
        return
    yield table_row(["Evaluator", "Labels"])
    yield "|---|---|"
    for evaluator in labelled:
        yield table_row(
            [plain(evaluator.name, MAX_HEADING), plain(describe_labels(evaluator.labels), MAX_TEXT)]
        )
    yield ""


def _evaluator_row(name: str, result: ExperimentResult, summary: RunSummary) -> str:
    totals = summary.evaluator(name)
    assert totals is not None, "names come from the summaries"
    cells = [
        plain(name, MAX_HEADING),
        number_format.format_score(result.average_score(name)),
        number_format.format_score(result.score_std_dev(name))
        if result.run_count > 1
        else number_format.UNKNOWN,
        format_or_unknown(number_format.percent, totals.pass_rate),
        f"{totals.passed:,}/{totals.judged:,}" if totals.judged else number_format.UNKNOWN,
        f"{totals.errors:,}",
        f"{totals.skipped:,}",
    ]
    return table_row(cells)


def _runs(result: ExperimentResult) -> Iterator[str]:
    if result.run_count < 2:
        return
    yield "## Runs\n"
    yield table_row(["Run", "Pass Rate", "Passed", "Errors", *(plain(n, 40) for n in result.evaluator_names)])
    yield "|---|" + "---:|" * (3 + len(result.evaluator_names))
    for run in result.runs:
        scores = [number_format.format_score(run.average_score(name)) for name in result.evaluator_names]
        passed = f"{run.pass_count:,}/{run.summary.judged:,}"
        rate = format_or_unknown(number_format.percent, run.pass_rate)
        yield table_row([str(run.index + 1), rate, passed, f"{run.error_count:,}", *scores])
    yield ""


def _tags(result: ExperimentResult, items: tuple[ItemRuns, ...]) -> Iterator[str]:
    for key in tag_keys(items):
        yield f"## By {plain(key, MAX_HEADING)}\n"
        yield table_row(["Value", "Items", "Pass Rate", "Errors"])
        yield "|---|---:|---:|---:|"
        for tag, part in by_tag(result, key).items():
            rate = format_or_unknown(number_format.percent, part.pass_rate)
            cells = [plain(tag, MAX_HEADING), number_format.format_count(part.total_count), rate]
            yield table_row([*cells, number_format.format_count(part.error_count)])
        yield ""


def _section(title: str, items: list[T], write: Callable[[T], str], room: int) -> str:
    """Return as many items as there is room for, and a line that counts the others."""
    if not items:
        return ""
    texts = []
    for item in items[:MAX_ITEMS]:
        text = write(item)
        room -= len(text)
        if room < 0:
            break
        texts.append(text)
    omitted = len(items) - len(texts)
    if omitted:
        texts.append(f"\n… and {omitted:,} more; the HTML and JSON reports have them all.\n")
    return f"## {title}\n\n" + "".join(texts)


def _render_failure(item: ItemRuns) -> str:
    first = item.first_bad
    lines = [_heading(item)]
    lines += _value("Expected", render_expected(item))
    lines += _value("Actual", render_value(first.actual_outputs, OUTPUT))
    lines += [_evaluation(result) for result in first.eval_results]
    if len(item.runs) > 1:
        failed = sum(result.success is False for result in item.results)
        lines.append(f"Failed in {failed} of {len(item.results)} runs.\n")
    return "\n".join(lines) + "\n"


def _group_by_error(items: list[ItemRuns]) -> list[list[ItemRuns]]:
    """Group the items that have the same errors from the same locations."""
    groups: dict[Hashable, list[ItemRuns]] = {}
    for item in items:
        key = tuple(error_key(text, detail) for text, detail in errors_of(item.first_bad))
        groups.setdefault(key, []).append(item)
    return list(groups.values())


def _render_error_group(items: list[ItemRuns]) -> str:
    first, *others = items
    errors = [f"- {_render_error(text, detail)}" for text, detail in errors_of(first.first_bad)]
    if others:
        named = ", ".join(code(item.key) for item in others[:MAX_NAMED])
        more = f" and {len(others) - MAX_NAMED:,} more" if len(others) > MAX_NAMED else ""
        errors.append(f"\n{len(items):,} items have this error, also {named}{more}.")
    return "\n".join([_heading(first), *errors, ""]) + "\n"


def _render_error(text: str, detail: ErrorDetail | None) -> str:
    location = "" if detail is None else detail.place
    return f"{plain(text, MAX_REASON)} ({code(location)})" if location else plain(text, MAX_REASON)


def _render_warnings(item: ItemRuns) -> str:
    return "".join(f"- {code(item.key)}: {plain(text, MAX_REASON)}\n" for text in item.warnings)


def _heading(item: ItemRuns) -> str:
    title = plain(render_inputs(item) or item.key, MAX_HEADING)
    return f"### {title}\n" if item.example.id is None else f"### {title}\n\n{code(item.key)}\n"


def _evaluation(result: EvalResult) -> str:
    name = plain(result.name, MAX_HEADING)
    if result.error is not None:
        return f"**{name}:** (ERROR): {plain(result.problem, MAX_REASON)}\n"
    if result.skipped is not None:
        return f"**{name}:** (SKIPPED): {plain(result.skipped, MAX_REASON)}\n"
    verdict = {True: " (PASS)", False: " (FAIL)", None: ""}[result.success]
    reason = f": {plain(result.reason, MAX_REASON)}" if result.reason else ""
    return f"**{name}:** {number_format.format_score(result.score)}{verdict}{reason}\n"


def _value(label: str, text: str | None) -> list[str]:
    if text is None:
        return [f"**{label}:** {number_format.UNKNOWN}\n"]
    if len(text) <= 120 and text.strip() and "\n" not in text:
        return [f"**{label}:** {code(text)}\n"]
    return [f"**{label}:**\n", fence_text(number_format.truncate_middle(text, MAX_TEXT)), ""]


def _provenance(result: ExperimentResult) -> Iterator[str]:
    if rows := facts(result):
        yield "## Provenance\n"
        yield "| | |\n|---|---|"
        yield from (table_row([label, code(fact)]) for label, fact in rows.items())


def table_row(cells: Iterable[str]) -> str:
    """Return a row of a table; bars in its cells do not divide them."""
    return "| " + " | ".join(_PIPE.sub(r"\|", cell) for cell in cells) + " |"


def plain(text: str, limit: int) -> str:
    """Return foreign text as running text on one line: nothing in it is markup, a link or a mention."""
    line = escape_control_characters(number_format.to_single_line(text, limit))
    # A code span is the only place where GitHub links nothing.
    if _LINKED.search(line):
        return code(line)
    return _BLOCK_START.sub(r"\1\\\2", _PUNCTUATION.sub(r"\\\1", line))


def code(text: str) -> str:
    """Return foreign text as a code span."""
    line = escape_control_characters(number_format.to_single_line(text, MAX_REASON))
    ticks = _fence_for(line, least=1)
    # CommonMark strips one space on each side, and ticks that touch the fence would belong to it.
    pad = " " if line.startswith("`") or line.endswith("`") or not line else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def fence_text(text: str) -> str:
    """Return foreign text as a fenced code block that it cannot close."""
    lines = escape_control_characters(text.replace("\r\n", "\n").replace("\r", "\n"))
    fence = _fence_for(lines, least=3)
    return f"{fence}text\n{lines}\n{fence}"


def _fence_for(text: str, *, least: int) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(least, longest + 1)
