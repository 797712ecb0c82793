"""Tools that run something and may cost money: they say so, and each run has limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dokimos._core.results import ExperimentResult, RunStatus
from dokimos._mcp.allowed_folders import DATASETS, SUITES, AllowedFolders
from dokimos._mcp.answers import clean_name, foreign
from dokimos._mcp.local_runs import LocalRuns, counts_of
from dokimos._mcp.local_tools import count_examples
from dokimos._mcp.protocol import report_progress
from dokimos._mcp.result_store import Record, make_record, new_id
from dokimos._mcp.tool import Answer, Arguments, Parameter, Tool, ToolError
from dokimos._runtime.concurrency import call_in_thread
from dokimos.errors import DokimosError
from dokimos.judges._budget import Budget
from dokimos.reporting._protocol import BaseReporter, RunHandle
from dokimos.reporting._reported_run import ReportedItem

if TYPE_CHECKING:
    from dokimos.datasets._dataset import Dataset
    from dokimos.evaluators._base import Evaluator
    from dokimos.experiment._experiment import Experiment
    from dokimos.experiment._reporters import AnyReporter

DEFAULT_MODEL: Final = "gpt-5.5"
DEFAULT_CRITERIA: Final = "The actual output is correct and complete, measured by the expected output."
_PARALLELISM: Final = 4
_PROVIDERS: Final = (
    "openai",
    "anthropic",
    "gemini",
    "mistral",
    "azure",
    "ollama",
    "openrouter",
    "groq",
    "together",
)
"""What may stand before the name of a model. Never a URL: the key would be sent wherever an agent says."""
_CONFIRM: Final = Parameter(
    "confirm",
    "boolean",
    "Start although many calls are needed; only after the user has agreed",
    default=False,
)


@dataclass(frozen=True, slots=True)
class RunLimits:
    """What one call of a tool may take, whatever the agent asks for."""

    max_examples: int = 1_000
    max_cost_usd: float = 5.0
    confirm_above: int = 200
    """Calls of models from which on nothing is started without `confirm`."""


@dataclass(frozen=True, slots=True)
class RunTools:
    """Running evaluations, one at a time."""

    runs: LocalRuns
    folders: AllowedFolders
    limits: RunLimits
    make_reporters: Callable[[], Sequence[AnyReporter]] = tuple
    _running: asyncio.Lock = field(default_factory=asyncio.Lock)

    def tools(self) -> list[Tool]:
        """Return the tools."""
        cost = (
            f"COSTS MONEY: at most {self.limits.max_examples:,} examples and about "
            f"{self.limits.max_cost_usd:g} USD, as far as prices are known. Above "
            f"{self.limits.confirm_above:,} calls it first answers with a plan, and starts only with "
            "confirm=true."
        )
        return [
            Tool(
                name="run_evaluation",
                description="Load a dataset, call the model for each example, evaluate the outputs, and "
                f"return summary metrics and a run ID, which the other tools take. {cost}",
                parameters=_EVALUATION_PARAMETERS,
                call=self._run_evaluation,
                spends=True,
            ),
            Tool(
                name="run_suite",
                description="Run a suite: agent, metrics and test cases in one YAML file. Runs the code that "
                f"the suite names. {cost}",
                parameters=_SUITE_PARAMETERS,
                call=self._run_suite,
                spends=True,
            ),
        ]

    async def _run_evaluation(self, arguments: Arguments) -> Answer:
        path = self.folders.find(arguments["dataset_path"], DATASETS)
        dataset = await call_in_thread(self._load, path, arguments["limit"])
        model = arguments["model"]
        judged = arguments["evaluator"] == "llm_judge"
        planned = len(dataset) * (2 if judged else 1)
        plan = {"dataset": clean_name(dataset.name), "model": model, "examples": len(dataset)}
        if (unconfirmed := self._ask_first(planned, plan, arguments)) is not None:
            return unconfirmed
        experiment = _make_experiment(dataset, arguments, planned, self.limits)
        result = await self._run(experiment, len(dataset))
        record = make_record(
            result, run_id=new_id(), dataset_path=str(path), model=model, temperature=arguments["temperature"]
        )
        run_id, warnings = await self._keep(record, result)
        return {
            "run_id": _id_for_tools(result, run_id),
            "experiment_name": clean_name(result.name),
            "dataset": clean_name(dataset.name),
            "model": model,
            **counts_of(result),
            **_endings(result, warnings),
        }

    async def _keep(self, record: Record, result: ExperimentResult) -> tuple[str | None, list[str]]:
        """Add a run to the file of results; return its id, and why it could not be added."""
        try:
            await call_in_thread(self.runs.store.add, record)
        except OSError as error:  # it was paid for: the answer must not be lost, too
            return result.run_id, [f"The run could not be written to {self.runs.store.file}: {error}"]
        return str(record["id"]), []

    async def _run_suite(self, arguments: Arguments) -> Answer:
        path = self.folders.find(arguments["suite_path"], SUITES)
        experiment = await call_in_thread(_load_suite, path)
        size = sum(1 for _ in experiment.dataset)
        if size > self.limits.max_examples:
            raise ToolError(self._too_many("The suite has more"))
        plan = {"suite": clean_name(experiment.name), "cases": size}
        if (unconfirmed := self._ask_first(size, plan, arguments)) is not None:
            return unconfirmed
        options = replace(experiment.options, budget=_limit_budget(experiment.options.budget, self.limits))
        result = await self._run(replace(experiment, options=options), size)
        return {
            "run_id": _id_for_tools(result, result.run_id),
            "experiment_name": clean_name(result.name),
            **counts_of(result),
            **_endings(result),
        }

    def _load(self, path: Path, limit: int | None) -> Dataset:
        from itertools import islice

        from dokimos.datasets._dataset import Dataset

        most = self.limits.max_examples
        if limit is None and count_examples(path, most) > most:
            raise ToolError(self._too_many("The data set has more") + " Or give limit to run the first ones.")
        if limit is None:
            return Dataset.load(path)
        stream = Dataset.stream(path)
        return Dataset(list(islice(stream, min(limit, most))), name=stream.name)

    def _too_many(self, what: str) -> str:
        return (
            f"{what} than {self.limits.max_examples:,} examples, which is the limit; "
            "the user can raise it with --max-examples."
        )

    def _ask_first(self, calls: int, plan: Mapping[str, Any], arguments: Arguments) -> Answer | None:
        """Return what is planned, where that has to be confirmed before it may cost anything."""
        if calls <= self.limits.confirm_above or arguments["confirm"]:
            return None
        return {
            "status": "not_started",
            **plan,
            "planned_calls": calls,
            "max_cost_usd": self.limits.max_cost_usd,
            "next": f"This takes at least {calls:,} calls of models. Ask the user; then call again with "
            "confirm=true, or with a smaller limit.",
        }

    async def _run(self, experiment: Experiment, total: int) -> ExperimentResult:
        progress = _Progress(total * experiment.runs)
        planned = replace(experiment, reporters=[*experiment.reporters, *self.make_reporters(), progress])
        async with self._running:
            try:
                return await planned.run_async(quiet=True, run_dir=self.runs.root, auto_close_reporters=True)
            except DokimosError as error:
                if error.result is None or not error.result.item_results:
                    raise
                return error.result  # cut short: what is there was paid for


_EVALUATION_PARAMETERS: Final = (
    Parameter("dataset_path", "string", "Path to the dataset file (.json, .csv, or .jsonl)", required=True),
    Parameter("model", "string", "OpenAI model name", default=DEFAULT_MODEL),
    Parameter(
        "temperature", "number",
        "Sampling temperature, 0.0 to 2.0. Omitted when unset, so the model uses its own default",
        minimum=0, maximum=2,
    ),
    Parameter(
        "evaluator", "string", "exact_match or llm_judge", default="exact_match",
        choices=("exact_match", "llm_judge"),
    ),
    Parameter("criteria", "string", "Evaluation criteria. Used by the llm_judge evaluator"),
    Parameter("threshold", "number", "Score threshold for pass/fail", default=0.7, minimum=0, maximum=1),
    Parameter("experiment_name", "string", "Name for this experiment", default="mcp-evaluation"),
    Parameter("limit", "integer", "Run only the first examples", minimum=1),
    _CONFIRM,
)  # fmt: skip
_SUITE_PARAMETERS: Final = (
    Parameter("suite_path", "string", "Path to the suite (.yaml or .yml)", required=True),
    _CONFIRM,
)


def _make_experiment(dataset: Dataset, arguments: Arguments, planned: int, limits: RunLimits) -> Experiment:
    from dokimos.experiment._experiment import Experiment
    from dokimos.judges._model_task import model_task

    model = _model_name(arguments["model"])
    settings = {} if arguments["temperature"] is None else {"temperature": arguments["temperature"]}
    return Experiment(
        dataset,
        model_task(model, **settings),
        [_make_evaluator(arguments, model)],
        name=arguments["experiment_name"],
        metadata={"model": arguments["model"]},
        parallelism=_PARALLELISM,
        # Twice the calls that are planned: a judge may be asked again for a reply that cannot be read.
        budget=Budget(max_cost_usd=limits.max_cost_usd, max_calls=2 * planned),
    )


def _make_evaluator(arguments: Arguments, model: str) -> Evaluator:
    if arguments["evaluator"] == "exact_match":
        from dokimos.evaluators._text import ExactMatch

        return ExactMatch(threshold=arguments["threshold"])
    from dokimos.evaluators._llm.llm_judge import LLMJudge
    from dokimos.judges._factory import judge

    criteria = arguments["criteria"]
    return LLMJudge(
        criteria=DEFAULT_CRITERIA if criteria is None or not criteria.strip() else criteria,
        judge=judge(model),
        threshold=arguments["threshold"],
    )


def _model_name(model: str) -> str:
    """Return the name of a model with its provider, OpenAI unless named.

    Raises:
        ToolError: for a URL.
    """
    if "://" in model or not model.strip():
        raise ToolError(f"model must be the name of a model, not {model[:80]!r}.")
    provider = model.partition(":")[0]
    return model if ":" in model and provider in _PROVIDERS else f"openai:{model}"


def _load_suite(path: Path) -> Experiment:
    from dokimos.suites._environment import export_dotenv
    from dokimos.suites._loader import load_suite

    export_dotenv(path.parent)
    suite = load_suite(path)
    suite.check_keys()
    return suite.experiment()


def _limit_budget(budget: Budget | None, limits: RunLimits) -> Budget:
    if budget is None:
        return Budget(max_cost_usd=limits.max_cost_usd)
    own = budget.max_cost_usd
    return replace(budget, max_cost_usd=limits.max_cost_usd if own is None else min(own, limits.max_cost_usd))


def _id_for_tools(result: ExperimentResult, local: str | None) -> str | None:
    """Return the id by which the other tools find a run: that on the server, where it was reported to one."""
    return result.server_run_ids[-1] if result.server_run_ids else local


def _endings(result: ExperimentResult, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """Return how a run ended: what an agent has to say with its numbers."""
    metrics, judging = result.summary.metrics, result.summary.judging.metrics
    costs = [cost for cost in (metrics.cost_usd, judging.cost_usd) if cost is not None]
    tree: dict[str, Any] = {
        "status": result.status.value,
        "cost_usd": sum(costs) if costs else None,
        "warnings": [clean_name(notice) for notice in (*warnings, *result.notices)],
        "local_run": result.run_id,
    }
    error = next((text for item in result.item_results for text in item.errors), None)
    if error is not None:
        tree["first_error"] = foreign(error)
    if result.status is RunStatus.BROKEN:
        tree["problem"] = "Every example errored, so nothing was evaluated: see first_error."
    return tree


class _Progress(BaseReporter):
    """Tells the client how far a run is."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0

    def report_item(self, handle: RunHandle, item: ReportedItem) -> None:
        self._done += 1
        report_progress(self._done, self._total)
