"""Small pictures in SVG that need no script and no inline style."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dokimos._core.evaluator_summary import HISTOGRAM_BINS, EvaluatorSummary
from dokimos._core.markup import Html, tag
from dokimos._core.number_format import UNKNOWN
from dokimos._core.score_range import USUAL_RANGE, share_of
from dokimos.stats._intervals import Interval

_KINDS = ("empty", "info", "fail", "pass")


def outcome_bar(counts: Iterable[tuple[str, float]], total: int) -> Html:
    """One bar that is divided among the outcomes, given as (CSS class, count)."""
    start, parts = 0.0, []
    for kind, count in counts:
        width = 100 * count / (total or 1)
        parts.append(tag("rect", class_=kind, x=f"{start:.3f}", y=0, width=f"{width:.3f}", height=6))
        start += width
    return tag(
        "svg", parts, class_="outcomes", viewBox="0 0 100 6", preserveAspectRatio="none", aria_hidden="true"
    )


def rate_bar(rate: float, interval: Interval) -> Html:
    """A rate from 0 to 1 as a bar, with its interval as a whisker."""
    low, high = 100 * interval.low, 100 * interval.high
    whisker = [
        (f"{low:.2f}", "3.4", f"{high - low:.2f}", "1.2"),
        (f"{low:.2f}", "0.5", "0.6", "7"),
        (f"{max(high - 0.6, 0):.2f}", "0.5", "0.6", "7"),
    ]
    return tag(
        "svg",
        tag("rect", class_="empty", x=0, y=2, width=100, height=4),
        tag("rect", class_="pass", x=0, y=2, width=f"{100 * rate:.2f}", height=4),
        [tag("rect", class_="interval", x=x, y=y, width=w, height=h) for x, y, w, h in whisker],
        class_="rate",
        viewBox="0 0 100 8",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


def change_bar(delta: float, interval: tuple[float, float] | None, reach: float, kind: str) -> Html:
    """A change with its interval around zero, on an axis from -`reach` to `reach`."""

    def x_of(value: float) -> str:
        # Clipped, so that an interval wider than the axis ends at its edge.
        return f"{50 + 48 * max(-1.0, min(1.0, value / (reach or 1.0))):.2f}"

    parts = [tag("line", class_="axis zero", x1=50, x2=50, y1=0, y2=16)]
    if interval is not None:
        low, high = map(x_of, interval)
        parts.append(tag("line", class_="spread", x1=low, x2=high, y1=8, y2=8))
        parts += [tag("line", class_="spread", x1=x, x2=x, y1=4, y2=12) for x in (low, high)]
    x = float(x_of(delta))
    parts.append(tag("rect", class_="dot", x=f"{x - 1.2:.2f}", y=5, width="2.4", height=6))
    return tag(
        "svg",
        parts,
        class_=f"change {kind}",
        viewBox="0 0 100 16",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


def histogram(summary: EvaluatorSummary, threshold: float | None, *, lower: bool) -> Html:
    """Ten bars over the range of scores with the threshold as a dashed line; counts are in the label."""
    if not summary.scored:
        return tag("span", UNKNOWN, class_="muted")
    low, high = summary.score_range or USUAL_RANGE
    if threshold is not None:
        threshold = share_of(threshold, summary.score_range)
    counts = ", ".join(map(str, summary.histogram))
    label = f"Number of scores in ten equal bins from {low:g} to {high:g}: {counts}"
    return tag(
        "svg",
        tag("title", _bins(summary.histogram, low, high)),
        _bars(summary.histogram, threshold, lower=lower),
        None if threshold is None else _threshold(140 * threshold),
        tag("line", class_="axis", x1=0, x2=140, y1="26.5", y2="26.5"),
        class_="histogram",
        viewBox="-1 0 142 28",
        role="img",
        aria_label=label,
    )


def _bars(counts: Sequence[int], threshold: float | None, *, lower: bool) -> list[Html]:
    """The bars of a kind are one path, so that a page of thousands of evaluators stays small."""
    highest = max(counts)
    paths: dict[str, str] = {}
    for position, count in enumerate(counts):
        # A single score among thousands must not vanish.
        height = max(24 * count / highest, 1.5) if count else 0.75
        kind = _bin_kind(position, count, threshold, lower=lower)
        bar = f"M{position * 14 + 1} 26v-{height:.4g}h12v{height:.4g}z"
        paths[kind] = paths.get(kind, "") + bar
    return [tag("path", class_=kind, d=paths[kind]) for kind in _KINDS if kind in paths]


def _threshold(x: float) -> Html:
    return tag("line", class_="threshold", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=0, y2=27)


def _bins(counts: Sequence[int], low: float, high: float) -> str:
    ends = [low + (high - low) * bin_index / HISTOGRAM_BINS for bin_index in range(HISTOGRAM_BINS + 1)]
    lines = [
        f"{ends[bin_index]:.4g} to {ends[bin_index + 1]:.4g}: {count:,}"
        for bin_index, count in enumerate(counts)
        if count
    ]
    return "\n".join(lines)


def _bin_kind(position: int, count: int, threshold: float | None, *, lower: bool) -> str:
    if not count:
        return "empty"
    if threshold is None:
        return "info"
    # A bin that holds the threshold is coloured by its better end.
    passed = position / 10 <= threshold if lower else (position + 1) / 10 > threshold or position == 9
    return "pass" if passed else "fail"
