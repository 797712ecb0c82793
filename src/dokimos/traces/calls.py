"""The calls of tools in a trace: what the model asked for, what ran, and what came back.

Results go to calls by their id, and within one turn. Where no id was recorded, a result goes to the only call
that it can belong to; where there are several, to none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dokimos.core.agent import ToolCall
from dokimos.core.jsonable import text_form
from dokimos.core.keys import CALL_ERROR
from dokimos.traces.attributes import literal
from dokimos.traces.messages import TracedCall, TracedResult, result_text
from dokimos.traces.reading import SpanReading
from dokimos.traces.semconv import SpanRole
from dokimos.traces.span import Span
from dokimos.traces.transcript import Entry, Thread, Transcript

CALL_ID = "id"
"""In the metadata of a tool call: the id under which it was made."""


@dataclass(slots=True)
class MadeCall:
    """A call on its way to becoming a `ToolCall`."""

    told: TracedCall
    time_ns: int
    entry: Entry | None = None
    """The message that made it; None for a tool that ran without being asked for."""
    earlier: bool = False
    """Whether it was made before this trace."""
    result: TracedResult | None = None
    ran: SpanReading | None = None

    def finished(self) -> ToolCall:
        return _tool_call(self.told, self._arguments(), self._result(), self._metadata())

    def _arguments(self) -> Any:
        if self.told.arguments is None and self.ran is not None:
            return self.ran.arguments
        return self.told.arguments

    def _result(self) -> str | None:
        if self.result is not None:
            return result_text(self.result.value)
        return None if self.ran is None else result_text(self.ran.result)

    def _metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {CALL_ID: self.told.id} if self.told.id else {}
        if self.ran is not None and self.ran.error is not None:
            return {**metadata, CALL_ERROR: self.ran.error}
        failed = self.result is not None and self.result.failed
        return {**metadata, CALL_ERROR: True} if failed else metadata


def _tool_call(told: TracedCall, arguments: Any, result: str | None, metadata: dict[str, Any]) -> ToolCall:
    if arguments is None or isinstance(arguments, dict):
        named = {str(key): value for key, value in (arguments or {}).items()}
        return ToolCall(told.name, named, result=result, metadata=metadata)
    if isinstance(arguments, str):
        return ToolCall.of_text(told.name, arguments, result=result, metadata=metadata)
    return ToolCall(told.name, {"input": arguments}, result=result, metadata=metadata)


def made_calls(transcript: Transcript) -> list[MadeCall]:
    """Return all calls of a trace, those of every agent, in order of time."""
    made = [call for thread in transcript.threads for call in _asked(thread)]
    ran = [span for span in transcript.spans_of(SpanRole.TOOL) if not _repeats(span, transcript)]
    for span in ran:
        _put_to_call(span, transcript.reading(span), made)
    return sorted(made, key=lambda call: call.time_ns)


@dataclass(slots=True)
class _Turn:
    """The calls of a turn that have no result yet."""

    open: list[MadeCall] = field(default_factory=list)

    def answer(self, result: TracedResult) -> None:
        if result.id:
            candidates = [call for call in self.open if call.told.id == result.id][-1:]
        else:
            candidates = [call for call in self.open if result.name in ("", call.told.name)]
        if len(candidates) == 1:
            candidates[0].result = result
            self.open.remove(candidates[0])


def _asked(thread: Thread) -> list[MadeCall]:
    made: list[MadeCall] = []
    turn = _Turn()
    for place, entry in enumerate(thread.entries):
        if entry.message.role == "user":
            turn = _Turn()
        elif entry.message.result is not None:
            turn.answer(entry.message.result)
        for told in entry.message.calls:
            call = MadeCall(told, entry.time_ns, entry, earlier=place < thread.start)
            made.append(call)
            turn.open.append(call)
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
        made.append(MadeCall(TracedCall(ran.name, arguments, ran.call_id), span.start_ns or 0, ran=ran))
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
