"""Small pictures in SVG that need no script and no inline style."""

from __future__ import annotations

from collections.abc import Iterable

from dokimos.core.figures import UNKNOWN
from dokimos.core.score_range import USUAL_RANGE, share_of
from dokimos.core.summary import HISTOGRAM_BINS, EvaluatorSummary
from dokimos.stats.intervals import Interval


def outcome_bar(counts: Iterable[tuple[str, float]], total: int) -> str:
    """One bar that is divided among the outcomes, given as (CSS class, count)."""
    start, parts = 0.0, []
    for kind, count in counts:
        width = 100 * count / (total or 1)
        parts.append(f'<rect class="{kind}" x="{start:.3f}" y="0" width="{width:.3f}" height="6"/>')
        start += width
    return (
        '<svg class="outcomes" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        f"{''.join(parts)}</svg>"
    )


def rate_bar(rate: float, interval: Interval) -> str:
    """A rate from 0 to 1 as a bar, with its interval as a whisker."""
    low, high = 100 * interval.low, 100 * interval.high
    return (
        '<svg class="rate" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="empty" x="0" y="2" width="100" height="4"/>'
        f'<rect class="pass" x="0" y="2" width="{100 * rate:.2f}" height="4"/>'
        f'<rect class="interval" x="{low:.2f}" y="3.4" width="{high - low:.2f}" height="1.2"/>'
        f'<rect class="interval" x="{low:.2f}" y="0.5" width="0.6" height="7"/>'
        f'<rect class="interval" x="{max(high - 0.6, 0):.2f}" y="0.5" width="0.6" height="7"/></svg>'
    )


def histogram(found: EvaluatorSummary, threshold: float | None, *, lower: bool) -> str:
    """Ten bars over the range of scores with the threshold as a dashed line; counts are in the label."""
    if not found.scored:
        return f'<span class="muted">{UNKNOWN}</span>'
    highest = max(found.histogram)
    low, high = found.score_range or USUAL_RANGE
    ends = [low + (high - low) * place / HISTOGRAM_BINS for place in range(HISTOGRAM_BINS + 1)]
    if threshold is not None:
        threshold = share_of(threshold, found.score_range)
    bars = []
    for position, count in enumerate(found.histogram):
        height = max(24 * count / highest, 1.5) if count else 0.75
        kind = _bin_kind(position, count, threshold, lower=lower)
        bars.append(
            f'<rect class="{kind}" x="{position * 14 + 1}" y="{26 - height:.2f}" width="12" '
            f'height="{height:.2f}">'
            f"<title>{ends[position]:.4g} to {ends[position + 1]:.4g}: {count:,}</title></rect>"
        )
    if threshold is not None:
        x = 140 * threshold
        bars.append(f'<line class="threshold" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="27"/>')
    counts = ", ".join(map(str, found.histogram))
    label = f"Number of scores in ten equal bins from {low:g} to {high:g}: {counts}"
    return (
        f'<svg class="histogram" viewBox="-1 0 142 28" role="img" aria-label="{label}">'
        f'{"".join(bars)}<line class="axis" x1="0" x2="140" y1="26.5" y2="26.5"/></svg>'
    )


def _bin_kind(position: int, count: int, threshold: float | None, *, lower: bool) -> str:
    if not count:
        return "empty"
    if threshold is None:
        return "info"
    # A bin that holds the threshold is coloured by its better end.
    passed = position / 10 <= threshold if lower else (position + 1) / 10 > threshold or position == 9
    return "pass" if passed else "fail"
