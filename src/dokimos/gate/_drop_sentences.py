"""What a gate says of the drops of single items."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from dokimos._core.text import pluralize
from dokimos.comparison._diff import PASS_RATE, RunComparison, title
from dokimos.comparison._wording import interval, p_text, points
from dokimos.gate._gate_config import GateConfig
from dokimos.gate._item_guards import repeats_needed
from dokimos.gate._severity import Drop, Drops


def describe_drops(drops: Drops, comparison: RunComparison, config: GateConfig) -> Iterator[str]:
    """Yield warnings about drops: which count all together, and which do not count."""
    yield from (one.sentence for one in drops.separations)
    yield from _warn_of_explained_drops(drops.explained, config)
    yield from _warn_of_open_intervals(drops, comparison)


def _warn_of_explained_drops(drops: Sequence[Drop], config: GateConfig) -> Iterator[str]:
    if drops:
        yield (
            f"{count_drops(drops)} by more than {points(config.severity_margin)} without standing "
            f"out from what repeats vary by, so guard 2 does not count them: {format_drops(drops)}."
        )


def _warn_of_open_intervals(drops: Drops, comparison: RunComparison) -> Iterator[str]:
    """Yield warnings where an interval excludes 0 although guard 1 does not fire and drops count as noise."""
    names = {drop.evaluator for drop in (*drops.unclear, *drops.explained)}
    for metric in comparison.metrics if names else ():
        if metric.name not in {PASS_RATE, *names} or metric.significant or metric.worse <= metric.better:
            continue
        bounds = metric.interval
        if bounds is not None and min(map(metric.worsening, (bounds.low, bounds.high))) > 0:
            yield (
                f"The 95 % interval of the change of the {title(metric)} ({interval(metric)}) excludes 0, "
                f"but the corrected test of guard 1 does not reach alpha = {metric.config.alpha:g} "
                f"(adjusted p {p_text(metric.adjusted_p_value)}): all together, the drops may be a "
                "regression, which more items or repeats would show."
            )


def count_drops(drops: Sequence[Drop]) -> str:
    """Say how many drops there are."""
    return f"{pluralize(len(drops), 'score of a single item', 'scores of single items')} dropped"


def format_drops(drops: Sequence[Drop]) -> str:
    """Name the worst drops, with what explains them."""
    more = f" (and {len(drops) - 3} more)" if len(drops) > 3 else ""
    worst = (f"{drop.sentence} ({drop.cause})" if drop.cause else drop.sentence for drop in drops[:3])
    return "; ".join(worst) + more


def explain_too_few(drops: Sequence[Drop], config: GateConfig) -> str:
    """Say why drops cannot be told from noise, and how many repeats it takes."""
    # The drop with the fewest ways to deal its repeats out is the one that needs most.
    before, now = min((drop.repeats for drop in drops), key=lambda pair: math.comb(sum(pair), pair[0]))
    have = "one repeat" if before == now == 1 else f"{before} and {now} repeats"
    return f"cannot be told from noise with {have}; run {repeats_needed(config.alpha)}"
