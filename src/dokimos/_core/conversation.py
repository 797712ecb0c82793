"""A conversation: what was said by whom, and the tools that were called on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal, TypeAlias, TypeGuard

from dokimos._core.agent import AgentTrace, ToolCall
from dokimos._core.jsonable import WIRE_CONFIG, jsonable, pretty_json, text_form
from dokimos._core.keys import (
    BROKEN_OFF,
    CALL_ERROR,
    END_REASON,
    INPUT,
    TASKS,
    TOOL_CALLS,
    TOOLS,
    TRAJECTORY,
)
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import quote
from dokimos._core.tool_definition import ToolDefinition
from dokimos.errors import EvaluationError

MessageFormat: TypeAlias = Literal[
    "openai", "openai-responses", "anthropic", "gemini", "bedrock", "langchain", "otel"
]
"""The dialects in which `ConversationTrajectory.to_messages` writes a conversation."""

ToolCallStyle: TypeAlias = Literal["full", "names", "none"]
"""How tool calls stand in a transcript: with their arguments, by name only, or not at all."""

Application: TypeAlias = Callable[["ConversationTrajectory"], Any]
"""The application under test: takes the conversation so far and returns its reply, sync or async.

The reply is text, a `Message`, an `AgentTrace`, a `TaskResult` or a mapping of outputs.
"""


class Role(StrEnum):
    """Who speaks.

    Example:
        >>> Role("user")
        <Role.USER: 'user'>
    """

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Message:
    """What one side says, with the tools that it called to say it.

    Example:
        >>> Message.user("Hello").content
        'Hello'
    """

    role: Role
    content: str
    _: KW_ONLY
    tool_calls: tuple[ToolCall, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    __pydantic_config__ = WIRE_CONFIG

    def __post_init__(self) -> None:
        if type(self.role) is not Role:
            object.__setattr__(self, "role", Role(self.role))
        if not isinstance(self.content, str):
            raise ValueError(f"The content of a message must be text, not {quote(self.content)}.")
        object.__setattr__(self, "tool_calls", tuple(self.tool_calls))
        for call in self.tool_calls:
            if not isinstance(call, ToolCall):
                raise ValueError(f"The tool calls of a message must be ToolCalls, not {quote(call)}.")

    @classmethod
    def user(cls, content: str, **metadata: Any) -> Message:
        """Make a message of the user."""
        return cls(Role.USER, content, metadata=metadata)

    @classmethod
    def assistant(cls, content: str, tool_calls: Iterable[ToolCall] = (), **metadata: Any) -> Message:
        """Make a message of the assistant, with the calls that it made in this turn."""
        return cls(Role.ASSISTANT, content, tool_calls=tuple(tool_calls), metadata=metadata)

    @classmethod
    def system(cls, content: str, **metadata: Any) -> Message:
        """Make a system message."""
        return cls(Role.SYSTEM, content, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One reply of the assistant, and what led to it.

    Example:
        >>> talk = ConversationTrajectory((Message.user("Hello"), Message.assistant("Hi!")))
        >>> [type(turn).__name__ for turn in talk.turns()]
        ['Turn']
    """

    index: int
    """The reply's place among the assistant's messages, from 0."""
    user: str | None
    """What the user said since the reply before, None where the assistant spoke unasked."""
    reply: Message
    before: tuple[Message, ...]
    """All messages before the reply."""


@dataclass(frozen=True, slots=True)
class ConversationTrajectory:
    """A conversation from its first message to its last.

    Example:
        >>> talk = ConversationTrajectory.from_messages(
        ...     [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}]
        ... )
        >>> [str(message.role) for message in talk.messages]
        ['user', 'assistant']
    """

    messages: tuple[Message, ...] = ()
    scenario: str = ""
    """What the conversation is about; the application never needs it."""
    _: KW_ONLY
    metadata: Mapping[str, Any] = field(default_factory=dict)

    __pydantic_config__ = WIRE_CONFIG

    def __post_init__(self) -> None:
        object.__setattr__(self, "messages", tuple(self.messages))
        for message in self.messages:
            if not isinstance(message, Message):
                raise ValueError(f"A conversation consists of Messages, not of {quote(message)}.")

    @classmethod
    def from_messages(
        cls, messages: Iterable[Mapping[str, Any] | Message], scenario: str = "", **metadata: Any
    ) -> ConversationTrajectory:
        """Read messages in any known form: those of `to_messages` or our own, whichever each one has.

        Tools that OpenAI, Anthropic or Gemini run themselves are calls too. Results go to the calls that they
        answer, by id, or without an id to the only open call of the turn that they can belong to. A message
        that only calls tools becomes one with the assistant's next. Raises `ValueError`, naming the message.
        """
        from dokimos._messages.conversations import parse_conversation

        return cls(parse_conversation(messages), scenario, metadata=metadata)

    def with_message(self, message: Message) -> ConversationTrajectory:
        """Return the conversation with one more message."""
        return ConversationTrajectory((*self.messages, message), self.scenario, metadata=self.metadata)

    @property
    def turn_count(self) -> int:
        """How often the user spoke and was answered: the smaller number of messages of the two."""
        roles = [message.role for message in self.messages]
        return min(roles.count(Role.USER), roles.count(Role.ASSISTANT))

    @property
    def user_messages(self) -> tuple[Message, ...]:
        return self._by(Role.USER)

    @property
    def assistant_messages(self) -> tuple[Message, ...]:
        return self._by(Role.ASSISTANT)

    @property
    def system_messages(self) -> tuple[Message, ...]:
        return self._by(Role.SYSTEM)

    @property
    def system_prompt(self) -> str:
        """All system messages as one text, for interfaces that take it apart from the messages."""
        return "\n\n".join(message.content for message in self.system_messages)

    @property
    def last_message(self) -> Message | None:
        return self.messages[-1] if self.messages else None

    @property
    def last_user_message(self) -> Message | None:
        return next((m for m in reversed(self.messages) if m.role is Role.USER), None)

    @property
    def last_assistant_message(self) -> Message | None:
        return next((m for m in reversed(self.messages) if m.role is Role.ASSISTANT), None)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls of all of the assistant's messages, in order."""
        return tuple(call for calls in self.tool_calls_by_turn() for call in calls)

    def tool_calls_by_turn(self) -> tuple[tuple[ToolCall, ...], ...]:
        """Return the calls of each of the assistant's messages, none for one that called nothing."""
        return tuple(message.tool_calls for message in self.assistant_messages)

    def turns(self) -> tuple[Turn, ...]:
        """Return one turn for each of the assistant's messages."""
        turns: list[Turn] = []
        questions: list[str] = []
        for index, message in enumerate(self.messages):
            if message.role is Role.USER:
                # Several messages of the user before one reply are one question.
                questions.append(message.content)
            elif message.role is Role.ASSISTANT:
                user = "\n\n".join(questions) if questions else None
                before = self.messages[:index]
                turns.append(Turn(index=len(turns), user=user, reply=message, before=before))
                questions = []
        return tuple(turns)

    def to_text(self, *, tool_calls: ToolCallStyle = "full") -> str:
        """Return the transcript: the scenario, then each message under its role, with its tool calls."""
        parts = [f"Scenario: {self.scenario}"] if self.scenario else []
        parts += [_message_text(message, tool_calls) for message in self.messages]
        return "\n\n".join(parts).rstrip()

    def to_json(self) -> str:
        """Return the conversation as indented JSON, to look at; `from_json` reads it back."""
        tree = {
            "scenario": self.scenario,
            "turnCount": self.turn_count,
            "messages": [_message_tree(message) for message in self.messages],
            "metadata": self.metadata,
        }
        return pretty_json(jsonable(tree))

    def to_messages(self, form: MessageFormat = "openai") -> list[dict[str, Any]]:
        """Return the conversation as plain messages in the form that a provider or framework takes.

        Forms: "openai" (Chat Completions), "openai-responses", "anthropic", "gemini", "bedrock", "langchain"
        and "otel" (GenAI semantic conventions). The calls of a message come before its text, each with its
        result, which is empty where it is not known. "anthropic", "gemini" and "bedrock" take system messages
        elsewhere: see `system_prompt`. Raises `ValueError` for another form.
        """
        from dokimos._messages.formats import format_messages

        return format_messages(form, self.messages)

    @property
    def error(self) -> str | None:
        """Why it broke off, None where it did not: by an error or a time-out, as `endReason` says."""
        reason = self.metadata.get(END_REASON)
        if reason not in BROKEN_OFF:
            return None
        return text_form(self.metadata.get(CALL_ERROR)) or f"the conversation broke off ({reason})"

    def to_agent_trace(self) -> AgentTrace:
        """Return the conversation as one trace: all calls, and the assistant's last message as the answer."""
        last = self.last_assistant_message
        return AgentTrace(
            self.tool_calls,
            last.content if last else "",
            metadata={"scenario": self.scenario, "turnCount": self.turn_count},
        )

    def to_agent_outputs(self) -> dict[str, Any]:
        """Return the outputs of `to_agent_trace`."""
        return self.to_agent_trace().to_outputs()

    def to_outputs(self) -> dict[str, Any]:
        """Return what a task gives that returns a conversation: the agent's outputs and the conversation."""
        return {**self.to_agent_outputs(), TRAJECTORY: self}

    def to_test_case(
        self, tools: Iterable[ToolDefinition] | None = None, tasks: Iterable[str] | None = None
    ) -> EvalTestCase:
        """Return a case over the whole conversation.

        Without tasks it is for evaluators that follow rules: the input is the last user message. With tasks
        it is for judges: the input is the transcript, in which tools are only named, so that the arguments
        that are judged are not part of what they are judged by; the outputs are only the calls.
        """
        metadata = {} if tools is None else {TOOLS: list(tools)}
        if tasks is None:
            last = self.last_user_message
            inputs = {INPUT: last.content} if last else {}
            return EvalTestCase(inputs, self.to_agent_outputs(), metadata=metadata, error=self.error)
        return EvalTestCase(
            {INPUT: self.to_text(tool_calls="names")},
            {TOOL_CALLS: list(self.tool_calls)},
            metadata={**metadata, TASKS: [tasks] if isinstance(tasks, str) else list(tasks)},
            error=self.error,
        )

    def _by(self, role: Role) -> tuple[Message, ...]:
        return tuple(message for message in self.messages if message.role is role)


def parse_trajectory(value: object, *, key: str) -> ConversationTrajectory:
    """Read a conversation: as it is, as its JSON form, or as a list of messages.

    Raises:
        EvaluationError: naming `key`.
    """
    if isinstance(value, ConversationTrajectory):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        value = {"messages": value}
    if not _looks_like_conversation(value):
        raise EvaluationError(
            f"{key!r} must be a conversation, its JSON form or a list of messages, not {quote(value)}."
        )
    try:
        read = ConversationTrajectory.from_messages(value.get("messages", ()), value.get("scenario") or "")
    except ValueError as cause:
        raise EvaluationError(f"{key!r}: {cause}") from cause
    return replace(read, metadata=value.get("metadata") or {})


def _looks_like_conversation(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Say whether a value looks like the JSON form of a conversation, which leaves out what is empty."""
    if not isinstance(value, Mapping) or not isinstance(value.get("messages", []), Sequence):
        return False
    return "messages" in value or value.keys() <= {"scenario", "metadata"}


def call_text(call: ToolCall, style: ToolCallStyle = "full") -> str:
    """Return `get_weather({"city":"Paris"})`, or the name alone."""
    return f"{call.name}({arguments_text(call)})" if style == "full" else call.name


def arguments_text(call: ToolCall) -> str:
    """Return the arguments of a call as compact JSON, or what was written in their place."""
    if call.has_unknown_arguments:
        return "not recorded"
    return call.invalid_arguments or text_form(call.arguments) or ""


def _message_text(message: Message, tool_calls: ToolCallStyle) -> str:
    lines = [f"{message.role.upper()}: {message.content}"]
    if tool_calls != "none":
        lines += [f"  [tool: {call_text(call, tool_calls)}]" for call in message.tool_calls]
    return "\n".join(lines)


def _message_tree(message: Message) -> dict[str, Any]:
    tree = {"role": message.role, "content": message.content, "metadata": message.metadata}
    return {**tree, TOOL_CALLS: message.tool_calls} if message.tool_calls else tree
