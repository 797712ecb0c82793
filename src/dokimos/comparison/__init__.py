"""Comparing two runs: one engine for the gate, the diff view, the command line and whoever else asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dokimos._exports import lazy_exports

if TYPE_CHECKING:
    from dokimos.comparison._comparison_builder import compare_runs as compare_runs
    from dokimos.comparison._config import ComparisonConfig as ComparisonConfig
    from dokimos.comparison._config import Pairing as Pairing
    from dokimos.comparison._diff import Change as Change
    from dokimos.comparison._diff import ItemChange as ItemChange
    from dokimos.comparison._diff import MetricChange as MetricChange
    from dokimos.comparison._diff import RunComparison as RunComparison
    from dokimos.comparison._diff import ScoreChange as ScoreChange
    from dokimos.comparison._planning import Assumption as Assumption
    from dokimos.comparison._planning import Plan as Plan
    from dokimos.comparison._planning import PlanRow as PlanRow
    from dokimos.comparison._planning import assumptions_of as assumptions_of
    from dokimos.comparison._planning import plan as plan
    from dokimos.comparison._reports import export_comparison as export_comparison
    from dokimos.comparison._snapshot import Snapshot as Snapshot
    from dokimos.comparison._tree import comparison_tree as comparison_tree

_MODULE_OF: Final = {
    "Assumption": "dokimos.comparison._planning",
    "Change": "dokimos.comparison._diff",
    "ComparisonConfig": "dokimos.comparison._config",
    "ItemChange": "dokimos.comparison._diff",
    "MetricChange": "dokimos.comparison._diff",
    "Pairing": "dokimos.comparison._config",
    "Plan": "dokimos.comparison._planning",
    "PlanRow": "dokimos.comparison._planning",
    "RunComparison": "dokimos.comparison._diff",
    "ScoreChange": "dokimos.comparison._diff",
    "Snapshot": "dokimos.comparison._snapshot",
    "assumptions_of": "dokimos.comparison._planning",
    "compare_runs": "dokimos.comparison._comparison_builder",
    "comparison_tree": "dokimos.comparison._tree",
    "export_comparison": "dokimos.comparison._reports",
    "plan": "dokimos.comparison._planning",
}
__all__ = [
    "Assumption",
    "Change",
    "ComparisonConfig",
    "ItemChange",
    "MetricChange",
    "Pairing",
    "Plan",
    "PlanRow",
    "RunComparison",
    "ScoreChange",
    "Snapshot",
    "assumptions_of",
    "compare_runs",
    "comparison_tree",
    "export_comparison",
    "plan",
]

if not TYPE_CHECKING:  # so that type checkers still report a name that does not exist
    __getattr__, __dir__ = lazy_exports(__name__, _MODULE_OF)
