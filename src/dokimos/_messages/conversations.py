"""Parse the messages of any provider or framework into an `AgentTrace` or a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dokimos._core.agent import AgentTrace, ToolCall
from dokimos._core.conversation import Message, Role
from dokimos._core.keys import CALL_ERROR, CALL_ID
from dokimos._core.text import quote
from dokimos._messages.neutral import NeutralCall, NeutralMessage, ResultMatcher, format_result, to_tool_call
from dokimos._messages.parsing import PlainCall, parse_message, parse_plain_calls, parse_plain_message


def parse_trace(messages: Iterable[Mapping[str, Any]], *, keep_ids: bool = False) -> AgentTrace:
    """Parse tool calls, their results, reasoning and the final response. Raises `ValueError`.

    `keep_ids` keeps the ids of the calls in their metadata.
    """
    calls = _CallCollector(keep_ids)
    reasoning: list[str] = []
    response: str | None = None
    for index, message in enumerate(messages):
        plain = parse_plain_calls(message)
        if plain:
            response = None
            calls.add_plain(plain)
            continue
        text = parse_plain_message(message)
        for neutral in _parse_message(message, index) if text is None else (text,):
            if neutral.result is not None:
                calls.matcher.add(neutral.result)
            elif neutral.role == "assistant":
                response = None if neutral.calls else neutral.text or response
                reasoning += neutral.reasoning
                calls.add(neutral.calls)
            elif neutral.role == "user":
                calls.matcher.end_turn()
    return AgentTrace(tuple(calls.attach_results()), response, reasoning_steps=tuple(reasoning))


def parse_conversation(messages: Iterable[Mapping[str, Any] | Message]) -> tuple[Message, ...]:
    """Read messages, each in whatever known form it has. Raises `ValueError` naming the message."""
    calls = _CallCollector()
    pending: list[_PendingMessage] = []
    for index, message in enumerate(messages):
        if isinstance(message, Message):
            _append(
                pending,
                _PendingMessage(message.role, message.content, list(message.tool_calls), message.metadata),
            )
            continue
        for neutral in _parse_message(message, index):
            if neutral.result is not None:
                calls.matcher.add(neutral.result)
            # What is nothing but reasoning was not said to anybody.
            elif neutral.role != "tool" and (neutral.text or neutral.calls or not neutral.reasoning):
                if neutral.role == "user":
                    calls.matcher.end_turn()
                first = len(calls.calls)
                calls.add(neutral.calls)
                indices = list(range(first, len(calls.calls)))
                _append(pending, _PendingMessage(Role(neutral.role), neutral.text, indices, neutral.metadata))
    resolved = calls.attach_results()
    return tuple(each.finish(resolved) for each in pending)


@dataclass(slots=True)
class _CallCollector:
    """Collects the calls; their results are attached at the end, when all of them are known."""

    keep_ids: bool = False
    calls: list[ToolCall] = field(default_factory=list)
    matcher: ResultMatcher = field(default_factory=ResultMatcher)

    def add(self, calls: Iterable[NeutralCall]) -> None:
        for call in calls:
            self.matcher.expect(call.name, call.id)
            result = format_result(call.result)
            metadata = {**call.metadata, CALL_ID: call.id} if self.keep_ids and call.id else call.metadata
            self.calls.append(to_tool_call(call, call.arguments, result, metadata))

    def add_plain(self, calls: Iterable[PlainCall]) -> None:
        for name, arguments, call_id in calls:
            self.matcher.expect(name, call_id)
            metadata = {CALL_ID: call_id} if self.keep_ids else None
            self.calls.append(ToolCall.of_text(name, arguments, metadata=metadata))

    def attach_results(self) -> list[ToolCall]:
        for index, result in self.matcher.results.items():
            # Nobody else has seen the call yet, so that it may still be completed.
            call = self.calls[index]
            object.__setattr__(call, "result", format_result(result.value))
            if result.failed:
                object.__setattr__(call, "metadata", {**call.metadata, CALL_ERROR: True})
        return self.calls


def _parse_message(message: object, index: int) -> list[NeutralMessage]:
    """Return the neutral messages of one message, naming its index in errors."""
    if not isinstance(message, Mapping):
        raise ValueError(f"messages[{index}] must be a map with role and content, not {quote(message)}.")
    try:
        return parse_message(message)
    except (ValueError, TypeError) as cause:
        raise ValueError(f"messages[{index}]: {cause}") from cause


@dataclass(slots=True)
class _PendingMessage:
    """A message whose calls may still get results: each is a `ToolCall`, or the index of one among all."""

    role: Role
    text: str
    calls: Sequence[ToolCall | int]
    metadata: Mapping[str, Any]

    def finish(self, calls: Sequence[ToolCall]) -> Message:
        own = [calls[call] if isinstance(call, int) else call for call in self.calls]
        return Message(self.role, self.text, tool_calls=tuple(own), metadata=self.metadata)


def _append(pending: list[_PendingMessage], message: _PendingMessage) -> None:
    """Add a message; one that only called tools becomes one with the assistant's next."""
    last = pending[-1] if pending else None
    if last is not None and last.calls and not last.text and message.role is Role.ASSISTANT:
        message.calls = [*last.calls, *message.calls]
        message.metadata = {**last.metadata, **message.metadata}
        pending[-1] = message
    else:
        pending.append(message)
