"""What was said during a trace, put together from spans that each tell a part, often the same part again.

Every call of a model repeats what was said before it. A thread is one such growing list of messages: what a
span tells is laid over the end of the thread that it continues, and only what is new is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dokimos.core.jsonable import text_form
from dokimos.core.quick_init import quick_init
from dokimos.messages.neutral import NeutralMessage
from dokimos.traces.messages import History
from dokimos.traces.reading import SpanReading, read_span
from dokimos.traces.semconv import SpanRole
from dokimos.traces.span import Span, SpanTree

Key: TypeAlias = tuple[Any, ...]
"""What makes two tellings of one message the same."""


@quick_init
@dataclass(frozen=True, slots=True)
class Entry:
    """A message, and when it was known."""

    message: NeutralMessage
    time_ns: int


@dataclass(slots=True)
class Thread:
    """The messages that one model, or one agent, saw and said."""

    depth: int = 0
    """How many agents and tools are above it."""
    owner: str = ""
    """The agent that spoke first."""
    system: list[str] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    start: int = 0
    """Where what happened in this trace begins; before it is what was said earlier."""

    def new_in(self, told: Sequence[Key]) -> int | None:
        """Return from where on what is told is new, None if it does not go on from the end of this thread."""
        known = len(self.keys)
        if not known:
            return None
        if list(told[:known]) == self.keys:
            return known
        place = _last_place(told, lambda key: key == self.keys[-1])
        return None if place is None else place + 1

    def branches_in(self, told: Sequence[Key]) -> int | None:
        """Return the same where what is told goes on from somewhere in this thread."""
        shared = set(self.keys)
        place = _last_place(told, lambda key: key in shared)
        return None if place is None else place + 1

    def add(self, messages: Iterable[NeutralMessage], time_ns: int) -> None:
        for message in messages:
            self.entries.append(Entry(message, time_ns))
            self.keys.append(_key(message))


@dataclass(slots=True)
class Threads:
    """The threads of a trace so far, found by the messages from which they may go on."""

    found: list[Thread] = field(default_factory=list)
    _ending: dict[Key, set[int]] = field(default_factory=dict)
    """The places of the threads that end with a message."""
    _holding: dict[tuple[str, Key], int] = field(default_factory=dict)
    """The place of an agent's last thread that has a message."""

    def begin(self, thread: Thread) -> int:
        """Add a thread without messages, and return its place."""
        self.found.append(thread)
        return len(self.found) - 1

    def add(self, place: int, messages: Iterable[NeutralMessage], time_ns: int) -> None:
        """Add messages to a thread."""
        thread = self.found[place]
        known = len(thread.keys)
        if known:
            self._ending[thread.keys[-1]].discard(place)
        thread.add(messages, time_ns)
        for key in thread.keys[known:]:
            held = (thread.owner, key)
            self._holding[held] = max(place, self._holding.get(held, place))
        if thread.keys:
            self._ending.setdefault(thread.keys[-1], set()).add(place)

    def join(self, messages: Sequence[NeutralMessage], owner: str, time_ns: int) -> int | None:
        """Add what is new in `messages` to the last thread that they continue, and return its place.

        That is one that they go on from the end of, else one of the same agent that they branch off from.
        """
        told = [_key(message) for message in messages]
        ending = [place for key in told for place in self._ending.get(key, ())]
        held = (self._holding.get((owner, key)) for key in told)
        places = ending or [place for place in held if place is not None]
        if not places:
            return None
        thread = self.found[max(places)]
        new = thread.new_in(told) if ending else thread.branches_in(told)
        self.add(max(places), messages[new:], time_ns)
        return max(places)


@dataclass(frozen=True)
class Transcript:
    """The spans of a trace, what each says, and the threads that they tell."""

    tree: SpanTree
    readings: Mapping[str, SpanReading]
    threads: tuple[Thread, ...]

    @classmethod
    def of(cls, spans: Iterable[Span]) -> Transcript:
        """Read the spans of one trace, in order of start."""
        tree = SpanTree(spans)
        history = History()
        readings = {span.span_id: read_span(span, history) for span in tree.spans}
        transcript = cls(tree, readings, ())
        threads = Threads()
        for span in transcript.tellers():
            transcript._tell(span, threads)
        return cls(tree, readings, tuple(threads.found))

    def reading(self, span: Span) -> SpanReading:
        return self.readings[span.span_id]

    def spans_of(self, role: SpanRole) -> list[Span]:
        """Return the spans of a role, in order."""
        return [span for span in self.tree.spans if self.reading(span).role is role]

    def above(self, span: Span, *roles: SpanRole) -> list[Span]:
        """Return the spans of these roles above a span, nearest first."""
        return [each for each in self.tree.ancestors(span) if self.reading(each).role in roles]

    @property
    def main(self) -> Thread | None:
        """The thread that the user had a part in: the least nested, then the longest, then the last."""
        ranked = [(-each.depth, len(each.entries), place) for place, each in enumerate(self.threads)]
        return self.threads[max(ranked)[2]] if ranked else None

    def tellers(self) -> list[Span]:
        """Return the spans whose messages count.

        Those are the calls of models, except one that only wraps another's; and agents below which no model
        says anything.
        """
        models = [span for span in self.spans_of(SpanRole.MODEL) if self._says(span)]
        tellers = [s for s in models if not any(map(self._says, self.above(s, SpanRole.MODEL)))]
        told = {agent.span_id for span in tellers for agent in self.above(span, SpanRole.AGENT)}
        for agent in reversed(self.spans_of(SpanRole.AGENT)):  # the innermost first
            if agent.span_id not in told and self._says(agent):
                tellers.append(agent)
                told.update(each.span_id for each in self.above(agent, SpanRole.AGENT))
        return sorted(tellers, key=lambda span: span.start_ns or 0)

    def _says(self, span: Span) -> bool:
        reading = self.reading(span)
        return bool(reading.inputs or reading.outputs)

    def _tell(self, span: Span, threads: Threads) -> None:
        reading = self.reading(span)
        agents = self.above(span, SpanRole.AGENT)
        if reading.role is SpanRole.AGENT:
            agents.insert(0, span)
        owner = agents[0].span_id if agents else ""
        given = [message for message in reading.inputs if message.role != "system"]
        place = threads.join(given, owner, span.start_ns or 0)
        if place is None:
            depth = len(self.above(span, SpanRole.AGENT, SpanRole.TOOL)) + (reading.role is SpanRole.AGENT)
            place = threads.begin(Thread(depth, owner, start=_start_of_turn(given)))
            threads.add(place, given, span.start_ns or 0)
        thread = threads.found[place]
        if not thread.system:
            thread.system = [m.text for m in reading.inputs if m.role == "system" and m.text]
        threads.add(place, reading.outputs, span.end_ns or span.start_ns or 0)


def _start_of_turn(messages: Sequence[NeutralMessage]) -> int:
    """Return where the last message of the user is, 0 if there is none."""
    return _last_place(messages, lambda message: message.role == "user") or 0


def _last_place(items: Sequence[Any], matches: Callable[[Any], bool]) -> int | None:
    return next((place for place in range(len(items) - 1, -1, -1) if matches(items[place])), None)


def _key(message: NeutralMessage) -> Key:
    if message.result is not None:
        result = message.result
        return ("tool", result.id) if result.id else ("tool", result.name, text_form(result.value))
    if message.calls:
        return ("calls", *(call.id or (call.name, text_form(call.arguments)) for call in message.calls))
    return (message.role, message.text.strip())
