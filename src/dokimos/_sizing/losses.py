"""What becomes of what comes at the peak, where the servers cannot keep up and where they can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dokimos._sizing.deployment import Deployment, serving_station
from dokimos._sizing.load import Load
from dokimos._sizing.queueing import blocking_probability
from dokimos._sizing.unit_costs import UnitCosts

WAITING_TRACES_BYTES: Final = 128 * 2**20
"""What `DOKIMOS_MAX_WAITING_TRACES_MIB` is by default: exports beyond it get 503."""
_SHARE: Final = 0.95
_NEVER: Final = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakOutcome:
    """What happens at a serving process at the peak of the load."""

    utilisation: float
    """The share of its time that it works; 1 and above where it cannot keep up."""
    mean_wait_seconds: float | None
    """What a request waits on average before it is served; None where the queue grows without end."""
    p95_wait_seconds: float | None
    refused_share: float
    """The share of the spans that is answered with 503, once what may wait is full."""
    seconds_until_refused: float | None
    """How long the peak may last before that; None where it does not come to it."""
    delay_seconds: float
    """How far behind items are at the end of the peak."""
    seconds_until_drained: float | None
    """How long it takes after the peak to be up to date; None where even the mean load is too much."""


def find_peak_outcome(load: Load, deployment: Deployment, costs: UnitCosts) -> PeakOutcome:
    """Return what a serving process does with its share of the load."""
    peak = serving_station(load, deployment, costs, peak=load.peak)
    mean = serving_station(load, deployment, costs, peak=1.0)
    used = peak.utilisation
    export_bytes = costs["spans-per-export"] * load.span_bytes
    room = int(WAITING_TRACES_BYTES / export_bytes) if export_bytes and load.spans else 0
    refused = blocking_probability(used, room) if room else 0.0
    refused = refused if refused > _NEVER else 0.0
    if used < 1:
        return PeakOutcome(
            utilisation=used,
            mean_wait_seconds=peak.mean_wait,
            p95_wait_seconds=peak.wait_quantile(_SHARE),
            refused_share=refused,
            seconds_until_refused=None,
            delay_seconds=0.0,
            seconds_until_drained=0.0,
        )
    bytes_per_second = load.at_peak(load.spans) * load.span_bytes / deployment.servers
    surplus = bytes_per_second * (1 - 1 / used)
    # Spans beyond the room are refused and do not wait here, but their exporters send them again.
    behind = load.peak_hours * 3600 * (used - 1)
    return PeakOutcome(
        utilisation=used,
        mean_wait_seconds=None,
        p95_wait_seconds=None,
        refused_share=refused,
        seconds_until_refused=WAITING_TRACES_BYTES / surplus if surplus else None,
        delay_seconds=behind,
        seconds_until_drained=behind / (1 - mean.utilisation) if mean.utilisation < 1 else None,
    )
