"""The calls of tools in a trace: what the model asked for, what ran, and what came back.

Results go to calls as `ResultMatcher` says: by their id, else to the only call of the turn that fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dokimos.core.agent import ToolCall
from dokimos.core.jsonable import text_form
from dokimos.core.keys import CALL_ERROR, UNKNOWN_ARGUMENTS
from dokimos.messages.neutral import NeutralCall, NeutralResult, ResultMatcher, to_tool_call
from dokimos.traces.attributes import literal
from dokimos.traces.messages import result_text
from dokimos.traces.reading import SpanReading
from dokimos.traces.semconv import SpanRole
from dokimos.traces.span import Span
from dokimos.traces.transcript import Entry, Thread, Transcript

CALL_ID = "id"
"""In the metadata of a tool call: the id under which it was made."""


@dataclass(slots=True)
class MadeCall:
    """A call on its way to becoming a `ToolCall`."""

    told: NeutralCall
    time_ns: int
    entry: Entry | None = None
    """The message that made it; None for a tool that ran without being asked for."""
    earlier: bool = False
    """Whether it was made before this trace."""
    result: NeutralResult | None = None
    ran: SpanReading | None = None

    def finished(self) -> ToolCall:
        return to_tool_call(self.told, self._arguments(), self._result(), self._metadata())

    def _arguments(self) -> Any:
        if self.told.arguments is None and self.ran is not None:
            return self.ran.arguments
        return self.told.arguments

    def _result(self) -> str | None:
        if self.result is not None:
            return result_text(self.result.value)
        return result_text(self.told.result if self.ran is None else self.ran.result)

    def _metadata(self) -> dict[str, Any]:
        metadata = {**self.told.metadata, CALL_ID: self.told.id} if self.told.id else {**self.told.metadata}
        if self._arguments() is None:
            metadata[UNKNOWN_ARGUMENTS] = True
        if self.ran is not None and self.ran.error is not None:
            return {**metadata, CALL_ERROR: self.ran.error}
        failed = self.result is not None and self.result.failed
        return {**metadata, CALL_ERROR: True} if failed else metadata


def made_calls(transcript: Transcript) -> list[MadeCall]:
    """Return all calls of a trace, those of every agent, in order of time."""
    made = [call for thread in transcript.threads for call in _asked(thread)]
    ran = [span for span in transcript.spans_of(SpanRole.TOOL) if not _repeats(span, transcript)]
    for span in ran:
        _put_to_call(span, transcript.reading(span), made)
    return sorted(made, key=lambda call: call.time_ns)


def _asked(thread: Thread) -> list[MadeCall]:
    made: list[MadeCall] = []
    answers = ResultMatcher()
    for place, entry in enumerate(thread.entries):
        if entry.message.role == "user":
            answers.end_turn()
        elif entry.message.result is not None:
            answers.add(entry.message.result)
        for told in entry.message.calls:
            answers.expect(told.name, told.id)
            made.append(MadeCall(told, entry.time_ns, entry, earlier=place < thread.start))
    for place, result in answers.results.items():
        made[place].result = result
    return made


def _repeats(span: Span, transcript: Transcript) -> bool:
    """Say whether a span tells again what one above it tells, as a protocol's below an agent's."""
    name = transcript.reading(span).name
    for above in transcript.tree.ancestors(span):
        reading = transcript.reading(above)
        if reading.role in (SpanRole.AGENT, SpanRole.MODEL):
            return False
        if reading.role is SpanRole.TOOL and reading.name == name:
            return True
    return False


def _put_to_call(span: Span, ran: SpanReading, made: list[MadeCall]) -> None:
    call = _call_of(span, ran, [each for each in made if each.ran is None and not each.earlier])
    if call is None:
        arguments = {"input": ran.arguments} if _is_plain(ran.arguments) else ran.arguments
        made.append(MadeCall(NeutralCall(ran.name, arguments, ran.call_id), span.start_ns or 0, ran=ran))
    else:
        call.ran = ran


def _is_plain(arguments: Any) -> bool:
    return isinstance(arguments, str) and bool(arguments.strip()) and isinstance(literal(arguments), str)


def _call_of(span: Span, ran: SpanReading, made: list[MadeCall]) -> MadeCall | None:
    """Return the call that a tool ran for: by id, else by name and arguments where no other call fits."""
    before = [call for call in made if call.time_ns <= (span.start_ns or call.time_ns)]
    if ran.call_id:
        # The last one before the tool ran, where turns repeat an id; clocks that differ hide it.
        with_id = [call for call in before or made if call.told.id == ran.call_id]
        if with_id:
            return with_id[-1]
    named = [call for call in before if call.told.name == ran.name and not (ran.call_id and call.told.id)]
    for fits in (_same, _within, _unknown):
        fitting = [call for call in named if fits(call.told.arguments, ran.arguments)]
        if len(fitting) == 1 or (fitting and fits is _same):
            return fitting[0]
    return None


def _same(asked: Any, given: Any) -> bool:
    return given is not None and text_form(literal(asked) or {}) == text_form(literal(given) or {})


def _within(asked: Any, given: Any) -> bool:
    """Say whether a tool was given what was asked for, and its defaults."""
    asked, given = literal(asked), literal(given)
    if not (isinstance(asked, dict) and isinstance(given, dict)):
        return isinstance(asked, dict) and list(asked.values()) == [given]
    return all(key in given and given[key] == value for key, value in asked.items())


def _unknown(asked: Any, given: Any) -> bool:
    return asked is None or given is None
