"""A comparison for pull requests and job logs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dokimos.comparison.diff import Change, ItemChange, MetricChange, RunComparison, title
from dokimos.comparison.wording import change, evidence_sentence, interval_with_note, level, p_text, points
from dokimos.core.figures import known, one_line, percent, score
from dokimos.exporters.markdown import MAX_LENGTH, code, plain, table_row

MAX_ITEMS: Final = 25
_NAME: Final = 80
_TEXT: Final = 300


def markdown_of(comparison: RunComparison) -> str:
    """Return a comparison as Markdown, short enough for a comment; foreign text is escaped."""
    text = "\n".join(_lines(comparison)).rstrip("\n") + "\n"
    if len(text) <= MAX_LENGTH:
        return text
    return text[:MAX_LENGTH].rsplit("\n", 1)[0] + "\n\n_Cut: the HTML and JSON reports have all items._\n"


def verdict_text(comparison: RunComparison) -> str:
    """Return in one line what changed."""
    worse = [metric for metric in comparison.metrics if metric.change is Change.REGRESSED]
    better = [metric for metric in comparison.metrics if metric.change is Change.IMPROVED]
    if comparison.items and not any(metric.n for metric in comparison.metrics):
        return "Nothing was compared"
    if not worse and not better:
        return _too_few_items(comparison) or "No significant change"
    parts = []
    if worse:
        parts.append(f"Worse: {', '.join(map(title, worse))}")
    if better:
        parts.append(f"better: {', '.join(map(title, better))}" if worse else _better(better))
    return "; ".join(parts)


def change_counts(comparison: RunComparison) -> Iterator[str]:
    """Yield how many items changed in which way; only those that did not move at all are unchanged."""
    moved = {key for metric in comparison.metrics for key, delta in metric.deltas.items() if delta}
    unclear = sum(item.change is Change.UNCHANGED and item.key in moved for item in comparison.items)
    for kind in Change:
        count = comparison.count(kind) - (unclear if kind is Change.UNCHANGED else 0)
        if kind is Change.UNCHANGED and unclear:
            yield f"{unclear:,} without a clear change"
        if count:
            yield f"{count:,} {kind.value.lower()}"


def _too_few_items(comparison: RunComparison) -> str:
    """Return what moved where no drop of all items could be significant; "" where one could."""
    moved = [metric for metric in comparison.metrics if metric.worse or metric.better]
    if not moved or any(2.0 ** (1 - metric.n) <= metric.config.alpha for metric in moved):
        return ""
    worst = max(moved, key=lambda metric: (metric.worse, metric.better))
    return (
        f"Too few items to tell: {worst.worse:,} of {worst.n:,} got worse and {worst.better:,} better "
        f"({title(worst)})"
    )


def _better(metrics: list[MetricChange]) -> str:
    return f"Better: {', '.join(map(title, metrics))}"


def _lines(comparison: RunComparison) -> Iterator[str]:
    sides = f"{code(comparison.baseline_label)} → {code(comparison.candidate_label)}"
    yield f"# Comparison: {sides}\n"
    yield f"**{plain(verdict_text(comparison), _TEXT)}**\\"
    pairing = comparison.pairing.value.replace("_", " ")
    yield f"**Items:** {' · '.join(change_counts(comparison))}, paired by {pairing}\n"
    for warning in comparison.warnings:
        yield f"> Warning: {plain(warning, _TEXT)}\n"
    yield from _metrics(comparison)
    if comparison.leading is not None:
        yield f"{plain(evidence_sentence(comparison.leading, len(comparison.metrics)), 2 * _TEXT)}\n"
    for kind in (Change.REGRESSED, Change.IMPROVED):
        yield from _items(comparison, kind)


def _metrics(comparison: RunComparison) -> Iterator[str]:
    yield "## Metrics\n"
    yield "| Metric | Baseline | Candidate | Change | 95 % interval | Worse / better | p | Adjusted | Sees |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for metric in comparison.metrics:
        yield table_row(
            [
                plain(title(metric), _NAME),
                level(metric, metric.baseline_mean),
                level(metric, metric.candidate_mean),
                change(metric) + {Change.REGRESSED: " ✗", Change.IMPROVED: " ✓"}.get(metric.change, ""),
                interval_with_note(metric),
                f"{metric.worse:,} / {metric.better:,}",
                _p(metric.p_value),
                _p(metric.adjusted_p_value),
                known(points, metric.detectable_drop),
            ]
        )
    yield ""


def _p(value: float) -> str:
    return p_text(value).removeprefix("= ").replace("<", r"\<")


def _items(comparison: RunComparison, kind: Change) -> Iterator[str]:
    found = comparison.most_moved(kind)
    if not found:
        return
    yield f"## {kind.value.capitalize()} items\n"
    for item in found[:MAX_ITEMS]:
        yield f"- {code(item.key)} {plain(one_line(item.input or '', _NAME), _NAME)}: {_scores(item)}"
    if len(found) > MAX_ITEMS:
        yield f"\n… and {len(found) - MAX_ITEMS:,} more; the HTML and JSON reports have them all."
    yield ""


def _scores(item: ItemChange) -> str:
    moved = [
        f"{plain(one.name, _NAME)} {known(score, one.baseline_mean)} → {known(score, one.candidate_mean)}"
        for one in item.evaluators
        if one.baseline_mean != one.candidate_mean
    ]
    return ", ".join([*_verdicts(item), *moved])


def _verdicts(item: ItemChange) -> Iterator[str]:
    if item.pass_flip and item.baseline is not None and item.candidate is not None:
        before, now = item.baseline.pass_share, item.candidate.pass_share
        yield f"passed {known(percent, before)} → {known(percent, now)}"
