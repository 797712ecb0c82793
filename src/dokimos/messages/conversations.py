"""From the messages of providers and frameworks to a trace or a conversation of ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dokimos.core.agent import AgentTrace, ToolCall
from dokimos.core.conversation import Message, Role
from dokimos.core.keys import CALL_ERROR, CALL_ID
from dokimos.core.text import quote
from dokimos.messages.neutral import NeutralCall, NeutralMessage, ResultMatcher, format_result, to_tool_call
from dokimos.messages.parsing import PlainCall, parse_message, parse_plain_calls, parse_plain_message


def parse_trace(messages: Iterable[Mapping[str, Any]], *, keep_ids: bool = False) -> AgentTrace:
    """Read tool calls, their results, reasoning and the final response. Raises `ValueError`.

    `keep_ids` keeps the ids of the calls in their metadata.
    """
    calls = _Calls(keep_ids)
    reasoning: list[str] = []
    response: str | None = None
    for place, message in enumerate(messages):
        plain = parse_plain_calls(message)
        if plain:
            response = None
            calls.add_plain(plain)
            continue
        text = parse_plain_message(message)
        for told in _told(message, place) if text is None else (text,):
            if told.result is not None:
                calls.answers.add(told.result)
            elif told.role == "assistant":
                response = None if told.calls else told.text or response
                reasoning += told.reasoning
                calls.add(told.calls)
            elif told.role == "user":
                calls.answers.end_turn()
    return AgentTrace(tuple(calls.finish()), response, reasoning_steps=tuple(reasoning))


def parse_conversation(messages: Iterable[Mapping[str, Any] | Message]) -> tuple[Message, ...]:
    """Read messages, each in whatever known form it has. Raises `ValueError` naming the message."""
    calls = _Calls()
    said: list[_Said] = []
    for place, message in enumerate(messages):
        if isinstance(message, Message):
            _add(said, _Said(message.role, message.content, list(message.tool_calls), message.metadata))
            continue
        for told in _told(message, place):
            if told.result is not None:
                calls.answers.add(told.result)
            elif told.role != "tool" and (told.text or told.calls or not told.reasoning):
                if told.role == "user":
                    calls.answers.end_turn()
                first = len(calls.made)
                calls.add(told.calls)
                places = list(range(first, len(calls.made)))
                _add(said, _Said(Role(told.role), told.text, places, told.metadata))
    made = calls.finish()
    return tuple(each.finish(made) for each in said)


@dataclass(slots=True)
class _Calls:
    """The calls so far; their results are put to them at the end."""

    keep_ids: bool = False
    made: list[ToolCall] = field(default_factory=list)
    answers: ResultMatcher = field(default_factory=ResultMatcher)

    def add(self, calls: Iterable[NeutralCall]) -> None:
        for call in calls:
            self.answers.expect(call.name, call.id)
            result = format_result(call.result)
            metadata = {**call.metadata, CALL_ID: call.id} if self.keep_ids and call.id else call.metadata
            self.made.append(to_tool_call(call, call.arguments, result, metadata))

    def add_plain(self, calls: Iterable[PlainCall]) -> None:
        for name, arguments, identity in calls:
            self.answers.expect(name, identity)
            metadata = {CALL_ID: identity} if self.keep_ids else None
            self.made.append(ToolCall.of_text(name, arguments, metadata=metadata))

    def finish(self) -> list[ToolCall]:
        for place, result in self.answers.results.items():
            # Nobody else has seen the call yet, so that it may still be completed.
            call = self.made[place]
            object.__setattr__(call, "result", format_result(result.value))
            if result.failed:
                object.__setattr__(call, "metadata", {**call.metadata, CALL_ERROR: True})
        return self.made


def _told(message: Any, place: int) -> list[NeutralMessage]:
    """Return what a message tells, in order."""
    if not isinstance(message, Mapping):
        raise ValueError(f"messages[{place}] must be a map with role and content, not {quote(message)}.")
    try:
        return parse_message(message)
    except (ValueError, TypeError) as cause:
        raise ValueError(f"messages[{place}]: {cause}") from cause


@dataclass(slots=True)
class _Said:
    """A message whose calls may still be answered: each is one of ours, or the place of one among all."""

    role: Role
    text: str
    calls: Sequence[ToolCall | int]
    metadata: Mapping[str, Any]

    def finish(self, calls: Sequence[ToolCall]) -> Message:
        mine = [calls[call] if isinstance(call, int) else call for call in self.calls]
        return Message(self.role, self.text, tool_calls=tuple(mine), metadata=self.metadata)


def _add(said: list[_Said], message: _Said) -> None:
    """Add a message; one that only called tools becomes one with the assistant's next."""
    last = said[-1] if said else None
    if last is not None and last.calls and not last.text and message.role is Role.ASSISTANT:
        message.calls = [*last.calls, *message.calls]
        message.metadata = {**last.metadata, **message.metadata}
        said[-1] = message
    else:
        said.append(message)
