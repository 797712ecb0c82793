"""A comparison as one HTML file that needs neither network nor script: metrics, then item by item."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final

from dokimos.comparison.diff import Change, ItemChange, MetricChange, RunComparison, ScoreChange, title
from dokimos.comparison.markdown import verdict_text
from dokimos.comparison.snapshot import ItemSnapshot
from dokimos.comparison.wording import (
    change,
    coverage_note,
    evidence_sentence,
    interval,
    interval_with_note,
    level,
    p_text,
    points,
    signed,
)
from dokimos.core.figures import UNKNOWN, cut, known, one_line, percent, score
from dokimos.core.keys import OUTPUT
from dokimos.core.results import ItemResult
from dokimos.exporters.html_page import asset, card, foreign, number_cell, page, safe
from dokimos.exporters.items import expected_text, shown

MOST_ITEMS: Final = 2_000
"""Items of one kind that are shown; the JSON report has them all."""
_LONGEST: Final = 20_000
_MOST_WORDS: Final = 1_500
_EXCERPT: Final = 140
_WORDS: Final = re.compile(r"\s+|\w+|[^\w\s]")
_KINDS: Final = {
    Change.REGRESSED: ("Regressed", "failed"),
    Change.IMPROVED: ("Improved", "passed"),
    Change.UNCHANGED: ("Unchanged", "unjudged"),
    Change.ADDED: ("Added", "unjudged"),
    Change.REMOVED: ("Removed", "unjudged"),
}


def html_of(comparison: RunComparison) -> str:
    """Return a comparison as HTML. Foreign text is only ever shown as text."""
    body = [
        _header(comparison),
        _cards(comparison),
        _warnings(comparison),
        _metrics(comparison),
        *(_section(comparison, kind) for kind in Change),
    ]
    style = asset("report.css") + asset("comparison.css", "dokimos.comparison")
    name = f"{comparison.baseline_label} → {comparison.candidate_label} – dokimos comparison"
    return page(name, "".join(body), style=style)


def _header(comparison: RunComparison) -> str:
    kind = "fail" if comparison.has_regressions else "pass"
    evidence = ""
    if comparison.leading is not None:
        text = evidence_sentence(comparison.leading, len(comparison.metrics))
        evidence = f'<p class="facts">{safe(text)}</p>'
    return (
        f"<header>\n<h1>{foreign(comparison.baseline_label)} → {foreign(comparison.candidate_label)}</h1>\n"
        f'<p class="verdict {kind}">{foreign(verdict_text(comparison))}</p>\n{evidence}</header>\n'
    )


def _cards(comparison: RunComparison) -> str:
    rate = comparison.pass_rate
    move = f"{level(rate, rate.baseline_mean)} → {level(rate, rate.candidate_mean)}"
    counts = {kind: f"{comparison.count(kind):,}" for kind in Change}
    drop = known(points, rate.detectable_drop)
    cards = [
        card(
            "Pass rate", safe(move), f"{safe(change(rate))}, 95 % interval {safe(interval_with_note(rate))}"
        ),
        card("Regressed", counts[Change.REGRESSED], f"of {rate.n:,} items on both sides"),
        card("Improved", counts[Change.IMPROVED], f"{counts[Change.UNCHANGED]} unchanged"),
        card(
            "Smallest drop it sees", safe(drop), f"of the pass rate, with {percent(rate.config.power)} power"
        ),
    ]
    return f'<section class="cards" aria-label="Summary">\n{"".join(cards)}</section>\n'


def _warnings(comparison: RunComparison) -> str:
    if not comparison.warnings:
        return ""
    lines = "".join(f"<li>{foreign(text)}</li>" for text in comparison.warnings)
    return f'<section class="warnings"><h2>Warnings</h2><ul>{lines}</ul></section>\n'


def _metrics(comparison: RunComparison) -> str:
    columns = ("Baseline", "Candidate", "Change", "95 % interval", "Worse / better", "p", "Adjusted p", "n")
    head = "".join(f'<th scope="col" class="num">{column}</th>' for column in columns)
    rows = "".join(_metric_row(metric) for metric in comparison.metrics)
    return (
        '<section>\n<h2>Metrics</h2>\n<div class="scroll"><table class="metrics">\n'
        f'<thead><tr><th scope="col">Metric</th>{head}</tr></thead>\n'
        f"<tbody>{rows}</tbody></table></div></section>\n"
    )


def _metric_row(metric: MetricChange) -> str:
    rule = '<span class="rule">lower is better</span>' if metric.lower_is_better else ""
    cells = [
        f'<th scope="row">{foreign(title(metric))}{rule}</th>',
        number_cell(metric.baseline_mean, level(metric, metric.baseline_mean)),
        number_cell(metric.candidate_mean, level(metric, metric.candidate_mean)),
        number_cell(metric.delta, safe(change(metric)), metric.change.value.lower()),
        f'<td class="num">{safe(interval(metric))}{_coverage_note(metric)}</td>',
        f'<td class="num">{metric.worse:,} / {metric.better:,}</td>',
        number_cell(metric.p_value, safe(p_text(metric.p_value).removeprefix("= "))),
        number_cell(metric.adjusted_p_value, safe(p_text(metric.adjusted_p_value).removeprefix("= "))),
        number_cell(metric.n, f"{metric.n:,}"),
    ]
    return f"<tr>{''.join(cells)}</tr>\n"


def _coverage_note(metric: MetricChange) -> str:
    note = coverage_note(metric)
    return f'<span class="rule">{safe(note)}</span>' if note else ""


def _section(comparison: RunComparison, kind: Change) -> str:
    items = comparison.most_moved(kind)
    if not items:
        return ""
    name, sign = _KINDS[kind]
    left_out = len(items) - MOST_ITEMS
    more = f'<p class="empty">{left_out:,} more are in the JSON report.</p>' if left_out > 0 else ""
    rows = "".join(_item(item, sign) for item in items[:MOST_ITEMS])
    content = f"<h2>{name} <span>{len(items):,}</span></h2>"
    if kind in (Change.REGRESSED, Change.IMPROVED):
        return f'<section class="items">{content}{rows}{more}</section>\n'
    return f'<details class="items"><summary>{content}</summary>{rows}{more}</details>\n'


def _item(item: ItemChange, sign: str) -> str:
    flip = ' <span class="flip">verdict flipped</span>' if item.pass_flip else ""
    excerpt = foreign(one_line(item.input or "", _EXCERPT))
    return (
        f'<details class="item"><summary><span class="sign {sign}">{_move(item)}</span> '
        f'<span class="id">{foreign(item.key)}</span> {excerpt}{flip}</summary>'
        f"{_text('Input', item.input)}{_expected(item)}{_outputs(item)}{_scores(item)}</details>\n"
    )


def _move(item: ItemChange) -> str:
    sides = (item.baseline, item.candidate)
    before, now = (None if side is None else side.pass_share for side in sides)
    return safe(f"{_share(before)} → {_share(now)}")


def _share(share: float | None) -> str:
    if share is None:
        return UNKNOWN
    return {0.0: "✗", 1.0: "✓"}.get(share, percent(share))


def _expected(item: ItemChange) -> str:
    results = item.either.results
    return _text("Expected", expected_text(results[0])) if results else ""


def _text(label: str, text: str | None) -> str:
    if text is None:
        return ""
    return f'<h3>{label}</h3><pre class="text">{safe(cut(text, _LONGEST))}</pre>'


def _outputs(item: ItemChange) -> str:
    before, now = _output(item.baseline), _output(item.candidate)
    if before is None and now is None:
        return ""
    if before == now:
        return _text("Output, the same on both sides", now)
    old, new = marked(before or "", now or "")
    return (
        '<div class="sides"><div><h3>Baseline output</h3>'
        f'<pre class="text">{UNKNOWN if before is None else old}</pre></div><div><h3>Candidate output</h3>'
        f'<pre class="text">{UNKNOWN if now is None else new}</pre></div></div>'
    )


def _output(side: ItemSnapshot | None) -> str | None:
    """What the first repeat answered, or its error; None where that is not known."""
    if side is None or not side.results:
        return None
    first: ItemResult = side.results[0]
    if first.error is not None:
        return f"Error: {first.error}"
    return shown(first.actual_outputs, OUTPUT)


def marked(before: str, now: str) -> tuple[str, str]:
    """Return both texts as HTML, with the words marked that only one of them has."""
    old, new = _WORDS.findall(cut(before, _LONGEST)), _WORDS.findall(cut(now, _LONGEST))
    if len(old) + len(new) > _MOST_WORDS:
        return safe("".join(old)), safe("".join(new))
    left, right = [], []
    for operation, i, j, k, m in SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        left.append(_mark("del", old[i:j], operation != "equal"))
        right.append(_mark("ins", new[k:m], operation != "equal"))
    return "".join(left), "".join(right)


def _mark(tag: str, words: Sequence[str], differs: bool) -> str:
    text = safe("".join(words))
    return f"<{tag}>{text}</{tag}>" if differs and text else text


def _scores(item: ItemChange) -> str:
    rows = "".join(_score_row(one, item) for one in item.evaluators)
    if not rows:
        return "".join(_errors(item))
    return (
        '<div class="scroll"><table class="scores"><thead><tr><th scope="col">Evaluator</th>'
        '<th scope="col" class="num">Baseline</th><th scope="col" class="num">Candidate</th>'
        '<th scope="col" class="num">Change</th><th scope="col">Reason, candidate</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{''.join(_errors(item))}"
    )


def _score_row(one: ScoreChange, item: ItemChange) -> str:
    both = one.baseline_mean is not None and one.candidate_mean is not None
    moved = signed(one.delta) if both and one.delta else UNKNOWN
    return (
        f'<tr><th scope="row">{foreign(one.name)}</th>'
        f"{number_cell(one.baseline_mean, known(score, one.baseline_mean))}"
        f"{number_cell(one.candidate_mean, known(score, one.candidate_mean))}"
        f"{number_cell(one.delta, safe(moved), one.change.value.lower())}"
        f"<td>{foreign(one_line(_reason(one.name, item), 500))}</td></tr>"
    )


def _reason(name: str, item: ItemChange) -> str:
    results: Iterable[ItemResult] = () if item.candidate is None else item.candidate.results
    found = (result for one in results if (result := one.result(name)) is not None)
    return next((result.reason or result.error or "" for result in found), "")


def _errors(item: ItemChange) -> Iterator[str]:
    for side, snapshot in (("Baseline", item.baseline), ("Candidate", item.candidate)):
        for name, error in ({} if snapshot is None else snapshot.errors).items():
            what = f"{name}: " if name else ""
            yield f'<h3>{side} error</h3><pre class="text problem">{safe(cut(what + error, _LONGEST))}</pre>'
