"""Lists of the runs of an experiment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, case, cast, func, or_, select

from dokimos.server._db.columns import NUMBER
from dokimos.server._db.tables import DATASET_VERSIONS, DATASETS, RUN_TAGS, RUNS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.list_pages import ListPage, SortKeys, read_page
from dokimos.server._services.projects.projects import contains, find_experiment
from dokimos.server._services.runs.run_parts import tags_of_experiment, tags_of_runs
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
        "passRate": _ratio(RUNS.c.passed_count, RUNS.c.item_count - RUNS.c.informational_count),
        "totalCostUsd": case((RUNS.c.cost_count > 0, RUNS.c.cost_usd), else_=-1.0),
        "avgLatencyMs": _ratio(RUNS.c.latency_ms, RUNS.c.latency_count),
    },
    ties=(RUNS.c.id,),
    default="startedAt,desc",
)
"""By `startedAt`, an index has the runs in order; for the others, those of the experiment are sorted."""


class ListedRun(NamedTuple):
    """A run with what a list shows of it.

    Attributes of a `Row` take several times as long to read, and lists have thousands of runs.
    """

    id: str
    status: str
    config: str | None
    item_count: int
    passed_count: int
    started_at: int
    completed_at: int | None
    dataset_version_id: str | None
    dataset_version: int | None
    tokens_in: int
    tokens_in_count: int
    tokens_out: int
    tokens_out_count: int
    cost_usd: float
    cost_count: int
    latency_ms: int
    latency_count: int
    status_reason: str | None
    judged_count: int
    errored_count: int
    informational_count: int
    planned_item_count: int | None
    name: str | None
    notes: str | None
    git_sha: str | None
    git_branch: str | None
    triggered_by: str | None
    pull_request: str | None
    dataset_name: str | None


_COLUMNS: Final = {column.key: column for column in select_described_runs().selected_columns}
_LISTED: Final = (
    select(*(_COLUMNS[name] for name in ListedRun._fields))
    .select_from(RUNS)
    .outerjoin(DATASET_VERSIONS, DATASET_VERSIONS.c.id == RUNS.c.dataset_version_id)
    .outerjoin(DATASETS, DATASETS.c.id == DATASET_VERSIONS.c.dataset_id)
)


@dataclass(frozen=True, slots=True)
class RunList:
    """A page of the runs of an experiment."""

    runs: Sequence[ListedRun]
    tags: Mapping[str, Sequence[str]]
    """By the ids of runs, in alphabetical order; runs without tags may be missing."""
    baseline_run_id: str | None
    """The pinned run of the experiment."""


def list_runs(
    connection: Connection, principal: Principal, experiment_id: str, chosen: RunFilter, page: ListPage
) -> RunList:
    """Return a page of the runs of an experiment, with what a list of them shows.

    Raises:
        NotFoundError: There is no such experiment that the caller sees.
        InvalidRequestError: The experiment has no run that the page could go on behind.
    """
    experiment = find_experiment(connection, principal, experiment_id)
    visible = _LISTED.where(RUNS.c.experiment_id == experiment_id, principal.sees(RUNS))
    rows = read_page(connection, visible, page, RUNS.c.id, *_conditions(chosen))
    runs = [ListedRun._make(row) for row in rows]
    if page.limit is None:  # one parameter instead of one for each run
        tags = tags_of_experiment(connection, experiment_id)
    else:
        tags = tags_of_runs(connection, [run.id for run in runs])
    return RunList(runs, tags, experiment.baseline_run_id)


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
