"""A comparison as one HTML file that needs no network: metrics, then item by item with both outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from dokimos._core.markup import Content, Html, data_element, isolate_text, join, tag
from dokimos._core.number_format import format_or_unknown
from dokimos._core.score_range import width_of
from dokimos.comparison._diff import Change, MetricChange, RunComparison, title
from dokimos.comparison._html_items import pack_changes, static_items
from dokimos.comparison._wording import (
    change,
    count_unclear,
    coverage_note,
    evidence_sentence,
    find_unseen_change,
    interval,
    interval_with_note,
    level,
    p_text,
    points,
    share,
    side_titles,
    verdict_text,
)
from dokimos.exporters._html_charts import change_bar
from dokimos.exporters._html_page import (
    LIST_SCRIPTS,
    asset,
    bundle_scripts,
    card,
    cards,
    head_cell,
    notices,
    number_cell,
    page,
)

_PACKAGE: Final = "dokimos.comparison"
_SIGNS: Final = {Change.REGRESSED: "✗ ", Change.IMPROVED: "✓ "}


def html_of(comparison: RunComparison) -> str:
    """Return a comparison as HTML. Foreign text is always escaped."""
    before, now = side_titles(comparison)
    return comparison_page(
        f"{before} → {now} – dokimos comparison",
        (
            _header(comparison, before, now),
            _cards(comparison),
            notices(comparison.warnings),
            metrics_section(comparison),
            items_section(comparison),
            sides_section(comparison),
        ),
        comparison,
    )


def comparison_page(
    name: str, body: Content, comparison: RunComparison, *, counting: Sequence[str] = (), style: str = ""
) -> str:
    """Return a page that has the items of a comparison in it; `counting` are those that decide a verdict."""
    return page(
        name,
        body,
        style=asset("report.css") + asset("comparison.css", _PACKAGE) + style,
        script=bundle_scripts(*map(asset, LIST_SCRIPTS), asset("comparison.js", _PACKAGE)),
        skip=tag("a", "Skip to the items", class_="skip", href="#items"),
        data=data_element("data", pack_changes(comparison, counting)),
    )


def metrics_section(comparison: RunComparison) -> Html:
    """Return the pass rate and the evaluators as rows, each with its change and how certain that is."""
    adjusted = any(one.adjusted_p_value != one.p_value for one in comparison.metrics)
    # One scale for all bars, so that their lengths can be compared across metrics.
    reach = max((_reach(metric) for metric in comparison.metrics), default=1.0)
    head = [
        head_cell("Metric"),
        head_cell("Baseline", "num"),
        head_cell("Candidate", "num"),
        head_cell("Change", "num"),
        head_cell("Worse to better", "plain", "The change and its 95 % interval around zero"),
        head_cell("95 % interval", "num"),
        head_cell("Worse / better", "num"),
        head_cell("p", "num"),
        head_cell("Adjusted p", "num") if adjusted else None,
        head_cell("n", "num"),
    ]
    rows = [_metric_row(metric, reach, adjusted=adjusted) for metric in comparison.metrics]
    table = tag("table", tag("thead", tag("tr", head)), tag("tbody", rows), class_="metrics")
    return tag("section", tag("h2", "Metrics"), tag("div", table, class_="scroll"))


def items_section(comparison: RunComparison) -> Html:
    """Return the place of the items; without script the first that changed are in it."""
    return tag(
        "section",
        tag("h2", "Items"),
        tag("div", id="app", hidden=True),
        tag("noscript", static_items(comparison)),
        id="items",
        tabindex=-1,
    )


def sides_section(comparison: RunComparison) -> Html:
    """Return the facts of the two sides, such as model and commit, in rows."""
    sides = (
        ("Baseline", comparison.baseline_name, comparison.baseline_label, comparison.baseline_facts),
        ("Candidate", comparison.candidate_name, comparison.candidate_label, comparison.candidate_facts),
    )
    columns = [tag("div", tag("h3", side), _facts(name, label, facts)) for side, name, label, facts in sides]
    return tag(
        "section",
        tag("h2", "What was compared"),
        tag("div", columns, class_="sides"),
        class_="provenance",
    )


def _facts(name: str, label: str, facts: Mapping[str, str]) -> Html:
    # The label is often the run id, which is among the facts already.
    known_facts = {"name": name, **facts}
    if label not in known_facts.values():
        known_facts["from"] = label
    rows = [
        (tag("dt", fact.capitalize()), tag("dd", isolate_text(value)))
        for fact, value in known_facts.items()
        if value
    ]
    return tag("dl", rows)


def _header(comparison: RunComparison, before: str, now: str) -> Html:
    evidence = None
    if comparison.leading is not None:
        evidence = tag("p", evidence_sentence(comparison.leading, len(comparison.metrics)), class_="facts")
    improved = any(metric.change is Change.IMPROVED for metric in comparison.metrics)
    sign, kind = ("✓ ", "pass") if improved else ("= ", "pass")
    if comparison.has_regressions:
        sign, kind = "✗ ", "fail"
    elif find_unseen_change(comparison) is not None:
        sign, kind = "? ", "unclear"
    n = sum(comparison.count(one) for one in (Change.REGRESSED, Change.IMPROVED, Change.UNCHANGED))
    paired = comparison.pairing.value.replace("_", " ")
    return tag(
        "header",
        tag("h1", isolate_text(before), " → ", isolate_text(now)),
        tag("p", f"{n:,} items on both sides · paired by {paired}", class_="facts"),
        tag("p", tag("b", sign), isolate_text(verdict_text(comparison)), class_=f"verdict {kind}"),
        evidence,
    )


def _cards(comparison: RunComparison) -> Html:
    rate = comparison.pass_rate
    move = f"{level(rate, rate.baseline_mean)} → {level(rate, rate.candidate_mean)}"
    return cards(
        card("Pass rate", move, f"{change(rate)}, 95 % interval {interval_with_note(rate)}"),
        *change_cards(comparison),
        _sight_card(rate),
    )


def change_cards(comparison: RunComparison) -> tuple[Html, Html]:
    """Return how many items got worse and better; of too few items, what moved without being significant."""
    moved = find_unseen_change(comparison)
    if moved is not None:
        least = comparison.fewest_items
        needed = "too few to tell" if least is None else f"too few to tell: it takes {least}"
        return (
            card("Got worse", f"{moved.worse:,}", f"of {moved.n:,} items ({title(moved)}); {needed}"),
            card("Got better", f"{moved.better:,}", f"of {moved.n:,} items ({title(moved)})"),
        )
    unclear = count_unclear(comparison)
    counts = {kind: comparison.count(kind) for kind in Change}
    shared = sum(counts[kind] for kind in (Change.REGRESSED, Change.IMPROVED, Change.UNCHANGED))
    others = [f"{unclear:,} without a clear change"] if unclear else []
    others.append(f"{counts[Change.UNCHANGED] - unclear:,} unchanged")
    return (
        card("Regressed", f"{counts[Change.REGRESSED]:,}", f"of {shared:,} items on both sides"),
        card("Improved", f"{counts[Change.IMPROVED]:,}", " · ".join(others)),
    )


def _sight_card(rate: MetricChange) -> Html:
    power = f"of the pass rate, with {share(rate.config.power)} power"
    if rate.detectable_drop is not None or not rate.n:
        return card("Smallest drop it sees", format_or_unknown(points, rate.detectable_drop), power)
    needed = rate.items_needed(1.0)
    return card("Smallest drop it sees", "none", power if needed is None else f"it takes {needed:,} items")


def _reach(metric: MetricChange) -> float:
    """How far the change and its interval are from zero, as a share of the range of scores."""
    bounds = metric.interval
    ends: Iterable[float] = (metric.delta or 0.0, *(() if bounds is None else (bounds.low, bounds.high)))
    return max(abs(end) for end in ends) / width_of(metric.score_range)


def _metric_row(metric: MetricChange, reach: float, *, adjusted: bool) -> Html:
    kind = metric.change.value.lower()
    note = coverage_note(metric)
    cells = [
        tag(
            "th",
            isolate_text(title(metric)),
            tag("span", "lower is better", class_="rule") if metric.lower_is_better else None,
            scope="row",
        ),
        number_cell(metric.baseline_mean, level(metric, metric.baseline_mean)),
        number_cell(metric.candidate_mean, level(metric, metric.candidate_mean)),
        number_cell(metric.delta, f"{_SIGNS.get(metric.change, '')}{change(metric)}", kind),
        tag("td", _picture(metric, reach, kind), class_="bar"),
        tag("td", interval(metric), tag("span", note, class_="rule") if note else None, class_="num"),
        tag("td", f"{metric.worse:,} / {metric.better:,}", class_="num"),
        number_cell(metric.p_value, p_text(metric.p_value).removeprefix("= ")),
        number_cell(metric.adjusted_p_value, p_text(metric.adjusted_p_value).removeprefix("= "))
        if adjusted
        else None,
        number_cell(metric.n, f"{metric.n:,}"),
    ]
    return join(tag("tr", cells), "\n")


def _picture(metric: MetricChange, reach: float, kind: str) -> Html | None:
    """The change as a picture in which left is worse, whichever way the scores are read."""
    if metric.delta is None:
        return None
    width = width_of(metric.score_range)
    sign = -1.0 if metric.lower_is_better else 1.0
    bounds = metric.interval
    span = None if bounds is None else sorted((sign * bounds.low / width, sign * bounds.high / width))
    return change_bar(sign * metric.delta / width, None if span is None else (span[0], span[1]), reach, kind)
