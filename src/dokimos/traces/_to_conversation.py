"""Converts spans to conversations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dokimos._core.agent import ToolCall
from dokimos._core.conversation import ConversationTrajectory, Message
from dokimos._core.keys import CALL_ERROR, END_REASON
from dokimos.traces._call_matching import collect_calls
from dokimos.traces._run_ending import find_ending, has_run
from dokimos.traces._span import Span, group_by_trace
from dokimos.traces._to_agent_trace import conversation_id, to_agent_trace
from dokimos.traces._transcript import Entry, Thread, Transcript


def to_conversation(spans: Iterable[Span]) -> ConversationTrajectory:
    """Return the conversation in these spans, which may be of several traces, such as one for each turn.

    It has the messages of the user and the outermost agent, with the history that the model was sent, and not
    those of agents below it. A message that only calls tools is joined with the next one of the assistant.
    """
    return _build_conversation([Transcript.of(group) for group in _sort_traces(spans)])


def to_conversations(spans: Iterable[Span]) -> dict[str, ConversationTrajectory]:
    """Return all conversations, by the id that spans give to them, or by trace id where they give none."""
    grouped: dict[str, list[Transcript]] = {}
    for group in _sort_traces(spans):
        transcript = Transcript.of(group)
        if not has_run(transcript):
            continue
        key = conversation_id(transcript) or transcript.tree.spans[0].trace_id
        grouped.setdefault(key, []).append(transcript)
    return {key: _build_conversation(transcripts) for key, transcripts in grouped.items()}


def _sort_traces(spans: Iterable[Span]) -> list[tuple[Span, ...]]:
    return sorted(group_by_trace(spans).values(), key=lambda group: group[0].start_ns or 0)


def _build_conversation(transcripts: Sequence[Transcript]) -> ConversationTrajectory:
    messages: list[Message] = []
    previous: Thread | None = None
    for transcript in transcripts:
        thread = transcript.main
        if thread is None:
            messages += _messages_of_root(transcript)
            continue
        if previous is None:
            messages += [Message.system(text) for text in thread.system]
        # The model of a later turn was sent the earlier ones again; what traces before this one have is not
        # added twice.
        history = thread.keys[: thread.start]
        new = None if previous is None else previous.find_new(history)
        messages += _build_messages(thread.entries[new or 0 :], _calls_by_entry(transcript))
        previous = thread
    return ConversationTrajectory(tuple(messages), metadata=dict(_metadata(transcripts)))


def _metadata(transcripts: Sequence[Transcript]) -> Iterator[tuple[str, Any]]:
    ids = (conversation_id(transcript) for transcript in transcripts)
    id_ = next((each for each in ids if each is not None), None)
    if id_ is not None:
        yield "conversationId", id_
    error = find_ending(transcripts[-1]).error if transcripts else None
    if error is not None:
        yield END_REASON, "error"
        yield CALL_ERROR, error


def _calls_by_entry(transcript: Transcript) -> dict[int, list[ToolCall]]:
    """Return the calls of each message with their results, by the identity of its entry."""
    by_entry: dict[int, list[ToolCall]] = {}
    for call in collect_calls(transcript):
        if call.entry is not None:
            by_entry.setdefault(id(call.entry), []).append(call.build())
    return by_entry


def _build_messages(entries: Iterable[Entry], calls: Mapping[int, Sequence[ToolCall]]) -> list[Message]:
    messages: list[Message] = []
    pending_calls: list[ToolCall] = []
    for entry in entries:
        message = entry.message
        own_calls = calls.get(id(entry), ())
        if message.role == "assistant" and (message.text or own_calls):
            pending_calls += own_calls
            if message.text:
                messages.append(Message.assistant(message.text, pending_calls))
                pending_calls = []
        elif message.role == "user":
            if pending_calls:
                messages.append(Message.assistant("", pending_calls))
                pending_calls = []
            messages.append(Message.user(message.text))
    return [*messages, Message.assistant("", pending_calls)] if pending_calls else messages


def _messages_of_root(transcript: Transcript) -> list[Message]:
    """Return the messages of a trace that has texts at its root but no messages."""
    root = (transcript.tree.roots or transcript.tree.spans)[0]
    question = transcript.content(root).input_text
    trace = to_agent_trace(transcript.tree.spans)
    messages = [] if question is None else [Message.user(question)]
    if trace.final_response is None and not trace.tool_calls:
        return messages
    return [*messages, Message.assistant(trace.final_response or "", trace.tool_calls)]
