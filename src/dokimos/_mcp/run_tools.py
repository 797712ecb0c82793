"""Tools that run something and may cost money: they say so, and each run has limits."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    from dokimos._core.metrics import PriceTable
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
        prices = await call_in_thread(_find_prices, model)
        plan |= self._describe_limit(is_priced=prices is not None)
        if (unconfirmed := self._ask_first(planned, plan, arguments)) is not None:
            return unconfirmed
        experiment = _make_experiment(dataset, arguments, planned, self.limits, prices)
        result = await self._run(experiment, len(dataset))
        record = make_record(
            result, run_id=new_id(), dataset_path=str(path), model=model, temperature=arguments["temperature"]
        )
        run_id, warnings = await self._keep(record, result)
        if arguments["limit"] is not None and arguments["limit"] > self.limits.max_examples:
            warnings.append(f"Only the first {self.limits.max_examples:,} examples were run: --max-examples.")
        if prices is None:
            warnings.append(_UNPRICED)
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
        except (OSError, ValueError) as error:  # it was paid for: the answer must not be lost, too
            return result.run_id, [f"The run could not be written to {self.runs.store.file}: {error}"]
        return str(record["id"]), []

    async def _run_suite(self, arguments: Arguments) -> Answer:
        path = self.folders.find(arguments["suite_path"], SUITES)
        with _environment_of(path.parent):
            return await self._run_loaded_suite(await call_in_thread(_load_suite, path), arguments)

    async def _run_loaded_suite(self, experiment: Experiment, arguments: Arguments) -> Answer:
        size = sum(1 for _ in experiment.dataset)
        if size > self.limits.max_examples:
            raise ToolError(self._too_many("The suite has more"))
        calls = experiment.runs * (size + await call_in_thread(_count_judged_scores, experiment))
        plan = {"suite": clean_name(experiment.name), "cases": size}
        if (unconfirmed := self._ask_first(calls, plan, arguments)) is not None:
            return unconfirmed
        budget = _limit_budget(experiment.options.budget, self.limits, calls)
        options = replace(experiment.options, budget=budget)
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

    def _describe_limit(self, *, is_priced: bool) -> dict[str, Any]:
        if is_priced:
            return {"max_cost_usd": self.limits.max_cost_usd}
        return {"max_cost_usd": None, "price": _UNPRICED}

    def _ask_first(self, calls: int, plan: Mapping[str, Any], arguments: Arguments) -> Answer | None:
        """Return what is planned, where that has to be confirmed before it may cost anything."""
        if calls <= self.limits.confirm_above or arguments["confirm"]:
            return None
        return {
            "status": "not_started",
            "max_cost_usd": self.limits.max_cost_usd,
            **plan,
            "planned_calls": calls,
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


_UNPRICED: Final = (
    "The price of this model is unknown, so --max-usd does not hold; the number of calls is limited. "
    "The package genai-prices knows most prices."
)
_MOST_CALLS_EACH: Final = 10
"""A metric that asks a model may ask it several times for a case, as faithfulness does."""


def _find_prices(model: str) -> PriceTable | None:
    """Return the prices of models, None where they say nothing of this one."""
    from dokimos.judges._prices import from_genai_prices

    try:
        prices = from_genai_prices()
        known = prices(model.rpartition(":")[2], 1000, 1000)
    except Exception:  # the package is missing, or does not know the model
        return None
    return None if known is None else prices


def _make_experiment(
    dataset: Dataset, arguments: Arguments, planned: int, limits: RunLimits, prices: PriceTable | None
) -> Experiment:
    from dokimos.experiment._experiment import Experiment
    from dokimos.judges._model_task import model_task

    model = _model_name(arguments["model"])
    settings = {} if arguments["temperature"] is None else {"temperature": arguments["temperature"]}
    return Experiment(
        dataset,
        model_task(model, prices=prices, **settings),
        [_make_evaluator(arguments, model, prices)],
        name=arguments["experiment_name"],
        metadata={"model": arguments["model"]},
        parallelism=_PARALLELISM,
        # Twice the calls that are planned: a judge may be asked again for a reply that cannot be read.
        budget=Budget(max_cost_usd=limits.max_cost_usd, max_calls=2 * planned),
    )


def _make_evaluator(arguments: Arguments, model: str, prices: PriceTable | None) -> Evaluator:
    if arguments["evaluator"] == "exact_match":
        from dokimos.evaluators._text import ExactMatch

        return ExactMatch(threshold=arguments["threshold"])
    from dokimos.evaluators._llm.llm_judge import LLMJudge
    from dokimos.judges._factory import judge

    criteria = arguments["criteria"]
    return LLMJudge(
        criteria=DEFAULT_CRITERIA if criteria is None or not criteria.strip() else criteria,
        judge=judge(model, prices=prices),
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


@contextlib.contextmanager
def _environment_of(folder: Path) -> Iterator[None]:
    """Have what the `.env` files of a suite say in the environment, as long as it runs."""
    from dokimos.suites._environment import read_dotenv

    added = {name: value for name, value in read_dotenv(folder).items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in added.items():
            if os.environ.get(name) == value:
                del os.environ[name]


def _forget_modules(folder: Path) -> None:
    """Let the code of a suite be read again: whoever asks may have changed it since the last run."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        is_of_package = name.partition(".")[0] in ("dokimos", "__main__")
        if file is None or is_of_package or "site-packages" in Path(file).parts:
            continue
        if Path(file).is_relative_to(folder):
            del sys.modules[name]
    importlib.invalidate_caches()


def _load_suite(path: Path) -> Experiment:
    from dokimos.suites._loader import load_suite

    _forget_modules(path.parent)
    suite = load_suite(path)
    suite.check_keys()
    return suite.experiment()


def _count_judged_scores(experiment: Experiment) -> int:
    """Return how many scores of one run ask a model, or may."""
    evaluators = experiment.evaluators
    if callable(evaluators):  # each case has its own
        return sum(not one.deterministic for each in experiment.dataset for one in evaluators(each))
    return sum(not one.deterministic for one in evaluators) * sum(1 for _ in experiment.dataset)


def _limit_budget(budget: Budget | None, limits: RunLimits, planned: int) -> Budget:
    """Return the budget of a suite, bounded in dollars and in calls of models that judge."""
    budget = Budget(max_cost_usd=limits.max_cost_usd) if budget is None else budget
    cost = (
        limits.max_cost_usd if budget.max_cost_usd is None else min(budget.max_cost_usd, limits.max_cost_usd)
    )
    calls = _MOST_CALLS_EACH * planned if budget.max_calls is None else budget.max_calls
    return replace(budget, max_cost_usd=cost, max_calls=calls)


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
        "warnings": [*warnings, *(foreign(notice) for notice in result.notices)],
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
