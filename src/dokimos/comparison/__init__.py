"""Comparing two runs: one engine for the gate, the diff view, the command line and whoever else asks."""

from dokimos.comparison.comparison_builder import compare_runs
from dokimos.comparison.config import ComparisonConfig, Pairing
from dokimos.comparison.diff import Change, ItemChange, MetricChange, RunComparison, ScoreChange
from dokimos.comparison.snapshot import Snapshot

__all__ = [
    "Change",
    "ComparisonConfig",
    "ItemChange",
    "MetricChange",
    "Pairing",
    "RunComparison",
    "ScoreChange",
    "Snapshot",
    "compare_runs",
]
