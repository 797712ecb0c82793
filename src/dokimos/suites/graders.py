"""Code graders: Python functions of a turn that give a verdict, a score or both."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dokimos.core.agent import ToolCall
from dokimos.core.container_copy import copy_containers
from dokimos.core.keys import CALL_ERROR
from dokimos.core.results import DEFAULT_THRESHOLD, EvalResult, Score
from dokimos.core.test_case import EvalTestCase
from dokimos.errors import EvaluationError
from dokimos.evaluators.base import ScoreLike
from dokimos.runtime.calling import is_async
from dokimos.suites.settled import Settled, SettlingEvaluator, settled


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
"""Returns a `GraderResult`, a bool or a number in 0..1; may be async."""


@dataclass(frozen=True, kw_only=True)
class GraderEvaluator(SettlingEvaluator):
    """Asks a code grader; a sync one in a thread."""

    grader: Grader
    blocking: bool = True
    serial: bool = False
    gets_copies = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "is_async", is_async(self.grader))
        self._check_serial()

    @property
    def gives_verdicts(self) -> bool:
        return True

    def score(self, case: EvalTestCase) -> ScoreLike | Awaitable[ScoreLike]:
        outcome = self.grader(context_of(case))
        return self._awaited(outcome) if self.is_async else self._told(outcome)

    def _owner(self) -> object:
        return self.grader

    async def _awaited(self, outcome: Awaitable[Any]) -> Settled:
        return self._told(await outcome)

    def _told(self, outcome: Any) -> Settled:
        result = _as_result(self.name, outcome)
        value: Any = result.score  # somebody else's function may put anything here
        if not (isinstance(value, int | float) and 0 <= value <= 1):
            raise EvaluationError(f"{self.name} gave a score of {value!r}, which is not in 0..1.")
        passed = result.passed
        if passed is None:
            limit = DEFAULT_THRESHOLD if self.threshold is None else self.threshold
            passed = result.score >= limit
        return settled(
            EvalResult(
                self.name,
                float(result.score),
                threshold=self.threshold,
                success=bool(passed),
                reason=result.reason or "",
                metadata=_details(self.name, result.details),
            )
        )


def context_of(case: EvalTestCase) -> GraderContext:
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


def _as_result(name: str, outcome: Any) -> GraderResult:
    if isinstance(outcome, GraderResult):
        return outcome
    if isinstance(outcome, bool):
        return GraderResult(float(outcome), passed=outcome)
    if isinstance(outcome, int | float):
        return GraderResult(float(outcome))
    if inspect.iscoroutine(outcome):
        outcome.close()
    raise EvaluationError(
        f"{name} must return a GraderResult, a bool or a number, not {type(outcome).__name__}"
        f"{_result_instead(outcome)}."
    )


def _result_instead(outcome: Any) -> str:
    """Return the line to write in the place of one that returns another kind of result."""
    if not isinstance(outcome, Score | EvalResult):
        return ""
    score = outcome.value if isinstance(outcome, Score) else outcome.score
    return f"; write: return GraderResult({score!r}, reason={outcome.reason!r:.80})"


def _details(name: str, details: Any) -> dict[str, Any]:
    if details is None:
        return {}
    try:
        json.dumps(details)
    except (TypeError, ValueError) as error:
        raise EvaluationError(f"{name} gave details that are not JSON: {error}.") from None
    return {"details": copy_containers(details)}
