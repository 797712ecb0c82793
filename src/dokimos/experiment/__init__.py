"""Experiments: the plan, the runner, and stored runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dokimos._exports import lazy_exports

if TYPE_CHECKING:
    from dokimos.experiment._experiment import Experiment as Experiment
    from dokimos.experiment._experiment import evaluate as evaluate
    from dokimos.experiment._experiment import evaluate_async as evaluate_async
    from dokimos.experiment._merging import merge_results as merge_results
    from dokimos.experiment._run_folders import find_run as find_run
    from dokimos.experiment._run_folders import runs_root as runs_root
    from dokimos.experiment._run_loading import list_runs as list_runs
    from dokimos.experiment._run_loading import load_run as load_run
    from dokimos.experiment._run_options import RunOptions as RunOptions
    from dokimos.experiment._task import Task as Task

_MODULE_OF: Final = {
    "Experiment": "dokimos.experiment._experiment",
    "RunOptions": "dokimos.experiment._run_options",
    "Task": "dokimos.experiment._task",
    "evaluate": "dokimos.experiment._experiment",
    "evaluate_async": "dokimos.experiment._experiment",
    "find_run": "dokimos.experiment._run_folders",
    "list_runs": "dokimos.experiment._run_loading",
    "load_run": "dokimos.experiment._run_loading",
    "merge_results": "dokimos.experiment._merging",
    "runs_root": "dokimos.experiment._run_folders",
}
__all__ = [
    "Experiment",
    "RunOptions",
    "Task",
    "evaluate",
    "evaluate_async",
    "find_run",
    "list_runs",
    "load_run",
    "merge_results",
    "runs_root",
]

if not TYPE_CHECKING:  # so that type checkers still report a name that does not exist
    __getattr__, __dir__ = lazy_exports(__name__, _MODULE_OF)
