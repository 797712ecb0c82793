"""Word changes and their evidence for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dokimos._core.number_format import UNKNOWN, format_or_unknown, format_score, percent, round_half_up
from dokimos.comparison._diff import PASS_RATE, Change, MetricChange, RunComparison, title


def points(share: float) -> str:
    """Write a difference of rates or scores in points of a hundred."""
    return f"{round_half_up(share * 100, 1):g} points"


def format_points(share: float) -> str:
    """Write a change in points, with its sign."""
    return f"{round_half_up(share * 100, 1):+g} pts"


def format_signed(value: float) -> str:
    """Write a change of a score, with its sign."""
    return f"{'+' if value >= 0 else '-'}{format_score(abs(value))}"


def p_text(p: float) -> str:
    """Write a p-value with its sign, so that a small one does not become zero."""
    return "< 0.0001" if p < 0.0001 else f"= {round_half_up(p, 4):g}"


def share(value: float) -> str:
    """Write a share in whole percent."""
    return f"{round_half_up(value * 100, 1):g} %"


def level(metric: MetricChange, value: float | None) -> str:
    """Write the mean of a metric: a rate in percent, a score with two decimals."""
    return format_or_unknown(percent if metric.name == PASS_RATE else format_score, value)


def change(metric: MetricChange) -> str:
    """Write the size of a change in the metric's unit."""
    if metric.delta is None:
        return UNKNOWN
    return format_points(metric.delta) if metric.name == PASS_RATE else format_signed(metric.delta)


def interval(metric: MetricChange) -> str:
    """Write the interval of a change in the metric's unit."""
    bounds = metric.interval
    if bounds is None:
        return UNKNOWN
    write = format_points if metric.name == PASS_RATE else format_signed
    return f"{write(bounds.low).removesuffix(' pts')} to {write(bounds.high)}"


def coverage_note(metric: MetricChange) -> str:
    """Say how often an interval of few items covers the true change, where that is less than promised."""
    covered = metric.interval_coverage
    return "" if covered is None else f"n = {metric.n}: covers about {share(covered)}"


def interval_with_note(metric: MetricChange) -> str:
    """Write the interval of a change and, of few items, how often it covers the true one."""
    note = coverage_note(metric)
    return f"{interval(metric)} ({note})" if note else interval(metric)


def change_sentence(metric: MetricChange) -> str:
    """Say how a metric changed and how certain that is."""
    name = "The pass rate" if metric.name == PASS_RATE else title(metric)
    moved = "rose" if (metric.delta or 0) > 0 else "fell"
    return (
        f"{name} {moved} from {level(metric, metric.baseline_mean)} to "
        f"{level(metric, metric.candidate_mean)} "
        f"({change(metric)}, 95 % interval {interval_with_note(metric)}; p {p_text(metric.p_value)}, "
        f"adjusted {p_text(metric.adjusted_p_value)}; n = {metric.n}, {metric.worse} worse and "
        f"{metric.better} better)."
    )


def evidence_sentence(metric: MetricChange, family: int) -> str:
    """Say what was tested and what the test could have seen."""
    config, could = metric.config, _visible_drops(metric)
    return (
        f"Tested at alpha = {config.alpha:g} ({config.correction}, {family} metrics) on n = {metric.n} "
        f"items, "
        f"{metric.worse} worse and {metric.better} better: {title(metric)} {change(metric)}, "
        f"95 % interval {interval_with_note(metric)}. With {share(config.power)} power it could see {could}."
    )


def _visible_drops(metric: MetricChange) -> str:
    """Say which drops a test could have seen; of scores it matters how many items take the drop."""
    seen, uneven = metric.detectable_drop, metric.uneven_detectable_drop
    if seen is None:
        needed = metric.items_needed(1.0)
        return "no drop at all" + ("" if needed is None else f"; that takes at least {needed:,} items")
    drops = f"drops of the {title(metric)} from {points(seen)} on"
    if uneven == seen:
        return drops
    some = "none" if uneven is None else f"from {points(uneven)} on"
    return f"{drops} where all items fall alike, and {some} where a tenth of them fall"


def verdict_text(comparison: RunComparison) -> str:
    """Return in one line what changed."""
    worse = [metric for metric in comparison.metrics if metric.change is Change.REGRESSED]
    better = [metric for metric in comparison.metrics if metric.change is Change.IMPROVED]
    if comparison.items and not any(metric.n for metric in comparison.metrics):
        return "Nothing was compared"
    if not worse and not better:
        moved = find_unseen_change(comparison)
        return "No significant change" if moved is None else _too_few_items(comparison, moved)
    parts = []
    if worse:
        parts.append(f"Worse: {', '.join(map(title, worse))}")
    if better:
        parts.append(f"{'better' if worse else 'Better'}: {', '.join(map(title, better))}")
    return "; ".join(parts)


def _too_few_items(comparison: RunComparison, moved: MetricChange) -> str:
    needed = comparison.fewest_items
    least = "" if needed is None else f"; it takes at least {needed} items"
    return (
        f"Too few items to tell: {moved.worse:,} of {moved.n:,} got worse and {moved.better:,} better "
        f"({title(moved)}){least}"
    )


def find_unseen_change(comparison: RunComparison) -> MetricChange | None:
    """Return the metric that moved most where all that moved have too few items for a test; else None."""
    moved = [metric for metric in comparison.metrics if metric.worse or metric.better]
    blind = {metric.name for metric in comparison.blind_metrics}
    if not moved or any(metric.name not in blind for metric in moved):
        return None
    return max(moved, key=lambda metric: (metric.worse, metric.better))


def change_counts(comparison: RunComparison) -> Iterator[str]:
    """Yield how many items changed in which way; only those that did not move at all are unchanged."""
    unclear = count_unclear(comparison)
    for kind in Change:
        count = comparison.count(kind) - (unclear if kind is Change.UNCHANGED else 0)
        if kind is Change.UNCHANGED and unclear:
            yield f"{unclear:,} without a clear change"
        if count:
            yield f"{count:,} {kind.value.lower()}"


def count_unclear(comparison: RunComparison) -> int:
    """Count the items that moved on a metric which did not change for sure."""
    moved = {key for metric in comparison.metrics for key, delta in metric.deltas.items() if delta}
    return sum(item.change is Change.UNCHANGED and item.key in moved for item in comparison.items)


def run_labels(comparison: RunComparison) -> tuple[str, str] | None:
    """Return the run ids or files by which commands find the sides, None where the titles say them."""
    labels = (comparison.baseline_label, comparison.candidate_label)
    titles = side_titles(comparison)
    if not all(labels) or all(label in text for label, text in zip(labels, titles, strict=True)):
        return None
    return labels


def side_titles(comparison: RunComparison) -> tuple[str, str]:
    """Return how a person tells the sides apart: by name, else by the first fact that differs."""
    names = (comparison.baseline_name, comparison.candidate_name)
    if all(names) and names[0] != names[1]:
        return names
    sides = (comparison.baseline_facts, comparison.candidate_facts)
    marks = next((pair for key in sides[1] if (pair := _differing(sides, key))), None)
    if marks is None:
        labels = (comparison.baseline_label, comparison.candidate_label)
        # A label that repeats the name does not tell the sides apart.
        marks = labels if labels[0] != labels[1] and names[0] not in labels else ("baseline", "candidate")
    before, now = (f"{name} ({mark})" if name else mark for name, mark in zip(names, marks, strict=True))
    return before, now


def _differing(sides: tuple[Mapping[str, str], Mapping[str, str]], key: str) -> tuple[str, str] | None:
    before, now = sides[0].get(key), sides[1].get(key)
    return None if before is None or now is None or before == now else (before, now)
