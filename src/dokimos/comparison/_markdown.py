"""A comparison for pull requests and job logs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dokimos._core.number_format import format_or_unknown, format_score, percent, to_single_line
from dokimos.comparison._diff import Change, ItemChange, RunComparison, title
from dokimos.comparison._wording import (
    change,
    change_counts,
    evidence_sentence,
    interval_with_note,
    level,
    p_text,
    points,
    run_labels,
    side_titles,
    verdict_text,
)
from dokimos.exporters._markdown import MAX_LENGTH, code, plain, table_row

MAX_ITEMS: Final = 25
_NAME: Final = 80
_TEXT: Final = 300


def markdown_of(comparison: RunComparison) -> str:
    """Return a comparison as Markdown, short enough for a comment; foreign text is escaped."""
    text = "\n".join(_lines(comparison)).rstrip("\n") + "\n"
    if len(text) <= MAX_LENGTH:
        return text
    # At the end of a line: half an escape sequence or table row would let foreign text through as markup.
    return text[:MAX_LENGTH].rsplit("\n", 1)[0] + "\n\n_Cut: the HTML and JSON reports have all items._\n"


def _lines(comparison: RunComparison) -> Iterator[str]:
    yield f"# Comparison: {' → '.join(plain(side, _NAME) for side in side_titles(comparison))}\n"
    yield f"**{plain(verdict_text(comparison), _TEXT)}**\\"
    pairing = comparison.pairing.value.replace("_", " ")
    labels = run_labels(comparison)
    items = f"**Items:** {' · '.join(change_counts(comparison))}, paired by {pairing}"
    yield f"{items}\\" if labels else f"{items}\n"
    if labels:
        yield f"**Runs:** {' → '.join(map(code, labels))}\n"
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
                format_or_unknown(points, metric.detectable_drop),
            ]
        )
    yield ""


def _p(value: float) -> str:
    # Markdown would take "<" for the start of a tag.
    return p_text(value).removeprefix("= ").replace("<", r"\<")


def _items(comparison: RunComparison, kind: Change) -> Iterator[str]:
    items = comparison.most_moved(kind)
    if not items:
        return
    yield f"## {kind.value.capitalize()} items\n"
    for item in items[:MAX_ITEMS]:
        yield f"- {code(item.key)} {plain(to_single_line(item.input or '', _NAME), _NAME)}: {_scores(item)}"
    if len(items) > MAX_ITEMS:
        yield f"\n… and {len(items) - MAX_ITEMS:,} more; the HTML and JSON reports have them all."
    yield ""


def _scores(item: ItemChange) -> str:
    moved = [
        f"{plain(one.name, _NAME)} {format_score(one.baseline_mean)} → {format_score(one.candidate_mean)}"
        for one in item.evaluators
        if one.baseline_mean != one.candidate_mean
    ]
    return ", ".join([*_verdicts(item), *moved])


def _verdicts(item: ItemChange) -> Iterator[str]:
    if item.pass_flip and item.baseline is not None and item.candidate is not None:
        before, now = item.baseline.pass_share, item.candidate.pass_share
        yield f"passed {format_or_unknown(percent, before)} → {format_or_unknown(percent, now)}"
