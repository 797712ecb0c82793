"""Rules held against the spans of a trace: which jobs that makes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row

from dokimos.server._services.online.enabled_rules import EvalRule
from dokimos.server._services.online.matched_spans import StoredSpan, find_root, find_spans, read_spans
from dokimos.server._services.online.rule_sampling import is_sampled
from dokimos.server._services.online.trace_jobs import NewEvalJob

SPANS_AT_ONCE: Final = 500


def match_trace(
    connection: Connection,
    trace: Row[Any],
    rules: Sequence[EvalRule],
    *,
    since: int | None,
    samples: bool = True,
) -> list[NewEvalJob]:
    """Return the jobs that rules make of a trace.

    Args:
        connection: Of the traces, in a transaction that reads.
        trace: The row of the trace.
        rules: Those that are held against it.
        since: When a span was received at the earliest that matches; None for all.
        samples: Whether what is not sampled is left out.
    """
    own = [rule for rule in rules if rule.tenant in (None, trace.tenant_id)]
    jobs: list[NewEvalJob] = []
    after = ""
    while own:
        spans = read_spans(connection, trace, after=after, since=since, most=SPANS_AT_ONCE)
        for rule in own:
            matched = [span for span in spans if _is_matched(rule, trace, span)]
            jobs.extend(_make_jobs(connection, rule, trace, matched, samples))
        if len(spans) < SPANS_AT_ONCE:
            break
        after = spans[-1].id
    return list({(job.rule_id, job.target): job for job in jobs}.values())


def _is_matched(rule: EvalRule, trace: Row[Any], span: StoredSpan) -> bool:
    if span.is_evaluation or not rule.concerns(span.project_id, trace.tenant_id):
        return False
    return (rule.scope != "span" or span.has_output) and rule.matches(span.facts)


def _make_jobs(
    connection: Connection, rule: EvalRule, trace: Row[Any], matched: Sequence[StoredSpan], samples: bool
) -> Iterable[NewEvalJob]:
    if rule.scope == "span":
        for span in matched:
            yield from _sample(rule, trace, span, span, f"{trace.id}/{span.id}", samples)
    elif rule.scope == "parent":
        parents = find_spans(connection, trace, (span.parent_id for span in matched if span.parent_id))
        for span in matched:
            parent = parents.get(span.parent_id or "")
            if parent is not None and parent.has_output and not parent.is_evaluation:
                yield from _sample(rule, trace, span, parent, f"{trace.id}/{parent.id}", samples)
    elif matched:
        yield from _make_whole_job(connection, rule, trace, matched[0], samples)


def _make_whole_job(
    connection: Connection, rule: EvalRule, trace: Row[Any], span: StoredSpan, samples: bool
) -> Iterable[NewEvalJob]:
    """Return the job for a trace or its session, which stands below the span that the trace began with."""
    target = trace.id
    if rule.scope == "session":
        if trace.session_id is None:
            return
        target = f"session/{trace.tenant_key}/{trace.session_id}"
    root = find_root(connection, trace)
    if root is not None:
        yield from _sample(rule, trace, span, root, target, samples)


def _sample(
    rule: EvalRule, trace: Row[Any], span: StoredSpan, scored: StoredSpan, target: str, samples: bool
) -> Iterable[NewEvalJob]:
    probability, stratum = rule.sampling.probability_of(span.facts)
    key = f"{trace.tenant_key}/{trace.trace_id}"
    if rule.scope == "session":
        key = f"{trace.tenant_key}/{trace.session_id}"
    if samples and not is_sampled(key, probability):
        return
    yield NewEvalJob(
        rule_id=rule.id,
        target=target,
        trace=trace.id,
        span_id=scored.id,
        tenant=trace.tenant_id,
        project_id=rule.project_id,
        evaluator_name=rule.evaluator_name,
        config=rule.config,
        probability=probability,
        stratum=stratum,
        observed_at=span.received_at,
    )
