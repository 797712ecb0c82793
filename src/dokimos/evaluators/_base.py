"""The base of all evaluators: authors write `score`, everything around it is done here."""

from __future__ import annotations

import copyreg
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Self,
    SupportsFloat,
    SupportsIndex,
    TypeAlias,
    final,
)

from dokimos._core.container_copy import copy_containers
from dokimos._core.eval_result import with_cost
from dokimos._core.fast_constructor import positional_factory
from dokimos._core.provenance import EvaluatorInfo
from dokimos._core.results import EvalResult, Score
from dokimos._core.score_range import USUAL_RANGE, ScoreRange, check_score_range, describe_range
from dokimos._core.test_case import EvalTestCase
from dokimos._core.type_parameters import DefaultsToAny, In_contra, Out_contra
from dokimos.errors import (
    BudgetExceededError,
    ConfigurationError,
    EvaluationError,
    MissingInputError,
    UnusableOutputError,
)
from dokimos.evaluators._case_parts import check_params, readers_of
from dokimos.evaluators._identity import describe_evaluator
from dokimos.evaluators._keyed_scores import check_thresholds
from dokimos.evaluators._outcomes import error_result, failure_result, several_results, unusable_result
from dokimos.evaluators._response_path import check_response_path, with_response_path
from dokimos.evaluators._run_imports import run_scope
from dokimos.evaluators._score_values import check_explanation, number_of, outside
from dokimos.evaluators._setting_names import check_settings
from dokimos.evaluators._setting_types import check_types
from dokimos.evaluators._thread_choice import choose_thread
from dokimos.evaluators._traits import Traits, is_built_in
from dokimos.evaluators.registry import name_of

if TYPE_CHECKING:
    from dokimos._runtime.scoring_threads import ThreadLimit

ScoreLike: TypeAlias = Score | float | bool | SupportsFloat
"""One score: numbers of other libraries, such as `np.float32`, count as what they are."""
Scores: TypeAlias = Mapping[str, ScoreLike | None]
"""Several scores at once, by keys; None where one does not apply."""

_new_result: Final = positional_factory(
    EvalResult, "name", "score", "threshold", "success", "reason", "metadata", "label", "part_of",
    "fail_on_error", "score_range", is_checked=False,
)  # fmt: skip
_SINGLE: Final = frozenset((Score, float, int, bool))
"""Types of one score. To ask a number whether it is a mapping takes far longer than to look here."""

COMMON_FIELDS: Final = (
    "name",
    "threshold",
    "thresholds",
    "evaluation_params",
    "fail_on_error",
    "response_path",
)


@dataclass(frozen=True, kw_only=True)
class Evaluator(Traits, DefaultsToAny, Generic[In_contra, Out_contra]):
    """Scores a case in 0..1, or in the `score_range` that its class declares, such as `score_range = (1, 5)`.

    A subclass is a frozen dataclass that implements `score`, as `def` or `async def`, and returns a `Score`,
    a number in that range or a bool (which decides by itself, whatever the threshold). What `score` raises
    becomes an errored result, never a score. An evaluator has no state: each case is scored on its own.

    It may also return a mapping of keys to these: each key becomes a result of its own, `<name>.<key>`, with
    the threshold that `thresholds` gives for the key. None under a key means that it does not apply.

    `Evaluator[Question, Answer]` scores an `EvalTestCase[Question, Answer]`, for type checkers.

    A sync `score` of yours runs in a worker thread, so that it never blocks the event loop. `blocking =
    False` keeps it in the thread of the run, for objects that belong to the thread that made them, such as
    a SQLite connection; `serial = True` gives it one thread of its own, for objects that several threads
    must not share. dokimos' own evaluators are quick and run in the thread of the run.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True, kw_only=True)
        ... class MaxWords(Evaluator):
        ...     words: int = 10
        ...     def score(self, case):
        ...         count = len(case.actual_output.split())
        ...         return Score(float(count <= self.words), f"The answer has {count} words.")
        >>> MaxWords(words=2, threshold=1.0).evaluate(EvalTestCase.of("Hello?", "Hi there, friend")).success
        False
    """

    name: str = ""
    """The name of the results; that of the class by default."""
    threshold: float | None = None
    """The score to reach (or not to exceed, where lower is better); with None, results are informational."""
    thresholds: Mapping[str, float | None] | None = None
    """For an evaluator that gives several scores: thresholds by key, such as `{"grounded": 0.8}`; other keys
    have `threshold`. A key that has a threshold here and gets no score is an error."""
    evaluation_params: Sequence[str] | None = None
    """The parts of the case that are required, instead of those that the class requires."""
    fail_on_error: bool = True
    """Whether an error fails the item or only warns; an unusable judge reply always fails it."""
    response_path: str | None = None
    """Score this leaf of a JSON output, such as `items[0].price`, instead of the whole output."""

    own_range: ClassVar[ScoreRange | None] = None
    """The range of the scores of an instance, None for 0..1; `score_range` is what a class declares."""
    default_name = ""
    requires: ClassVar[tuple[str, ...]] = ()
    looks_for: ClassVar[tuple[str, ...]] = ()
    """Parts beside `requires` that `score` needs; `score` itself raises where they are missing."""
    extra: ClassVar[str | None] = None
    lower_is_better = False
    score_range = USUAL_RANGE
    """The lowest and the highest score; thresholds are on the same scale."""
    deterministic = True
    serial = False
    is_bounded = True
    """Whether the run's time limit for evaluators applies to it as a whole, rather than to its parts."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # In `__new__`, since the constructor of dataclasses would raise its own, terser TypeError first.
        if "__dataclass_fields__" not in cls.__dict__:
            raise TypeError(f"{cls.__name__} needs the decorator @dataclass(frozen=True, kw_only=True).")
        check_settings(cls, len(args), kwargs)
        return super().__new__(cls)

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> str | tuple[Any, ...]:
        """Copy and pickle without `__new__`, which requires the settings that have no default."""
        reduced = super().__reduce_ex__(protocol)
        if isinstance(reduced, tuple) and reduced[0] is copyreg.__newobj__:  # type: ignore[attr-defined] # typeshed lacks it
            return (object.__new__, *reduced[1:])
        return reduced

    def __post_init__(self) -> None:
        """Fill in the name and validate the common fields; a subclass that overrides this must call it."""
        if not self.name:
            object.__setattr__(self, "name", default_name_of(type(self)))
        check_types(self)
        if (declared := self.custom_range()) is not None:
            object.__setattr__(self, "own_range", declared)
        low, high = declared or USUAL_RANGE
        if self.threshold is not None and not low <= self.threshold <= high:
            where = describe_range(declared)
            raise ConfigurationError(
                f"{self.name}: threshold must be in {where}, not {self.threshold!r}.", setting="threshold"
            )
        if self.thresholds is not None:
            self._set_thresholds(declared or USUAL_RANGE)
        if self.evaluation_params is not None:
            object.__setattr__(self, "evaluation_params", tuple(self.evaluation_params))
            check_params(self.name, self.evaluation_params)
        if self.response_path is not None:
            check_response_path(self.name, self.response_path)
        choose_thread(self)

    def score(
        self, case: EvalTestCase[In_contra, Out_contra]
    ) -> ScoreLike | Scores | Awaitable[ScoreLike | Scores]:
        """Score one case: the hook that subclasses implement, as `def` or `async def`."""
        raise NotImplementedError(f"{type(self).__name__} must implement score(case).")

    @final
    def evaluate(self, case: EvalTestCase[In_contra, Out_contra]) -> EvalResult:
        """Score one case. Errors are in the result's `error`; several scores are in its `parts`."""
        if self.is_async:
            from dokimos._runtime.concurrency import run_sync  # asyncio is loaded only where it is needed

            return run_sync(self.evaluate_async(case))
        try:
            outcome: Any = self.score(self._prepare_case(case))  # `cast` would cost a call
            return self._result(outcome)
        except UnusableOutputError as fault:
            return unusable_result(self, fault)
        except (BudgetExceededError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # failures of test frameworks derive from it
            return error_result(self, error)

    @final
    async def evaluate_async(self, case: EvalTestCase[In_contra, Out_contra]) -> EvalResult:
        """Score one case without blocking the event loop.

        Raises:
            BudgetExceededError: when the run's budget does not allow a call; the case was not scored.
        """
        # Built-in evaluators are quick: awaiting, a thread and a meter would cost more than they do.
        if not self.is_async and not self.blocking:
            return self.evaluate(case)
        current_scope, counting_usage = run_scope()
        scope = current_scope()
        limit = scope.evaluator_timeout if self.is_bounded else None
        with counting_usage() as usage:
            if self.is_async and limit is None:
                # What `_score_on_loop` does, without a coroutine of its own for each score.
                try:
                    outcome: Any = self.score(self._prepare_case(case))
                    result = self._result(await outcome)
                except BaseException as error:
                    failure = failure_result(self, error)
                    if failure is None:
                        raise
                    result = failure
            else:
                result = await self._in_time(case, limit, scope.threads)
        return with_cost(result, usage.metrics)

    async def _in_time(
        self, case: EvalTestCase, limit: float | None, threads: ThreadLimit | None
    ) -> EvalResult:
        """Score a case within the run's time limit, on the event loop or in a worker thread."""
        import asyncio

        from dokimos._runtime.scoring_threads import await_within, call_serially, call_within
        from dokimos._runtime.time_limits import count_extra_time

        try:
            if self.is_async and limit is not None:
                with count_extra_time() as extra:
                    return await await_within(limit, asyncio.create_task(self._score_on_loop(case)), extra)
            if self.serial:
                return await call_serially(self._owner(), limit, self.evaluate, case)
            if threads is None:
                return await call_within(limit, self.evaluate, case)
            async with threads.place():
                return await call_within(limit, self.evaluate, case)
        except TimeoutError as error:
            return error_result(self, error)

    async def _score_on_loop(self, case: EvalTestCase) -> EvalResult:
        try:
            outcome: Any = self.score(self._prepare_case(case))
            return self._result(await outcome)
        except BaseException as error:
            failure = failure_result(self, error)
            if failure is None:
                raise
            return failure

    def stays_in_thread(self) -> bool:
        """Return whether its author chose the thread of the run; built-in evaluators are there by default."""
        chosen = not is_built_in(type(self)) or "blocking" in type(self).__dataclass_fields__
        return chosen and not self.blocking and not self.is_async

    def _owner(self) -> object:
        """Return the object whose calls share one thread where `serial` is set."""
        return self

    def custom_range(self) -> ScoreRange | None:
        """Return the range of the scores, None for the usual 0..1. Raises `ConfigurationError`."""
        return check_score_range(self.name, self.score_range)

    @property
    def gives_verdicts(self) -> bool:
        """Whether its results pass or fail: by a threshold, or since `score` is declared to return a bool."""
        return self._has_threshold or returns_bool(self.score)

    @property
    def _has_threshold(self) -> bool:
        several = self.thresholds or {}
        return self.threshold is not None or any(one is not None for one in several.values())

    def info(self) -> EvaluatorInfo:
        """Describe the configuration, for provenance and to tell whether two runs are comparable."""
        return describe_evaluator(self)

    def default_parts(self) -> tuple[str, ...]:
        """Return the parts that a judge is shown where `evaluation_params` does not choose them.

        Empty for an evaluator that shows a judge nothing, or does not let `evaluation_params` choose what.
        """
        return ()

    def _set_thresholds(self, score_range: ScoreRange) -> None:
        if not self.gives_several:
            raise ConfigurationError(
                f"{self.name} gives one score; write threshold=... instead of thresholds."
            )
        object.__setattr__(self, "thresholds", check_thresholds(self.name, self.thresholds, score_range))

    def _prepare_case(
        self, case: EvalTestCase, copy_case: Callable[[], EvalTestCase] | None = None
    ) -> EvalTestCase:
        """Return what `score` is called with, if the case has what is required; a copy for users' code."""
        if case.error is not None:
            raise EvaluationError(f"The run failed, so there is nothing to score: {case.error}")
        required = self.requires if self.evaluation_params is None else self.evaluation_params
        if required:
            for path, read in readers_of(required if type(required) is tuple else tuple(required)):
                if read(case) is None:
                    raise _missing_part(self, path, case)
        if self.gets_copies:
            case = copy_containers(case) if copy_case is None else copy_case()
        if self.response_path is None:
            return case
        return with_response_path(case, self.response_path)

    def _result(self, outcome: ScoreLike | Scores) -> EvalResult:
        """Return the result of what `score` returned. Raises `EvaluationError`."""
        if type(outcome) not in _SINGLE and isinstance(outcome, Mapping):
            return several_results(self, outcome)
        if self.thresholds is not None:
            raise EvaluationError(
                f"{self.name} has thresholds for several scores, but gave {type(outcome).__name__}; return a "
                "mapping of their keys to scores."
            )
        return self.one_result(outcome)  # type: ignore[arg-type] # mypy does not see that it is one score

    def result_name(self, key: str | None) -> str:
        """Return the name of the result, or of the result under a key of several scores."""
        return self.name if key is None else f"{self.name}.{key}"

    def threshold_of(self, key: str | None) -> float | None:
        """Return the threshold of the result, or of the result under a key of several scores."""
        several = self.thresholds
        return self.threshold if key is None or several is None else several.get(key, self.threshold)

    def one_result(self, outcome: ScoreLike, key: str | None = None) -> EvalResult:
        """Return the result of one score, or of one of several under its key. Raises `EvaluationError`."""
        value: Any
        metadata: Mapping[str, Any]
        if type(outcome) is float:
            value, reason, label, metadata, may_change = outcome, "", None, {}, False
        elif isinstance(outcome, Score):
            value, reason, label = outcome.value, outcome.reason, outcome.label
            metadata, may_change = outcome.metadata, self.gets_copies  # it may have kept them
        else:
            outcome = number_of(self.name, outcome)
            value, reason, label, metadata, may_change = float(outcome), "", None, {}, False
        own_range = self.own_range
        # The usual score takes this one comparison, which NaN fails; everything else goes the long way.
        if type(value) is not float or not 0.0 <= value <= 1.0 or own_range is not None:
            value = self._in_range(outcome, value)
        if type(reason) is not str or type(metadata) is not dict or label is not None:
            check_explanation(self.name, outcome)  # type: ignore[arg-type] # of a number they are right
        threshold = self.threshold if key is None else self.threshold_of(key)
        success: bool | None
        if isinstance(outcome, bool):
            success = outcome
        elif threshold is None:
            success = None
        else:
            success = value <= threshold if self.lower_is_better else value >= threshold
        return _new_result(
            self.name if key is None else self.result_name(key),
            value,
            threshold,
            success,
            reason,
            copy_containers(metadata) if may_change else metadata,
            label,
            None if key is None else self.name,
            self.fail_on_error,
            own_range,
        )

    def _in_range(self, outcome: ScoreLike, value: Any) -> float:
        """Return the score as a float within the range; True and False are its ends."""
        number, (low, high) = float(number_of(self.name, value)), self.own_range or USUAL_RANGE
        if isinstance(outcome, bool):
            return high if outcome else low
        if not low <= number <= high:  # NaN is not either
            raise outside(self.name, value, number, describe_range(self.own_range))
        return number


def _missing_part(evaluator: Evaluator, path: str, case: EvalTestCase) -> MissingInputError:
    from dokimos.evaluators._missing_parts import missing_part  # only where something is missing

    shown = evaluator.default_parts() if evaluator.evaluation_params is None else ()
    return missing_part(evaluator.name, path, case, shown=shown)


def returns_bool(function: Callable[..., Any]) -> bool:
    """Return whether a function is annotated to return a bool, which needs no threshold to pass or fail."""
    declared = getattr(function, "__annotations__", {}).get("return")
    return getattr(declared, "__name__", str(declared)).rpartition(".")[2] in ("bool", "bool_")


def default_name_of(kind: type[Evaluator]) -> str:
    """Return the documented name, else the title-cased registry name, else the class name in words."""
    if kind.default_name:
        return kind.default_name
    name = name_of(kind)
    return name.replace("_", " ").title() if name else re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", kind.__name__)
