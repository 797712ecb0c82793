"""Rules held against traces that are stored already: tried without storing anything, or for good."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, insert, select, true, update

from dokimos.server._db.clock import now
from dokimos.server._db.ids import first_id, new_id
from dokimos.server._db.outbox import post
from dokimos.server._db.trace_rule_tables import TRACE_EVAL_BACK_FILLS, TRACE_EVAL_RULES
from dokimos.server._db.trace_tables import TRACES
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.errors import ConflictError
from dokimos.server._services.online.enabled_rules import EvalRule
from dokimos.server._services.online.eval_rules import find_rule, find_writable_rule
from dokimos.server._services.online.matched_spans import IS_THERE, TRACE_COLUMNS, find_projects
from dokimos.server._services.online.rules_changed import RulesChanged
from dokimos.server._services.online.scored_cases import TraceTooLarge, build_case, load_scored_spans
from dokimos.server._services.online.span_matching import TraceMatches, match_traces
from dokimos.server._services.online.trace_jobs import NewEvalJob

TRACES_AT_ONCE: Final = 50
MEASURED_SPANS: Final = 10_000
"""After so many, a forecast looks at no further traces or sessions: somebody waits for it."""
OTHERS_AT_ONCE: Final = 200
"""Traces of other projects that are looked at for spans of a rule's project."""
_FILL: Final = TRACE_EVAL_BACK_FILLS.c


def create_back_fill(
    connection: Connection, principal: Principal, project_id: str, rule_id: str, times: tuple[int, int]
) -> Row[Any]:
    """Have a rule held against the traces of some time; what it scored before is not scored again.

    Raises:
        NotFoundError: There is no such rule that the caller sees.
        ForbiddenError: It is shared, and closed to this caller.
        ConflictError: It is not enabled, or another back-fill of it is under way.
    """
    rule = find_writable_rule(connection, principal, project_id, rule_id)
    if not rule.enabled:
        raise ConflictError(f"The rule '{rule.name}' is not enabled, so it scores nothing; enable it first")
    is_open = (_FILL.rule_id == rule_id, _FILL.status == "PENDING")
    if connection.execute(select(_FILL.id).where(*is_open)).first() is not None:
        raise ConflictError(f"A back-fill of the rule '{rule.name}' is under way; wait until it has ended")
    row = insert(TRACE_EVAL_BACK_FILLS).values(
        id=new_id(),
        rule_id=rule.id,
        project_id=rule.project_id,
        tenant_id=rule.tenant_id,
        status="PENDING",
        from_at=times[0],
        to_at=times[1],
        trace_count=0,
        job_count=0,
        created_by=principal.id,
        created_at=now(),
    )
    post(connection, RulesChanged())
    return connection.execute(row.returning(TRACE_EVAL_BACK_FILLS)).one()


def list_back_fills(
    connection: Connection, principal: Principal, project_id: str, rule_id: str
) -> Sequence[Row[Any]]:
    """Return the latest back-fills of a rule, the newest first.

    Those of shared rules count the traces of all tenants: a tenant is told of none.

    Raises:
        NotFoundError: There is no such rule that the caller sees.
    """
    rule = find_rule(connection, principal, project_id, rule_id)
    if principal.is_restricted and rule.tenant_id is None:
        return []
    query = select(TRACE_EVAL_BACK_FILLS).where(_FILL.rule_id == rule_id)
    return connection.execute(query.order_by(_FILL.id.desc()).limit(100)).all()


def next_back_fill(connection: Connection) -> Row[Any] | None:
    """Return the oldest back-fill that has not ended, of an enabled rule; None where there is none."""
    query = (
        select(TRACE_EVAL_BACK_FILLS)
        .join(TRACE_EVAL_RULES, TRACE_EVAL_RULES.c.id == _FILL.rule_id)
        .where(_FILL.status == "PENDING", TRACE_EVAL_RULES.c.enabled.is_(true()))
        .order_by(_FILL.id)
        .limit(1)
    )
    return connection.execute(query).first()


def note_progress(connection: Connection, fill_id: str, after: str | None, traces: int, jobs: int) -> None:
    """Note how far a back-fill is; without a trace to go on behind it has ended."""
    values: dict[str, Any] = {"trace_count": _FILL.trace_count + traces, "job_count": _FILL.job_count + jobs}
    if after is None:
        values |= {"status": "SUCCEEDED", "completed_at": now()}
    else:
        values["after"] = after
    connection.execute(update(TRACE_EVAL_BACK_FILLS).where(_FILL.id == fill_id).values(values))


@dataclass(frozen=True, slots=True)
class FoundTraces:
    """Traces that a rule may score."""

    traces: Sequence[Row[Any]]
    last: str | None
    """The trace to go on behind, None where there are no more."""
    others: int
    """How many traces of other projects were looked at for spans of the rule's project."""


def find_traces(
    connection: Connection,
    rule: EvalRule,
    times: tuple[int, int],
    after: str | None,
    most: int,
    *,
    most_others: int = OTHERS_AT_ONCE,
) -> FoundTraces:
    """Return traces that a rule may score and that were heard of first within some time, the oldest first.

    As when spans come in, those are the traces with a span of the rule's project, whichever project the trace
    itself is counted to.

    Args:
        connection: Of the traces.
        rule: The rule.
        times: From when to when they were heard of first.
        after: The trace to go on behind.
        most: How many traces of the rule's project.
        most_others: How many of others are looked at; 0 leaves them out.
    """
    bounds = [TRACES.c.id >= first_id(times[0]), TRACES.c.id < first_id(times[1]), IS_THERE]
    if rule.tenant is not None:
        bounds.append(TRACES.c.tenant_key == rule.tenant)
    if after is not None:
        bounds.append(TRACES.c.id > after)
    query = select(*TRACE_COLUMNS).order_by(TRACES.c.id)
    is_own = TRACES.c.project_id == rule.project_id
    own = list(connection.execute(query.where(*bounds, is_own).limit(most)).all())
    ends = [own[-1].id] if len(own) == most else []
    others: list[Row[Any]] = []
    if most_others:
        bounds += [TRACES.c.id < end for end in ends]
        is_other = TRACES.c.project_id.is_distinct_from(rule.project_id)
        others += connection.execute(query.where(*bounds, is_other).limit(most_others)).all()
        if len(others) == most_others:
            ends = [others[-1].id]
    last = ends[-1] if ends else None
    shared = find_projects(connection, others, [rule.project_id])
    found = [trace for trace in own if last is None or trace.id <= last]
    found += [trace for trace in others if trace.id in shared]
    return FoundTraces(sorted(found, key=lambda trace: str(trace.id)), last, len(others))


@dataclass(frozen=True, slots=True)
class TrialStep:
    """What a rule would have made of some stored traces."""

    last: str | None
    """The trace to go on behind, None where there are no more."""
    others: int
    """How many traces of other projects were looked at for spans of the rule's project."""
    matches: Sequence[TraceMatches]
    """What the rule makes of those that it may score, in their order."""

    @property
    def traces(self) -> int:
        """How many traces these are."""
        return len(self.matches)

    @property
    def matched(self) -> int:
        """How many spans, traces or sessions match, sampled or not."""
        return sum(each.matched for each in self.matches)

    @property
    def jobs(self) -> Iterator[NewEvalJob]:
        """Those that would have been scored."""
        return (job for each in self.matches for job in each.jobs)


def try_rule(
    connection: Connection,
    rule: EvalRule,
    times: tuple[int, int],
    after: str | None,
    *,
    most_others: int = OTHERS_AT_ONCE,
) -> TrialStep:
    """Hold a rule against some stored traces; nothing is stored. See `find_traces`."""
    found = find_traces(connection, rule, times, after, TRACES_AT_ONCE, most_others=most_others)
    return TrialStep(found.last, found.others, match_traces(connection, found.traces, [rule]))


def measure_texts(connection: Connection, jobs: Sequence[NewEvalJob], scope: str) -> list[int]:
    """Return for some jobs how many characters a judge would be shown."""
    lengths: list[int] = []
    count = 0
    for _, spans in load_scored_spans(connection, jobs, scope):
        count += sum(map(len, spans))
        if count > MEASURED_SPANS and lengths:
            break
        try:
            case = build_case(spans, scope)
        except TraceTooLarge:  # which no judge is shown
            continue
        if case is not None:
            lengths.append(len(case.input or "") + len(case.actual_output or ""))
    return lengths
