"""What a job scores, as a case of the library: a span, a trace or a session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from sqlalchemy import Connection, Row, select

from dokimos.server._db.batches import in_batches
from dokimos.server._db.trace_tables import TRACES
from dokimos.server._services.online.matched_spans import (
    IS_THERE,
    load_named_spans,
    load_spans,
    read_traces,
)
from dokimos.server._services.traces.span_pages import batch_traces
from dokimos.traces._span import Span
from dokimos.traces._span_content import parse_span
from dokimos.traces._span_digest import digest_span

if TYPE_CHECKING:
    from dokimos._core.test_case import EvalTestCase

MAX_SPANS: Final = 5000
"""Of a trace that is scored as a whole."""
MAX_TRACES: Final = 1000
"""Of a session that is scored."""
MAX_SESSION_SPANS: Final = 50_000
"""Of a session that is scored: about 180 MB of memory, where each has 2.7 KB of text."""


class TraceTooLarge(Exception):
    """A trace, or a session, has more than is scored together."""


class TooLargeSession(list[list[Span]]):
    """A session with more than is scored together: of its traces, the one that its job names."""

    def __init__(self, named: list[list[Span]], problem: str) -> None:
        super().__init__(named)
        self.problem = problem


class ScoredTarget(Protocol):
    """A job, stored or not: where it scores something."""

    @property
    def trace(self) -> str:
        """The id of the row of the trace."""
        ...

    @property
    def span_id(self) -> str: ...


T = TypeVar("T", bound=ScoredTarget)


def load_scored_spans(
    connection: Connection, jobs: Sequence[T], scope: str
) -> Iterator[tuple[T, list[list[Span]]]]:
    """Yield jobs with the spans of each trace that they are about; none where they have been removed.

    What is read is read for several jobs at once, so they come in another order.
    """
    if scope == "session":
        for job in jobs:
            yield job, _load_session(connection, job)
        return
    of_trace: dict[str, list[T]] = {job.trace: [] for job in jobs}
    for job in jobs:
        of_trace[job.trace].append(job)
    for batch in batch_traces(read_traces(connection, of_trace)):
        read = [job for trace in batch for job in of_trace.pop(trace.id)]
        yield from _load_batch(connection, batch, read, scope)
    for gone in of_trace.values():
        yield from ((job, []) for job in gone)


def _load_batch(
    connection: Connection, batch: Sequence[Row[Any]], jobs: Sequence[T], scope: str
) -> Iterator[tuple[T, list[list[Span]]]]:
    if scope in ("span", "parent"):
        spans = load_named_spans(connection, batch, [(job.trace, job.span_id) for job in jobs])
        for job in jobs:
            span = spans.get((job.trace, job.span_id))
            yield job, [] if span is None else [[span]]
        return
    of_trace = load_spans(connection, batch, MAX_SPANS + 1)
    for job in jobs:
        yield job, [of_trace[job.trace]]


def _load_session(connection: Connection, job: ScoredTarget) -> list[list[Span]]:
    named = read_traces(connection, [job.trace])
    if not named:
        return []
    traces = _read_session(connection, named[0])
    problem = _find_excess(traces)
    loaded: list[list[Span]] = []
    for batch in batch_traces(traces if problem is None else named):
        loaded += load_spans(connection, batch, MAX_SPANS + 1).values()
    return loaded if problem is None else TooLargeSession(loaded, problem)


def _find_excess(traces: Sequence[Row[Any]]) -> str | None:
    """Return why a session is too large, before any of its spans is read; None where it is not."""
    if len(traces) > MAX_TRACES:
        return f"The session has more than {MAX_TRACES:,} traces, too many to be scored together."
    if sum(trace.span_count for trace in traces) > MAX_SESSION_SPANS:
        return f"The session has more than {MAX_SESSION_SPANS:,} spans, too many to be scored together."
    return None


def build_case(traces: Sequence[Sequence[Span]], scope: str) -> EvalTestCase | None:
    """Return what is scored; None where there is nothing to score.

    Raises:
        TraceTooLarge: It is a trace, or has one, of more than `MAX_SPANS` spans, or a session with more than
            `MAX_TRACES` traces. Some of these would be scored in its place, perhaps without the answer.
    """
    if isinstance(traces, TooLargeSession):
        raise TraceTooLarge(traces.problem)
    found = [spans for spans in traces if spans]
    if not found:
        return None
    if scope in ("span", "parent"):
        return _build_span_case(found[0][0])
    if any(len(spans) > MAX_SPANS for spans in found):
        what = "The trace has" if scope == "trace" else "A trace of the session has"
        raise TraceTooLarge(f"{what} more than {MAX_SPANS:,} spans, too many to be scored together.")
    from dokimos.traces._to_agent_trace import to_test_case

    cases = [to_test_case(spans) for spans in found]
    return cases[0] if scope == "trace" else _join(cases)


def _build_span_case(span: Span) -> EvalTestCase:
    from dokimos._core.test_case import EvalTestCase

    digest = digest_span(span)
    return EvalTestCase(
        {"input": digest.input_text or ""},
        {"output": digest.output_text or ""},
        metadata={"traceId": span.trace_id, "spanId": span.span_id},
        metrics=parse_span(span).usage,
    )


def _join(cases: Sequence[EvalTestCase]) -> EvalTestCase:
    """Return the traces of a session as one case: each is a turn."""
    from dokimos._core.test_case import EvalTestCase

    turns = "\n\n".join(
        f"User: {_text(case.inputs)}\n\nAssistant: {_text(case.actual_outputs)}" for case in cases
    )
    return EvalTestCase({"input": turns}, {"output": _text(cases[-1].actual_outputs)})


def _text(values: Any) -> str:
    for key in ("output", "input"):
        if values.get(key) is not None:
            return str(values[key])
    return ""


def _read_session(connection: Connection, trace: Row[Any]) -> Sequence[Row[Any]]:
    is_in_session = (
        TRACES.c.session_id == trace.session_id,
        TRACES.c.project_id == trace.project_id,
        TRACES.c.tenant_key == trace.tenant_key,
        IS_THERE,
    )
    query = select(TRACES.c.id).where(*is_in_session).order_by(TRACES.c.id.desc()).limit(MAX_TRACES + 1)
    ids = connection.execute(query).scalars().all()
    traces = [trace for some in in_batches(ids) for trace in read_traces(connection, some)]
    return sorted(traces, key=lambda row: str(row.id))
