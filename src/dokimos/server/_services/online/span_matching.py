"""Rules held against the spans of traces: which jobs that makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import Connection, Row

from dokimos.server._services.online.enabled_rules import EvalRule
from dokimos.server._services.online.matched_spans import (
    StoredSpan,
    find_projects,
    find_spans,
    read_spans,
)
from dokimos.server._services.online.rule_sampling import is_sampled
from dokimos.server._services.online.session_chances import PassedSession, note_passed
from dokimos.server._services.online.session_targets import find_stored_name, name_session
from dokimos.server._services.online.trace_jobs import NewEvalJob, StoredJobs, insert_jobs
from dokimos.server._services.traces.span_pages import batch_traces

T = TypeVar("T", NewEvalJob, PassedSession)
_Spans: TypeAlias = Mapping[tuple[str, str], StoredSpan]
"""By the ids of their traces' rows and their own."""


@dataclass(frozen=True, slots=True)
class TraceMatches:
    """What rules make of one trace."""

    trace: Row[Any]
    matched: int
    """Spans, traces or sessions that match, sampled or not."""
    jobs: tuple[NewEvalJob, ...]
    """Those that were sampled."""
    passed: tuple[PassedSession, ...] = ()
    """The sessions that were not."""


def store_matches(connection: Connection, matches: Iterable[TraceMatches]) -> StoredJobs:
    """Store what rules make of traces, one after the other."""
    stored = StoredJobs()
    for each in matches:
        stored += insert_jobs(connection, [_rename(connection, job, each.trace) for job in each.jobs])
        note_passed(connection, [_rename(connection, session, each.trace) for session in each.passed])
    return stored


def _rename(connection: Connection, made: T, trace: Row[Any]) -> T:
    return replace(made, target=find_stored_name(connection, made.rule_id, made.target, trace))


def match_traces(
    connection: Connection, traces: Sequence[Row[Any]], rules: Sequence[EvalRule], *, only_new: bool = False
) -> list[TraceMatches]:
    """Return what rules make of traces, in their order; what is read is read for many of them at once.

    Args:
        connection: Of the traces, in a transaction that reads.
        traces: The rows of the traces.
        rules: Those that are held against them.
        only_new: Whether only the spans of a trace since its `match_due_at` are looked at. Rules that wait
            for a whole trace are left out then.
    """
    own = [rule for rule in rules if not (only_new and rule.waits)]
    matchings = [_Matching(trace, _rules_of(trace, own)) for trace in traces]
    concerned = {each.trace.id: each for each in matchings if each.rules}
    for batch in batch_traces(each.trace for each in concerned.values()):
        since = min(trace.match_due_at for trace in batch) if only_new else None
        for spans in read_spans(connection, batch, since=since):
            _match_page(connection, concerned, spans, only_new)
    return [each.finish() for each in matchings]


def find_waited_for(
    connection: Connection, traces: Sequence[Row[Any]], rules: Sequence[EvalRule]
) -> set[str]:
    """Return the ids of the rows of traces that rules are held against again when nothing more comes.

    Those are the ones with a span of the project of such a rule, whichever project the trace is counted to.
    """
    waiting = [rule for rule in rules if rule.waits]
    found = {
        trace.id
        for trace in traces
        if any(rule.concerns(trace.project_id, trace.tenant_id) for rule in waiting)
    }
    others = [trace for trace in traces if trace.id not in found and _rules_of(trace, waiting)]
    if others:
        has_spans_of = find_projects(connection, others, {rule.project_id for rule in waiting})
        for trace in others:
            projects = has_spans_of.get(trace.id, ())
            if any(rule.project_id in projects for rule in _rules_of(trace, waiting)):
                found.add(trace.id)
    return found


def _rules_of(trace: Row[Any], rules: Iterable[EvalRule]) -> list[EvalRule]:
    return [rule for rule in rules if rule.tenant in (None, trace.tenant_id)]


def _match_page(
    connection: Connection, matchings: Mapping[str, _Matching], spans: Sequence[StoredSpan], only_new: bool
) -> None:
    """Hold rules against some spans, which may be of several traces."""
    matched: list[tuple[_Matching, EvalRule, StoredSpan]] = []
    for span in spans:
        matching = matchings[span.trace]
        if only_new and span.received_at < matching.trace.match_due_at:
            continue
        matching.add(span)
        matched += ((matching, rule, span) for rule in matching.rules if _is_matched(rule, matching, span))
    present = {(span.trace, span.id): span for span in spans}
    parents = _find_parents(connection, matched, present)
    for matching, rule, span in matched:
        matching.match(rule, span, parents)


def _find_parents(
    connection: Connection, matched: Iterable[tuple[_Matching, EvalRule, StoredSpan]], present: _Spans
) -> _Spans:
    """Return the spans of a page, with the parents that rules score and that are not among them."""
    missing: set[tuple[str, str]] = set()
    days: set[int] = set()
    for matching, rule, span in matched:
        if rule.scope == "parent" and span.parent_id and (span.trace, span.parent_id) not in present:
            missing.add((span.trace, span.parent_id))
            days.add(matching.trace.day)
    return {**present, **find_spans(connection, missing, days)} if missing else present


def _is_matched(rule: EvalRule, matching: _Matching, span: StoredSpan) -> bool:
    if span.is_evaluation or not rule.concerns(span.project_id, matching.trace.tenant_id):
        return False
    return (rule.scope != "span" or span.has_output) and rule.matches(span.facts)


@dataclass(slots=True)
class _Matching:
    """The jobs that rules make of one trace, whose spans come some at a time."""

    trace: Row[Any]
    rules: list[EvalRule]
    _root: StoredSpan | None = None
    """The span that the trace began with, of those that have come: one without a parent, the earliest."""
    _likeliest: dict[str, tuple[EvalRule, StoredSpan, float]] = field(default_factory=dict)
    """For rules of whole traces, the span that matches and has the highest rate, and that; the first such."""
    _targets: set[tuple[str, str]] = field(default_factory=set)
    _jobs: dict[tuple[str, str], NewEvalJob] = field(default_factory=dict)
    _passed: list[PassedSession] = field(default_factory=list)

    def add(self, span: StoredSpan) -> None:
        """Note a span, whether or not rules match it."""
        if self._root is None or _place(span) < _place(self._root):
            self._root = span

    def match(self, rule: EvalRule, span: StoredSpan, parents: _Spans) -> None:
        """Make the job of a span that a rule matches."""
        if rule.scope == "span":
            self._sample(rule, span, span, f"{span.trace}/{span.id}")
        elif rule.scope == "parent":
            parent = parents.get((span.trace, span.parent_id or ""))
            if parent is not None and parent.has_output and not parent.is_evaluation:
                self._sample(rule, span, parent, f"{span.trace}/{parent.id}")
        else:
            probability, _ = rule.sampling.probability_of(span.facts)
            known = self._likeliest.get(rule.id)
            if known is None or known[2] < probability:
                self._likeliest[rule.id] = rule, span, probability

    def finish(self) -> TraceMatches:
        """Return what was made, with the jobs for the trace or its session.

        These stand below the span that the trace began with, which is known when all have come.
        """
        for rule, span, _ in self._likeliest.values():
            target = self.trace.id
            if rule.scope == "session":
                if self.trace.session_id is None:
                    continue
                target = name_session(rule, self.trace)
            assert self._root is not None
            self._sample(rule, span, self._root, target)
        jobs = tuple(self._jobs.values())
        return TraceMatches(self.trace, len(self._targets), jobs, tuple(self._passed))

    def _sample(self, rule: EvalRule, span: StoredSpan, scored: StoredSpan, target: str) -> None:
        self._targets.add((rule.id, target))
        probability, stratum = rule.sampling.probability_of(span.facts)
        session = rule.scope == "session"
        key = f"{self.trace.tenant_key}/{self.trace.session_id if session else self.trace.trace_id}"
        if not is_sampled(key, probability):
            if session:
                self._passed.append(PassedSession(rule.id, target, self.trace.id, span.received_at))
            return
        known = self._jobs.get((rule.id, target))
        if known is not None and known.probability >= probability:
            return  # whatever led to it, it had the best of all chances
        self._jobs[rule.id, target] = NewEvalJob(
            rule_id=rule.id,
            target=target,
            trace=self.trace.id,
            span_id=scored.id,
            tenant=self.trace.tenant_id,
            project_id=rule.project_id,
            evaluator_name=rule.evaluator_name,
            config=rule.config,
            probability=probability,
            stratum=stratum,
            observed_at=span.received_at,
        )


def _place(span: StoredSpan) -> tuple[bool, bool, int, str]:
    """Return what spans are ordered by to find the one that a trace began with."""
    return span.parent_id is not None, span.start_ns is None, span.start_ns or 0, span.id
