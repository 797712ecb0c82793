"""Code graders: Python functions of a turn that give a verdict, a score or both."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from dokimos._core.agent import ToolCall
from dokimos._core.container_copy import copy_containers
from dokimos._core.keys import CALL_ERROR
from dokimos._core.plain_number import plain_number
from dokimos._core.results import DEFAULT_THRESHOLD, EvalResult, Score
from dokimos._core.test_case import EvalTestCase
from dokimos._runtime.user_calls import is_async
from dokimos.errors import EvaluationError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._score_values import is_number_like, number_of
from dokimos.evaluators._thread_choice import check_thread


@dataclass(frozen=True)
class ToolInvocation:
    """One call of a tool, as a grader sees it."""

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    result: Any = None
    bytes: int = 0
    """The length of the result as JSON."""
    duration_ms: float | None = None
    error: str | None = None

    @classmethod
    def of(cls, call: ToolCall) -> ToolInvocation:
        size = (
            0
            if call.result is None
            else len(json.dumps(call.result, ensure_ascii=False).encode("utf-8", "backslashreplace"))
        )
        error, duration = call.metadata.get(CALL_ERROR), call.metadata.get("durationMs")
        return cls(
            call.name,
            dict(call.arguments),
            call.result,
            size,
            duration if isinstance(duration, int | float) else None,
            None if error is None else str(error),
        )


@dataclass(frozen=True)
class GraderContext:
    """What a grader sees of a turn."""

    turn_input: str
    agent_response: str
    ground_truth: str | None = None
    tool_invocations: tuple[ToolInvocation, ...] = ()
    retrieval_context: tuple[str, ...] | None = None
    turn_index: int = 0
    test_case_name: str | None = None
    turn_config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GraderResult:
    """What a grader says; `passed=None` leaves it to the threshold, or to 0.5 where there is none."""

    score: float
    passed: bool | None = None
    reason: str | None = None
    details: Mapping[str, Any] | None = None


Grader: TypeAlias = Callable[[GraderContext], Any]
"""Returns a `GraderResult`, a `Score`, a bool, a number in 0..1, or a mapping of keys to these."""


@dataclass(frozen=True, kw_only=True)
class GraderEvaluator(Evaluator):
    """Asks a code grader; a sync one in a thread."""

    grader: Grader
    blocking: bool = True
    serial: bool = False
    gets_copies = True
    gives_several = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "is_async", is_async(self.grader))
        check_thread(self)

    @property
    def gives_verdicts(self) -> bool:
        return True

    def score(self, case: EvalTestCase) -> Any:
        return self.grader(build_grader_context(case))

    def _owner(self) -> object:
        return self.grader

    def one_result(self, outcome: object, key: str | None = None) -> EvalResult:
        """Return the result of one score, which decides at 0.5 where there is no threshold."""
        score, passed = _read_outcome(self.name, outcome)
        result = super().one_result(score, key)
        # A grader always decides, unlike a metric without a threshold, which only informs.
        if passed is None and result.threshold is None and result.score is not None:
            passed = result.score >= DEFAULT_THRESHOLD
        return result if passed is None else replace(result, success=passed)


def build_grader_context(case: EvalTestCase) -> GraderContext:
    """Return what a grader sees of a case."""
    metadata = case.metadata
    return GraderContext(
        turn_input=case.input or "",
        agent_response=case.actual_output or "",
        ground_truth=case.expected_output,
        tool_invocations=tuple(ToolInvocation.of(call) for call in case.tool_calls or ()),
        retrieval_context=case.contexts,
        turn_index=metadata.get("turnIndex", 0),
        test_case_name=metadata.get("caseName"),
        turn_config=dict(metadata.get("turnConfig") or {}),
    )


def _read_outcome(name: str, outcome: object) -> tuple[Score, bool | None]:
    """Return the score that a grader gives, and whether it passes where the grader says so."""
    if isinstance(outcome, GraderResult):
        score: Any = outcome.score
        metadata = _details(name, outcome.details)
        return Score(score, outcome.reason or "", metadata=metadata), _read_passed(name, outcome.passed)
    if isinstance(outcome, Score):
        return outcome, None
    if inspect.iscoroutine(outcome):
        # Closed, or Python warns later and elsewhere that it was never awaited.
        outcome.close()
    elif is_number_like(outcome):
        number = number_of(name, outcome)
        return Score(float(number)), number if isinstance(number, bool) else None
    raise EvaluationError(
        f"{name} must return a GraderResult, a Score, a bool or a number, or a mapping of keys to these, "
        f"not {type(outcome).__name__}{_result_instead(outcome)}."
    )


def _read_passed(name: str, passed: object) -> bool | None:
    verdict = None if passed is None else plain_number(passed)
    if (passed is None) is not (verdict is None) or verdict not in (None, 0, 1):
        raise EvaluationError(f"{name} gave passed={passed!r:.80}; it must be True, False or None.")
    return None if verdict is None else bool(verdict)


def _result_instead(outcome: object) -> str:
    """Return the line to write in the place of one that returns an `EvalResult`."""
    if not isinstance(outcome, EvalResult):
        return ""
    return f"; write: return GraderResult({outcome.score!r}, reason={outcome.reason!r:.80})"


def _details(name: str, details: object) -> dict[str, Any]:
    if details is None:
        return {}
    try:
        # Now, where the grader can be named: the journal, which needs JSON, would refuse it much later.
        json.dumps(details)
    except (TypeError, ValueError) as error:
        raise EvaluationError(f"{name} gave details that are not JSON: {error}.") from None
    return {"details": copy_containers(details)}
