"""Traces by what rules of online evaluation said of them: their jobs are in the same database.

A job is one row for all that it ever says, written under its lease, so a score has no second copy
that could differ from it after a crash. The indexes of jobs end with the id of the trace: a page of a list
that is sorted by that is read from one place of one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    and_,
    bindparam,
    exists,
    false,
    literal_column,
    or_,
    select,
    true,
)

from dokimos.server._db.trace_tables import FAILED_SCORE, TRACE_EVAL_JOBS, TRACES
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.list_pages import Order

_Conditions: TypeAlias = list[ColumnElement[bool]]
ScoreResult: TypeAlias = Literal["passed", "failed", "error"]
_JOB: Final = TRACE_EVAL_JOBS.c
_IS_SCORED: Final[ColumnElement[bool]] = _JOB.score.is_not(None)
# As the partial indexes say it.
_HAS_FAILED: Final[ColumnElement[bool]] = literal_column(FAILED_SCORE)
_IS_ERROR: Final[ColumnElement[bool]] = _JOB.status == bindparam("errored", "FAILED", literal_execute=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreFilter:
    """What one result of a rule has to say; None says nothing."""

    evaluator: str | None = None
    """The name of its evaluator."""
    min_score: float | None = None
    max_score: float | None = None
    result: ScoreResult | None = None

    def check(self, project_id: str | None) -> None:
        """Raise `InvalidRequestError` where no index has such results."""
        if project_id is None:
            raise InvalidRequestError("needs a project", field="evaluator")
        has_range = self.min_score is not None or self.max_score is not None
        if self.evaluator is None and (has_range or self.result == "passed"):
            raise InvalidRequestError("names whose scores are meant, and is missing", field="evaluator")
        if has_range and self.result == "error":
            raise InvalidRequestError("has no score; leave minScore and maxScore out", field="result")

    def of_index(self, project_id: str | None) -> list[ColumnElement[bool]]:
        """Return the conditions under which one index has the jobs in the order of their traces."""
        own = [_JOB.project_id == project_id]
        if self.result == "failed":
            return [*own, _HAS_FAILED]
        if self.result == "error":
            return [*own, _IS_ERROR]
        return self.of_evaluator(project_id)

    def of_evaluator(self, project_id: str | None, table: FromClause = TRACE_EVAL_JOBS) -> _Conditions:
        """Return the conditions under which an index has the jobs in the order of their scores."""
        job = table.c
        named = (job.project_id == project_id, job.evaluator_name == self.evaluator)
        return [*named, job.score.is_not(None)]

    def conditions(self) -> _Conditions:
        """Return the other conditions on a job."""
        job = TRACE_EVAL_JOBS.c
        conditions: _Conditions = []
        if self.evaluator is not None:
            conditions.append(job.evaluator_name == self.evaluator)
        if self.min_score is not None:
            conditions.append(job.score >= self.min_score)
        if self.max_score is not None:
            conditions.append(job.score <= self.max_score)
        if self.result in ("passed", "failed"):
            conditions.append(job.success.is_(true() if self.result == "passed" else false()))
        return conditions

    def is_met(self, project_id: str | None) -> ColumnElement[bool]:
        """The condition that a trace has such a result."""
        query = select(_JOB.id).where(_JOB.trace == TRACES.c.id)
        return exists(query.where(*self.of_index(project_id), *self.conditions()))


@dataclass(frozen=True, slots=True)
class ScoredTraces:
    """A part of a list that is read from the jobs."""

    ids: list[str]
    end: str | None
    """The trace up to which jobs were looked at, None for all."""


def read_scored(
    connection: Connection,
    chosen: ScoreFilter,
    project_id: str | None,
    conditions: Sequence[ColumnElement[bool]],
    *,
    after: str | None,
    is_descending: bool,
    count: int,
    window: int,
) -> ScoredTraces:
    """Return traces with such a result, in the order of their ids.

    Args:
        conditions: On the traces.
        after: The trace that the page before ended with.
        count: Traces at most.
        window: Jobs that are looked at, at most.
    """
    bounds = chosen.of_index(project_id)
    trace = _JOB.trace
    if after is not None:
        bounds.append(trace < after if is_descending else trace > after)
    order: ColumnElement[Any] = trace.desc() if is_descending else trace.asc()
    last = connection.execute(select(trace).where(*bounds).order_by(order).offset(window - 1).limit(1))
    end = last.scalar()
    if end is not None:
        bounds.append(trace >= end if is_descending else trace <= end)
    query: Select[Any] = (
        select(trace)
        .join(TRACES, TRACES.c.id == trace)
        .where(*bounds, *chosen.conditions(), *conditions)
        .distinct()
        .order_by(order)
        .limit(count)
    )
    return ScoredTraces(list(connection.execute(query).scalars()), end)


def select_by_score(
    chosen: ScoreFilter, project_id: str | None, order: Order, conditions: Sequence[ColumnElement[bool]]
) -> Select[Any]:
    """Return the query of traces by a score: each by that of its scores which comes first in the order.

    It is this score that the filter is about, so that the place of a trace is the same in every list.
    """
    other = TRACE_EVAL_JOBS.alias()
    comes_before = other.c.score > _JOB.score if order.is_descending else other.c.score < _JOB.score
    is_same = and_(other.c.score == _JOB.score, other.c.id < _JOB.id)
    is_earlier = (other.c.trace == _JOB.trace, or_(comes_before, is_same))
    earlier = select(other.c.id).where(*is_earlier, *chosen.of_evaluator(project_id, other))
    query = select(*by_jobs(order).values).join(TRACES, TRACES.c.id == _JOB.trace)
    own = (*chosen.of_evaluator(project_id), *chosen.conditions(), *conditions)
    return by_jobs(order).apply(query.where(*own, ~exists(earlier)))


def by_jobs(order: Order) -> Order:
    """Return the same order by what an index of jobs has."""
    return order.replace({TRACES.c.id: _JOB.trace})
