"""Matches the tool calls that models request in a trace to the tools that ran and to their results.

Results are matched as `ResultMatcher` says: by the id of the call, else to the only call of
the turn that fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dokimos._core.agent import ToolCall
from dokimos._core.jsonable import text_form
from dokimos._core.keys import CALL_ERROR, UNKNOWN_ARGUMENTS
from dokimos._messages.neutral import NeutralCall, NeutralResult, ResultMatcher, to_tool_call
from dokimos.traces._attributes import parse_literal
from dokimos.traces._semconv import SpanRole
from dokimos.traces._span import Span
from dokimos.traces._span_content import SpanContent
from dokimos.traces._span_messages import render_result
from dokimos.traces._transcript import Entry, Thread, Transcript

CALL_ID = "id"
"""In the metadata of a tool call: the id under which it was made."""


@dataclass(slots=True)
class TracedCall:
    """A call on its way to becoming a `ToolCall`."""

    request: NeutralCall
    time_ns: int
    entry: Entry | None = None
    """The message that made it; None for a tool that ran without a request."""
    is_earlier: bool = False
    """Whether it is only in the history that the model was sent, and was made before this trace."""
    result: NeutralResult | None = None
    execution: SpanContent | None = None

    def build(self) -> ToolCall:
        """Return the call with its result."""
        return to_tool_call(self.request, self._arguments(), self._result(), self._metadata())

    def _arguments(self) -> Any:
        if self.request.arguments is None and self.execution is not None:
            return self.execution.arguments
        return self.request.arguments

    def _result(self) -> str | None:
        if self.result is not None:
            return render_result(self.result.value)
        return render_result(self.request.result if self.execution is None else self.execution.result)

    def _metadata(self) -> dict[str, Any]:
        metadata = dict(self.request.metadata)
        if self.request.id:
            metadata[CALL_ID] = self.request.id
        if self._arguments() is None:
            metadata[UNKNOWN_ARGUMENTS] = True
        if self.execution is not None and self.execution.error is not None:
            return {**metadata, CALL_ERROR: self.execution.error}
        failed = self.result is not None and self.result.failed
        return {**metadata, CALL_ERROR: True} if failed else metadata


def collect_calls(transcript: Transcript) -> list[TracedCall]:
    """Return all calls of a trace, those of every agent, in order of time."""
    calls = [call for thread in transcript.threads for call in _parse_thread(thread)]
    tool_spans = [span for span in transcript.spans_of(SpanRole.TOOL) if not _is_repeated(span, transcript)]
    for span in tool_spans:
        _assign_to_call(span, transcript.content(span), calls)
    return sorted(calls, key=lambda call: call.time_ns)


def _parse_thread(thread: Thread) -> list[TracedCall]:
    calls: list[TracedCall] = []
    answers = ResultMatcher()
    for index, entry in enumerate(thread.entries):
        if entry.message.role == "user":
            answers.end_turn()
        elif entry.message.result is not None:
            answers.add(entry.message.result)
        for request in entry.message.calls:
            answers.expect(request.name, request.id)
            calls.append(TracedCall(request, entry.time_ns, entry, is_earlier=index < thread.start))
    for index, result in answers.results.items():
        calls[index].result = result
    return calls


def _is_repeated(span: Span, transcript: Transcript) -> bool:
    """Say whether a span repeats the tool call of one above it, as a protocol's span repeats an agent's."""
    name = transcript.content(span).name
    for above in transcript.tree.ancestors(span):
        content = transcript.content(above)
        if content.role in (SpanRole.AGENT, SpanRole.MODEL):
            return False
        if content.role is SpanRole.TOOL and content.name == name:
            return True
    return False


def _assign_to_call(span: Span, execution: SpanContent, calls: list[TracedCall]) -> None:
    open_calls = [each for each in calls if each.execution is None and not each.is_earlier]
    call = _find_call(span, execution, open_calls)
    if call is None:
        arguments = {"input": execution.arguments} if _is_plain(execution.arguments) else execution.arguments
        request = NeutralCall(execution.name, arguments, execution.call_id)
        calls.append(TracedCall(request, span.start_ns or 0, execution=execution))
    else:
        call.execution = execution


def _is_plain(arguments: object) -> bool:
    if not isinstance(arguments, str) or not arguments.strip():
        return False
    return isinstance(parse_literal(arguments), str)


def _find_call(span: Span, execution: SpanContent, calls: list[TracedCall]) -> TracedCall | None:
    """Return the call that a tool ran for: by id, else by name and arguments where no other call fits."""
    before = [call for call in calls if call.time_ns <= (span.start_ns or call.time_ns)]
    if execution.call_id:
        # Turns may repeat an id: the last call before the tool ran is meant. Clocks that differ may hide it.
        with_id = [call for call in before or calls if call.request.id == execution.call_id]
        if with_id:
            return with_id[-1]
    candidates = [
        call
        for call in before
        if call.request.name == execution.name and not (execution.call_id and call.request.id)
    ]
    for is_match in (_is_same, _is_within, _is_unknown):
        matches = [call for call in candidates if is_match(call.request.arguments, execution.arguments)]
        # Of requests with the same arguments any will do; of others, a guess could give a call the result
        # of another.
        if len(matches) == 1 or (matches and is_match is _is_same):
            return matches[0]
    return None


def _is_same(requested: object, received: object) -> bool:
    if received is None:
        return False
    return text_form(parse_literal(requested) or {}) == text_form(parse_literal(received) or {})


def _is_within(requested: object, received: object) -> bool:
    """Say whether a tool received the requested arguments, and perhaps its defaults."""
    requested, received = parse_literal(requested), parse_literal(received)
    if not (isinstance(requested, dict) and isinstance(received, dict)):
        return isinstance(requested, dict) and list(requested.values()) == [received]
    return all(key in received and received[key] == value for key, value in requested.items())


def _is_unknown(requested: object, received: object) -> bool:
    return requested is None or received is None
