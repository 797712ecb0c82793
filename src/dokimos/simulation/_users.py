"""Simulated users: played by a model, by a model with a goal of its own, or from a script."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast

from dokimos._core.conversation import ConversationTrajectory, Message
from dokimos._core.jsonable import text_form
from dokimos.errors import ConfigurationError, JudgeReplyError
from dokimos.evaluators._llm.case_sections import number_lines
from dokimos.evaluators._setting_checks import check_text
from dokimos.judges._ask import ask
from dokimos.judges._judge_calls import complete
from dokimos.judges._protocol import JudgeLike, JudgeLM, as_judge
from dokimos.simulation._sides import GOAL, GOAL_REASON, INITIAL, OPEN

Facts: TypeAlias = Mapping[str, Any] | Sequence[str]
"""What a simulated user knows: named values or sentences."""

ORDINARY: Final = "an ordinary user of this assistant"

_LABELS: Final = {"user": "You", "assistant": "Assistant", "system": "System"}
_STANDINGS: Final = (
    "The wish is one of these:\n"
    "- reached: the assistant has done or told everything that the human wants; a promise or a question is "
    "not enough. The human then says a short last word\n"
    "- given_up: the assistant has said that it cannot or will not help; a question is no reason to give up\n"
    "- open: anything else"
)
# Models repeat the form of the transcript that they are shown, such as "| [3] You: ".
_LABEL: Final = re.compile(r"^(?:\|\s*)?(?:\[\d+\]\s*)?(?:You|User):\s*", re.IGNORECASE)
# Without quotes inside: a message may begin with one quotation and end with another.
_QUOTED: Final = re.compile(r'"([^"]*)"|“([^“”]*)”')


@dataclass(frozen=True, kw_only=True)
class LLMSimulatedUser:
    """A user played by a model, in character from message to message. Each message takes one model call."""

    judge: JudgeLike
    """Who plays: a model such as `openai:gpt-5-mini`, a `JudgeLM` or a function of the prompt."""
    persona: str = ORDINARY
    """Who the user is: "an impatient customer in a hurry"."""
    guidelines: str = ""
    """How the user behaves, a line for each rule."""
    system_prompt: str | None = None
    """Instructions that replace those built from persona and guidelines."""
    fixed_responses: tuple[str, ...] = ()
    """The first messages of the user, in order, before the model takes over."""

    def __post_init__(self) -> None:
        _prepare(self)
        if self.system_prompt is not None:
            check_text(self, "system_prompt", self.system_prompt.strip())

    async def __call__(self, trajectory: ConversationTrajectory) -> Message:
        """Return the user's next message. Raises `JudgeReplyError` if the model's reply is empty."""
        fixed = _next_scripted(self.fixed_responses, trajectory)
        if fixed is not None:
            return Message.user(fixed)
        reply = await complete(cast("JudgeLM", self.judge), self.prompt(trajectory))
        text = strip_label(reply.text)
        if not text:
            raise JudgeReplyError("The model that plays the user gave an empty message.")
        return Message.user(text)

    def prompt(self, trajectory: ConversationTrajectory) -> str:
        """Return what the model is asked."""
        part = self.system_prompt or part_prompt(self.persona, self.guidelines)
        next_message = _next_message_part(trajectory)
        request = f"{next_message} Reply with the text of the message only: no label, no quotes, no comment."
        return _join_parts(part, _situation_part(trajectory), _transcript_part(trajectory), request)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalReply:
    """The reply of a model that plays a user with a goal."""

    human_says: str = ""
    """Comes first and is called so because weak models fall into the assistant's part."""
    reason: str = ""
    goal: Literal["open", "reached", "given_up"]


@dataclass(frozen=True, kw_only=True)
class GoalDrivenUser:
    """A user with a goal, and with facts that the application has to ask for, who says when it is reached.

    The metadata of each message holds the state of the goal under "goal": "open", "reached" or "given_up".
    The last two end the conversation. Each message takes one model call.
    """

    judge: JudgeLike
    """Who plays: a model such as `openai:gpt-5-mini`, a `JudgeLM` or a function of the prompt."""
    goal: str
    """What the user wants, specific enough to say when it is reached."""
    facts: Facts = ()
    """What the user knows and tells when asked, such as {"order number": "A-17"}."""
    persona: str = ORDINARY
    guidelines: str = ""
    fixed_responses: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _prepare(self)
        check_text(self, "goal", self.goal.strip())
        if not isinstance(self.facts, Mapping):
            object.__setattr__(self, "facts", _texts(self, "facts", self.facts))

    async def __call__(self, trajectory: ConversationTrajectory) -> Message:
        """Return the user's next message. Raises `JudgeReplyError` if the model's reply is unusable."""
        fixed = _next_scripted(self.fixed_responses, trajectory)
        if fixed is not None:
            return Message.user(fixed, **{GOAL: OPEN})
        # Weak models call the goal reached before anybody has answered.
        answered = trajectory.last_assistant_message is not None
        reply = await ask(
            cast("JudgeLM", self.judge),
            self.prompt(trajectory),
            GoalReply,
            check=lambda reply: _check_goal(reply, answered=answered),
            reply_name="The reply of the model that plays the user",
        )
        metadata = {GOAL: reply.goal, GOAL_REASON: reply.reason.strip()}
        return Message.user(strip_label(reply.human_says), **metadata)

    def prompt(self, trajectory: ConversationTrajectory) -> str:
        """Return what the model is asked."""
        facts_text = _format_facts(self.facts)
        next_message = _next_message_part(trajectory)
        facts = facts_text and (
            "The human knows this, and the assistant does not. The human tells each of these when the "
            "assistant asks for it or cannot go on without it, never all at once, and makes nothing up "
            f"beside them:\n{facts_text}"
        )
        parts = (
            part_prompt(self.persona, self.guidelines),
            _situation_part(trajectory),
            f"The human wants this: {self.goal}\n{_STANDINGS}",
            facts,
            _transcript_part(trajectory),
            f"{next_message} If the assistant has just asked for something that the human knows, the "
            "human tells it. Then give in a few words the reason for how the wish stands, and how it stands.",
        )
        return _join_parts(*parts)


@dataclass(frozen=True)
class ScriptedUser:
    """A user who sends the same messages in every conversation, and ends it after the last one."""

    messages: tuple[str, ...]
    """The messages in order; an initial message of the simulator comes before them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "messages", _texts(self, "messages", self.messages))

    def __call__(self, trajectory: ConversationTrajectory) -> str | None:
        """Return the next message of the script, None at its end."""
        return _next_scripted(self.messages, trajectory)


def part_prompt(persona: str, guidelines: str) -> str:
    """Return the sentences that tell a model whose part to write.

    They are in the third person: weak models that are told to be the human still speak as the assistant.
    """
    part = (
        "Write the human's part in a conversation between a human and an AI assistant. The human is "
        f"{persona.strip().rstrip('.')}. It is the human who wants something, and the assistant who helps."
    )
    return f"{part}\nHow the human behaves:\n{guidelines.strip()}" if guidelines.strip() else part


def strip_label(text: str) -> str:
    """Return a message without the label and the quotes that models put around it."""
    text = _LABEL.sub("", text.strip(), count=1).strip()
    match = _QUOTED.fullmatch(text)
    return (match[1] or match[2] or "").strip() if match else text


def _prepare(user: LLMSimulatedUser | GoalDrivenUser) -> None:
    object.__setattr__(user, "judge", as_judge(user.judge))
    object.__setattr__(user, "fixed_responses", _texts(user, "fixed_responses", user.fixed_responses))
    check_text(user, "persona", user.persona.strip())


def _texts(owner: object, field: str, values: Any) -> tuple[str, ...]:
    if isinstance(values, str) or not all(isinstance(text, str) for text in values):
        raise ConfigurationError(
            f"{type(owner).__name__}: {field} must be a list of texts, not {values!r:.80}."
        )
    return tuple(values)


def _next_scripted(texts: Sequence[str], trajectory: ConversationTrajectory) -> str | None:
    """Return the next of the prepared messages; the simulator's initial message does not count as one."""
    if not texts:
        return None
    sent_count = sum(INITIAL not in message.metadata for message in trajectory.user_messages)
    return texts[sent_count] if sent_count < len(texts) else None


def _check_goal(reply: GoalReply, *, answered: bool) -> None:
    if reply.goal != OPEN and not answered:
        raise ValueError("the goal must be open before the assistant has said anything")
    if reply.goal == OPEN and not strip_label(reply.human_says):
        raise ValueError("human_says must not be empty while the goal is open")


def _situation_part(trajectory: ConversationTrajectory) -> str:
    return f"The situation: {trajectory.scenario}" if trajectory.scenario else ""


def _transcript_part(trajectory: ConversationTrajectory) -> str:
    """Return the transcript with one line per message, so that no message can pass for several."""
    if not trajectory.messages:
        return ""
    lines = [f"{_LABELS[message.role]}: {message.content}" for message in trajectory.messages]
    return f'The lines of the human are marked "You".\n{number_lines("Conversation so far", lines)}'


def _next_message_part(trajectory: ConversationTrajectory) -> str:
    if not trajectory.messages:
        return "The conversation has not begun. Write the human's first message."
    return "Now write what the human says next to the assistant."


def _format_facts(facts: Facts) -> str:
    if isinstance(facts, Mapping):
        return "\n".join(f"- {name}: {text_form(value)}" for name, value in facts.items())
    return "\n".join(f"- {fact}" for fact in facts)


def _join_parts(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)
