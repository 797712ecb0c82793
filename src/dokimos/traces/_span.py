"""A span in the normalized form of dokimos, whoever recorded it and however it was exported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias

SpanStatus: TypeAlias = Literal["unset", "ok", "error"]

MAX_DEPTH: Final = 64
"""How deep the value of an attribute may be nested; deeper values are ignored. Protobuf allows less."""


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened during a span: an event of the span, or a log record that names the span."""

    name: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    _: KW_ONLY
    time_ns: int | None = None
    body: Any = None
    """The body of a log record; events of spans have attributes only."""
    dropped_attributes: int = 0
    """How many attributes the recorder left out, as for spans and links."""


@dataclass(frozen=True, slots=True)
class SpanLink:
    """Another span, perhaps of another trace, that a span has to do with and is not below."""

    trace_id: str
    """Lower-case hexadecimal, as is `span_id`; empty where it is not an id."""
    span_id: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    _: KW_ONLY
    trace_state: str = ""
    flags: int = 0
    dropped_attributes: int = 0


@dataclass(frozen=True, slots=True)
class Span:
    """One operation of a trace."""

    trace_id: str
    """Lower-case hexadecimal, as is `span_id`."""
    span_id: str
    _: KW_ONLY
    name: str
    parent_id: str | None = None
    kind: str | None = None
    """`internal`, `server`, `client`, `producer` or `consumer`."""
    start_ns: int | None = None
    """Nanoseconds since 1970, as is `end_ns`."""
    end_ns: int | None = None
    status: SpanStatus = "unset"
    status_message: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Numbers, strings, lists and nested maps, as they were recorded."""
    events: tuple[SpanEvent, ...] = ()
    resource: Mapping[str, Any] = field(default_factory=dict)
    """Attributes of what recorded the span."""
    resource_schema_url: str = ""
    """The version of the conventions for `resource`."""
    scope: str = ""
    """The name of the instrumentation."""
    scope_version: str = ""
    scope_attributes: Mapping[str, Any] = field(default_factory=dict)
    schema_url: str = ""
    """The version of the conventions for the attributes of the span and of its scope."""
    links: tuple[SpanLink, ...] = ()
    trace_state: str = ""
    """What vendors hand on along the trace, as in the header `tracestate` of W3C."""
    flags: int = 0
    """Those of W3C in the lowest eight bits, such as 1 for "sampled". Where 0x100 is set, 0x200 says whether
    the parent is in another process."""
    dropped_attributes: int = 0
    """How many attributes the recorder left out, since it keeps only so many; likewise the next two."""
    dropped_events: int = 0
    dropped_links: int = 0

    @property
    def duration_ms(self) -> float | None:
        """How long the span took, None if either end is unknown."""
        if self.start_ns is None or self.end_ns is None:
            return None
        return max(0, self.end_ns - self.start_ns) / 1e6


class SpanOrigin(NamedTuple):
    """The fields of a span that all spans of one instrumentation share."""

    resource: Mapping[str, Any]
    resource_schema_url: str
    scope: str
    scope_version: str
    scope_attributes: Mapping[str, Any]
    schema_url: str


_OpenSpan: Final = type("Span", (), {"__slots__": tuple(each.name for each in fields(Span))})
"""Of the same layout as a span, and not frozen."""


def open_span(origin: SpanOrigin) -> Any:
    """Return a span with the fields of its origin, of which all others must be set before it is closed.

    The constructor of a frozen dataclass sets each field through `object.__setattr__`: with it, reading spans
    from protobuf takes 1.4 times as long (`benchmarks/traces.py`).
    """
    span: Any = _OpenSpan()
    (
        span.resource,
        span.resource_schema_url,
        span.scope,
        span.scope_version,
        span.scope_attributes,
        span.schema_url,
    ) = origin
    return span


def close_span(span: Any) -> Span:
    """Return a span all of whose fields are set, which is frozen from now on."""
    span.__class__ = Span
    closed: Span = span
    return closed


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A log record that may name the span that it belongs to."""

    event: SpanEvent
    trace_id: str = ""
    span_id: str = ""


def find_reason(trace_id: str, span_id: str, name: str) -> str | None:
    """Return what a span lacks without which it is none; None where it has all of it."""
    if not trace_id:
        return "no trace id"
    if not span_id:
        return "no span id"
    return None if name.strip() else "no name"


def with_logs(spans: Iterable[Span], records: Iterable[LogRecord]) -> tuple[Span, ...]:
    """Return the spans with each log record as an event of the span that it names, in order of time.

    Records that name none of these spans are ignored.
    """
    by_span: dict[tuple[str, str], list[SpanEvent]] = {}
    for record in records:
        by_span.setdefault((record.trace_id, record.span_id), []).append(record.event)
    if not by_span:
        return tuple(spans)
    return tuple(_with_events(span, by_span.get((span.trace_id, span.span_id), ())) for span in spans)


def _with_events(span: Span, added: Sequence[SpanEvent]) -> Span:
    if not added:
        return span
    events = sorted((*span.events, *added), key=lambda event: event.time_ns or 0)
    return replace(span, events=tuple(events))


def group_by_trace(spans: Iterable[Span]) -> dict[str, tuple[Span, ...]]:
    """Return the spans of each trace in order of start, traces in order of appearance.

    A span that came twice, as after a repeated export, is deduplicated: the last copy counts.
    """
    traces: dict[str, dict[str, Span]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, {})[span.span_id] = span
    return {trace_id: tuple(sorted(by_id.values(), key=_start)) for trace_id, by_id in traces.items()}


def _start(span: Span) -> int:
    return span.start_ns or 0


class SpanTree:
    """The spans of one trace with their parents and children; they may come in any order.

    Where parents form a cycle, the first span of it counts as a root.
    """

    def __init__(self, spans: Iterable[Span]) -> None:
        self.spans: tuple[Span, ...] = tuple(spans)
        self.parents: Mapping[str, Span] = _find_parents(self.spans)
        """By the id of the span, for those that have one among these."""
        self._children: dict[str, list[Span]] | None = None

    @property
    def roots(self) -> tuple[Span, ...]:
        """The spans whose parent is not among these."""
        parents = self.parents
        return tuple([span for span in self.spans if span.span_id not in parents])

    def parent(self, span: Span) -> Span | None:
        """Return the parent, None if the span has none or it is not among these."""
        return self.parents.get(span.span_id)

    def children(self, span: Span) -> tuple[Span, ...]:
        """Return the spans right below."""
        if self._children is None:
            self._children = {}
            for each in self.spans:
                above = self.parents.get(each.span_id)
                if above is not None:
                    self._children.setdefault(above.span_id, []).append(each)
        return tuple(self._children.get(span.span_id, ()))

    def ancestors(self, span: Span) -> Iterator[Span]:
        """Yield the spans above, nearest first."""
        parents = self.parents
        above = parents.get(span.span_id)
        while above is not None:
            yield above
            above = parents.get(above.span_id)

    def subtree(self, span_id: str) -> tuple[Span, ...]:
        """Return the span of this id and all below it, such as the part of one agent."""
        return tuple(
            span
            for span in self.spans
            if span.span_id == span_id or any(each.span_id == span_id for each in self.ancestors(span))
        )


def _find_parents(spans: Sequence[Span]) -> dict[str, Span]:
    """Return the parent of each span by the id of the span, without those that close a cycle."""
    by_id = {span.span_id: span for span in spans}
    parents = {span.span_id: by_id[span.parent_id] for span in spans if span.parent_id in by_id}
    # A span is looked at once, whichever path comes to it, so this takes linear time.
    checked = by_id.keys() - parents.keys()
    for each in by_id:
        if each in checked:
            continue
        path: list[str] = []
        while each not in checked:
            checked.add(each)
            path.append(each)
            each = parents[each].span_id
        if each in path:
            indexes = {span.span_id: index for index, span in enumerate(spans)}
            first = min(path[path.index(each) :], key=indexes.__getitem__)
            del parents[first]
    return parents
