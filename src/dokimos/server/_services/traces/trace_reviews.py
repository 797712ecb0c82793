"""Traces in the review queue: each is an item of a run, so that all of human review holds for it.

The item is a snapshot of what is judged. It stays with all that people say about it when retention removes
the trace.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, Row, func, select

from dokimos.server._db.clock import DAY, format_time, now
from dokimos.server._db.database import Database, Lane
from dokimos.server._db.inserts import INSERTS
from dokimos.server._db.review_tables import TRACE_REVIEWS
from dokimos.server._db.tables import ITEMS, PROJECTS, RUNS
from dokimos.server._db.trace_tables import TRACE_EVAL_JOBS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.errors import InvalidRequestError, NotFoundError
from dokimos.server._services.runs.items import add_items
from dokimos.server._services.runs.new_items import NewItem
from dokimos.server._services.runs.runs import NewRun, RunStatus, change_status, create_run_in, find_run
from dokimos.server._services.traces.trace_details import find_trace
from dokimos.server._services.traces.trace_items import TracePart, make_review_item
from dokimos.server._services.traces.trace_views import read_whole_trace

EXPERIMENT: Final = "Reviewed traces"
"""The experiment whose runs have the items that were made of traces, a run for each day."""
_PARTIAL: Final = '{"partial":"traces that people review"}'
"""Of such a run: the traces of two days are not the same, so none is compared with the one before."""
_JOB: Final = TRACE_EVAL_JOBS.c
_REVIEW: Final = TRACE_REVIEWS.c


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedTrace:
    """A trace that people are to review, or one span of it."""

    trace: UUID
    span_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedTrace:
    """A trace in the review queue."""

    trace_id: str
    span_id: str | None
    run_id: str
    item_id: str
    is_new: bool
    """Whether it was put there just now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What is put into the queue, and where it belongs."""

    place: str
    trace_id: str
    span_id: str | None
    project_id: str
    tenant: str | None
    item: NewItem

    @property
    def key(self) -> tuple[str, str]:
        return self.trace_id, self.span_id or ""


async def queue_traces(
    database: Database, traces: Database, principal: Principal, chosen: Sequence[ReviewedTrace]
) -> list[QueuedTrace]:
    """Put traces into the review queue; one that is there already stays as it is.

    Raises:
        NotFoundError: A trace does not exist or is not visible.
        InvalidRequestError: One belongs to no project, has no such span or no input.
        ConflictError: One of them is too large.
        RoleError: The caller's role in a project is too low.
    """
    snapshots = [
        await take_snapshot(traces, principal, each, f"items[{number}]") for number, each in enumerate(chosen)
    ]
    return await database.write(partial(store_snapshots, principal=principal, snapshots=snapshots))


async def take_snapshot(
    traces: Database, principal: Principal, chosen: ReviewedTrace, place: str
) -> Snapshot:
    """Return what is put into the queue of a trace. Raises what `queue_traces` does."""

    def read(connection: Connection) -> tuple[TracePart, Sequence[Row[Any]]]:
        try:
            row = find_trace(connection, principal, chosen.trace)
        except NotFoundError as error:
            raise NotFoundError(f"{place}.traceId: {error}") from None
        if row.project_id is None:
            raise InvalidRequestError(
                "belongs to no project, in which people could review it", field=f"{place}.traceId"
            )
        principal.check_role(row.project_id)
        part = TracePart(row, read_whole_trace(connection, row), chosen.span_id)
        return part, _read_scores(connection, row, chosen.span_id)

    part, scores = await traces.read(read, Lane.WORK)
    return Snapshot(
        place=place,
        trace_id=part.trace.trace_id,
        span_id=chosen.span_id,
        project_id=part.trace.project_id,
        tenant=principal.tenant if principal.is_restricted else part.trace.tenant_id,
        item=await asyncio.to_thread(make_review_item, part, scores, place),
    )


def _read_scores(connection: Connection, trace: Row[Any], span_id: str | None) -> Sequence[Row[Any]]:
    """What rules said of a trace or a span; of several scores of an evaluator, the lowest first."""
    query = select(TRACE_EVAL_JOBS).where(
        _JOB.trace == trace.id, _JOB.project_id == trace.project_id, _JOB.score.is_not(None)
    )
    if span_id is not None:
        query = query.where(_JOB.span_id == span_id)
    return connection.execute(query.order_by(_JOB.score, _JOB.id)).all()


def store_snapshots(
    connection: Connection, principal: Principal, snapshots: Sequence[Snapshot]
) -> list[QueuedTrace]:
    """Put snapshots into the queue, those excepted that are there. Raises what `queue_traces` does."""
    found: dict[int, QueuedTrace] = {}
    places = sorted({(each.project_id, each.tenant or "") for each in snapshots})
    for project_id, tenant in places:  # in one order, so that two requests wait for each other
        own = {
            number: each
            for number, each in enumerate(snapshots)
            if (each.project_id, each.tenant or "") == (project_id, tenant)
        }
        found |= _store_of_project(connection, _act_for(principal, tenant), project_id, own)
    return [found[number] for number in range(len(snapshots))]


def _act_for(principal: Principal, tenant: str) -> Principal:
    """Return a caller who makes rows that nobody sees who does not see the trace."""
    may_write = principal.may_write_shared or not principal.is_restricted
    return replace(principal, tenant=tenant or None, is_restricted=True, may_write_shared=may_write)


def _store_of_project(
    connection: Connection, principal: Principal, project_id: str, snapshots: Mapping[int, Snapshot]
) -> dict[int, QueuedTrace]:
    query = select(PROJECTS).where(PROJECTS.c.id == project_id, principal.sees(PROJECTS))
    project = connection.execute(query).first()
    if project is None:
        raise NotFoundError(f"{next(iter(snapshots.values())).place}.traceId: its project was not found")
    run_id = _open_run(connection, principal, project)
    # The run is locked from here on: of two requests for one trace, the second finds what the first stored.
    known = _find_known(connection, principal, project_id, [each.key for each in snapshots.values()])
    new: dict[tuple[str, str], NewItem] = {}
    for each in snapshots.values():
        if each.key not in known:
            new.setdefault(each.key, each.item)
    if new:
        add_items(connection, principal, run_id, list(new.values()))
        ids = _read_last_items(connection, run_id, len(new))
        _note_items(connection, principal, run_id, project_id, dict(zip(new, ids, strict=True)))
    change_status(connection, principal, run_id, RunStatus.SUCCESS)
    added = _find_known(connection, principal, project_id, list(new))
    return {
        number: QueuedTrace(
            trace_id=each.trace_id,
            span_id=each.span_id,
            run_id=(known | added)[each.key].run_id,
            item_id=(known | added)[each.key].item_id,
            is_new=each.key in new,
        )
        for number, each in snapshots.items()
    }


def _open_run(connection: Connection, principal: Principal, project: Row[Any]) -> str:
    """Return the run of the day, which items can be added to, locked; another one while a judge is at it."""
    day = (format_time(now() // DAY * DAY) or "")[:10]
    for part in itertools.count(1):
        name = day if part == 1 else f"{day} ({part})"
        key = f"reviewed traces {name}"
        new = NewRun(
            experiment=EXPERIMENT,
            name=name,
            provenance=_PARTIAL,
            idempotency_key=key,
            idempotency_hash=key,
            renews_deleted=True,
        )
        run_id = create_run_in(connection, principal, project, new)
        status = find_run(connection, principal, run_id, for_update=True).status
        if status == RunStatus.EVALUATING:
            continue
        if status != RunStatus.RUNNING:
            change_status(connection, principal, run_id, RunStatus.RUNNING)
        return run_id
    raise AssertionError("the parts of a day do not end")


def _find_known(
    connection: Connection, principal: Principal, project_id: str, keys: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], Row[Any]]:
    """The traces and spans that the tenant has in the queue, or has reviewed."""
    query = (
        select(TRACE_REVIEWS)
        .join(RUNS, RUNS.c.id == _REVIEW.run_id)
        .where(
            _REVIEW.project_id == project_id,
            _REVIEW.tenant_id == (principal.tenant or ""),
            _REVIEW.trace_id.in_(sorted({trace for trace, _ in keys})),
            RUNS.c.deleted_at.is_(None),
        )
    )
    rows = {(row.trace_id, row.span_id): row for row in connection.execute(query)}
    return {key: rows[key] for key in keys if key in rows}


def _read_last_items(connection: Connection, run_id: str, count: int) -> list[str]:
    query = select(ITEMS.c.id).where(ITEMS.c.run_id == run_id).order_by(ITEMS.c.ordinal.desc()).limit(count)
    return list(connection.execute(query).scalars())[::-1]


def _note_items(
    connection: Connection,
    principal: Principal,
    run_id: str,
    project_id: str,
    items: Mapping[tuple[str, str], str],
) -> None:
    insert = INSERTS[connection.dialect.name]
    for (trace_id, span_id), item_id in items.items():
        values = {"item_id": item_id, "run_id": run_id, "created_by": principal.id, "created_at": now()}
        keys = {
            "project_id": project_id,
            "tenant_id": principal.tenant or "",
            "trace_id": trace_id,
            "span_id": span_id,
        }
        row = insert(TRACE_REVIEWS).values(**keys, **values)
        # There is one where the run was deleted, and is not removed yet.
        connection.execute(row.on_conflict_do_update(index_elements=list(keys), set_=values))


def list_reviewed(connection: Connection, principal: Principal, trace_id: str) -> Sequence[Row[Any]]:
    """Return the items that were made of a trace and its spans, as far as the caller sees their runs.

    The trace need not be there any more.
    """
    query = (
        select(TRACE_REVIEWS)
        .join(RUNS, RUNS.c.id == _REVIEW.run_id)
        .where(_REVIEW.trace_id == trace_id, principal.sees(RUNS))
        .order_by(func.length(_REVIEW.span_id), _REVIEW.span_id, _REVIEW.created_at)
    )
    return connection.execute(query).all()
