"""The plan of an experiment: which application is asked what, and who scores the answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Unpack, cast

from dokimos._core import checks
from dokimos._core.example import Example
from dokimos._core.metrics import PriceTable
from dokimos._core.results import ExperimentResult
from dokimos._core.type_parameters import In, Out
from dokimos.datasets._dataset import Dataset, DatasetStream
from dokimos.errors import ConfigurationError, UnknownSettingError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._evaluator_advice import suggest_evaluator
from dokimos.experiment._reporters import AnyReporter, missing_steps
from dokimos.experiment._run_options import RunOptionKeywords, RunOptions, ScoringKeywords
from dokimos.experiment._task import Task

if TYPE_CHECKING:
    from dokimos.experiment._run_description import Launch

EvaluatorSource: TypeAlias = (
    Sequence[Evaluator[In, Out]] | Callable[[Example[In, Out]], Sequence[Evaluator[In, Out]]]
)
"""Evaluators for every example, or a function that gives each example its own."""


@dataclass(frozen=True, init=False)
class Experiment:
    """A frozen plan; `run()` carries it out, and `dataclasses.replace` makes a variant of it.

    The task is called with the input of each example: its value where there is one, by name where there are
    several (`def answer(question, lang)`). One whose first parameter is annotated with `Example`, or has no
    annotation and is called `example`, is called with the whole example.

    Every field of `RunOptions` may also be given as a keyword, here and to `run()`.

    Raises:
        ConfigurationError: no data set, no task, an empty data set, no evaluators, two of one name,
            or an option that is out of range.

    Example:
        >>> plan = Experiment([Example.of("a", "A")], str.upper, [ExactMatch()], name="shout", quiet=True)
        >>> plan.run(journal=False).pass_rate
        1.0
    """

    dataset: Dataset | DatasetStream
    task: Task
    evaluators: EvaluatorSource
    name: str = "unnamed"
    description: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    runs: int = 1
    parallelism: int = 1
    reporters: Sequence[AnyReporter] = ()
    prices: PriceTable | None = None
    options: RunOptions = field(default_factory=RunOptions)

    # By hand, since arguments are wider than fields: rows, one evaluator, options as keywords. `replace`
    # uses it, too.
    def __init__(  # noqa: PLR0913 - the plan has these parts; all but three are keywords
        self,
        dataset: Dataset[In, Any] | DatasetStream[In, Any] | Iterable[Example[In, Any]],
        task: Task[In, Out],
        evaluators: EvaluatorSource[In, Out] | Evaluator[In, Out],
        *,
        name: str = "unnamed",
        description: str = "",
        metadata: Mapping[str, Any] | None = None,
        runs: int = 1,
        parallelism: int = 1,
        reporters: Sequence[AnyReporter] | AnyReporter = (),
        prices: PriceTable | None = None,
        options: RunOptions | None = None,
        **keywords: Unpack[RunOptionKeywords],
    ) -> None:
        values = {
            "dataset": _as_dataset(dataset),
            "task": _as_task(task),
            "evaluators": as_evaluators(evaluators),
            "name": checks.require_text("name", name),
            "description": checks.require_text("description", description),
            "metadata": checks.require_mapping("metadata", metadata),
            "runs": checks.require_positive("runs", runs),
            "parallelism": checks.require_positive("parallelism", parallelism),
            "reporters": _as_reporters(reporters),
            "prices": _as_prices(prices),
            "options": with_keywords(_as_options(options), keywords),
        }
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)

    def run(self, **keywords: Unpack[RunOptionKeywords]) -> ExperimentResult:
        """Carry the experiment out.

        Works where an event loop is already running, too. Raises `RunInterrupted` on Ctrl-C, `TooManyErrors`
        by `max_errors`, both with the partial result; `ConfigurationError`, `JournalError` and
        `RunLockedError` before anything has run.

        On a terminal and in a notebook it shows its progress and, in the end, the result; anywhere it says
        on standard error and to the logger `dokimos` that the run broke or that every item errored.
        `quiet=True` keeps all of that back.
        """
        from dokimos._runtime.concurrency import is_loop_running
        from dokimos.experiment._result_announcement import warn_that_loop_waits

        if is_loop_running() and not keywords.get("quiet", self.options.quiet):
            warn_that_loop_waits()
        result = self._launch(None, keywords)
        self._announce_result(result, keywords)
        return result

    async def run_async(self, **keywords: Unpack[RunOptionKeywords]) -> ExperimentResult:
        """Carry the experiment out on the event loop that is running; tells how it ended, as `run` does."""
        from dokimos.experiment._runner import Runner
        from dokimos.experiment._worker_script import end_second_start

        end_second_start()
        result = await Runner(self, with_keywords(self.options, keywords)).run()
        self._announce_result(result, keywords)
        return result

    def _announce_result(self, result: ExperimentResult, keywords: Mapping[str, Any]) -> None:
        from dokimos.experiment._result_announcement import announce_result

        if not keywords.get("quiet", self.options.quiet):
            announce_result(result)

    def _launch(self, launch: Launch | None, keywords: Mapping[str, Any]) -> ExperimentResult:
        from dokimos.experiment._runner import Runner
        from dokimos.experiment._worker_script import end_second_start

        end_second_start()
        return Runner(self, with_keywords(self.options, keywords), launch=launch).run_sync()

    @staticmethod
    def rescore(
        result: ExperimentResult,
        evaluators: EvaluatorSource | Evaluator,
        *,
        parallelism: int = 8,
        **keywords: Unpack[ScoringKeywords],
    ) -> ExperimentResult:
        """Run evaluators over the outputs of a result, without calling the task.

        Items whose task errored keep their error; all earlier scores are replaced. `budget`, `cassette`,
        `cassette_mode`, `cache`, `evaluator_timeout`, `processes` and `executor` are those of `RunOptions`;
        items that the budget did not allow to score are left out.

        Raises:
            ConfigurationError: when the items of the result were not kept.
        """
        from dokimos._runtime.concurrency import run_sync
        from dokimos.experiment._rescoring import rescore_async
        from dokimos.experiment._worker_script import end_second_start

        end_second_start()
        options = with_keywords(RunOptions(), keywords)
        chosen = as_evaluators(evaluators)
        parallelism = checks.require_positive("parallelism", parallelism)
        if not isinstance(result, ExperimentResult):
            raise ConfigurationError(f"rescore() takes an ExperimentResult, not {type(result).__name__}.")
        return run_sync(rescore_async(result, chosen, parallelism=parallelism, options=options))


class ExperimentKeywords(RunOptionKeywords, total=False):
    """The settings of an `Experiment`, with those of its run, as keyword arguments."""

    name: str
    description: str
    metadata: Mapping[str, Any] | None
    runs: int
    parallelism: int
    reporters: Sequence[AnyReporter] | AnyReporter
    prices: PriceTable | None
    options: RunOptions | None


def evaluate(
    dataset: Dataset[In, Any] | DatasetStream[In, Any] | Iterable[Example[In, Any]],
    task: Task[In, Out],
    evaluators: EvaluatorSource[In, Out] | Evaluator[In, Out],
    **settings: Unpack[ExperimentKeywords],
) -> ExperimentResult:
    """Make an `Experiment` of these parts and run it; takes the same keywords.

        evaluate([Example.of("2 + 2", "4")], lambda question: app.ask(question), [ExactMatch()])

    The task is called with the input, or with the whole `Example` where it names that: see `Experiment`.

    Where an event loop is running, as in a notebook, that loop waits; `evaluate_async` lets it go on.

    Raises:
        ConfigurationError: as `Experiment` does.
        UnknownSettingError: for a keyword that does not exist; it is a `TypeError` too.

    Example:
        >>> examples = [Example.of("a", "A"), Example.of("b", "?")]
        >>> result = evaluate(examples, str.upper, [ExactMatch()], quiet=True, journal=False)
        >>> result.pass_rate
        0.5
    """
    return Experiment(dataset, task, evaluators, **settings).run()


async def evaluate_async(
    dataset: Dataset[In, Any] | DatasetStream[In, Any] | Iterable[Example[In, Any]],
    task: Task[In, Out],
    evaluators: EvaluatorSource[In, Out] | Evaluator[In, Out],
    **settings: Unpack[ExperimentKeywords],
) -> ExperimentResult:
    """Evaluate on the event loop that is running; takes what `evaluate` takes.

    An async task shares the loop with whatever else runs there, so that it can use connections that were made
    in it. In a notebook, await it at the top of a cell:

        result = await evaluate_async(examples, answer, [ExactMatch()])

    Example:
        >>> import asyncio
        >>> async def answer(question):
        ...     return question.upper()
        >>> run = evaluate_async([Example.of("a", "A")], answer, [ExactMatch()], quiet=True, journal=False)
        >>> asyncio.run(run).pass_rate
        1.0
    """
    return await Experiment(dataset, task, evaluators, **settings).run_async()


_OTHER_NAMES: Final = {
    **dict.fromkeys(
        ("threads", "workers", "max_workers", "num_workers", "n_jobs", "concurrency", "max_concurrency"),
        "parallelism",
    ),
    **dict.fromkeys(("repeats", "repetitions", "trials", "n", "samples", "num_repetitions"), "runs"),
    **dict.fromkeys(("metrics", "scorers", "scores", "graders"), "evaluators"),
    **dict.fromkeys(("data", "examples", "rows"), "dataset"),
    **dict.fromkeys(("target", "app", "function", "fn"), "task"),
    **dict.fromkeys(("title", "experiment_name", "project"), "name"),
    **dict.fromkeys(("verbose", "show_progress"), "progress"),
}
"""What settings are called elsewhere, where the name itself is not near ours."""


def with_keywords(options: RunOptions, keywords: Mapping[str, Any]) -> RunOptions:
    """Return the options with some replaced. Raises `UnknownSettingError` for one that does not exist."""
    if not keywords:
        return options
    option_names = {f.name for f in fields(RunOptions)}
    for name in keywords:
        if name not in option_names:
            import difflib

            options_and_fields = [*option_names, *(f.name for f in fields(Experiment))]
            close = difflib.get_close_matches(name, options_and_fields, n=1)
            suggestion = _OTHER_NAMES.get(name) or next(iter(close), None)
            hint = f" Did you mean {suggestion!r}?" if suggestion else ""
            raise UnknownSettingError(f"Experiment has no option {name!r}.{hint}")
    # Both say where a run works, so the one that is given now replaces the other.
    if "processes" in keywords:
        keywords = {"executor": None, **keywords}
    elif "executor" in keywords:
        keywords = {"processes": 1, **keywords}
    return replace(options, **keywords)


def _as_dataset(dataset: Any) -> Dataset | DatasetStream:
    if dataset is None:
        raise ConfigurationError("An experiment needs a dataset.")
    if isinstance(dataset, str | os.PathLike):
        raise ConfigurationError(f"Give a Dataset, not a name: Dataset.load({os.fspath(dataset)!r:.80}).")
    if not isinstance(dataset, Dataset | DatasetStream):
        if not isinstance(dataset, Iterable) or isinstance(dataset, bytes | Mapping):
            raise ConfigurationError(f"Give a Dataset or examples, not {_describe_argument(dataset)}.")
        examples = tuple(dataset)
        are_rows = bool(examples) and all(isinstance(each, Mapping) for each in examples)
        dataset = Dataset.from_rows(examples) if are_rows else Dataset(examples)
    if isinstance(dataset, Dataset) and not len(dataset):
        raise ConfigurationError(f"The dataset {dataset.name!r} has no examples.")
    return cast("Dataset | DatasetStream", dataset)


def _describe_argument(given: object) -> str:
    """Return what somebody gave for the data; of a function also the order of the arguments."""
    if not callable(given):
        return type(given).__name__
    name = getattr(given, "__name__", type(given).__name__)
    return f"{name}, which can be called; the order is evaluate(dataset, task, evaluators)"


def _as_task(task: object) -> Task:
    if task is None:
        raise ConfigurationError("An experiment needs a task: a function that answers an input.")
    if not callable(task):
        raise ConfigurationError(f"The task must be callable, not {type(task).__name__}.")
    return cast("Task", task)


def as_evaluators(evaluators: object) -> EvaluatorSource:
    """Return one evaluator, several, or a function that chooses them, as it is stored.

    Raises:
        ConfigurationError: for anything else.
    """
    if isinstance(evaluators, str):
        raise ConfigurationError(f"{evaluators!r:.80} is not an evaluator{suggest_evaluator(evaluators)}.")
    if looks_like_evaluator(evaluators):
        evaluators = (evaluators,)
    if not isinstance(evaluators, Iterable) or isinstance(evaluators, bytes | Mapping):
        if callable(evaluators):
            return cast("EvaluatorSource", evaluators)
        raise ConfigurationError(
            f"evaluators must be a sequence or a function of an Example, not {type(evaluators).__name__}."
        )
    chosen = tuple(evaluators)
    if not chosen:
        raise ConfigurationError("An experiment needs at least one evaluator.")
    check_evaluators(chosen)
    return chosen


def looks_like_evaluator(thing: object) -> bool:
    """Say whether this is a single evaluator, of any library, and not several or a function that chooses."""
    if isinstance(thing, type):
        return issubclass(thing, Evaluator) or hasattr(thing, "evaluate") or hasattr(thing, "score")
    similar = hasattr(thing, "evaluate") or hasattr(thing, "score")
    return isinstance(thing, Evaluator) or (similar and not isinstance(thing, Iterable))


def check_evaluators(evaluators: Sequence[object]) -> None:
    """Raise `ConfigurationError` unless all are evaluators with names of their own."""
    seen = set()
    for evaluator in evaluators:
        if not isinstance(evaluator, Evaluator):
            hint = suggest_evaluator(evaluator)
            raise ConfigurationError(f"{evaluator!r:.80} is not an evaluator{hint}.")
        if evaluator.name in seen:
            raise ConfigurationError(
                f"Two evaluators are called {evaluator.name!r}; give one of them another name=..."
            )
        seen.add(evaluator.name)


def _as_reporters(reporters: Any) -> tuple[AnyReporter, ...]:
    is_one = isinstance(reporters, str | bytes | Mapping) or not missing_steps(reporters)
    several = isinstance(reporters, Iterable) and not is_one
    given: tuple[Any, ...] = tuple(reporters) if several else (reporters,)
    for reporter in given:
        if isinstance(reporter, type) or missing_steps(reporter):
            hint = f"; write {reporter.__name__}(...)" if isinstance(reporter, type) else ""
            raise ConfigurationError(
                f"{reporter!r:.80} is not a reporter: it needs start_run or begin, report_item, "
                f"complete_run or end, flush and close{hint}."
            )
    return given


def _as_prices(prices: object) -> PriceTable | None:
    if prices is not None and not callable(prices):
        raise ConfigurationError(
            "prices must be a function of model, tokens in and tokens out that returns US dollars or None, "
            f"not {prices!r:.80}."
        )
    return cast("PriceTable | None", prices)


def _as_options(options: object) -> RunOptions:
    if options is None:
        return RunOptions()
    if not isinstance(options, RunOptions):
        hint = ""
        if isinstance(options, Mapping):
            hint = f" Write RunOptions({', '.join(f'{name}=...' for name in options)})."
        raise ConfigurationError(f"options must be RunOptions(...), not {options!r:.80}.{hint}")
    return options
