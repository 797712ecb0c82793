"""Lists of the runs of an experiment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, case, cast, func, or_, select

from dokimos.server._db.columns import NUMBER
from dokimos.server._db.tables import RUN_TAGS, RUNS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.list_pages import ListPage, SortKeys, read_page
from dokimos.server._services.projects.projects import contains, find_experiment
from dokimos.server._services.runs.runs import RunStatus, select_described_runs


def _ratio(total: ColumnElement[Any], count: ColumnElement[Any]) -> ColumnElement[Any]:
    """A mean, and less than any for none."""
    return func.coalesce(cast(total, NUMBER) / func.nullif(count, 0), -1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs of an experiment a list shows."""

    search: str | None = None
    status: Sequence[RunStatus] = ()
    branch: str | None = None
    tag: str | None = None
    dataset_version_id: str | None = None


RUN_ORDERS: Final = SortKeys(
    {
        "startedAt": RUNS.c.started_at,
        "completedAt": func.coalesce(RUNS.c.completed_at, 0),
        "name": func.lower(func.coalesce(RUNS.c.name, "")),
        "itemCount": RUNS.c.item_count,
        "passRate": _ratio(RUNS.c.passed_count, RUNS.c.item_count),
        "totalCostUsd": case((RUNS.c.cost_count > 0, RUNS.c.cost_usd), else_=-1.0),
        "avgLatencyMs": _ratio(RUNS.c.latency_ms, RUNS.c.latency_count),
    },
    ties=(RUNS.c.id,),
    default="startedAt,desc",
)
"""By `startedAt`, an index has the runs in order; for the others, those of the experiment are sorted."""
# What a list of a thousand runs would read for nothing.
_UNLISTED: Final = {
    "created_by", "deleted_at", "experiment_id", "experiment_name", "idempotency_hash", "idempotency_key",
    "idempotency_scope", "last_activity_at", "next_ordinal", "project_id", "project_name", "provenance",
    "tenant_id", "verdict",
}  # fmt: skip
_LISTED: Final = [each for each in select_described_runs().selected_columns if each.key not in _UNLISTED]


def list_runs(
    connection: Connection, principal: Principal, experiment_id: str, chosen: RunFilter, page: ListPage
) -> Sequence[Row[Any]]:
    """Return a page of the runs of an experiment, with what a list of them shows.

    Raises:
        NotFoundError: There is no such experiment that the caller sees.
        InvalidRequestError: The experiment has no run that the page could go on behind.
    """
    find_experiment(connection, principal, experiment_id)
    visible = select_described_runs().where(RUNS.c.experiment_id == experiment_id, principal.sees(RUNS))
    return read_page(connection, visible.with_only_columns(*_LISTED), page, RUNS.c.id, *_conditions(chosen))


def _conditions(chosen: RunFilter) -> Iterator[ColumnElement[bool]]:
    if chosen.search:
        columns = (RUNS.c.name, RUNS.c.git_branch, RUNS.c.git_sha, RUNS.c.notes, RUNS.c.config)
        yield or_(*(contains(column, chosen.search) for column in columns))
    if chosen.status:
        yield RUNS.c.status.in_(chosen.status)
    if chosen.branch is not None:
        yield RUNS.c.git_branch == chosen.branch
    if chosen.tag is not None:
        yield RUNS.c.id.in_(select(RUN_TAGS.c.run_id).where(RUN_TAGS.c.tag == chosen.tag))
    if chosen.dataset_version_id is not None:
        yield RUNS.c.dataset_version_id == chosen.dataset_version_id
