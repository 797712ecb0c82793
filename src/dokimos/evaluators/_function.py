"""Plain functions as evaluators: `FunctionEvaluator` and the decorator `@evaluator`."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property, partial
from typing import Any, Final, TypeAlias, TypedDict, Unpack, cast, overload

from dokimos._core.keys import OUTPUT
from dokimos._core.results import EvalResult, Score
from dokimos._core.score_range import USUAL_RANGE
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import quote
from dokimos._runtime.user_calls import is_async
from dokimos.errors import ConfigurationError, EvaluationError
from dokimos.evaluators._base import Evaluator, ScoreLike, Scores, returns_bool
from dokimos.evaluators._import_string import import_object
from dokimos.evaluators._score_values import is_number_like, suggest_label, suggest_score
from dokimos.evaluators._thread_choice import check_thread

ScoringFunction: TypeAlias = Callable[..., "ScoreLike | Scores | Awaitable[ScoreLike | Scores]"]

_PARTS: Final[dict[str, Callable[[EvalTestCase], Any]]] = {
    "case": lambda case: case,
    "input": lambda case: case.input,
    "actual_output": lambda case: case.actual_output,
    "expected_output": lambda case: case.expected_output,
    "output": lambda case: case.actual_outputs.get(OUTPUT),
    "expected": lambda case: case.expected_outputs.get(OUTPUT),
    "inputs": lambda case: case.inputs,
    "outputs": lambda case: case.actual_outputs,
    "expected_outputs": lambda case: case.expected_outputs,
    "metadata": lambda case: case.metadata,
    "contexts": lambda case: case.contexts,
    "context": lambda case: case.contexts,
    "tool_calls": lambda case: case.tool_calls,
    "metrics": lambda case: case.metrics,
}
_REQUIRED_PATH: Final = {
    "input": "input",
    "actual_output": "actual_output",
    "expected_output": "expected_output",
    "output": "actual_output",
    "expected": "expected_output",
    "contexts": "contexts",
    "context": "contexts",
    "tool_calls": "outputs.toolCalls",
    "metrics": "metrics",
}
_SETTINGS: Final = (
    "name",
    "threshold",
    "thresholds",
    "evaluation_params",
    "lower_is_better",
    "deterministic",
    "blocking",
    "serial",
    "score_range",
)


@dataclass(frozen=True, kw_only=True)
class FunctionEvaluator(Evaluator):
    """Scores with a function, sync or async, that takes the case or named parts of it.

    Parts: `case`; `input`, `actual_output` and `expected_output` as text; `output` and `expected`, the same
    as values; the maps `inputs`, `outputs`, `expected_outputs` and `metadata`; `context`, `tool_calls`,
    `metrics`. A part without a default must be there, or the result is an error. The function returns a bool,
    a number in 0..1 (or in `score_range`), a `Score`, or a mapping of keys to these. The evaluator can be
    called like the function itself.

    Example:
        >>> is_short = FunctionEvaluator(function=lambda actual_output: len(actual_output) < 20, name="Short")
        >>> is_short.evaluate(EvalTestCase.of("Hello?", "Hi!")).success
        True
    """

    method_source = "Your function."
    judge_calls = "0; and what the function itself asks"

    function: ScoringFunction | str = field(
        metadata={"json_schema": {"type": "string", "pattern": r"^[\w.]+:[\w.]+$"}}
    )
    """The function, or where it is: `module:attribute`."""
    lower_is_better: bool = False
    """Whether a score passes by not exceeding the threshold."""
    deterministic: bool = True
    """Whether the same case always gets the same score."""
    blocking: bool = True
    """Whether a sync function is called in a thread; False keeps it in the thread of the run, for what
    belongs to the thread that made it."""
    serial: bool = False
    """Whether a sync function always has the same thread, one call after another."""
    score_range: tuple[float, float] = USUAL_RANGE
    """The lowest and the highest score that the function gives; thresholds are on the same scale."""

    gets_copies = True
    gives_several = True

    def __post_init__(self) -> None:
        function = (
            import_object(self.function, "FunctionEvaluator: function")
            if isinstance(self.function, str)
            else self.function
        )
        if isinstance(function, FunctionEvaluator):
            # @evaluator around an evaluator: settings of the inner one stay unless given again.
            self._take_settings_of(function)
            function = function.function
        if not callable(function) or isinstance(function, Evaluator | type):
            raise ConfigurationError(
                f"FunctionEvaluator: function must be a function, not {quote(function)}."
            )
        object.__setattr__(self, "function", function)
        if not self.name:
            object.__setattr__(self, "name", _name_of(function))
        super().__post_init__()
        object.__setattr__(self, "requires", _find_required_paths(self._parameters))
        object.__setattr__(self, "is_async", is_async(function))
        # Once more: only now is it known whether the function is async.
        check_thread(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself."""
        return self._callable(*args, **kwargs)

    @property
    def gives_verdicts(self) -> bool:
        return self._has_threshold or returns_bool(self._callable)

    def score(self, case: EvalTestCase) -> ScoreLike | Scores | Awaitable[ScoreLike | Scores]:
        outcome = self._callable(**self._arguments(case))
        if self.is_async:
            return self._await_outcome(cast("Awaitable[ScoreLike | Scores]", outcome))
        return self._check_outcome(outcome)

    async def _await_outcome(self, outcome: Awaitable[ScoreLike | Scores]) -> ScoreLike | Scores:
        return self._check_outcome(await outcome)

    def _check_outcome(self, outcome: object) -> ScoreLike | Scores:
        if isinstance(outcome, Score | Mapping) or is_number_like(outcome):
            return cast("ScoreLike | Scores", outcome)
        advice = ""
        if inspect.iscoroutine(outcome):
            # An unawaited coroutine would warn when it is collected, far from its cause.
            outcome.close()
            advice = " Declare the function itself with async def."
        elif isinstance(outcome, EvalResult):
            advice = suggest_score(outcome).removeprefix(":") + "."
        elif isinstance(outcome, str):
            advice = suggest_label(outcome)
        elif outcome is None:
            advice = " Does it end without a return?"
        raise EvaluationError(
            f"{self.name} must return a bool, a number, a Score, or a mapping of keys to these, not "
            f"{type(outcome).__name__}.{advice}"
        )

    def _owner(self) -> object:
        return self.function

    def _arguments(self, case: EvalTestCase) -> dict[str, Any]:
        arguments = {}
        for name, parameter in self._parameters.items():
            value = _PARTS[name](case)
            if value is None and parameter.default is not parameter.empty:
                continue
            if name == "context" and value is None:
                raise EvaluationError(f"{self.name} needs a context in the outputs or the metadata.")
            arguments[name] = value
        return arguments

    @property
    def _callable(self) -> Callable[..., Any]:
        return cast("Callable[..., Any]", self.function)

    @cached_property
    def _parameters(self) -> dict[str, inspect.Parameter]:
        """The parameters that are filled in from the case; others must have a default."""
        signature = inspect.signature(self._callable)
        parameters = {p.name: p for p in signature.parameters.values() if p.kind not in _VARIADIC}
        for parameter in parameters.values():
            _check_parameter(self.name, parameter)
        if not parameters:
            raise ConfigurationError(
                f"{self.name}: the function has no parameter for a part of the case; {_list_parts()}."
            )
        return {name: p for name, p in parameters.items() if name in _PARTS}

    def _take_settings_of(self, other: FunctionEvaluator) -> None:
        """Keep what a decorator said about the function wherever nothing else is said here."""
        for setting in _SETTINGS:
            # A setting that is given with its default value cannot be told from one that is not given.
            if getattr(self, setting) == type(self).__dataclass_fields__[setting].default:
                object.__setattr__(self, setting, getattr(other, setting))


class EvaluatorKeywords(TypedDict, total=False):
    """The settings of `@evaluator`, for type checkers."""

    name: str
    threshold: float | None
    thresholds: Mapping[str, float | None]
    lower_is_better: bool
    deterministic: bool
    blocking: bool
    serial: bool
    requires: tuple[str, ...]
    score_range: tuple[float, float]


@overload
def evaluator(function: ScoringFunction, /) -> FunctionEvaluator: ...


@overload
def evaluator(
    **settings: Unpack[EvaluatorKeywords],
) -> Callable[[ScoringFunction], FunctionEvaluator]: ...


def evaluator(
    function: ScoringFunction | None = None, /, **settings: Unpack[EvaluatorKeywords]
) -> FunctionEvaluator | Callable[[ScoringFunction], FunctionEvaluator]:
    """Make an evaluator from a plain function: `@evaluator` or `@evaluator(threshold=0.8)`.

    The settings are those of `FunctionEvaluator`, which also says what the function may take and return:
    `name`, `threshold`, `thresholds` (of several scores, by key), `lower_is_better`, `deterministic`,
    `blocking`, `serial`, and `score_range=(1, 5)` where scores are not in 0..1. `requires` names the parts of
    the case that must be there, instead of those that the function's parameters name.

    Example:
        >>> @evaluator(threshold=0.5)
        ... def mentions_refund(actual_output):
        ...     return "refund" in actual_output.lower()
        >>> mentions_refund.evaluate(EvalTestCase.of("Broken.", "You get a refund.")).score
        1.0
    """
    parameters: dict[str, Any] = {**settings}
    requires = parameters.pop("requires", ())
    make = partial(FunctionEvaluator, **parameters, evaluation_params=requires or None)
    if function is None:
        return lambda decorated: make(function=decorated)
    return make(function=function)


_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _name_of(function: object) -> str:
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__name__", type(function).__name__)
    return "Function" if name == "<lambda>" else name.strip("_").replace("_", " ").title()


def _check_parameter(owner: str, parameter: inspect.Parameter) -> None:
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise ConfigurationError(f"{owner}: parameter {parameter.name!r} must not be positional-only.")
    if parameter.name in _PARTS or parameter.default is not parameter.empty:
        return
    similar = get_close_matches(parameter.name, _PARTS, n=1)
    hint = f"did you mean {similar[0]!r}? " if similar else ""
    raise ConfigurationError(
        f"{owner}: no part of a case is called {parameter.name!r}; {hint}{_list_parts()}."
    )


def _list_parts() -> str:
    return f"name one of {', '.join(_PARTS)}"


def _find_required_paths(parameters: Mapping[str, inspect.Parameter]) -> tuple[str, ...]:
    return tuple(
        _REQUIRED_PATH[name]
        for name, parameter in parameters.items()
        if name in _REQUIRED_PATH and parameter.default is parameter.empty
    )
