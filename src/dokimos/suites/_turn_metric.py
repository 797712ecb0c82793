"""A metric of a suite: skipped with a reason, limited in time, repeated, and told in the suite's terms."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from dokimos._core.error_detail import ErrorDetail, append_place
from dokimos._core.eval_result import join_parts
from dokimos._core.evaluator_summary import DISABLED
from dokimos._core.jsonable import jsonable, text_form
from dokimos._core.keys import OUTPUT
from dokimos._core.means import exact_mean
from dokimos._core.provenance import EvaluatorInfo
from dokimos._core.results import CONTESTED, UNAVAILABLE, EvalResult, worst_kind
from dokimos._core.score_range import ScoreRange
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import error_text, pluralize
from dokimos._runtime.concurrency import call_in_thread
from dokimos._runtime.scoring_threads import call_within
from dokimos.errors import DokimosError
from dokimos.evaluators._base import Evaluator, ScoreLike
from dokimos.judges._run_scope import current_scope, evaluator_timeout
from dokimos.suites._case_plan import (
    FILE_CONTENTS,
    TURN_ERROR,
    TURNS,
    TurnPlan,
    turn_error_detail,
    turn_outputs,
)
from dokimos.suites._complete_results import CompleteResultEvaluator, CompleteScore, as_score

TRAJECTORY_PATH = "outputs.trajectory"
FILES_PATH = f"metadata.{FILE_CONTENTS}"
_EXPECTED: Final = frozenset({"expected_output", "expected_outputs"})


@dataclass(frozen=True, kw_only=True)
class TurnMetric(CompleteResultEvaluator):
    """Applies an evaluator to one turn of a case."""

    inner: Evaluator
    turn: TurnPlan
    conversation: bool = False
    """Whether the case has turns of its own."""
    decides: bool = True
    """Whether the evaluator's own verdict counts where there is no threshold."""
    needs_truth: bool = False
    """Whether a ground truth is needed although the evaluator does not require it."""
    needs_context: bool = False
    disabled: bool = False
    timeout: float | None = None
    retries: int = 0
    lower_is_better: bool = False
    _early: dict[tuple[int, str | None], tuple[str | None, EvalResult]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Results from while the conversation went on, each with the reply, until the case is evaluated."""

    is_bounded = False

    def __post_init__(self) -> None:
        super().__post_init__()
        # A time limit or a retry needs the event loop even where the evaluator itself is sync.
        object.__setattr__(self, "is_async", self._is_awaited or self.timeout is not None or self.retries > 0)
        object.__setattr__(self, "deterministic", self.inner.deterministic)

    def custom_range(self) -> ScoreRange | None:
        return self.inner.custom_range()

    @property
    def gives_verdicts(self) -> bool:
        return self.threshold is not None or (self.decides and self.inner.gives_verdicts)

    @property
    def is_skipped(self) -> bool:
        """Whether it is known in advance that the case is not evaluated, whatever the agent replies."""
        needs_truth = self.needs_truth or "expected_output" in self._requirements
        return self.disabled or (needs_truth and self.turn.ground_truth is None)

    def info(self) -> EvaluatorInfo:
        return replace(self.inner.info(), name=self.name, threshold=self.threshold)

    def score(self, case: EvalTestCase) -> ScoreLike | Awaitable[ScoreLike]:
        return self._score_async(case) if self.is_async else as_score(self.result(case))

    async def evaluate_early(self, case: EvalTestCase) -> EvalResult:
        """Evaluate the turn while its conversation goes on; it is not evaluated again at the end."""
        # A case that is retried goes through its turns again; the result of the attempt before is void.
        self._early.pop((case.run_index, case.id), None)
        result = await self.result_async(case)
        self._early[case.run_index, case.id] = (self._reply(case), result)
        return result

    def result(self, case: EvalTestCase) -> EvalResult:
        """Evaluate a case without waiting for anything."""
        early = self._take_early(case)
        if early is not None:
            return early
        view, reason = self._view(case)
        if view is None:
            return self._skip(reason)
        if self._reads_files:
            try:
                view = _with_files(view, self.turn.file_contents())
            except DokimosError as error:
                return self._skip_unreadable(error)
        return self._apply_settings(self.inner.evaluate(view))

    async def result_async(self, case: EvalTestCase) -> EvalResult:
        """Evaluate a case; an evaluation that errors is repeated as often as asked for."""
        early = self._take_early(case)
        if early is not None:
            return early
        view, reason = self._view(case)
        if view is None:
            return self._skip(reason)
        if self._reads_files:
            try:
                view = _with_files(view, await call_in_thread(self.turn.file_contents))
            except DokimosError as error:
                return self._skip_unreadable(error)
        # Reading the files is neither limited in time nor repeated: only the evaluation is.
        result = await self._attempt(view)
        for _ in range(self.retries):
            # Judges that disagree are not asked until they agree, nor an endpoint that is down once more.
            if result.error is None or result.error_kind in (CONTESTED, UNAVAILABLE):
                break
            result = await self._attempt(view)
        return self._apply_settings(result)

    def _take_early(self, case: EvalTestCase) -> EvalResult | None:
        reply, result = self._early.pop((case.run_index, case.id), (None, None))
        # A resumed or retried run may bring another reply, for which the early result does not hold.
        return result if reply == self._reply(case) else None

    def _reply(self, case: EvalTestCase) -> str | None:
        outputs = turn_outputs(case, self.turn, conversation=self.conversation)
        return None if outputs is None else text_form(outputs.get(OUTPUT))

    async def _score_async(self, case: EvalTestCase) -> CompleteScore:
        return as_score(await self.result_async(case))

    async def _attempt(self, view: EvalTestCase) -> EvalResult:
        if self.timeout is None:
            return await self.inner.evaluate_async(view)
        with evaluator_timeout(self.timeout):
            if self._is_awaited or self.inner.stays_in_thread():
                return await self.inner.evaluate_async(view)
            try:
                return await call_within(current_scope().evaluator_timeout, self.inner.evaluate, view)
            except TimeoutError as error:
                return EvalResult(self.name, error=error_text(error), error_detail=ErrorDetail.of(error))

    @property
    def _is_awaited(self) -> bool:
        return self.inner.is_async or self.inner.blocking

    def _view(self, case: EvalTestCase) -> tuple[EvalTestCase | None, str]:
        """Return the case that is evaluated, or why none is."""
        if self.disabled:
            return None, DISABLED
        outputs = turn_outputs(case, self.turn, conversation=self.conversation)
        if outputs is None:
            return None, "The agent gave no reply in this turn."
        required = self._requirements
        # Evaluators of whole conversations see the case; a view of one turn has no trajectory.
        if TRAJECTORY_PATH in required:
            return case, ""
        needs_truth = self.needs_truth or not _EXPECTED.isdisjoint(required)
        if needs_truth and self.turn.ground_truth is None:
            return None, "There is no ground truth."
        if self._reads_files and not self.turn.files:
            return None, "There is no context: the turn has no files."
        if self.needs_context and self.turn.find_contexts(outputs) is None:
            return None, "There are no contexts: neither the suite nor the agent gives any."
        return self.turn.view(case, outputs), ""

    @property
    def _requirements(self) -> tuple[str, ...]:
        return tuple(self.inner.evaluation_params or self.inner.requires)

    @property
    def _reads_files(self) -> bool:
        return FILES_PATH in self._requirements

    def _skip(self, reason: str) -> EvalResult:
        return EvalResult(self.name, threshold=self.threshold, skipped=reason)

    def _skip_unreadable(self, error: DokimosError) -> EvalResult:
        return self._apply_settings(EvalResult(self.name, error=error_text(error)))

    def _apply_settings(self, result: EvalResult) -> EvalResult:
        if result.parts:
            return join_parts(self.name, map(self._apply_settings_to_part, result.parts))
        counts = self.threshold is not None or self.decides
        return replace(
            result,
            name=self.name,
            threshold=self.threshold,
            success=result.success if counts else None,
            fail_on_error=self.fail_on_error,
            decides=True if result.error is not None and self.gives_verdicts else None,
        )

    def _apply_settings_to_part(self, part: EvalResult) -> EvalResult:
        """Return one of several scores of the evaluator, which keeps the threshold of its own."""
        counts = part.threshold is not None or self.decides
        return replace(
            part,
            name=f"{self.name}.{part.key}",
            part_of=self.name,
            success=part.success if counts else None,
            fail_on_error=self.fail_on_error,
        )


def _with_files(view: EvalTestCase, contents: list[str]) -> EvalTestCase:
    return replace(view, metadata={**view.metadata, FILE_CONTENTS: contents})


@dataclass(frozen=True, kw_only=True)
class ConversationMetric(CompleteResultEvaluator):
    """One metric over the turns of a case: the mean of its scores; passed where all turns passed."""

    parts: tuple[TurnMetric, ...]
    lower_is_better: bool = False

    is_bounded = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "is_async", any(part.is_async for part in self.parts))
        object.__setattr__(self, "deterministic", all(part.deterministic for part in self.parts))

    @property
    def is_skipped(self) -> bool:
        """Whether none of the turns is evaluated, whatever the agent replies."""
        return all(part.is_skipped for part in self.parts)

    def custom_range(self) -> ScoreRange | None:
        return self.parts[0].custom_range()

    @property
    def gives_verdicts(self) -> bool:
        return any(part.gives_verdicts for part in self.parts)

    def info(self) -> EvaluatorInfo:
        return replace(self.parts[0].info(), name=self.name, threshold=self.threshold)

    def score(self, case: EvalTestCase) -> ScoreLike | Awaitable[ScoreLike]:
        if self.is_async:
            return self._score_async(case)
        return as_score(self._roll_up([part.result(case) for part in self.parts]))

    async def _score_async(self, case: EvalTestCase) -> CompleteScore:
        results = await asyncio.gather(*(part.result_async(case) for part in self.parts))
        return as_score(self._roll_up(results))

    def _roll_up(self, results: list[EvalResult]) -> EvalResult:
        keys = list(dict.fromkeys(part.key for result in results for part in result.parts if part.key))
        if keys:
            return join_parts(self.name, [self._roll_up_part(key, results) for key in keys])
        return self._roll_up_one(results)

    def _roll_up_part(self, key: str, results: list[EvalResult]) -> EvalResult:
        """Return one of several scores over the turns; a turn that lacks it, or all of them, has no part."""
        missing = EvalResult(self.name, skipped=f"There is no score {key!r}.")
        scores = [
            next((part for part in result.parts if part.key == key), missing) if result.parts else result
            for result in results
        ]
        # Turns without parts, such as skipped ones, have the threshold of the metric, not of the part.
        thresholds = (result.threshold for result in scores if result.part_of is not None)
        return replace(
            self._roll_up_one(scores),
            name=f"{self.name}.{key}",
            part_of=self.name,
            threshold=next(thresholds, None),
        )

    def _roll_up_one(self, results: list[EvalResult]) -> EvalResult:
        errors = [f"{self._turn(n)}: {r.error}" for n, r in enumerate(results) if r.error is not None]
        rolled_up = EvalResult(
            self.name,
            threshold=self.threshold,
            metadata={TURNS: [self._row(n, result) for n, result in enumerate(results)]},
            fail_on_error=any(result.fail_on_error for result in results if result.error is not None),
            error_kind=worst_kind(result.error_kind for result in results),
            decides=True if errors and any(result.expects_verdict for result in results) else None,
            score_range=self.custom_range(),
        )
        if errors and _errors_decide(results):
            details = (result.error_detail for result in results)
            return replace(rolled_up, error="; ".join(errors), error_detail=next(filter(None, details), None))
        return self._average(rolled_up, results, errors)

    def _average(self, rolled_up: EvalResult, results: list[EvalResult], errors: list[str]) -> EvalResult:
        scores = [result.score for result in results if result.score is not None]
        if not scores:
            return replace(rolled_up, skipped=" ".join(dict.fromkeys(r.skipped or "" for r in results)))
        verdicts = [result.success for result in results if result.success is not None]
        reason = self._reason(results) + "".join(f" {error.rstrip('.')}." for error in errors)
        return replace(
            rolled_up, score=exact_mean(scores), success=all(verdicts) if verdicts else None, reason=reason
        )

    def _reason(self, results: list[EvalResult]) -> str:
        failed = [n for n, result in enumerate(results) if result.success is False]
        if failed:
            return " ".join(f"{self._turn(n)}: {_why(results[n])}" for n in failed)
        scored = sum(result.score is not None for result in results)
        return f"The mean over {pluralize(scored, 'turn')}."

    def _turn(self, index: int) -> str:
        return f"turn {self.parts[index].turn.index + 1}"

    def _row(self, index: int, result: EvalResult) -> dict[str, Any]:
        row = {
            "turn": self.parts[index].turn.index,
            "score": result.score,
            "success": result.success,
            "threshold": result.threshold,
            "reason": result.reason,
            "error": result.error,
            "errorDetail": None if result.error_detail is None else jsonable(result.error_detail),
            "label": result.label,
            "skipped": result.skipped,
            "metadata": dict(result.metadata) or None,
        }
        return {key: value for key, value in row.items() if value not in (None, "")}


def _errors_decide(results: Sequence[EvalResult]) -> bool:
    """Say whether an error in one turn is one of the whole."""
    # A turn that failed is certain, whatever the one that errored would have given.
    has_failed = any(result.success is False for result in results)
    return not has_failed or any(result.errors_item for result in results)


def _why(result: EvalResult) -> str:
    """Return why a turn failed: what the evaluator says, else its score."""
    return result.reason or f"The score is {0.0 if result.score is None else result.score:.2f}."


@dataclass(frozen=True, kw_only=True)
class TurnsAnswered(CompleteResultEvaluator):
    """Fails where the agent gave no reply in a turn; that there is one does not make the replies judged."""

    default_name = "Turns Answered"

    count: int

    def score(self, case: EvalTestCase) -> ScoreLike:
        turns = cast("list[dict[str, Any]]", case.actual_outputs.get(TURNS) or [])
        errors = [
            f"turn {n + 1}: {append_place(turn[TURN_ERROR], turn_error_detail(turn))}"
            for n, turn in enumerate(turns)
            if turn.get(TURN_ERROR)
        ]
        # A share, so that reports show how far a conversation came; the verdict asks for all of them.
        value = (self.count - len(errors)) / self.count
        if not errors:
            reason = "The agent replied in every turn."
            return as_score(EvalResult(self.name, value, success=True, reason=reason, decides=False))
        details = filter(None, map(turn_error_detail, turns))  # of turns with a reply there is none
        return as_score(
            EvalResult(
                self.name,
                value,
                success=False,
                reason="; ".join(errors),
                error_detail=next(details, None),
            )
        )
