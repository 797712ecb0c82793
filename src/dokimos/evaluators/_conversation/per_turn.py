"""Any evaluator of a single answer, applied to each turn of a conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from dokimos._core.conversation import ConversationTrajectory, Turn
from dokimos._core.eval_result import require_one_score
from dokimos._core.keys import INPUT, OUTPUT, TOOL_CALLS, TRAJECTORY
from dokimos._core.means import exact_mean
from dokimos._core.results import HARD_ERRORS, EvalResult, Score, worst_kind
from dokimos._core.score_range import USUAL_RANGE
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import pluralize, quote
from dokimos.errors import ConfigurationError, EvaluationError, JudgeReplyError
from dokimos.evaluators import registry
from dokimos.evaluators._base import Evaluator, ScoreLike
from dokimos.evaluators._conversation.base import TURN_COUNT, conversation_of
from dokimos.evaluators._outcomes import worst_score
from dokimos.evaluators._setting_checks import check_option, check_text
from dokimos.judges._shapes import AsGiven

TURNS: Final = "turns"

Inner: TypeAlias = Evaluator | str | Mapping[str, Mapping[str, Any]]

_INNER_SCHEMA: Final = {"oneOf": [{"type": "string"}, {"type": "object", "maxProperties": 1}]}
_AGGREGATIONS: Final[dict[str, Callable[[Sequence[float]], float]]] = {
    "mean": exact_mean,
    "min": min,
    "max": max,
}


@dataclass(frozen=True, kw_only=True)
class PerTurn(Evaluator):
    """Applies an evaluator to each of the assistant's replies, and joins the scores.

    In the case of a turn, the input is what the user said since the last reply, the output is the reply, and
    its tool calls are under "toolCalls"; the metadata are those of the case and of the reply. What is
    expected is the turn's entry in the list "turns" of the expected outputs: a map of outputs, or a value for
    "output"; a turn whose entry is null is left out, and one that never came has the worst score. An error in
    one turn is an error of the whole. As many calls as the evaluator makes, for each turn.

    Example:
        >>> chat = [{"role": "user", "content": "Can I return it?"}, {"role": "assistant", "content": "Yes."}]
        >>> PerTurn(evaluator={"length": {"max": 10}}).evaluate(EvalTestCase({}, {"trajectory": chat})).score
        1.0
    """

    method_source = "That of the evaluator which it applies."
    judge_calls = "turns * evaluator"

    evaluator: Annotated[Inner, AsGiven()] = field(metadata={"json_schema": _INNER_SCHEMA})
    """What scores each turn: a name, {NAME: {parameters}}, or in code an evaluator."""
    aggregation: Literal["mean", "min", "max"] = "mean"
    """How the turns' scores become one."""
    history: bool = False
    """Whether the input is the transcript up to the reply, instead of only what the user said last."""
    trajectory_key: str = TRAJECTORY
    """The key of the conversation in the outputs: a trajectory, its JSON form or a list of messages."""
    threshold: float | None = None
    """That of the turns' evaluator unless given."""

    requires: ClassVar[tuple[str, ...]] = (f"outputs.{TRAJECTORY}",)

    def __post_init__(self) -> None:
        # Before the base class checks name, range and threshold, which come from the inner evaluator.
        inner = self._inner
        if not self.name:
            object.__setattr__(self, "name", f"{inner.name} per Turn")
        object.__setattr__(self, "score_range", inner.custom_range() or USUAL_RANGE)
        super().__post_init__()
        check_option(self, "aggregation", self.aggregation, tuple(_AGGREGATIONS))
        check_text(self, "trajectory_key", self.trajectory_key)
        object.__setattr__(self, "requires", (f"outputs.{self.trajectory_key}",))
        for attribute in ("lower_is_better", "deterministic", "is_async", "blocking", "serial"):
            object.__setattr__(self, attribute, getattr(inner, attribute))
        if self.threshold is None:
            object.__setattr__(self, "threshold", inner.threshold)

    def score(self, case: EvalTestCase) -> ScoreLike | Awaitable[ScoreLike]:
        trajectory = conversation_of(case, self.trajectory_key)
        planned = self._plan_turns(case, trajectory)
        if self.is_async:
            return self._score_turns(planned, trajectory)
        return self._aggregate(planned, [self._inner.evaluate(one) for one in _cases_of(planned)], trajectory)

    async def _score_turns(
        self, planned: Sequence[_PlannedTurn], trajectory: ConversationTrajectory
    ) -> Score:
        calls = (self._inner.evaluate_async(one) for one in _cases_of(planned))
        # Await all before raising the first error, so that no call of a judge runs on unobserved.
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        results = []
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            results.append(outcome)
        return self._aggregate(planned, results, trajectory)

    def _owner(self) -> object:
        return self._inner._owner()

    @cached_property
    def _inner(self) -> Evaluator:
        return _build_inner(self.name or "per_turn", self.evaluator)

    def _plan_turns(self, case: EvalTestCase, trajectory: ConversationTrajectory) -> list[_PlannedTurn]:
        """Return the turns to be scored: those of the conversation, and those expected that never came."""
        turns = trajectory.turns()
        expected = _read_expectations(case)
        planned = []
        # Turns that were expected and never came count, or a conversation that ends early could score better.
        for index in range(max(len(turns), len(expected))):
            expectation = expected[index] if index < len(expected) else {}
            if expectation is None:
                continue
            turn = turns[index] if index < len(turns) else None
            own = None if turn is None else self._case(case, turn, _outputs_of(expectation))
            planned.append(_PlannedTurn(index + 1, own))
        return planned

    def _case(self, case: EvalTestCase, turn: Turn, expected: Mapping[str, Any]) -> EvalTestCase:
        user_text = ConversationTrajectory(turn.before).to_text() if self.history else turn.user
        return EvalTestCase(
            {} if user_text is None else {INPUT: user_text},
            {OUTPUT: turn.reply.content, TOOL_CALLS: list(turn.reply.tool_calls)},
            expected_outputs=expected,
            metadata={**case.metadata, **turn.reply.metadata},
            id=case.id,
            run_index=case.run_index,
        )

    def _aggregate(
        self,
        planned: Sequence[_PlannedTurn],
        results: Sequence[EvalResult],
        trajectory: ConversationTrajectory,
    ) -> Score:
        self._check_replies(planned, results)
        remaining = iter(results)
        turns = [self._turn_score(turn, None if turn.case is None else next(remaining)) for turn in planned]
        metadata = {TURN_COUNT: trajectory.turn_count, TURNS: [turn.to_metadata() for turn in turns]}
        if not turns and trajectory.assistant_messages:
            raise EvaluationError(f"{self.name}: {TURNS!r} in the expected outputs excludes every turn.")
        if not turns:
            return Score(self._worst_value, "There is no turn to score.", metadata=metadata)
        value = _AGGREGATIONS[self.aggregation]([turn.value for turn in turns])
        return Score(value, self._reason(turns), metadata=metadata)

    def _check_replies(self, planned: Sequence[_PlannedTurn], results: Sequence[EvalResult]) -> None:
        """Raise the hardest error of a judge's reply, if any: it hides behind no other turn's."""
        kind = worst_kind(result.error_kind for result in results)
        numbers = (turn.number for turn in planned if turn.case is not None)
        for number, result in zip(numbers, results, strict=True):
            if kind is not None and kind in HARD_ERRORS and result.error_kind == kind:
                raise JudgeReplyError(f"Turn {number}: {result.error}", kind=kind)

    def _reason(self, turns: Sequence[_TurnScore]) -> str:
        worst = min(turns, key=lambda turn: -turn.value if self.lower_is_better else turn.value)
        if len(turns) > 1 and len({turn.value for turn in turns}) == 1:
            return f"All {len(turns)} turns score {worst.value:.2f}."
        return f"The {self.aggregation} of {pluralize(len(turns), 'turn')}; worst: {worst.describe()}"

    def _turn_score(self, turn: _PlannedTurn, result: EvalResult | None) -> _TurnScore:
        if result is not None:
            result = require_one_score(result, "An evaluator of turns")
        if result is None:
            reason = "The conversation ended before it."
            return _TurnScore(turn.number, self._worst_value, False, reason)
        if result.error is not None or result.score is None:
            raise EvaluationError(f"Turn {turn.number}: {result.error or result.skipped or 'no score'}")
        return _TurnScore(turn.number, result.score, result.success, result.reason)

    @property
    def _worst_value(self) -> float:
        return worst_score(self).value


@dataclass(frozen=True, slots=True)
class _PlannedTurn:
    """A turn that is to be scored."""

    number: int
    """From 1."""
    case: EvalTestCase | None
    """None where the turn was expected and never came."""


@dataclass(frozen=True, slots=True)
class _TurnScore:
    """What a turn's evaluator found."""

    number: int
    value: float
    success: bool | None
    reason: str

    def to_metadata(self) -> dict[str, Any]:
        return {"turn": self.number, "score": self.value, "success": self.success, "reason": self.reason}

    def describe(self) -> str:
        return f"turn {self.number} ({self.value:.2f}). {self.reason}".rstrip()


def _cases_of(planned: Sequence[_PlannedTurn]) -> Iterator[EvalTestCase]:
    return (turn.case for turn in planned if turn.case is not None)


def _read_expectations(case: EvalTestCase) -> Sequence[Any]:
    """Return what is expected of each turn. Raises `EvaluationError` if it is not a list."""
    expected = case.expected_outputs.get(TURNS)
    if expected is None:
        return ()
    if not isinstance(expected, list | tuple):
        raise EvaluationError(f"{TURNS!r} in the expected outputs must be a list, not {quote(expected)}.")
    return expected


def _outputs_of(expectation: object) -> Mapping[str, Any]:
    return expectation if isinstance(expectation, Mapping) else {OUTPUT: expectation}


def _build_inner(owner: str, spec: object) -> Evaluator:
    if isinstance(spec, Evaluator):
        return spec
    name: Any = spec
    params: Any = {}
    if isinstance(spec, Mapping) and len(spec) == 1:
        ((name, params),) = spec.items()
    if not isinstance(name, str) or not isinstance(params or {}, Mapping):
        raise ConfigurationError(
            f"{owner}: evaluator must be a name or {{NAME: {{parameters}}}}, not {spec!r:.80}."
        )
    return registry.build(name, params or {}, where=f"{owner}.evaluator")
