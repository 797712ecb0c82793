"""Rebuilds the conversation of a trace from its spans, which repeat earlier messages.

Every call of a model is sent all messages before it. A thread is one such growing list of messages: the
messages of a span are deduplicated against the end of the thread that they continue, and only new ones added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from dokimos._core.jsonable import text_form
from dokimos._messages.neutral import NeutralMessage
from dokimos.traces._semconv import SpanRole
from dokimos.traces._span import Span, SpanTree
from dokimos.traces._span_content import SpanContent, parse_span
from dokimos.traces._span_messages import MessageCache

Key: TypeAlias = tuple[Any, ...]
"""Identifies a message: repeated messages have equal keys."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A message, and the time of the first span that has it."""

    message: NeutralMessage
    time_ns: int


@dataclass(slots=True)
class Thread:
    """The messages of one model, or one agent: what it was sent and what it answered."""

    depth: int = 0
    """How many agents and tools are above it."""
    owner: str = ""
    """The agent that spoke first."""
    system: list[str] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    start: int = 0
    """The index of the first message of this trace; those before it are history."""

    def find_new(self, keys: Sequence[Key]) -> int | None:
        """Return the index of the first new message; None if they do not continue the end of this thread."""
        length = len(self.keys)
        if not length:
            return None
        if keys[:length] == self.keys:
            return length
        # Applications shorten or summarize a long history: it still ends as the thread does.
        index = _find_last(keys, lambda key: key == self.keys[-1])
        return None if index is None else index + 1

    def find_branch(self, keys: Sequence[Key]) -> int | None:
        """Return the index of the first new message where they branch off anywhere in this thread."""
        shared = set(self.keys)
        index = _find_last(keys, lambda key: key in shared)
        return None if index is None else index + 1

    def add(self, messages: Iterable[NeutralMessage], keys: Iterable[Key], time_ns: int) -> None:
        self.entries += [Entry(message, time_ns) for message in messages]
        self.keys += keys


@dataclass(slots=True)
class History:
    """The messages that the last span was sent, which the next one mostly repeats."""

    inputs: tuple[NeutralMessage, ...] = ()
    messages: list[NeutralMessage] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)

    def split(self, inputs: tuple[NeutralMessage, ...]) -> tuple[list[NeutralMessage], list[Key]]:
        """Return the messages that are not of the system, and the key of each."""
        length = len(self.inputs)
        if inputs[:length] == self.inputs:
            new, messages, keys = inputs[length:], self.messages, self.keys
        else:
            new, messages, keys = inputs, [], []
        added = [message for message in new if message.role != "system"]
        self.inputs = inputs
        self.messages = [*messages, *added]
        self.keys = [*keys, *map(_key, added)]
        return self.messages, self.keys


@dataclass(slots=True)
class Threads:
    """The threads of a trace so far, with an index of the messages from which they may continue."""

    items: list[Thread] = field(default_factory=list)
    _ending: dict[Key, set[int]] = field(default_factory=dict)
    """The indexes of the threads that end with a message."""
    _holding: dict[tuple[str, Key], int] = field(default_factory=dict)
    """The index of an agent's last thread that has a message, as far as messages are counted."""
    _uncounted: list[tuple[int, Sequence[Key]]] = field(default_factory=list)
    """Messages that were added since, with the index of their thread: most traces never ask for them."""

    def begin(self, thread: Thread) -> int:
        """Add a thread without messages, and return its index."""
        self.items.append(thread)
        return len(self.items) - 1

    def add(self, index: int, messages: Iterable[NeutralMessage], keys: Sequence[Key], time_ns: int) -> None:
        """Add messages with these keys to a thread."""
        if not keys:
            return
        thread = self.items[index]
        if thread.keys:
            self._ending[thread.keys[-1]].discard(index)
        thread.add(messages, keys, time_ns)
        self._uncounted.append((index, keys))
        self._ending.setdefault(thread.keys[-1], set()).add(index)

    def join(
        self, messages: Sequence[NeutralMessage], keys: Sequence[Key], owner: str, time_ns: int
    ) -> int | None:
        """Add what is new in `messages` to the last thread that they continue, and return its index.

        That is a thread whose end they continue, else one of the same agent from which they branch off.
        """
        ending = [index for key in self._ending.keys() & keys for index in self._ending[key]]
        indexes = ending or self._find_holding(owner, keys)
        if not indexes:
            return None
        thread = self.items[max(indexes)]
        new = thread.find_new(keys) if ending else thread.find_branch(keys)
        self.add(max(indexes), messages[new:], keys[new:], time_ns)
        return max(indexes)

    def _find_holding(self, owner: str, keys: Sequence[Key]) -> list[int]:
        """Return the indexes of threads of an agent that have one of these messages."""
        holding = self._holding
        for index, added in self._uncounted:
            for key in added:
                owned = (self.items[index].owner, key)
                holding[owned] = max(index, holding.get(owned, index))
        self._uncounted.clear()
        indexes = (holding.get((owner, key)) for key in keys)
        return [index for index in indexes if index is not None]


@dataclass(frozen=True)
class Transcript:
    """The spans of a trace, the content of each, and the threads of their messages."""

    tree: SpanTree
    contents: Mapping[str, SpanContent]
    threads: Sequence[Thread]

    @classmethod
    def of(cls, spans: Iterable[Span]) -> Transcript:
        """Parse the spans of one trace, which are in order of start."""
        tree = SpanTree(spans)
        cache = MessageCache()
        contents = {span.span_id: parse_span(span, cache) for span in tree.spans}
        threads = Threads()
        transcript = cls(tree, contents, threads.items)
        history = History()
        for span in transcript.spans_with_messages():
            transcript._add_messages(span, threads, history)
        return transcript

    def content(self, span: Span) -> SpanContent:
        """Return the parsed content of a span."""
        return self.contents[span.span_id]

    def spans_of(self, role: SpanRole) -> list[Span]:
        """Return the spans of a role, in order."""
        return self._by_role.get(role, [])

    def ancestors_of(self, span: Span, *roles: SpanRole) -> list[Span]:
        """Return the spans of these roles above a span, nearest first."""
        if self._roles_above.isdisjoint(roles):
            return []
        contents, parents, found = self.contents, self.tree.parents, []
        above = parents.get(span.span_id)
        while above is not None:
            if contents[above.span_id].role in roles:
                found.append(above)
            above = parents.get(above.span_id)
        return found

    @cached_property
    def _by_role(self) -> dict[SpanRole, list[Span]]:
        by_role: dict[SpanRole, list[Span]] = {}
        for span in self.tree.spans:
            by_role.setdefault(self.contents[span.span_id].role, []).append(span)
        return by_role

    @cached_property
    def _roles_above(self) -> set[SpanRole]:
        """The roles of spans that have others below them."""
        contents = self.contents
        return {contents[id_].role for id_ in {span.span_id for span in self.tree.parents.values()}}

    @property
    def main(self) -> Thread | None:
        """The thread in which the user took part: the least nested, then the longest, then the last."""
        ranked = [(-each.depth, len(each.entries), index) for index, each in enumerate(self.threads)]
        return self.threads[max(ranked)[2]] if ranked else None

    def spans_with_messages(self) -> list[Span]:
        """Return the spans whose messages count.

        Those are the calls of models, except one that only wraps another's; and agents below which no model
        has messages.
        """
        models = [span for span in self.spans_of(SpanRole.MODEL) if self._has_messages(span)]
        spans = [s for s in models if not any(map(self._has_messages, self.ancestors_of(s, SpanRole.MODEL)))]
        covered = {agent.span_id for span in spans for agent in self.ancestors_of(span, SpanRole.AGENT)}
        # The innermost agent first: agents around it repeat its messages.
        for agent in reversed(self.spans_of(SpanRole.AGENT)):
            if agent.span_id not in covered and self._has_messages(agent):
                spans.append(agent)
                covered.update(each.span_id for each in self.ancestors_of(agent, SpanRole.AGENT))
        return sorted(spans, key=lambda span: span.start_ns or 0)

    def _has_messages(self, span: Span) -> bool:
        content = self.content(span)
        return bool(content.inputs or content.outputs)

    def _add_messages(self, span: Span, threads: Threads, history: History) -> None:
        content = self.content(span)
        agents = self.ancestors_of(span, SpanRole.AGENT)
        if content.role is SpanRole.AGENT:
            agents.insert(0, span)
        owner = agents[0].span_id if agents else ""
        messages, keys = history.split(content.inputs)
        index = threads.join(messages, keys, owner, span.start_ns or 0)
        if index is None:
            depth = len(self.ancestors_of(span, SpanRole.AGENT, SpanRole.TOOL)) + (
                content.role is SpanRole.AGENT
            )
            index = threads.begin(Thread(depth, owner, start=_start_of_turn(messages)))
            threads.add(index, messages, keys, span.start_ns or 0)
        thread = threads.items[index]
        if not thread.system:
            thread.system = [m.text for m in content.inputs if m.role == "system" and m.text]
        answers = [_key(message) for message in content.outputs]
        threads.add(index, content.outputs, answers, span.end_ns or span.start_ns or 0)


def _start_of_turn(messages: Sequence[NeutralMessage]) -> int:
    """Return the index of the last message of the user, 0 if there is none."""
    return _find_last(messages, lambda message: message.role == "user") or 0


def _find_last(items: Sequence[Any], matches: Callable[[Any], bool]) -> int | None:
    return next((index for index in range(len(items) - 1, -1, -1) if matches(items[index])), None)


def _key(message: NeutralMessage) -> Key:
    if message.result is not None:
        result = message.result
        return ("tool", result.id) if result.id else ("tool", result.name, text_form(result.value))
    if message.calls:
        return ("calls", *(call.id or (call.name, text_form(call.arguments)) for call in message.calls))
    # Some instrumentations strip the texts that they record, and others do not.
    return (message.role, message.text.strip())
