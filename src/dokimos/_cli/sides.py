"""What is to be compared, as it is named on the command line: a result, or a baseline file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dokimos._cli.options import load_result_argument
from dokimos.comparison._snapshot import Snapshot

if TYPE_CHECKING:
    from dokimos._core.results import ExperimentResult
    from dokimos.gate._baseline import Baseline


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison."""

    snapshot: Snapshot
    baseline: Baseline | None = None
    """The baseline file that it was read from, if it was one."""
    result: ExperimentResult | None = None


def load_side(argument: str, run_dir: str | None = None) -> Side:
    """Read a run id, a run folder, a JSON report or a baseline file."""
    path = Path(argument)
    # By content: reports and baselines are both JSON, and people name files as they like.
    if path.is_file() and is_baseline_file(path):
        from dokimos.gate._baseline import read_baseline

        baseline = read_baseline(path)
        return Side(baseline.snapshot, baseline)
    result = load_result_argument(argument, run_dir)
    return Side(Snapshot.of(result), result=result)


def is_baseline_file(path: Path, *, damaged: bool = False) -> bool:
    """Say whether this is the baseline file of a gate, and not a report; `damaged` where nothing tells."""
    from dokimos.gate._baseline import is_baseline

    try:
        return is_baseline(json.loads(path.read_text(encoding="utf-8-sig")))
    except (OSError, ValueError, RecursionError):
        return damaged
