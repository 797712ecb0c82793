"""The plan of an experiment: which application is asked what, and who scores the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, cast

from dokimos.core.example import Example
from dokimos.core.metrics import PriceTable
from dokimos.core.results import ExperimentResult
from dokimos.datasets.dataset import Dataset, DatasetStream
from dokimos.errors import ConfigurationError
from dokimos.evaluators.base import Evaluator
from dokimos.experiment.options import CallOptionKeywords, RunOptionKeywords, RunOptions
from dokimos.experiment.task import Task
from dokimos.reporting.protocol import Reporter

if TYPE_CHECKING:
    from dokimos.experiment.runner import Launch

EvaluatorSource: TypeAlias = Sequence[Evaluator] | Callable[[Example], Sequence[Evaluator]]
"""Evaluators for every example, or a function that gives each example its own."""


@dataclass(frozen=True, init=False)
class Experiment:
    """A frozen plan; `run()` carries it out, and `dataclasses.replace` makes a variant of it.

    Every field of `RunOptions` may also be given as a keyword, here and to `run()`.

    Raises:
        ConfigurationError: no data set, no task, an empty data set, no evaluators, two of one name,
            or an option that is out of range.
    """

    dataset: Dataset | DatasetStream
    task: Task
    evaluators: EvaluatorSource
    name: str = "unnamed"
    description: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    runs: int = 1
    parallelism: int = 1
    reporters: Sequence[Reporter] = ()
    prices: PriceTable | None = None
    options: RunOptions = field(default_factory=RunOptions)

    def __init__(  # noqa: PLR0913 - the plan has these parts; all but three are keywords
        self,
        dataset: Dataset | DatasetStream | Iterable[Example],
        task: Task,
        evaluators: EvaluatorSource | Evaluator,
        *,
        name: str = "unnamed",
        description: str = "",
        metadata: Mapping[str, Any] | None = None,
        runs: int = 1,
        parallelism: int = 1,
        reporters: Sequence[Reporter] | Reporter = (),
        prices: PriceTable | None = None,
        options: RunOptions | None = None,
        **keywords: Unpack[RunOptionKeywords],
    ) -> None:
        values = {
            "dataset": _as_dataset(dataset),
            "task": _as_task(task),
            "evaluators": _as_evaluators(evaluators),
            "name": name,
            "description": description,
            "metadata": dict(metadata or {}),
            "runs": _positive("runs", runs),
            "parallelism": _positive("parallelism", parallelism),
            "reporters": tuple(reporters) if isinstance(reporters, Sequence) else (reporters,),
            "prices": prices,
            "options": with_keywords(options or RunOptions(), keywords),
        }
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)

    def run(self, **keywords: Unpack[RunOptionKeywords]) -> ExperimentResult:
        """Carry the experiment out.

        Works where an event loop is already running, too. Raises `RunInterrupted` on Ctrl-C, `TooManyErrors`
        by `max_errors`, both with the partial result; `ConfigurationError`, `JournalError` and
        `RunLockedError` before anything has run.
        """
        return self._launch(None, keywords)

    async def run_async(self, **keywords: Unpack[RunOptionKeywords]) -> ExperimentResult:
        """Carry the experiment out on the event loop that is running."""
        from dokimos.experiment.runner import Runner

        return await Runner(self, with_keywords(self.options, keywords)).run()

    def _launch(self, launch: Launch | None, keywords: Mapping[str, Any]) -> ExperimentResult:
        from dokimos.experiment.runner import Runner

        return Runner(self, with_keywords(self.options, keywords), launch=launch).run_sync()

    @staticmethod
    def rescore(
        result: ExperimentResult,
        evaluators: EvaluatorSource | Evaluator,
        *,
        parallelism: int = 8,
        **keywords: Unpack[CallOptionKeywords],
    ) -> ExperimentResult:
        """Run evaluators over the outputs of a result, without calling the task.

        Items whose task errored keep their error; all earlier scores are replaced. `budget`, `cassette`,
        `cassette_mode` and `cache` are those of `RunOptions`; items that the budget did not allow to score
        are left out.

        Raises:
            ValueError: when the items of the result were not kept.
        """
        from dokimos.core.concurrency import run_sync
        from dokimos.experiment.rescoring import rescore_async

        options = with_keywords(RunOptions(), keywords)
        chosen = _as_evaluators(evaluators)
        return run_sync(rescore_async(result, chosen, parallelism=parallelism, options=options))


def evaluate(
    dataset: Dataset | DatasetStream | Iterable[Example],
    task: Task,
    evaluators: EvaluatorSource | Evaluator,
    **settings: Any,
) -> ExperimentResult:
    """Make an `Experiment` of these parts and run it; takes the same keywords."""
    return Experiment(dataset, task, evaluators, **settings).run()


def with_keywords(options: RunOptions, keywords: Mapping[str, Any]) -> RunOptions:
    """Return the options with some replaced. Raises `ConfigurationError` for one that does not exist."""
    if not keywords:
        return options
    known = {f.name for f in fields(RunOptions)}
    for name in keywords:
        if name not in known:
            import difflib

            close = difflib.get_close_matches(name, [*known, *(f.name for f in fields(Experiment))], n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ConfigurationError(f"Experiment has no option {name!r}.{hint}")
    return replace(options, **keywords)


def _as_dataset(dataset: Any) -> Dataset | DatasetStream:
    if dataset is None:
        raise ConfigurationError("An experiment needs a dataset.")
    if isinstance(dataset, str):
        raise ConfigurationError(f"Give a Dataset, not a name: Dataset.load({dataset!r}).")
    if not isinstance(dataset, Dataset | DatasetStream):
        if not isinstance(dataset, Iterable):
            raise ConfigurationError(f"Give a Dataset or examples, not {type(dataset).__name__}.")
        dataset = Dataset(tuple(dataset))
    if isinstance(dataset, Dataset) and not len(dataset):
        raise ConfigurationError(f"The dataset {dataset.name!r} has no examples.")
    return cast("Dataset | DatasetStream", dataset)


def _as_task(task: Any) -> Task:
    if task is None:
        raise ConfigurationError("An experiment needs a task: a callable that takes an Example.")
    if not callable(task):
        raise ConfigurationError(f"The task must be callable, not {type(task).__name__}.")
    return task  # type: ignore[no-any-return]


def _as_evaluators(evaluators: Any) -> EvaluatorSource:
    if isinstance(evaluators, Evaluator):
        evaluators = (evaluators,)
    if not isinstance(evaluators, Iterable):
        if callable(evaluators):
            return evaluators  # type: ignore[no-any-return]
        raise ConfigurationError(
            f"evaluators must be a sequence or a function, not {type(evaluators).__name__}."
        )
    chosen = tuple(evaluators)
    if not chosen:
        raise ConfigurationError("An experiment needs at least one evaluator.")
    check_evaluators(chosen)
    return chosen


def check_evaluators(evaluators: Sequence[Evaluator]) -> None:
    """Raise `ConfigurationError` unless all are evaluators with names of their own."""
    seen = set()
    for evaluator in evaluators:
        if not isinstance(evaluator, Evaluator):
            hint = f"; write {evaluator.__name__}(...)" if isinstance(evaluator, type) else ""
            hint = hint or ("; decorate it with @evaluator" if callable(evaluator) else "")
            raise ConfigurationError(f"{evaluator!r:.80} is not an evaluator{hint}.")
        if evaluator.name in seen:
            raise ConfigurationError(
                f"Two evaluators are called {evaluator.name!r}; give one of them another name=..."
            )
        seen.add(evaluator.name)


def _positive(name: str, number: Any) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ConfigurationError(f"{name} must be a whole number of at least 1, not {number!r}.")
    return number
