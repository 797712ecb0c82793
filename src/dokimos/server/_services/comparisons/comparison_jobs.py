"""What the process that compares runs is asked, and what it returns; plain values that can be pickled."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from sqlalchemy import Row

from dokimos.server._services.comparisons.gate_options import GateOptions

CHUNK: Final = 100
"""Cases of a comparison that one row holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonJob:
    """Two runs to compare."""

    baseline_id: str
    candidate_id: str
    name: str
    """Of the experiment."""
    options: GateOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonOutcome:
    """Two runs that were compared."""

    state: str
    """`state_of` the runs as they were read."""
    summary: str
    """The documented answer of the gate with what is added, as JSON."""
    chunks: tuple[str, ...]
    """The cases, `CHUNK` of them each, as `pack_lines` makes them."""
    case_count: int


def pack_lines(lines: Sequence[str]) -> str:
    """Return lines of a comparison as they are stored: compressed, as text.

    A line is the id of an item, a tab, and the case as JSON. Cases are much alike: 10,000 of them are 8 MB
    that the serving process would have to take over and write, and a fifth of that packed.
    """
    # Level 1: higher ones take twice as long and save a tenth.
    return base64.b64encode(zlib.compress("\n".join(lines).encode(), 1)).decode()


def unpack_lines(packed: str) -> list[str]:
    """Return the lines that `pack_lines` was given."""
    return zlib.decompress(base64.b64decode(packed)).decode().split("\n")


class Comparer(Protocol):
    """Compares runs, outside this process."""

    async def compare(self, job: ComparisonJob) -> ComparisonOutcome:
        """Compare two runs.

        Raises:
            ServiceError: They cannot be compared so, or the process ended.
        """
        ...

    async def close(self) -> None:
        """End what is under way."""
        ...


def state_of(baseline: Row[Any], candidate: Row[Any]) -> str:
    """Return a hash of what two runs are, which changes with their items, scores and statuses."""
    columns = (
        "status",
        "status_reason",
        "completed_at",
        "dataset_version_id",
        "next_ordinal",
        "item_count",
        "passed_count",
        "judged_count",
        "errored_count",
    )
    text = json.dumps([[getattr(run, name) for name in columns] for run in (baseline, candidate)])
    return hashlib.sha256(text.encode()).hexdigest()
