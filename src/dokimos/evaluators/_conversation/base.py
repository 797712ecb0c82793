"""What the evaluators of conversations have in common: where the conversation is, and how it is judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from dokimos._core.conversation import ConversationTrajectory, parse_trajectory
from dokimos._core.keys import BROKEN_OFF, END_REASON, TRAJECTORY
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos.errors import EvaluationError
from dokimos.evaluators._conversation.judge_transcript import transcript
from dokimos.evaluators._llm.base import JudgedEvaluator
from dokimos.evaluators._setting_checks import check_text

EMPTY: Final = "The conversation is empty."
TURN_COUNT: Final = "turnCount"


@dataclass(frozen=True, kw_only=True)
class ConversationEvaluator(JudgedEvaluator):
    """The base of the evaluators that put a whole conversation before a judge.

    A subclass implements `judge_conversation`; an empty conversation scores 0 (1 where lower is better)
    without a call.
    """

    requires: ClassVar[tuple[str, ...]] = (f"outputs.{TRAJECTORY}",)

    trajectory_key: str = TRAJECTORY
    """The key of the conversation in the outputs: a trajectory, its JSON form or a list of messages."""
    include_tool_calls: bool = False
    """Whether the judge is shown the tool calls, with their results."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_text(self, "trajectory_key", self.trajectory_key)
        object.__setattr__(self, "requires", (f"outputs.{self.trajectory_key}",))

    async def judge_case(self, case: EvalTestCase, *, sample: int) -> Score:
        trajectory = conversation_of(case, self.trajectory_key)
        # Without the judge, who would have to make something up.
        if not trajectory.messages:
            return Score(1.0 if self.lower_is_better else 0.0, EMPTY, metadata={TURN_COUNT: 0})
        return await self.judge_conversation(trajectory, case, sample=sample)

    async def judge_conversation(
        self, trajectory: ConversationTrajectory, case: EvalTestCase, *, sample: int
    ) -> Score:
        """Ask the judge about a conversation that has messages."""
        raise NotImplementedError(f"{type(self).__name__} must implement judge_conversation(...).")

    def render_transcript(self, trajectory: ConversationTrajectory) -> str:
        """Return the conversation as the judge reads it."""
        return transcript(trajectory, tool_calls=self.include_tool_calls)


def conversation_of(case: EvalTestCase, key: str) -> ConversationTrajectory:
    """Return the conversation under a key of the actual outputs.

    Raises:
        EvaluationError: where there is none, or it broke off, so that what is there says nothing of the rest.
    """
    trajectory = parse_trajectory(case.actual_outputs.get(key), key=key)
    reason = trajectory.metadata.get(END_REASON)
    if reason in BROKEN_OFF:
        why = trajectory.metadata.get("error") or f"{END_REASON!r} in its metadata is {str(reason)!r}"
        raise EvaluationError(
            f"The conversation broke off, so it is not evaluated: {why}. To evaluate the part "
            f"that was recorded, remove {END_REASON!r} from its metadata."
        )
    return trajectory
