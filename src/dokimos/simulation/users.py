"""Simulated users: played by a model, by a model with a goal of its own, or from a script."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast

from dokimos.core.conversation import ConversationTrajectory, Message
from dokimos.core.jsonable import text_form
from dokimos.errors import ConfigurationError, JudgeReplyError
from dokimos.evaluators.llm.case_sections import number_lines
from dokimos.evaluators.setting_checks import check_text
from dokimos.judges.ask import ask
from dokimos.judges.judge_calls import complete
from dokimos.judges.protocol import JudgeLike, JudgeLM, as_judge
from dokimos.simulation.parties import GOAL, GOAL_REASON, INITIAL, OPEN

Facts: TypeAlias = Mapping[str, Any] | Sequence[str]
"""What a simulated user knows: named values, or sentences."""

ORDINARY: Final = "an ordinary user of this assistant"

_LABELS: Final = {"user": "You", "assistant": "Assistant", "system": "System"}
_STANDINGS: Final = (
    "The wish is one of these:\n"
    "- reached: the assistant has done or told everything that the human wants; a promise or a question is "
    "not enough. The human then says a short last word\n"
    "- given_up: the assistant has said that it cannot or will not help; a question is no reason to give up\n"
    "- open: anything else"
)
_LABELLED: Final = re.compile(r"^(?:\|\s*)?(?:\[\d+\]\s*)?(?:You|User):\s*", re.IGNORECASE)
_QUOTED: Final = re.compile(r'"([^"]*)"|“([^“”]*)”')


@dataclass(frozen=True, kw_only=True)
class LLMSimulatedUser:
    """A user whose part a model plays, in character from message to message. One call for each message."""

    judge: JudgeLike
    """Who plays: a model such as `openai:gpt-5-mini`, a `JudgeLM` or a function of the prompt."""
    persona: str = ORDINARY
    """Who the user is: "an impatient customer in a hurry"."""
    guidelines: str = ""
    """How the user behaves, a line for each rule."""
    system_prompt: str | None = None
    """Instructions that replace those made of persona and guidelines."""
    fixed_responses: tuple[str, ...] = ()
    """What the user says first, message by message, before the model takes over."""

    def __post_init__(self) -> None:
        _prepare(self)
        if self.system_prompt is not None:
            check_text(self, "system_prompt", self.system_prompt.strip())

    async def __call__(self, trajectory: ConversationTrajectory) -> Message:
        """Return the user's next message. Raises `JudgeReplyError` where the model gives none."""
        fixed = _scripted(self.fixed_responses, trajectory)
        if fixed is not None:
            return Message.user(fixed)
        reply = await complete(cast("JudgeLM", self.judge), self.prompt(trajectory))
        text = spoken(reply.text)
        if not text:
            raise JudgeReplyError("The model that plays the user gave an empty message.")
        return Message.user(text)

    def prompt(self, trajectory: ConversationTrajectory) -> str:
        """Return what the model is asked."""
        part = self.system_prompt or part_prompt(self.persona, self.guidelines)
        request = (
            f"{_now(trajectory)} Reply with the text of the message only: no label, no quotes, no comment."
        )
        return _joined(part, _situation(trajectory), _so_far(trajectory), request)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalReply:
    """What a model replies that plays a user with a goal."""

    human_says: str = ""
    """Comes first and is called so because weak models fall into the assistant's part."""
    reason: str = ""
    goal: Literal["open", "reached", "given_up"]


@dataclass(frozen=True, kw_only=True)
class GoalDrivenUser:
    """A user with a goal and facts that the application has to ask for, who says when the goal is reached.

    How the goal stands is under "goal" in the metadata of each message: "open", "reached" or "given_up"; the
    last two end the conversation. One call for each message.
    """

    judge: JudgeLike
    """Who plays: a model such as `openai:gpt-5-mini`, a `JudgeLM` or a function of the prompt."""
    goal: str
    """What the user wants, such that it can be told when it is reached."""
    facts: Facts = ()
    """What the user knows and tells when it is asked for, such as {"order number": "A-17"}."""
    persona: str = ORDINARY
    guidelines: str = ""
    fixed_responses: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _prepare(self)
        check_text(self, "goal", self.goal.strip())
        if not isinstance(self.facts, Mapping):
            object.__setattr__(self, "facts", _texts(self, "facts", self.facts))

    async def __call__(self, trajectory: ConversationTrajectory) -> Message:
        """Return the user's next message. Raises `JudgeReplyError` where the model's reply cannot be used."""
        fixed = _scripted(self.fixed_responses, trajectory)
        if fixed is not None:
            return Message.user(fixed, **{GOAL: OPEN})
        answered = trajectory.last_assistant_message is not None
        reply = await ask(
            cast("JudgeLM", self.judge),
            self.prompt(trajectory),
            GoalReply,
            check=lambda reply: _check_goal(reply, answered=answered),
        )
        metadata = {GOAL: reply.goal, GOAL_REASON: reply.reason.strip()}
        return Message.user(spoken(reply.human_says), **metadata)

    def prompt(self, trajectory: ConversationTrajectory) -> str:
        """Return what the model is asked."""
        known = _listed(self.facts)
        facts = known and (
            "The human knows this, and the assistant does not. The human tells each of these when the "
            "assistant asks for it or cannot go on without it, never all at once, and makes nothing up "
            f"beside them:\n{known}"
        )
        parts = (
            part_prompt(self.persona, self.guidelines),
            _situation(trajectory),
            f"The human wants this: {self.goal}\n{_STANDINGS}",
            facts,
            _so_far(trajectory),
            f"{_now(trajectory)} If the assistant has just asked for something that the human knows, the "
            "human tells it. Then give in a few words the reason for how the wish stands, and how it stands.",
        )
        return _joined(*parts)


@dataclass(frozen=True)
class ScriptedUser:
    """A user who says the same things in every conversation, and then has nothing more to say."""

    messages: tuple[str, ...]
    """What the user says, in order; an initial message of the simulator comes before them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "messages", _texts(self, "messages", self.messages))

    def __call__(self, trajectory: ConversationTrajectory) -> str | None:
        """Return the next message of the script, None at its end."""
        return _scripted(self.messages, trajectory)


def part_prompt(persona: str, guidelines: str) -> str:
    """Return the sentences that tell a model whose part to write.

    In the third person: told to be the human, weak models still speak as the assistant that they are.
    """
    part = (
        "Write the human's part in a conversation between a human and an AI assistant. The human is "
        f"{persona.strip().rstrip('.')}. It is the human who wants something, and the assistant who helps."
    )
    return f"{part}\nHow the human behaves:\n{guidelines.strip()}" if guidelines.strip() else part


def spoken(text: str) -> str:
    """Return a message without the label and quotes that models put around it."""
    text = _LABELLED.sub("", text.strip(), count=1).strip()
    found = _QUOTED.fullmatch(text)
    return (found[1] or found[2] or "").strip() if found else text


def _prepare(user: LLMSimulatedUser | GoalDrivenUser) -> None:
    object.__setattr__(user, "judge", as_judge(user.judge))
    object.__setattr__(user, "fixed_responses", _texts(user, "fixed_responses", user.fixed_responses))
    check_text(user, "persona", user.persona.strip())


def _texts(owner: object, field: str, given: Any) -> tuple[str, ...]:
    if isinstance(given, str) or not all(isinstance(text, str) for text in given):
        raise ConfigurationError(
            f"{type(owner).__name__}: {field} must be a list of texts, not {given!r:.80}."
        )
    return tuple(given)


def _scripted(texts: Sequence[str], trajectory: ConversationTrajectory) -> str | None:
    """Return the next of the prepared messages; the simulator's initial message uses none of them up."""
    if not texts:
        return None
    said = sum(INITIAL not in message.metadata for message in trajectory.user_messages)
    return texts[said] if said < len(texts) else None


def _check_goal(reply: GoalReply, *, answered: bool) -> None:
    if reply.goal != OPEN and not answered:
        raise ValueError("the goal must be open before the assistant has said anything")
    if reply.goal == OPEN and not spoken(reply.human_says):
        raise ValueError("human_says must not be empty while the goal is open")


def _situation(trajectory: ConversationTrajectory) -> str:
    return f"The situation: {trajectory.scenario}" if trajectory.scenario else ""


def _so_far(trajectory: ConversationTrajectory) -> str:
    """Return the transcript, one line for each message, so that no message can contain another."""
    if not trajectory.messages:
        return ""
    lines = [f"{_LABELS[message.role]}: {message.content}" for message in trajectory.messages]
    return f'The lines of the human are marked "You".\n{number_lines("Conversation so far", lines)}'


def _now(trajectory: ConversationTrajectory) -> str:
    if not trajectory.messages:
        return "The conversation has not begun. Write the human's first message."
    return "Now write what the human says next to the assistant."


def _listed(facts: Facts) -> str:
    if isinstance(facts, Mapping):
        return "\n".join(f"- {name}: {text_form(value)}" for name, value in facts.items())
    return "\n".join(f"- {fact}" for fact in facts)


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)
