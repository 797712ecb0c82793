"""What becomes of what comes at the peak, where the servers cannot keep up and where they can."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from dokimos._sizing.answer_time import RequestKind, predict_p95
from dokimos._sizing.deployment import Deployment
from dokimos._sizing.load import Load
from dokimos._sizing.queueing import blocking_probability
from dokimos._sizing.unit_costs import UnitCosts

WAITING_TRACES_BYTES: Final = 128 * 2**20
"""What `DOKIMOS_MAX_WAITING_TRACES_MIB` is by default: exports beyond it get 503."""
_NEVER: Final = 1e-12
_STEPS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakOutcome:
    """What happens at each serving process at the peak of the load."""

    utilisation: float
    """The share of its time that it works; 1 and above where it cannot keep up."""
    p95_answer_seconds: float | None
    """The time that 95 % of the requests are answered in, by their CPU; None where it cannot keep up."""
    refused_share: float
    """The share of the spans that is answered with 503, once what may wait is full."""
    seconds_until_refused: float | None
    """How long the peak lasts before that; None where it does not come to it."""
    delay_seconds: float
    """How far behind items are at the end of the peak."""
    seconds_until_drained: float | None
    """How long it takes after the peak to be up to date; None where even the mean load is too much."""


def find_peak_outcome(load: Load, deployment: Deployment, costs: UnitCosts) -> PeakOutcome:
    """Return what a serving process does with its share of the load."""
    items, spans = _list_kinds(load.multiply(1 / deployment.all_servers), deployment, costs)
    item_work, span_work = items.rate * items.seconds, spans.rate * spans.seconds
    used = item_work + span_work
    places = max(1, int(WAITING_TRACES_BYTES / max(costs["spans-per-export"] * load.span_bytes, 1.0)))
    if used >= 1:
        waiting = places * spans.seconds
        return _find_overload(
            item_work, span_work, waiting=waiting, peak=load.peak, seconds=load.peak_hours * 3600
        )
    refused = blocking_probability(used, places) if spans.rate else 0.0
    return PeakOutcome(
        utilisation=used,
        p95_answer_seconds=predict_p95(
            [each for each in (items, spans) if each.rate],
            lone_factor=costs["lone-request-factor"] if deployment.store == "sqlite" else 1.0,
            variation=costs["service-variation"],
        ),
        refused_share=refused if refused > _NEVER else 0.0,
        seconds_until_refused=None,
        delay_seconds=0.0,
        seconds_until_drained=0.0,
    )


def _list_kinds(load: Load, deployment: Deployment, costs: UnitCosts) -> tuple[RequestKind, RequestKind]:
    """Return the batches of items and the exports of spans that come at the peak."""
    item_ms, span_ms = (costs.on(name, deployment.store) for name in ("item-cpu-ms", "span-cpu-ms"))
    batch, export = costs["items-per-request"], costs["spans-per-export"]
    return (
        RequestKind(load.at_peak(load.items) / batch, batch * item_ms / 1000),
        RequestKind(load.at_peak(load.spans) / export, export * span_ms / 1000),
    )


def _find_overload(
    item_work: float, span_work: float, *, waiting: float, peak: float, seconds: float
) -> PeakOutcome:
    """Return what happens where more work comes than a process can do, as of a fluid.

    What comes waits its turn. Of spans, no more than a limit waits; items all wait, in their runs.

    Args:
        item_work: Seconds of work that come in a second.
        span_work: The same of spans.
        waiting: Seconds of work of the spans that may wait.
        peak: How many times the mean of the day comes.
        seconds: How long the peak lasts.
    """
    used = item_work + span_work
    # As long as all of it may wait, spans are that share of the backlog which they are of the work.
    until_refused = waiting * used / (span_work * (used - 1)) if span_work and used > 1 else math.inf
    is_refusing = until_refused < seconds
    backlog, refused = (used - 1) * min(seconds, until_refused), 0.0
    if is_refusing:
        backlog, accepted = _fill_backlog(item_work, waiting, backlog, seconds - until_refused)
        refused = max(0.0, 1 - accepted / span_work)
    return PeakOutcome(
        utilisation=used,
        p95_answer_seconds=None,
        refused_share=refused,
        seconds_until_refused=until_refused if is_refusing else None,
        delay_seconds=backlog,
        seconds_until_drained=backlog / (1 - used / peak) if used < peak else None,
    )


def _fill_backlog(item_work: float, waiting: float, backlog: float, seconds: float) -> tuple[float, float]:
    """Return the backlog after some time, and the work of spans that was accepted in a second of it.

    As many spans are accepted as are stored, which is their share of the backlog. It tends to
    `waiting / (1 - item_work)` where items leave time for spans, and grows where they do not.
    """
    step, accepted = seconds / _STEPS, 0.0
    for _ in range(_STEPS):
        stored = min(1.0, waiting / backlog)
        accepted += stored / _STEPS
        # No step goes beyond the backlog at which as much comes as is done.
        growth = step * (item_work + stored - 1)
        end = waiting / (1 - item_work) if item_work < 1 else math.inf
        backlog = min(backlog + growth, max(end, backlog)) if growth > 0 else max(backlog + growth, end)
    return backlog, accepted
