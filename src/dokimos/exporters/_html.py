"""A report as one file: works without network, and its summary without JavaScript."""

from __future__ import annotations

from typing import ClassVar, Final

from dokimos._core import number_format
from dokimos._core.markup import Content, Html, data_element, isolate_text, join, tag
from dokimos._core.number_format import UNKNOWN, format_or_unknown
from dokimos._core.outcome import Outcome
from dokimos._core.results import ExperimentResult, RunStatus
from dokimos._core.summary import RunSummary, judge_cost
from dokimos._core.text import join_statements
from dokimos.exporters._html_charts import outcome_bar, rate_bar
from dokimos.exporters._html_data import pack_items
from dokimos.exporters._html_evaluators import breakdowns, evaluator_table
from dokimos.exporters._html_page import LIST_SCRIPTS, asset, bundle_scripts, card, cards, notices, page
from dokimos.exporters._item_runs import (
    ItemRuns,
    items_of,
    pass_interval,
    render_inputs,
    tag_keys,
    worst_first,
)
from dokimos.exporters._run_facts import facts
from dokimos.stats._intervals import Interval

STATIC_ITEMS: Final = 20
"""Items listed where JavaScript is off."""
ITEM_SCRIPTS: Final = (*LIST_SCRIPTS, "report_retrieval.js", "report_drawer.js", "report_items.js")
"""What a page with the items of a result builds on."""
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
    """Verdict, figures, evaluators, then the items, worst first. Foreign text is always escaped."""

    name: ClassVar = "html"
    extensions: ClassVar = (".html", ".htm")

    def render(self, result: ExperimentResult) -> str:
        items = items_of(result)
        worst = worst_first(items, result)
        keys = tag_keys(items)
        summary = result.summary
        body = [
            _header(result, summary),
            _cards(result, summary),
            notices(result.notices),
            _first(worst, items),
            evaluator_table(result, summary),
            breakdowns(result, keys),
            _items(result, worst),
            _provenance(result),
        ]
        return page(
            f"{result.name} – dokimos report",
            body,
            style=asset("report.css"),
            script=bundle_scripts(*map(asset, (*ITEM_SCRIPTS, "report_map.js", "report.js"))),
            skip=tag("a", "Skip to the items", class_="skip", href="#items"),
            data=data_element("data", pack_items(result, items, keys)),
        )


def _header(result: ExperimentResult, summary: RunSummary) -> Html:
    source = result.provenance
    model = result.metadata.get("model") or summary.metrics.model
    parts: list[Content] = [
        f"{number_format.format_count(result.total_count)} items",
        f"{result.run_count} runs" if result.run_count > 1 else "1 run",
        None if not model else isolate_text(number_format.to_single_line(str(model), 120)),
        None if not source.dataset_name else join("dataset ", isolate_text(source.dataset_name)),
        None if not source.started_at else tag("time", source.started_at[:16].replace("T", " ")),
    ]
    facts = [part for part in parts if part is not None]
    return tag(
        "header",
        tag("h1", isolate_text(result.name)),
        tag("p", isolate_text(result.description), class_="description") if result.description else None,
        tag("p", [(" · " if index else None, part) for index, part in enumerate(facts)], class_="facts"),
        _status(result),
        _verdict(result),
    )


def _status(result: ExperimentResult) -> Html | None:
    text = _STATUS.get(result.status)
    return tag("p", tag("b", "!"), f" {text}", class_="status", role="status") if text else None


def _verdict(result: ExperimentResult) -> Html:
    return join(_verdict_line(result), "\n", _outcomes(result))


def _verdict_line(result: ExperimentResult) -> Html:
    if result.pass_rate is None:
        words = (
            "Informational: no evaluator decides"
            if result.informational_count
            else "Not judged: no evaluator decided on any item"
        )
        return tag("p", tag("b", "–"), f" {words}", class_="verdict none")
    passed, judged = result.pass_count, result.pass_count + result.fail_count
    mean = f", mean of {result.run_count} runs" if result.run_count > 1 else ""
    whole = result.pass_rate == 1
    return tag(
        "p",
        (tag("b", "✓"), " ") if whole else None,
        f"{number_format.percent(result.pass_rate)} passed ",
        tag(
            "span",
            f"({number_format.format_count(passed)}/{number_format.format_count(judged)}{mean})",
            class_="of",
        ),
        class_="verdict pass" if whole else "verdict",
    )


def _outcomes(result: ExperimentResult) -> Html:
    counts = (
        ("pass", "✓ passed", result.pass_count),
        ("fail", "✗ failed", result.fail_count - result.error_count),
        ("error", "! errored", result.error_count),
        ("info", "· informational", result.informational_count),
        ("none", "– not judged", result.not_judged_count),
    )
    words = [
        tag("li", tag("b", number_format.format_count(count)), f" {label}", class_=kind)
        for kind, label, count in counts
        if count
    ]
    bar = outcome_bar(((kind, count) for kind, _, count in counts), result.total_count)
    return join(bar, tag("ul", words, class_="counts"))


def _cards(result: ExperimentResult, summary: RunSummary) -> Html:
    return cards(
        _rate_card(result), _error_card(result, summary), _cost_card(summary), _latency_card(summary)
    )


def _rate_card(result: ExperimentResult) -> Html:
    interval = pass_interval(result)
    if result.pass_rate is None or interval is None:
        return card("Pass rate", UNKNOWN, "not judged")
    judged = number_format.format_count(result.pass_count + result.fail_count)
    spread = f"n = {judged} · 95 % interval {_span(interval)}"
    return card(
        "Pass rate", number_format.percent(result.pass_rate), spread, rate_bar(result.pass_rate, interval)
    )


def _span(interval: Interval) -> str:
    low, high = number_format.percent(interval.low), number_format.percent(interval.high)
    return f"{low.removesuffix(' %')} to {high}"


def _error_card(result: ExperimentResult, summary: RunSummary) -> Html:
    share = format_or_unknown(
        number_format.percent, result.error_count / result.total_count if result.total_count else None
    )
    parts = [f"{share} of items"]
    skipped = sum(evaluator.skipped for evaluator in summary.evaluators)
    runs = " in all runs" if result.run_count > 1 else ""
    for count, noun in ((summary.warned, "warnings"), (skipped, "skipped scores")):
        if count:
            parts.append(f"{count:,} {noun}{runs}")
    return card("Errors", number_format.format_count(result.error_count), " · ".join(parts))


def _cost_card(summary: RunSummary) -> Html:
    metrics = summary.metrics
    tokens = f" · {metrics.tokens:,} tokens" if metrics.tokens is not None else ""
    judging = judge_cost(summary)
    tokens += "" if judging is None else f" · judge {judging}"
    if metrics.cost_usd is None:
        return card("Cost", UNKNOWN, f"unpriced{tokens}")
    coverage = (
        f"{summary.priced:,}/{summary.tokenized:,} priced" if summary.tokenized else "as the task reported"
    )
    return card("Cost", number_format.usd(metrics.cost_usd), f"{coverage}{tokens}")


def _latency_card(summary: RunSummary) -> Html:
    if summary.metrics.latency_ms is None:
        return card("Latency, median", UNKNOWN, "not measured")
    p95 = format_or_unknown(number_format.duration, summary.latency_p95_ms)
    return card(
        "Latency, median", number_format.duration(summary.metrics.latency_ms), f"95th percentile {p95}"
    )


def _first(worst: list[ItemRuns], items: tuple[ItemRuns, ...]) -> Html | None:
    """The worst items that differ in what went wrong, in the order of the items below."""
    by_reason: dict[str, ItemRuns] = {}
    for item in worst:
        if item.success is False and len(by_reason) < FIRST_ITEMS:
            # One item for each reason: twenty items that fail for one cause say no more than the first.
            by_reason.setdefault(_why(item), item)
    if not by_reason:
        return None
    # By position in the data, which is where the page's script finds the item again.
    indexes = {id(item): index for index, item in enumerate(items)}
    rows = [_first_row(item, why, indexes[id(item)]) for why, item in by_reason.items()]
    return tag("section", tag("h2", "Look first at"), tag("ul", rows), class_="first")


def _first_row(item: ItemRuns, why: str, index: int) -> Html:
    sign = "!" if item.outcome is Outcome.ERRORED else "✗"
    return tag(
        "li",
        tag("span", sign, class_=f"sign {item.outcome}"),
        " ",
        tag("span", isolate_text(item.key), class_="key", data_place=index),
        " ",
        tag("span", isolate_text(why), class_="reason"),
    )


def _items(result: ExperimentResult, worst: list[ItemRuns]) -> Html:
    if not worst:
        why = (
            "This run kept no items (keep_results=False); the totals above are complete."
            if result.total_count
            else "No item was finished. Run the experiment again, or resume it."
        )
        return tag("section", tag("h2", "Items"), tag("p", why, class_="empty"), id="items")
    return join(
        tag("section", id="map", hidden=True),
        tag(
            "section",
            tag("h2", "Items"),
            tag("div", id="app", hidden=True),
            tag("noscript", _static_items(worst)),
            id="items",
            tabindex=-1,
        ),
    )


def _static_items(worst: list[ItemRuns]) -> Html:
    listed = worst[:STATIC_ITEMS]
    rows = [
        tag(
            "tr",
            tag("td", str(item.outcome)),
            tag("td", isolate_text(item.key)),
            tag("td", isolate_text(number_format.to_single_line(render_inputs(item) or "", 200))),
            tag("td", isolate_text(_why(item))),
        )
        for item in listed
    ]
    head = [tag("th", label) for label in ("Outcome", "Item", "Input", "Why")]
    return join(
        tag("p", f"JavaScript is off: these are the {len(listed)} worst of {len(worst):,} items."),
        tag("table", tag("thead", tag("tr", head)), tag("tbody", rows)),
    )


def _why(item: ItemRuns) -> str:
    first = item.first_bad
    if item.outcome is Outcome.ERRORED:
        return number_format.to_single_line(join_statements(first.errors_with_location), 300)
    scores = ((one, f"{one.name} {number_format.format_score(one.score)}") for one in first.culprits)
    reasons = [f"{score}: {one.reason}" if one.reason else score for one, score in scores]
    return number_format.to_single_line(join_statements(reasons), 300)


def _provenance(result: ExperimentResult) -> Html:
    metadata = {f"metadata: {key}": str(value) for key, value in result.metadata.items()}
    rows = [
        (tag("dt", isolate_text(label)), tag("dd", isolate_text(fact)))
        for label, fact in {"Status": str(result.status), **facts(result), **metadata}.items()
    ]
    return tag("section", tag("h2", "Where this comes from"), tag("dl", rows), class_="provenance")
