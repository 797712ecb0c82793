"""From spans to conversations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dokimos.core.agent import ToolCall
from dokimos.core.conversation import ConversationTrajectory, Message
from dokimos.core.keys import CALL_ERROR, END_REASON
from dokimos.traces.calls import made_calls
from dokimos.traces.ending import find_ending, has_run
from dokimos.traces.span import Span, group_by_trace
from dokimos.traces.to_agent_trace import conversation_id, to_agent_trace
from dokimos.traces.transcript import Entry, Thread, Transcript


def to_conversation(spans: Iterable[Span]) -> ConversationTrajectory:
    """Return the conversation in these spans, which may be of several traces, such as one for each turn.

    It is what the user and the outermost agent said, with the history that the model was sent; what agents
    below it said is not part of it. A message that only calls tools becomes one with the assistant's next.
    """
    return _conversation_of([Transcript.of(found) for found in _in_order(spans)])


def to_conversations(spans: Iterable[Span]) -> dict[str, ConversationTrajectory]:
    """Return all conversations, by the id that spans give to them, or by trace id where they give none."""
    grouped: dict[str, list[Transcript]] = {}
    for found in _in_order(spans):
        transcript = Transcript.of(found)
        if not has_run(transcript):
            continue
        key = conversation_id(transcript) or transcript.tree.spans[0].trace_id
        grouped.setdefault(key, []).append(transcript)
    return {key: _conversation_of(transcripts) for key, transcripts in grouped.items()}


def _in_order(spans: Iterable[Span]) -> list[tuple[Span, ...]]:
    return sorted(group_by_trace(spans).values(), key=lambda found: found[0].start_ns or 0)


def _conversation_of(transcripts: Sequence[Transcript]) -> ConversationTrajectory:
    messages: list[Message] = []
    before: Thread | None = None
    for transcript in transcripts:
        thread = transcript.main
        if thread is None:
            messages += _plain_messages(transcript)
            continue
        if before is None:
            messages += [Message.system(text) for text in thread.system]
        known = before.new_in(thread.keys[: thread.start]) if before is not None else None
        messages += _messages(thread.entries[known or 0 :], _calls_by_entry(transcript))
        before = thread
    return ConversationTrajectory(tuple(messages), metadata=dict(_metadata(transcripts)))


def _metadata(transcripts: Sequence[Transcript]) -> Iterator[tuple[str, Any]]:
    named = (conversation_id(transcript) for transcript in transcripts)
    identity = next((each for each in named if each is not None), None)
    if identity is not None:
        yield "conversationId", identity
    error = find_ending(transcripts[-1]).error if transcripts else None
    if error is not None:
        yield END_REASON, "error"
        yield CALL_ERROR, error


def _calls_by_entry(transcript: Transcript) -> dict[int, list[ToolCall]]:
    """Return the finished calls of each message, by the identity of its entry."""
    found: dict[int, list[ToolCall]] = {}
    for call in made_calls(transcript):
        if call.entry is not None:
            found.setdefault(id(call.entry), []).append(call.finished())
    return found


def _messages(entries: Iterable[Entry], calls: Mapping[int, Sequence[ToolCall]]) -> list[Message]:
    messages: list[Message] = []
    waiting: list[ToolCall] = []
    for entry in entries:
        told = entry.message
        made = calls.get(id(entry), ())
        if told.role == "assistant" and (told.text or made):
            waiting += made
            if told.text:
                messages.append(Message.assistant(told.text, waiting))
                waiting = []
        elif told.role == "user":
            if waiting:
                messages.append(Message.assistant("", waiting))
                waiting = []
            messages.append(Message.user(told.text))
    return [*messages, Message.assistant("", waiting)] if waiting else messages


def _plain_messages(transcript: Transcript) -> list[Message]:
    """Return what a trace says that has texts at its root but no messages."""
    root = (transcript.tree.roots or transcript.tree.spans)[0]
    asked = transcript.reading(root).input_text
    trace = to_agent_trace(transcript.tree.spans)
    said = [] if asked is None else [Message.user(asked)]
    if trace.final_response is None and not trace.tool_calls:
        return said
    return [*said, Message.assistant(trace.final_response or "", trace.tool_calls)]
