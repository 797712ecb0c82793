"""A report as one file: works without network, and its summary without JavaScript."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar, Final

from dokimos.core import figures
from dokimos.core.figures import UNKNOWN, known
from dokimos.core.outcome import Outcome
from dokimos.core.provenance import EvaluatorInfo
from dokimos.core.results import ExperimentResult, RunStatus
from dokimos.core.score_range import describe_range
from dokimos.core.summary import EvaluatorSummary, RunSummary, judge_cost
from dokimos.exporters.facts import facts
from dokimos.exporters.html_charts import histogram, outcome_bar, rate_bar
from dokimos.exporters.html_data import embedded
from dokimos.exporters.html_page import asset, bundled, card, foreign, number_cell, page, safe
from dokimos.exporters.items import (
    ItemRuns,
    by_tag,
    inputs_text,
    items_of,
    pass_interval,
    tag_keys,
    worst_first,
)
from dokimos.stats.intervals import Interval

STATIC_ITEMS: Final = 20
"""Items listed where JavaScript is off."""
SCRIPTS: Final = ("report_parts.js", "report_items.js", "report.js")
FIRST_ITEMS: Final = 3
"""Items named before anything else."""

_STATUS: Final[dict[RunStatus, str]] = {
    RunStatus.INTERRUPTED: "Interrupted: the numbers cover what was finished. Resume the run for the rest.",
    RunStatus.STOPPED: "Stopped: too many items errored, or one failed with fail-fast. Resume it after that.",
    RunStatus.BUDGET_SPENT: "Budget spent: the numbers cover what was finished. Resume with a larger one.",
    RunStatus.ENDPOINT_DOWN: "Stopped: an endpoint is down. Resume the run when it is back.",
    RunStatus.BROKEN: "Broken: every item errored. Look at the errors below before you trust any number.",
}


class HtmlExporter:
    """Verdict, figures, evaluators, then the items, worst first. Foreign text is only ever shown as text."""

    name: ClassVar = "html"
    extensions: ClassVar = (".html", ".htm")

    def render(self, result: ExperimentResult) -> str:
        items = items_of(result)
        worst = worst_first(items, result)
        keys = tag_keys(items)
        style, code = asset("report.css"), bundled(*map(asset, SCRIPTS))
        summary = result.summary
        body = [
            _header(result),
            _cards(result, summary),
            _warnings(result),
            _first(worst),
            _evaluators(result, summary),
            _breakdowns(result, keys),
            _items(result, worst),
            _provenance(result),
        ]
        data = f'<script type="application/json" id="data">{embedded(result, items, keys)}</script>\n'
        return page(
            f"{result.name} – dokimos report",
            "".join(body),
            style=style,
            script=code,
            skip='<a class="skip" href="#items">Skip to the items</a>\n',
            data=data,
        )


def _header(result: ExperimentResult) -> str:
    source = result.provenance
    facts = [
        f"{figures.count(result.total_count)} items",
        f"{result.run_count} runs" if result.run_count > 1 else "1 run",
        *([f"dataset {foreign(source.dataset_name)}"] if source.dataset_name else []),
        *([f"<time>{safe(source.started_at[:16].replace('T', ' '))}</time>"] if source.started_at else []),
    ]
    description = f'<p class="description">{foreign(result.description)}</p>' if result.description else ""
    return (
        f'<header>\n<h1>{foreign(result.name)}</h1>\n{description}<p class="facts">{" · ".join(facts)}</p>\n'
        f"{_status(result)}{_verdict(result)}</header>\n"
    )


def _status(result: ExperimentResult) -> str:
    text = _STATUS.get(result.status)
    return f'<p class="status" role="status"><b>!</b> {text}</p>\n' if text else ""


def _verdict(result: ExperimentResult) -> str:
    if result.pass_rate is None:
        words = (
            "Informational: no evaluator decides"
            if result.informational_count
            else "Not judged: no evaluator decided on any item"
        )
        line = f'<p class="verdict none"><b>–</b> {words}</p>'
    else:
        passed, judged = result.pass_count, result.pass_count + result.fail_count
        mean = f", mean of {result.run_count} runs" if result.run_count > 1 else ""
        sign, kind = ("<b>✓</b> ", "pass") if result.pass_rate == 1 else ("", "")
        line = (
            f'<p class="verdict {kind}">{sign}{figures.percent(result.pass_rate)} passed '
            f'<span class="of">({figures.count(passed)}/{figures.count(judged)}{mean})</span></p>'
        )
    return f"{line}\n{_outcomes(result)}"


def _outcomes(result: ExperimentResult) -> str:
    counts = (
        ("pass", "✓ passed", result.pass_count),
        ("fail", "✗ failed", result.fail_count - result.error_count),
        ("error", "! errored", result.error_count),
        ("info", "· informational", result.informational_count),
        ("none", "– not judged", result.not_judged_count),
    )
    words = [
        f'<li class="{kind}"><b>{figures.count(count)}</b> {label}</li>'
        for kind, label, count in counts
        if count
    ]
    bar = outcome_bar(((kind, count) for kind, _, count in counts), result.total_count)
    return f'{bar}<ul class="counts">{"".join(words)}</ul>\n'


def _cards(result: ExperimentResult, summary: RunSummary) -> str:
    cards = [_rate_card(result), _error_card(result, summary), _cost_card(summary), _latency_card(summary)]
    return f'<section class="cards" aria-label="Summary">\n{"".join(cards)}</section>\n'


def _rate_card(result: ExperimentResult) -> str:
    interval = pass_interval(result)
    if result.pass_rate is None or interval is None:
        return card("Pass rate", UNKNOWN, "not judged")
    judged = figures.count(result.pass_count + result.fail_count)
    spread = f"n = {judged} · 95 % interval {_span(interval)}"
    return card("Pass rate", figures.percent(result.pass_rate), spread, rate_bar(result.pass_rate, interval))


def _span(interval: Interval) -> str:
    low, high = figures.percent(interval.low), figures.percent(interval.high)
    return f"{low.removesuffix(' %')} to {high}"


def _error_card(result: ExperimentResult, summary: RunSummary) -> str:
    share = known(figures.percent, result.error_count / result.total_count if result.total_count else None)
    parts = [f"{share} of items"]
    skipped = sum(found.skipped for found in summary.evaluators)
    runs = " in all runs" if result.run_count > 1 else ""
    for count, what in ((summary.warned, "warnings"), (skipped, "skipped scores")):
        if count:
            parts.append(f"{count:,} {what}{runs}")
    return card("Errors", figures.count(result.error_count), " · ".join(parts))


def _cost_card(summary: RunSummary) -> str:
    metrics = summary.metrics
    tokens = f" · {metrics.tokens:,} tokens" if metrics.tokens is not None else ""
    judging = judge_cost(summary)
    tokens += "" if judging is None else f" · judge {judging}"
    if metrics.cost_usd is None:
        return card("Cost", UNKNOWN, f"unpriced{tokens}")
    coverage = (
        f"{summary.priced:,}/{summary.tokenized:,} priced" if summary.tokenized else "as the task reported"
    )
    return card("Cost", figures.usd(metrics.cost_usd), f"{coverage}{tokens}")


def _latency_card(summary: RunSummary) -> str:
    if summary.metrics.latency_ms is None:
        return card("Latency, median", UNKNOWN, "not measured")
    p95 = known(figures.duration, summary.latency_p95_ms)
    return card("Latency, median", figures.duration(summary.metrics.latency_ms), f"95th percentile {p95}")


def _warnings(result: ExperimentResult) -> str:
    if not result.notices:
        return ""
    lines = "".join(f"<li>{foreign(text)}</li>" for text in result.notices)
    return f'<section class="warnings"><h2>Warnings</h2><ul>{lines}</ul></section>\n'


def _evaluators(result: ExperimentResult, summary: RunSummary) -> str:
    if not result.evaluator_names:
        return '<section><h2>Evaluators</h2><p class="empty">No evaluator gave a result.</p></section>\n'
    infos = {info.name: info for info in result.evaluators}
    rows = [_evaluator_row(name, result, summary, infos.get(name)) for name in result.evaluator_names]
    return (
        '<section>\n<h2>Evaluators</h2>\n<div class="scroll"><table class="sortable evaluators">\n<thead><tr>'
        '<th scope="col">Evaluator</th><th scope="col" class="num">Mean</th>'
        '<th scope="col" class="num" title="Sample standard deviation of the means of the runs">±</th>'
        '<th scope="col" class="num">Pass rate</th><th scope="col" class="num">Passed</th>'
        '<th scope="col" class="num">Errors</th><th scope="col" class="num">Skipped</th>'
        f'<th scope="col" class="plain">{_scores_title(summary)}</th></tr></thead>\n'
        f"<tbody>{''.join(rows)}</tbody></table></div></section>\n"
    )


def _evaluator_row(
    name: str, result: ExperimentResult, summary: RunSummary, info: EvaluatorInfo | None
) -> str:
    found = summary.evaluator(name)
    assert found is not None, "names come from the summaries"
    mean = result.average_score(name)
    spread = result.score_std_dev(name) if result.run_count > 1 else None
    threshold = info.threshold if info else None
    lower = info is not None and info.lower_is_better
    cells = [
        f'<th scope="row" data-sort="{safe(name.lower())}">'
        f'<span class="name" data-evaluator="{safe(name)}">{foreign(name)}</span>'
        f'<span class="rule">{_rule(threshold, lower=lower, decides=found.decides)}'
        f"{_range_note(found)}</span></th>",
        number_cell(mean, known(figures.score, mean)),
        number_cell(spread, known(figures.score, spread)),
        number_cell(found.pass_rate, known(figures.percent, found.pass_rate)),
        number_cell(found.passed, f"{found.passed:,}/{found.judged:,}" if found.judged else UNKNOWN),
        _error_cell(found.errors),
        number_cell(found.skipped, f"{found.skipped:,}" if found.skipped else UNKNOWN),
        f"<td>{histogram(found, threshold, lower=lower)}</td>",
    ]
    return f"<tr>{''.join(cells)}</tr>\n"


def _scores_title(summary: RunSummary) -> str:
    usual = all(found.score_range is None for found in summary.evaluators)
    return "Scores 0 to 1" if usual else "Scores"


def _range_note(found: EvaluatorSummary) -> str:
    return "" if found.score_range is None else f" · scores {describe_range(found.score_range)}"


def _rule(threshold: float | None, *, lower: bool, decides: bool) -> str:
    if threshold is None:
        return ("a yes or no of its own" if decides else "informs only") + (
            " · lower is better" if lower else ""
        )
    return (
        f"at most {figures.score(threshold)} · lower is better"
        if lower
        else f"at least {figures.score(threshold)}"
    )


def _error_cell(count: float) -> str:
    return number_cell(count, f"{figures.count(count)} !" if count else UNKNOWN, "error" if count else "")


def _breakdowns(result: ExperimentResult, keys: tuple[str, ...]) -> str:
    blocks = []
    if result.run_count > 1:
        runs = [(f"Run {run.index + 1}", replace(result, runs=(run,))) for run in result.runs]
        blocks.append(_breakdown("By run", "Run", runs))
    blocks += [_breakdown(f"By {key}", key, by_tag(result, key).items()) for key in keys]
    if not blocks:
        return ""
    return f'<section class="breakdowns" aria-label="Breakdowns">{"".join(blocks)}</section>\n'


def _breakdown(title: str, column: str, parts: Iterable[tuple[str, ExperimentResult]]) -> str:
    rows = "".join(_breakdown_row(label, part) for label, part in parts)
    return (
        f'<details class="breakdown" open><summary>{foreign(title)}</summary><div class="scroll">'
        f'<table class="sortable"><thead><tr><th scope="col">{foreign(column)}</th>'
        '<th scope="col" class="num">Judged</th><th scope="col" class="num">Pass rate</th>'
        '<th scope="col" class="plain">95 % interval</th><th scope="col" class="num">Errors</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div></details>"
    )


def _breakdown_row(label: str, part: ExperimentResult) -> str:
    rate, interval = part.pass_rate, pass_interval(part)
    judged = part.pass_count + part.fail_count
    bar = "" if rate is None or interval is None else rate_bar(rate, interval)
    return (
        f'<tr><th scope="row" data-sort="{safe(label.lower())}">{foreign(label)}</th>'
        f"{number_cell(judged, figures.count(judged))}{number_cell(rate, known(figures.percent, rate))}"
        f'<td class="bar">{bar}</td>{_error_cell(part.error_count)}</tr>'
    )


def _first(worst: list[ItemRuns]) -> str:
    """The worst items that differ in what went wrong, in the order of the items below."""
    found: dict[str, ItemRuns] = {}
    for item in worst:
        if item.success is False and len(found) < FIRST_ITEMS:
            found.setdefault(_why(item), item)
    if not found:
        return ""
    rows = "".join(_first_row(item, why) for why, item in found.items())
    return f'<section class="first"><h2>Look first at</h2><ul>{rows}</ul></section>\n'


def _first_row(item: ItemRuns, why: str) -> str:
    sign = "!" if item.outcome is Outcome.ERRORED else "✗"
    key = safe(item.key)
    return (
        f'<li><span class="sign {item.outcome}">{sign}</span> <span class="key" data-item="{key}">'
        f'{foreign(item.key)}</span> <span class="reason">{foreign(why)}</span></li>'
    )


def _items(result: ExperimentResult, worst: list[ItemRuns]) -> str:
    if not worst:
        why = (
            "This run kept no items (keep_results=False); the totals above are complete."
            if result.total_count
            else "No item was finished. Run the experiment again, or resume it."
        )
        return f'<section id="items"><h2>Items</h2><p class="empty">{why}</p></section>\n'
    return (
        '<section id="items" tabindex="-1">\n<h2>Items</h2>\n<div id="app" hidden></div>\n'
        f"<noscript>{_static_items(worst)}</noscript></section>\n"
    )


def _static_items(worst: list[ItemRuns]) -> str:
    listed = worst[:STATIC_ITEMS]
    rows = "".join(
        f"<tr><td>{item.outcome}</td><td>{foreign(item.key)}</td>"
        f"<td>{foreign(figures.one_line(inputs_text(item) or '', 200))}</td>"
        f"<td>{foreign(_why(item))}</td></tr>"
        for item in listed
    )
    return (
        f"<p>JavaScript is off: these are the {len(listed)} worst of {len(worst):,} items.</p>"
        f"<table><thead><tr><th>Outcome</th><th>Item</th><th>Input</th><th>Why</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _why(item: ItemRuns) -> str:
    first = item.first_bad
    if item.outcome is Outcome.ERRORED:
        return figures.one_line("; ".join(first.errors), 300)
    reasons = [f"{r.name} {known(figures.score, r.score)}: {r.reason}" for r in first.culprits]
    return figures.one_line("; ".join(reasons), 300)


def _provenance(result: ExperimentResult) -> str:
    metadata = {f"metadata: {key}": str(value) for key, value in result.metadata.items()}
    rows = "".join(
        f"<dt>{safe(label)}</dt><dd>{foreign(fact)}</dd>"
        for label, fact in {"Status": str(result.status), **facts(result), **metadata}.items()
    )
    return f'<section class="provenance"><h2>Where this comes from</h2><dl>{rows}</dl></section>\n'
