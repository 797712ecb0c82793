"""Evaluate applications built on language models, and trust the answer.

    from dokimos import Dataset, Example, evaluate, export
    from dokimos.evaluators import ExactMatch

    capitals = Dataset([Example.of("What is the capital of France?", "Paris", id="fr")])
    result = evaluate(capitals, answer, [ExactMatch()])  # `answer` is your application: any function
    print(result)
    export(result, "report.html")

Start with `evaluate`, `Dataset`, `Example` and `dokimos.evaluators`; then `compare_runs` and
`assert_no_regression` for changes, `judge` for models that judge, `dokimos.testing` for pytest, and
`dokimos.integrations` for agent frameworks. `help(name)` of each has an example. In a shell, `dokimos -h`
lists the commands, and `dokimos evaluators` the evaluators.

All names are imported when they are first used. `__all__` has three groups: what to start with, what results
and runs consist of, and what extensions implement.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from dokimos._version import __version__ as __version__

if TYPE_CHECKING:
    from dokimos import errors as errors
    from dokimos import evaluators as evaluators
    from dokimos import simulation as simulation
    from dokimos._core.agent import AgentTrace as AgentTrace
    from dokimos._core.agent import ToolCall as ToolCall
    from dokimos._core.conversation import ConversationTrajectory as ConversationTrajectory
    from dokimos._core.conversation import Message as Message
    from dokimos._core.conversation import Role as Role
    from dokimos._core.conversation import Turn as Turn
    from dokimos._core.error_detail import ErrorDetail as ErrorDetail
    from dokimos._core.error_detail import Frame as Frame
    from dokimos._core.eval_result import EvalResult as EvalResult
    from dokimos._core.eval_result import Score as Score
    from dokimos._core.evaluator_summary import EvaluatorSummary as EvaluatorSummary
    from dokimos._core.example import Example as Example
    from dokimos._core.item_result import ItemResult as ItemResult
    from dokimos._core.item_result import RunResult as RunResult
    from dokimos._core.metrics import CallMetrics as CallMetrics
    from dokimos._core.metrics import PriceTable as PriceTable
    from dokimos._core.provenance import EvaluatorInfo as EvaluatorInfo
    from dokimos._core.provenance import Provenance as Provenance
    from dokimos._core.results import ExperimentResult as ExperimentResult
    from dokimos._core.results import RunStatus as RunStatus
    from dokimos._core.summary import RunSummary as RunSummary
    from dokimos._core.task_marker import takes_example as takes_example
    from dokimos._core.task_marker import takes_input as takes_input
    from dokimos._core.task_result import TaskResult as TaskResult
    from dokimos._core.test_case import EvalTestCase as EvalTestCase
    from dokimos._core.tool_definition import ToolDefinition as ToolDefinition
    from dokimos._core.wire import from_json as from_json
    from dokimos._core.wire import to_json as to_json
    from dokimos.client._reporter import ServerReporter as ServerReporter
    from dokimos.comparison._comparison_builder import compare_runs as compare_runs
    from dokimos.comparison._diff import RunComparison as RunComparison
    from dokimos.datasets._answer_replay import recorded_task as recorded_task
    from dokimos.datasets._dataset import Dataset as Dataset
    from dokimos.datasets._dataset import DatasetStream as DatasetStream
    from dokimos.datasets._resolver import DatasetResolver as DatasetResolver
    from dokimos.datasets._resolver import register_resolver as register_resolver
    from dokimos.evaluators._base import Evaluator as Evaluator
    from dokimos.evaluators._function import evaluator as evaluator
    from dokimos.experiment._executor import Executor as Executor
    from dokimos.experiment._executor import LocalExecutor as LocalExecutor
    from dokimos.experiment._executor import ProcessExecutor as ProcessExecutor
    from dokimos.experiment._experiment import Experiment as Experiment
    from dokimos.experiment._experiment import evaluate as evaluate
    from dokimos.experiment._experiment import evaluate_async as evaluate_async
    from dokimos.experiment._merging import merge_results as merge_results
    from dokimos.experiment._ray_executor import RayExecutor as RayExecutor
    from dokimos.experiment._run_options import RunOptions as RunOptions
    from dokimos.experiment._task import Task as Task
    from dokimos.exporters._base import Exporter as Exporter
    from dokimos.exporters._base import export as export
    from dokimos.exporters._base import render as render
    from dokimos.exporters._json import load_result as load_result
    from dokimos.gate._gate import RegressionGate as RegressionGate
    from dokimos.gate._gate import assert_no_regression as assert_no_regression
    from dokimos.gate._gate_config import GateConfig as GateConfig
    from dokimos.gate._verdict import GateVerdict as GateVerdict
    from dokimos.judges._budget import Budget as Budget
    from dokimos.judges._factory import judge as judge
    from dokimos.judges._model_task import model_task as model_task
    from dokimos.judges._protocol import JudgeLM as JudgeLM
    from dokimos.judges._protocol import JudgeReply as JudgeReply
    from dokimos.judges._protocol import as_judge as as_judge
    from dokimos.reporting._memory import MemoryReporter as MemoryReporter
    from dokimos.reporting._protocol import BaseReporter as BaseReporter
    from dokimos.reporting._protocol import Reporter as Reporter
    from dokimos.reporting._protocol import RunHandle as RunHandle
    from dokimos.reporting._reported_run import ReportedStatus as ReportedStatus
    from dokimos.testing._assertions import assert_eval as assert_eval
    from dokimos.testing._assertions import assert_scores as assert_scores

_MODULE_OF: Final[dict[str, str]] = {
    "AgentTrace": "_core.agent",
    "BaseReporter": "reporting._protocol",
    "Budget": "judges._budget",
    "CallMetrics": "_core.metrics",
    "ConversationTrajectory": "_core.conversation",
    "Dataset": "datasets._dataset",
    "DatasetResolver": "datasets._resolver",
    "DatasetStream": "datasets._dataset",
    "ErrorDetail": "_core.error_detail",
    "EvalResult": "_core.eval_result",
    "EvalTestCase": "_core.test_case",
    "Evaluator": "evaluators._base",
    "EvaluatorInfo": "_core.provenance",
    "EvaluatorSummary": "_core.evaluator_summary",
    "Example": "_core.example",
    "Executor": "experiment._executor",
    "Experiment": "experiment._experiment",
    "ExperimentResult": "_core.results",
    "Exporter": "exporters._base",
    "Frame": "_core.error_detail",
    "GateConfig": "gate._gate_config",
    "GateVerdict": "gate._verdict",
    "ItemResult": "_core.item_result",
    "JudgeLM": "judges._protocol",
    "JudgeReply": "judges._protocol",
    "LocalExecutor": "experiment._executor",
    "MemoryReporter": "reporting._memory",
    "Message": "_core.conversation",
    "PriceTable": "_core.metrics",
    "ProcessExecutor": "experiment._executor",
    "Provenance": "_core.provenance",
    "RayExecutor": "experiment._ray_executor",
    "RegressionGate": "gate._gate",
    "ReportedStatus": "reporting._reported_run",
    "Reporter": "reporting._protocol",
    "Role": "_core.conversation",
    "RunComparison": "comparison._diff",
    "RunHandle": "reporting._protocol",
    "RunOptions": "experiment._run_options",
    "RunResult": "_core.item_result",
    "RunStatus": "_core.results",
    "RunSummary": "_core.summary",
    "Score": "_core.eval_result",
    "ServerReporter": "client._reporter",
    "Task": "experiment._task",
    "TaskResult": "_core.task_result",
    "ToolCall": "_core.agent",
    "ToolDefinition": "_core.tool_definition",
    "Turn": "_core.conversation",
    "as_judge": "judges._protocol",
    "assert_eval": "testing._assertions",
    "assert_no_regression": "gate._gate",
    "assert_scores": "testing._assertions",
    "compare_runs": "comparison._comparison_builder",
    "evaluate": "experiment._experiment",
    "evaluate_async": "experiment._experiment",
    "evaluator": "evaluators._function",
    "export": "exporters._base",
    "from_json": "_core.wire",
    "judge": "judges._factory",
    "load_result": "exporters._json",
    "merge_results": "experiment._merging",
    "model_task": "judges._model_task",
    "recorded_task": "datasets._answer_replay",
    "register_resolver": "datasets._resolver",
    "render": "exporters._base",
    "takes_example": "_core.task_marker",
    "takes_input": "_core.task_marker",
    "to_json": "_core.wire",
}
_SUBMODULES: Final = ("errors", "evaluators", "simulation")

# Start here: data in, an application to call, scores out.
__all__ = [
    "Dataset",
    "EvalTestCase",
    "Evaluator",
    "Example",
    "Experiment",
    "ExperimentResult",
    "RunComparison",
    "Score",
    "TaskResult",
    "__version__",
    "assert_eval",
    "assert_no_regression",
    "assert_scores",
    "compare_runs",
    "evaluate",
    "evaluate_async",
    "evaluator",
    "evaluators",
    "export",
    "judge",
    "model_task",
]
# Build with: what results, runs, agents and conversations consist of.
__all__ += [
    "AgentTrace",
    "Budget",
    "CallMetrics",
    "ConversationTrajectory",
    "DatasetStream",
    "ErrorDetail",
    "EvalResult",
    "EvaluatorInfo",
    "EvaluatorSummary",
    "Executor",
    "Frame",
    "GateConfig",
    "GateVerdict",
    "ItemResult",
    "LocalExecutor",
    "Message",
    "PriceTable",
    "ProcessExecutor",
    "Provenance",
    "RayExecutor",
    "RegressionGate",
    "Role",
    "RunOptions",
    "RunResult",
    "RunStatus",
    "RunSummary",
    "Task",
    "ToolCall",
    "ToolDefinition",
    "Turn",
    "errors",
    "from_json",
    "load_result",
    "merge_results",
    "recorded_task",
    "render",
    "simulation",
    "takes_example",
    "takes_input",
    "to_json",
]
# Extend: protocols and bases of evaluators, judges, reporters, exporters and resolvers of other packages.
__all__ += [
    "BaseReporter",
    "DatasetResolver",
    "Exporter",
    "JudgeLM",
    "JudgeReply",
    "MemoryReporter",
    "ReportedStatus",
    "Reporter",
    "RunHandle",
    "ServerReporter",
    "as_judge",
    "register_resolver",
]

if not TYPE_CHECKING:  # so that type checkers still report a name that does not exist

    def __getattr__(name: str) -> Any:
        if name in _SUBMODULES:
            return import_module(f"dokimos.{name}")
        module = _MODULE_OF.get(name)
        if module is None:
            raise AttributeError(f"module 'dokimos' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"dokimos.{module}"), name)
        return value


def __dir__() -> list[str]:
    from dokimos._exports import names_for_completion

    return names_for_completion(globals())
