"""What the server tells those who watch: that something has changed, by ids and counts, never by contents.

A service announces an event inside its transaction; it is published after the commit
(`dokimos.server._db.outbox`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, Row

from dokimos.server._db.outbox import post
from dokimos.server._db.tables import RUNS
from dokimos.server._services.accounts.principal import Principal

EventData = Mapping[str, str | int | None]
"""More ids, and counts."""
_NOTHING: Final[EventData] = {}


class EventKind(StrEnum):
    """What has happened."""

    PROJECT_CREATED = "project.created"
    PROJECT_UPDATED = "project.updated"
    PROJECT_DELETED = "project.deleted"
    MEMBERS_CHANGED = "members.changed"
    EXPERIMENT_CREATED = "experiment.created"
    EXPERIMENT_UPDATED = "experiment.updated"
    EXPERIMENT_DELETED = "experiment.deleted"
    RUN_CREATED = "run.created"
    RUN_UPDATED = "run.updated"
    RUN_ITEMS = "run.items"
    RUN_COMPLETED = "run.completed"
    RUN_DELETED = "run.deleted"
    COMPARISON_READY = "comparison.ready"
    VERDICT_READY = "verdict.ready"
    ANNOTATION_CHANGED = "annotation.changed"
    ANNOTATION_DELETED = "annotation.deleted"
    CLAIMS_CHANGED = "claims.changed"
    COMMENT_CREATED = "comment.created"
    COMMENT_UPDATED = "comment.updated"
    COMMENT_DELETED = "comment.deleted"
    WEBHOOK_CHANGED = "webhook.changed"
    WEBHOOK_DELETED = "webhook.deleted"
    ALERT_UPDATED = "alert.updated"
    JUDGE_JOB_UPDATED = "judge-job.updated"
    JUDGE_JOB_DELETED = "judge-job.deleted"
    DATASET_CREATED = "dataset.created"
    DATASET_DELETED = "dataset.deleted"
    DATASET_VERSION_CREATED = "dataset.version.created"
    CONNECTION_CHANGED = "connection.changed"
    CONNECTION_DELETED = "connection.deleted"
    TRACE_EVAL_RULE_CHANGED = "trace-eval-rule.changed"
    TRACE_EVAL_RULE_DELETED = "trace-eval-rule.deleted"
    TRACE_ALERT_CHANGED = "trace-alert.changed"
    TRACE_ALERT_DELETED = "trace-alert.deleted"
    VIEW_CHANGED = "view.changed"
    VIEW_DELETED = "view.deleted"
    RELOAD = "reload"
    """Events were lost: whoever watches reads again what it shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that has changed."""

    kind: EventKind
    tenants: tuple[str | None, ...] = ()
    """The tenants of the rows concerned, None for a shared one: whoever sees all of these rows is told."""
    project_id: str | None = None
    experiment_id: str | None = None
    run_id: str | None = None
    data: EventData = field(default_factory=dict)
    """More ids, and counts."""
    projects: tuple[str, ...] = ()
    """Of something outside of projects, such as a dataset: those whose members may know of it."""
    is_progress: bool = False
    """Whether it only tells how far something is, by the thousand: the audit log has no row of it."""

    def is_visible_to(self, principal: Principal) -> bool:
        """Whether a caller may know of it."""
        if self.kind is EventKind.RELOAD:
            return True
        is_in_own_project = any(map(principal.sees_project, (self.project_id, *self.projects)))
        return is_in_own_project and all(map(principal.sees_tenant, self.tenants))

    def describe(self) -> dict[str, str | int | None]:
        """Return it as it is sent, without its kind."""
        ids = {"projectId": self.project_id, "experimentId": self.experiment_id, "runId": self.run_id}
        return {**{name: value for name, value in ids.items() if value is not None}, **self.data}

    def dump(self) -> str:
        """Return it as JSON, for another server."""
        parts = (
            self.kind,
            self.tenants,
            self.project_id,
            self.experiment_id,
            self.run_id,
            self.data,
            self.projects,
        )
        return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def load(cls, parts: Sequence[Any]) -> Event:
        """Read what `dump` wrote, as parsed JSON; raises ValueError where it is something else."""
        kind, tenants, project_id, experiment_id, run_id, data, projects = parts
        return cls(
            kind=EventKind(kind),
            tenants=tuple(tenants),
            project_id=project_id,
            experiment_id=experiment_id,
            run_id=run_id,
            data=dict(data),
            projects=tuple(projects),
        )


@dataclass(frozen=True, slots=True)
class ItemsStored:
    """That a run got items. Its counts are read when it is published, once for many batches."""

    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventScope:
    """Which events a watcher wants: those of a project, an experiment or a run; of everything by default."""

    project_id: str | None = None
    experiment_id: str | None = None
    run_id: str | None = None

    def includes(self, event: Event) -> bool:
        """Whether an event is about what is watched, or removes what it is in."""
        if event.kind is EventKind.RELOAD:
            return True
        pairs = (
            (self.project_id, event.project_id),
            (self.experiment_id, event.experiment_id),
            (self.run_id, event.run_id),
        )
        removes = event.kind in _REMOVALS
        return all(own is None or own == other or (removes and other is None) for own, other in pairs)


_REMOVALS: Final = (EventKind.PROJECT_DELETED, EventKind.EXPERIMENT_DELETED)
_COUNTS: Final = {
    "itemCount": "item_count",
    "passedCount": "passed_count",
    "judgedCount": "judged_count",
    "erroredCount": "errored_count",
}
RUN_COLUMNS: Final = tuple(
    RUNS.c[name] for name in ("id", "tenant_id", "project_id", "experiment_id", "status", *_COUNTS.values())
)
"""What `run_event` reads of a run."""


def announce(connection: Connection, event: Event) -> None:
    """Publish an event after the commit of this transaction."""
    post(connection, event)


def announce_items(connection: Connection, run_id: str) -> None:
    """Tell, after the commit, that a run got items."""
    post(connection, ItemsStored(run_id))


def announce_run(
    connection: Connection,
    kind: EventKind,
    run: Row[Any],
    data: EventData = _NOTHING,
    *,
    tenants: tuple[str | None, ...] = (),
    is_progress: bool = False,
) -> None:
    """Publish an event about a run after the commit.

    Args:
        data: What is told beside the ids of the run, its experiment and its project.
        tenants: Of other rows that the event speaks of, beside the run's own.
        is_progress: Whether it only tells how far something is.
    """
    announce(connection, run_event(kind, run, data, tenants=tenants, is_progress=is_progress))


def run_event(
    kind: EventKind,
    run: Row[Any],
    data: EventData = _NOTHING,
    *,
    tenants: tuple[str | None, ...] = (),
    is_progress: bool = False,
) -> Event:
    """Return an event about a run."""
    return Event(
        kind=kind,
        tenants=(run.tenant_id, *tenants),
        project_id=run.project_id,
        experiment_id=run.experiment_id,
        run_id=run.id,
        data=data,
        is_progress=is_progress,
    )


def counts_of(run: Row[Any]) -> dict[str, int]:
    """Return the kept counts of a run, as events tell them."""
    return {name: getattr(run, column) for name, column in _COUNTS.items()}
