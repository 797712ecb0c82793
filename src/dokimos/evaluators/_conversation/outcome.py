"""Evaluators of what a conversation comes to: whether the user got everything, and how the user felt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dokimos._core.conversation import ConversationTrajectory
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import pluralize
from dokimos.evaluators._conversation.base import TURN_COUNT, ConversationEvaluator
from dokimos.evaluators._llm.case_sections import number_lines
from dokimos.evaluators._llm.rating import Scale, rate, rating_prompt
from dokimos.evaluators._llm.verdicts import build_reason, verdict_prompt, verdicts_metadata, verdicts_on
from dokimos.judges._ask import ask
from dokimos.judges._fencing import fence_rule

# Upside down, since judges give the best conversation the highest number.
FRUSTRATION: Final = Scale(
    5,
    1,
    levels={
        1: "the user is angry, insults the assistant or breaks off",
        2: "the user is frustrated, still at the end",
        3: "the user is clearly displeased for a time, but not at the end",
        4: "the user shows a little impatience",
        5: "no sign of frustration at all",
    },
)


@dataclass(frozen=True, slots=True)
class Intentions:
    """What a judge replies that looks for what a user wants."""

    intentions: list[str]


@dataclass(frozen=True, kw_only=True)
class ConversationCompleteness(ConversationEvaluator):
    """Share of what the user wanted that the assistant fulfilled by the end; 1 where nothing was asked.

    The judge lists what the user wants, then says of each whether it was fulfilled. Two calls. The definition
    is DeepEval's.

    Example:
        >>> chat = [{"role": "user", "content": "Can I return it?"}, {"role": "assistant", "content": "Yes."}]
        >>> reply = '{"intentions": ["To return it."], "verdicts": [{"verdict": "yes"}]}'
        >>> case = EvalTestCase({}, {"trajectory": chat})
        >>> ConversationCompleteness(judge=lambda prompt: reply).evaluate(case).score
        1.0
    """

    method_source = "DeepEval's definition."
    judge_calls = "2; 1 where the user asked for nothing"
    default_name = "Conversation Completeness"

    threshold: float | None = 0.5

    async def judge_conversation(
        self, trajectory: ConversationTrajectory, case: EvalTestCase, *, sample: int
    ) -> Score:
        conversation = self.render_transcript(trajectory)
        answer = await ask(self.lm, intentions_prompt(conversation), Intentions, sample=sample)
        wishes = [text for text in (" ".join(wish.split()) for wish in answer.intentions) if text]
        count = {TURN_COUNT: trajectory.turn_count}
        if not wishes:
            return Score(1.0, "The user asked for nothing.", metadata={**count, "intentions": []})
        prompt = fulfilment_prompt(conversation, wishes)
        verdicts = await verdicts_on(self.lm, prompt, len(wishes), sample=sample)
        failed = [wish for wish, entry in zip(wishes, verdicts, strict=True) if entry.verdict == "no"]
        done = len(wishes) - len(failed)
        share = f"The assistant fulfilled {done} of {pluralize(len(wishes), 'wish', 'wishes')}"
        return Score(
            done / len(wishes),
            build_reason(share, failed, but="not", enabled=True),
            metadata={**count, "intentions": verdicts_metadata("intention", wishes, verdicts)},
        )


@dataclass(frozen=True, kw_only=True)
class UserFrustration(ConversationEvaluator):
    """How frustrated the user is with the assistant: 0 is not at all, lower is better.

    The judge is asked how free of frustration the user is, from 1 to 5. One call.

    Example:
        >>> chat = [{"role": "user", "content": "Can I return it?"}, {"role": "assistant", "content": "Yes."}]
        >>> reply = '{"reason": "Calm.", "score": 5}'
        >>> case = EvalTestCase({}, {"trajectory": chat})
        >>> UserFrustration(judge=lambda prompt: reply).evaluate(case).score
        0.0
    """

    method_source = "Question and levels defined by dokimos; rated as in Zheng et al. (2023)."
    default_name = "User Frustration"
    lower_is_better = True

    threshold: float | None = 0.25

    async def judge_conversation(
        self, trajectory: ConversationTrajectory, case: EvalTestCase, *, sample: int
    ) -> Score:
        question = (
            "How free of frustration with the assistant is the user? Look at complaints, repeated requests, "
            "impatience and tone in what the user says. Each message of the conversation below is one line."
        )
        prompt = rating_prompt(question, self.render_transcript(trajectory), FRUSTRATION)
        score = await rate(self.lm, prompt, FRUSTRATION, reasoned=True, sample=sample)
        return Score(
            score.value, score.reason, metadata={TURN_COUNT: trajectory.turn_count, **score.metadata}
        )


def intentions_prompt(conversation: str) -> str:
    """Return the request for what a user wants in a conversation."""
    task = (
        "List what the user wants from the assistant in a conversation, in which each message is one line. "
        "Each entry is one short sentence that can be understood alone, and each wish is there once, however "
        "often the user repeats it. Greetings and thanks are no wishes; without any, the list is empty."
    )
    paragraphs = (task, fence_rule(), conversation, "Now list what the user wants.")
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def fulfilment_prompt(conversation: str, wishes: list[str]) -> str:
    """Return the question whether each wish was fulfilled."""
    return verdict_prompt(
        "A user had the wishes below in a conversation with an assistant, in which each message is one line. "
        "For each wish, say whether the assistant fulfilled it by the end.\n"
        "- yes: it was done or answered\n"
        "- no: it was not, or only promised",
        conversation,
        number_lines("Wishes", wishes),
        count=len(wishes),
        noun="wish",
    )
