"""The calls to models that judge jobs of a project have made: a page of them, and what they come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, case, func, not_, select

from dokimos.server._db.batches import in_batches
from dokimos.server._db.connection_tables import LLM_CONNECTIONS
from dokimos.server._db.judge_call_tables import JUDGE_CALLS
from dokimos.server._db.judge_tables import JUDGE_JOBS
from dokimos.server._db.tables import RUNS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.judging.judge_budgets import NANO
from dokimos.server._services.judging.judge_calls import CallStatus
from dokimos.server._services.list_pages import ListPage, SortKeys, read_page
from dokimos.server._services.projects.projects import find_project

_CALL: Final = JUDGE_CALLS.c
_JOB: Final = JUDGE_JOBS.c


class CallState(StrEnum):
    """What became of a call, as people are told."""

    IN_FLIGHT = "IN_FLIGHT"
    ANSWERED = "ANSWERED"
    UNUSABLE = "UNUSABLE"
    """It was answered, and the reply is of no use."""
    FAILED = "FAILED"
    LOST = "LOST"
    """Nobody knows how it ended."""
    REPLACED = "REPLACED"
    """It was answered, and another reply to the same call counts."""


_STATES: Final = {
    CallStatus.RESERVED: CallState.IN_FLIGHT,
    CallStatus.ANSWERED: CallState.ANSWERED,
    CallStatus.EXPIRED: CallState.ANSWERED,  # its reply has been removed since; it is paid for
    CallStatus.UNUSABLE: CallState.UNUSABLE,
    CallStatus.FAILED: CallState.FAILED,
    CallStatus.LOST: CallState.LOST,
    CallStatus.REPLACED: CallState.REPLACED,
}
CALL_ORDERS: Final = SortKeys({"createdAt": _CALL.created_at}, ties=(_CALL.id,), default="createdAt,desc")


def state_of(status: str) -> CallState:
    """Return what people are told of a call whose row has a status."""
    return _STATES[CallStatus(status)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFilter:
    """Which calls are asked for; all of them by default."""

    job_id: str | None = None
    run_id: str | None = None
    connection_id: str | None = None
    state: CallState | None = None
    since: int | None = None
    """The earliest time, in microseconds since 1970."""
    until: int | None = None
    """The first time that is too late."""

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return what holds for the rows."""
        found: list[ColumnElement[bool]] = []
        if self.job_id is not None:
            found.append(_CALL.job_id == self.job_id)
        if self.run_id is not None:
            found.append(_CALL.job_id.in_(select(_JOB.id).where(_JOB.run_id == self.run_id)))
        if self.connection_id is not None:
            found.append(_CALL.job_id.in_(select(_JOB.id).where(_JOB.connection_id == self.connection_id)))
        if self.state is not None:
            statuses = [status for status, state in _STATES.items() if state is self.state]
            found.append(_CALL.status.in_(statuses))
        if self.since is not None:
            found.append(_CALL.created_at >= self.since)
        if self.until is not None:
            found.append(_CALL.created_at < self.until)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTotals:
    """What calls come to, those that are being made excluded."""

    calls: int
    tokens: int
    cost_usd: float | None
    """None where the price of no call is known."""
    unpriced_calls: int
    rows: dict[CallState, int]
    """How many there are in each state."""


def list_calls(
    connection: Connection, principal: Principal, name: str, chosen: CallFilter, page: ListPage
) -> Sequence[Row[Any]]:
    """Return a page of the calls of a project that the caller sees.

    Raises:
        NotFoundError: There is no such project that the caller sees.
        InvalidRequestError: The page goes on behind a call that is not one of them.
    """
    project = find_project(connection, principal, name)
    # The ids alone first, which the index has: to sort whole rows would read the replies.
    rows = select(_CALL.id).where(*are_visible(principal, project.id))
    ids = [row.id for row in read_page(connection, rows, page, _CALL.id, *chosen.conditions())]
    found = {
        row.id: row
        for batch in in_batches(ids)
        for row in connection.execute(_select_described(principal).where(_CALL.id.in_(batch)))
    }
    return [found[call_id] for call_id in ids if call_id in found]


def sum_calls(connection: Connection, principal: Principal, name: str, chosen: CallFilter) -> CallTotals:
    """Return what the calls of a project come to that the caller sees.

    Raises:
        NotFoundError: There is no such project that the caller sees.
    """
    project = find_project(connection, principal, name)
    query = (
        select(_CALL.status, *sums_of_calls())
        .where(*are_visible(principal, project.id), *chosen.conditions())
        .group_by(_CALL.status)
    )
    rows: dict[CallState, int] = dict.fromkeys(CallState, 0)
    calls = tokens = nano_usd = unpriced = 0
    for row in connection.execute(query):
        state = state_of(row.status)
        rows[state] += int(row.rows)
        if state is not CallState.IN_FLIGHT:
            calls, tokens = calls + int(row.calls), tokens + int(row.tokens)
            nano_usd, unpriced = nano_usd + int(row.nano_usd), unpriced + int(row.unpriced)
    cost = None if unpriced >= calls else nano_usd / NANO
    return CallTotals(calls=calls, tokens=tokens, cost_usd=cost, unpriced_calls=unpriced, rows=rows)


def are_visible(principal: Principal, project_id: str) -> tuple[ColumnElement[bool], ...]:
    """The conditions that calls are of a project, and of a job that the caller sees.

    The jobs that it does not see are excluded, rather than the others searched: so the index of the ledger
    gives the order, however many jobs there are.
    """
    is_visible = and_(principal.sees(JUDGE_JOBS), principal.sees(RUNS))
    hidden = (
        select(_JOB.id)
        .join(RUNS, RUNS.c.id == _JOB.run_id)
        .where(_JOB.project_id == project_id, not_(is_visible))
    )
    return _CALL.project_id == project_id, _CALL.job_id.not_in(hidden)


def sums_of_calls() -> tuple[ColumnElement[Any], ...]:
    """The columns `rows`, `calls`, `tokens`, `nano_usd` and `unpriced` of a group of calls."""
    unpriced = case((_CALL.nano_usd.is_(None), _CALL.calls), else_=0)
    return (
        func.count().label("rows"),
        func.sum(_CALL.calls).label("calls"),
        func.sum(_CALL.tokens).label("tokens"),
        func.sum(func.coalesce(_CALL.nano_usd, 0)).label("nano_usd"),
        func.sum(unpriced).label("unpriced"),
    )


_COLUMNS: Final = (
    "id", "job_id", "identity", "status", "calls", "tokens", "nano_usd", "problem", "created_at",
    "answered_at",
)  # fmt: skip


def _select_described(principal: Principal) -> Select[Any]:
    """Calls with what they were made for; the item is not known, since equal questions share one call."""
    model = LLM_CONNECTIONS.c
    return (
        select(
            *(_CALL[name] for name in _COLUMNS),
            _CALL.reply.is_not(None).label("has_reply"),
            _JOB.evaluator_name,
            _JOB.run_id,
            RUNS.c.name.label("run_name"),
            model.id.label("connection_id"),
            model.name.label("connection_name"),
            model.model,
        )
        .join(JUDGE_JOBS, _JOB.id == _CALL.job_id)
        .join(RUNS, RUNS.c.id == _JOB.run_id)
        .outerjoin(LLM_CONNECTIONS, and_(model.id == _JOB.connection_id, principal.sees(LLM_CONNECTIONS)))
    )
