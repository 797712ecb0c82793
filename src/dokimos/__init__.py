"""Evaluate applications built on language models, and trust the answer.

Everything public is reachable from here and is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from dokimos.version import __version__ as __version__

if TYPE_CHECKING:
    from dokimos import errors as errors
    from dokimos import evaluators as evaluators
    from dokimos import simulation as simulation
    from dokimos.comparison.comparison_builder import compare_runs as compare_runs
    from dokimos.comparison.diff import RunComparison as RunComparison
    from dokimos.core.agent import AgentTrace as AgentTrace
    from dokimos.core.agent import ToolCall as ToolCall
    from dokimos.core.agent import ToolDefinition as ToolDefinition
    from dokimos.core.conversation import ConversationTrajectory as ConversationTrajectory
    from dokimos.core.conversation import Message as Message
    from dokimos.core.error_detail import ErrorDetail as ErrorDetail
    from dokimos.core.example import Example as Example
    from dokimos.core.metrics import CallMetrics as CallMetrics
    from dokimos.core.metrics import PriceTable as PriceTable
    from dokimos.core.provenance import Provenance as Provenance
    from dokimos.core.results import EvalResult as EvalResult
    from dokimos.core.results import ExperimentResult as ExperimentResult
    from dokimos.core.results import ItemResult as ItemResult
    from dokimos.core.results import RunResult as RunResult
    from dokimos.core.results import RunStatus as RunStatus
    from dokimos.core.results import Score as Score
    from dokimos.core.task_marker import takes_example as takes_example
    from dokimos.core.task_marker import takes_input as takes_input
    from dokimos.core.task_result import TaskResult as TaskResult
    from dokimos.core.test_case import EvalTestCase as EvalTestCase
    from dokimos.core.wire import from_json as from_json
    from dokimos.core.wire import to_json as to_json
    from dokimos.datasets.answer_replay import recorded_task as recorded_task
    from dokimos.datasets.dataset import Dataset as Dataset
    from dokimos.datasets.dataset import DatasetStream as DatasetStream
    from dokimos.datasets.resolver import register_resolver as register_resolver
    from dokimos.evaluators.base import Evaluator as Evaluator
    from dokimos.evaluators.function import evaluator as evaluator
    from dokimos.experiment.experiment import Experiment as Experiment
    from dokimos.experiment.experiment import evaluate as evaluate
    from dokimos.experiment.experiment import evaluate_async as evaluate_async
    from dokimos.experiment.merging import merge_results as merge_results
    from dokimos.experiment.run_options import RunOptions as RunOptions
    from dokimos.experiment.task import Task as Task
    from dokimos.exporters.base import export as export
    from dokimos.exporters.base import render as render
    from dokimos.exporters.json import load_result as load_result
    from dokimos.gate.gate import RegressionGate as RegressionGate
    from dokimos.gate.gate import assert_no_regression as assert_no_regression
    from dokimos.gate.gate_config import GateConfig as GateConfig
    from dokimos.judges.budget import Budget as Budget
    from dokimos.judges.factory import judge as judge
    from dokimos.judges.model_task import model_task as model_task
    from dokimos.judges.protocol import JudgeLM as JudgeLM
    from dokimos.judges.protocol import JudgeReply as JudgeReply
    from dokimos.judges.protocol import as_judge as as_judge
    from dokimos.reporting.memory import MemoryReporter as MemoryReporter
    from dokimos.reporting.protocol import BaseReporter as BaseReporter
    from dokimos.reporting.protocol import ReportedStatus as ReportedStatus
    from dokimos.reporting.protocol import Reporter as Reporter
    from dokimos.reporting.protocol import RunHandle as RunHandle
    from dokimos.testing.assertions import assert_eval as assert_eval
    from dokimos.testing.assertions import assert_scores as assert_scores

_MODULE_OF: Final[dict[str, str]] = {
    "AgentTrace": "core.agent",
    "BaseReporter": "reporting.protocol",
    "Budget": "judges.budget",
    "CallMetrics": "core.metrics",
    "ConversationTrajectory": "core.conversation",
    "Dataset": "datasets.dataset",
    "DatasetStream": "datasets.dataset",
    "ErrorDetail": "core.error_detail",
    "EvalResult": "core.results",
    "EvalTestCase": "core.test_case",
    "Evaluator": "evaluators.base",
    "Example": "core.example",
    "Experiment": "experiment.experiment",
    "ExperimentResult": "core.results",
    "GateConfig": "gate.gate_config",
    "ItemResult": "core.results",
    "JudgeLM": "judges.protocol",
    "JudgeReply": "judges.protocol",
    "MemoryReporter": "reporting.memory",
    "Message": "core.conversation",
    "PriceTable": "core.metrics",
    "Provenance": "core.provenance",
    "RegressionGate": "gate.gate",
    "ReportedStatus": "reporting.protocol",
    "Reporter": "reporting.protocol",
    "RunComparison": "comparison.diff",
    "RunHandle": "reporting.protocol",
    "RunOptions": "experiment.run_options",
    "RunResult": "core.results",
    "RunStatus": "core.results",
    "Score": "core.results",
    "Task": "experiment.task",
    "TaskResult": "core.task_result",
    "ToolCall": "core.agent",
    "ToolDefinition": "core.agent",
    "as_judge": "judges.protocol",
    "assert_eval": "testing.assertions",
    "assert_no_regression": "gate.gate",
    "assert_scores": "testing.assertions",
    "compare_runs": "comparison.comparison_builder",
    "evaluate": "experiment.experiment",
    "evaluate_async": "experiment.experiment",
    "evaluator": "evaluators.function",
    "export": "exporters.base",
    "from_json": "core.wire",
    "judge": "judges.factory",
    "load_result": "exporters.json",
    "merge_results": "experiment.merging",
    "model_task": "judges.model_task",
    "recorded_task": "datasets.answer_replay",
    "register_resolver": "datasets.resolver",
    "render": "exporters.base",
    "takes_example": "core.task_marker",
    "takes_input": "core.task_marker",
    "to_json": "core.wire",
}
_SUBMODULES: Final = ("errors", "evaluators", "simulation")

__all__ = [  # written out, since type checkers do not run it
    "AgentTrace",
    "BaseReporter",
    "Budget",
    "CallMetrics",
    "ConversationTrajectory",
    "Dataset",
    "DatasetStream",
    "ErrorDetail",
    "EvalResult",
    "EvalTestCase",
    "Evaluator",
    "Example",
    "Experiment",
    "ExperimentResult",
    "GateConfig",
    "ItemResult",
    "JudgeLM",
    "JudgeReply",
    "MemoryReporter",
    "Message",
    "PriceTable",
    "Provenance",
    "RegressionGate",
    "ReportedStatus",
    "Reporter",
    "RunComparison",
    "RunHandle",
    "RunOptions",
    "RunResult",
    "RunStatus",
    "Score",
    "Task",
    "TaskResult",
    "ToolCall",
    "ToolDefinition",
    "__version__",
    "as_judge",
    "assert_eval",
    "assert_no_regression",
    "assert_scores",
    "compare_runs",
    "errors",
    "evaluate",
    "evaluate_async",
    "evaluator",
    "evaluators",
    "export",
    "from_json",
    "judge",
    "load_result",
    "merge_results",
    "model_task",
    "recorded_task",
    "register_resolver",
    "render",
    "simulation",
    "takes_example",
    "takes_input",
    "to_json",
]

if not TYPE_CHECKING:  # so that type checkers still report a name that does not exist

    def __getattr__(name: str) -> Any:
        if name in _SUBMODULES:
            return import_module(f"dokimos.{name}")
        module = _MODULE_OF.get(name)
        if module is None:
            raise AttributeError(f"module 'dokimos' has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"dokimos.{module}"), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
