"""Evaluators that ask for a verdict on each of the assistant's replies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dokimos._core.conversation import ConversationTrajectory
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import pluralize
from dokimos.errors import MissingInputError
from dokimos.evaluators._conversation.base import TURN_COUNT, ConversationEvaluator
from dokimos.evaluators._conversation.judge_transcript import transcript
from dokimos.evaluators._llm.case_sections import section
from dokimos.evaluators._llm.verdicts import Verdict, build_reason, verdict_prompt, verdicts_on
from dokimos.evaluators._missing_parts import list_parts
from dokimos.evaluators._setting_checks import check_whole


@dataclass(frozen=True, kw_only=True)
class RepliesEvaluator(ConversationEvaluator):
    """The base of the evaluators that score the share of replies with the verdict yes.

    One call for every `replies_per_call` of them. A conversation without replies scores 0 without a call.
    """

    judge_calls = "ceil(replies / replies_per_call)"

    question: ClassVar[str]
    """What the judge is asked about each reply, with what yes and no mean."""
    praise: ClassVar[str]
    """What is true of the replies that count: `{praise}: 2 of 3 replies`."""

    replies_per_call: int = 10
    """How many replies are judged in one call; weak judges lose count of many."""
    threshold: float | None = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self, "replies_per_call", self.replies_per_call, least=1)

    async def judge_conversation(
        self, trajectory: ConversationTrajectory, case: EvalTestCase, *, sample: int
    ) -> Score:
        replies = trajectory.assistant_messages
        if not replies:
            return Score(0.0, "The assistant said nothing.", metadata={TURN_COUNT: 0})
        more = self.more(trajectory, case)
        verdicts: list[Verdict] = []
        for first in range(0, len(replies), self.replies_per_call):
            end = min(first + self.replies_per_call, len(replies))
            # Up to the last reply asked about: what came later must not count for it, and costs tokens.
            conversation = transcript(trajectory, tool_calls=self.include_tool_calls, first=first, end=end)
            prompt = verdict_prompt(self.question, *more, conversation, count=end - first, noun="reply")
            verdicts += await verdicts_on(self.lm, prompt, end - first, sample=sample)
        return self._score(trajectory, verdicts)

    def more(self, trajectory: ConversationTrajectory, case: EvalTestCase) -> tuple[str, ...]:
        """Return what the judge is shown before the conversation."""
        return ()

    def _score(self, trajectory: ConversationTrajectory, verdicts: Sequence[Verdict]) -> Score:
        replies = trajectory.assistant_messages
        pairs = zip(replies, verdicts, strict=True)
        failed = [reply.content for reply, entry in pairs if entry.verdict == "no"]
        good = len(replies) - len(failed)
        share = f"{self.praise}: {good} of {pluralize(len(replies), 'reply', 'replies')}"
        turns: list[dict[str, Any]] = [
            {"turn": number, "verdict": entry.verdict, "reason": entry.reason}
            for number, entry in enumerate(verdicts, 1)
        ]
        reason = build_reason(share, failed, but="not", enabled=True)
        return Score(
            good / len(replies), reason, metadata={TURN_COUNT: trajectory.turn_count, "turns": turns}
        )


@dataclass(frozen=True, kw_only=True)
class KnowledgeRetention(RepliesEvaluator):
    """Share of the assistant's replies that keep in mind what the user has said before.

    One call for every ten replies. After DeepEval, which asks once for each turn.

    Example:
        >>> chat = [{"role": "user", "content": "Can I return it?"}, {"role": "assistant", "content": "Yes."}]
        >>> reply = '{"verdicts": [{"verdict": "yes"}]}'
        >>> case = EvalTestCase({}, {"trajectory": chat})
        >>> KnowledgeRetention(judge=lambda prompt: reply).evaluate(case).score
        1.0
    """

    method_source = "After DeepEval, which asks once for each turn."
    default_name = "Knowledge Retention"
    praise = "Keeping in mind what the user said"
    question = (
        "In the conversation below, each message is one line and the assistant's replies are numbered. For "
        "each numbered reply, say whether it keeps in mind what the user has said before it.\n"
        "- yes: it uses what the user said rightly, or nothing that the user said matters for it\n"
        "- no: it asks for something that the user has already told, forgets it, or contradicts it"
    )


@dataclass(frozen=True, kw_only=True)
class TurnRelevance(RepliesEvaluator):
    """Share of the assistant's replies that respond to what the user said just before.

    One call for every ten replies.

    Example:
        >>> chat = [{"role": "user", "content": "Can I return it?"}, {"role": "assistant", "content": "Yes."}]
        >>> reply = '{"verdicts": [{"verdict": "yes"}]}'
        >>> case = EvalTestCase({}, {"trajectory": chat})
        >>> TurnRelevance(judge=lambda prompt: reply).evaluate(case).score
        1.0
    """

    method_source = "Defined by dokimos: a verdict on each reply."
    default_name = "Turn Relevance"
    praise = "Responding to the user"
    question = (
        "In the conversation below, each message is one line and the assistant's replies are numbered. For "
        "each numbered reply, say whether it responds to what the user said just before it, in the light of "
        "the conversation so far. Whether it is right does not count.\n"
        "- yes: it answers, asks back for what is needed to answer, or says why it will not\n"
        "- no: it is about something else, or ignores what was said"
    )


@dataclass(frozen=True, kw_only=True)
class RoleAdherence(RepliesEvaluator):
    """Share of the assistant's replies that keep to the role that the assistant was given.

    The role is the parameter, else "role" in the case's metadata, else the conversation's system messages.
    One call for every ten replies.

    Example:
        >>> chat = [{"role": "user", "content": "Can I return it?"}, {"role": "assistant", "content": "Yes."}]
        >>> reply = '{"verdicts": [{"verdict": "no", "reason": "Too short."}]}'
        >>> case = EvalTestCase({}, {"trajectory": chat})
        >>> RoleAdherence(role="A wordy guide.", judge=lambda prompt: reply).evaluate(case).score
        0.0
    """

    method_source = "Defined by dokimos: a verdict on each reply."
    default_name = "Role Adherence"
    looks_for: ClassVar[tuple[str, ...]] = ("metadata.role",)
    praise = "Keeping to the role"
    question = (
        "An assistant was given the role below. In its conversation, each message is one line and the "
        "assistant's replies are numbered. For each numbered reply, say whether it keeps to the role: its "
        "task, its manner, and what it may and may not do.\n"
        "- yes: it fits the role\n"
        "- no: it does, says or promises what the role does not, or is out of character"
    )

    role: str = ""
    """Who the assistant is supposed to be, and what it may do."""

    def more(self, trajectory: ConversationTrajectory, case: EvalTestCase) -> tuple[str, ...]:
        role = self.role or case.metadata.get("role") or trajectory.system_prompt
        if not isinstance(role, str) or not role.strip():
            raise MissingInputError(
                f"{self.name} requires a role; the case has: {list_parts(case)}. Give role=..., a "
                "'role' in the metadata, or a conversation with a system message."
            )
        return (section("Role", role),)
