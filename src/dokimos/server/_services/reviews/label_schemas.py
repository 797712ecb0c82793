"""What reviewers of a project can say beside the verdict: labels with a kind, whose versions never change."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, insert, select, update

from dokimos.server._db.clock import now
from dokimos.server._db.ids import new_id
from dokimos.server._db.review_tables import LABEL_SCHEMAS
from dokimos.server._db.tables import PROJECTS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.errors import InvalidRequestError, NotFoundError
from dokimos.server._services.events import EventKind
from dokimos.server._services.projects.names import check_name
from dokimos.server._services.projects.projects import announce_project, find_project

_MAX_TEXT: Final = 10_000
_VERDICTS: Final = ("CORRECT", "INCORRECT", "UNSURE")


class LabelKind(StrEnum):
    """What the value of a label is."""

    VERDICT = "verdict"
    CHOICE = "choice"
    NUMBER = "number"
    TEXT = "text"


class LabelVersion(NamedTuple):
    """A version of a label of a project."""

    name: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelDefinition:
    """What a label can say."""

    kind: LabelKind
    description: str | None = None
    choices: tuple[str, ...] = ()
    """Of a choice."""
    low: float | None = None
    """Of a number, as `high`."""
    high: float | None = None

    def __post_init__(self) -> None:
        if (self.kind is LabelKind.CHOICE) != bool(self.choices):
            raise InvalidRequestError("belong to the kind 'choice', which needs them", field="choices")
        if len(set(self.choices)) < len(self.choices):
            raise InvalidRequestError("must not name a choice twice", field="choices")
        if self.kind is not LabelKind.NUMBER and (self.low is not None or self.high is not None):
            raise InvalidRequestError(
                "belongs to the kind 'number'", field="high" if self.low is None else "low"
            )
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise InvalidRequestError("must be below 'high'", field="low")

    def problem_of(self, value: object) -> str | None:
        """Return why a value is none of this label, None where it is one."""
        if self.kind is LabelKind.NUMBER:
            return self._problem_of_number(value)
        if self.kind is LabelKind.TEXT:
            is_fine = isinstance(value, str) and len(value) <= _MAX_TEXT
            return None if is_fine else f"must be a text of at most {_MAX_TEXT} characters"
        choices = self.choices or _VERDICTS
        return None if value in choices else f"must be one of {', '.join(choices)}"

    def _problem_of_number(self, value: object) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return "must be a number"
        if self.low is not None and value < self.low:
            return f"must be at least {self.low:g}"
        if self.high is not None and value > self.high:
            return f"must be at most {self.high:g}"
        # `math.isfinite` cannot read a whole number that no float is as large as.
        return None if abs(value) <= sys.float_info.max else "must be a number"


def define_label(
    connection: Connection, principal: Principal, project_name: str, name: str, definition: LabelDefinition
) -> Row[Any]:
    """Define a label of a project, or a new version of it where it is defined otherwise; return its row.

    Raises:
        NotFoundError: There is no project of that name.
        ForbiddenError: It is shared, and closed to this caller.
    """
    check_name(name, "label")
    project = _lock_project(connection, principal, project_name)
    latest = _find_latest(connection, project, name)
    text = json.dumps(asdict(definition), sort_keys=True)
    if latest is not None and latest.retired_at is None and latest.definition == text:
        return latest
    connection.execute(
        insert(LABEL_SCHEMAS).values(
            id=new_id(),
            project_id=project.id,
            tenant_id=project.tenant_id or "",
            name=name,
            version=1 if latest is None else latest.version + 1,
            definition=text,
            created_by=principal.id,
            created_at=now(),
        )
    )
    announce_project(connection, EventKind.PROJECT_UPDATED, project)
    return _of_project(connection, project.id)[name]


def retire_label(connection: Connection, principal: Principal, project_name: str, name: str) -> None:
    """Have nobody use a label of a project any more; what was said with it stays.

    Raises:
        NotFoundError: The project has no such label.
    """
    project = _lock_project(connection, principal, project_name)
    latest = _find_latest(connection, project, name)
    if latest is None or latest.retired_at is not None:
        raise NotFoundError(f"Label not found: {name}")
    connection.execute(update(LABEL_SCHEMAS).where(LABEL_SCHEMAS.c.id == latest.id).values(retired_at=now()))
    announce_project(connection, EventKind.PROJECT_UPDATED, project)


def list_labels(connection: Connection, principal: Principal, project_name: str) -> Sequence[Row[Any]]:
    """Return the labels of a project in the order of their names, each in its latest version."""
    project = find_project(connection, principal, project_name)
    return [row for _, row in sorted(_of_project(connection, project.id).items())]


def read_definition(row: Row[Any]) -> LabelDefinition:
    """Return what a version of a label can say."""
    parts = json.loads(row.definition)
    return LabelDefinition(**{**parts, "kind": LabelKind(parts["kind"]), "choices": tuple(parts["choices"])})


def read_kinds(connection: Connection, project_id: str) -> dict[LabelVersion, LabelKind]:
    """Return the kind of each version of the labels of a project, also of those that are retired."""
    query = select(LABEL_SCHEMAS).where(LABEL_SCHEMAS.c.project_id == project_id)
    return {
        LabelVersion(row.name, row.version): read_definition(row).kind for row in connection.execute(query)
    }


def check_labels(
    connection: Connection, project_id: str, labels: Mapping[str, object]
) -> dict[str, dict[str, object]]:
    """Return the labels of a review, each with its value and the version that it was checked with.

    Raises:
        InvalidRequestError: The project has no such label, or a value is none of it.
    """
    known = _of_project(connection, project_id) if labels else {}
    checked: dict[str, dict[str, object]] = {}
    for name, value in labels.items():
        row = known.get(name)
        if row is None:
            raise InvalidRequestError("is not a label of the project", field=f"labels.{name}")
        problem = read_definition(row).problem_of(value)
        if problem is not None:
            raise InvalidRequestError(problem, field=f"labels.{name}")
        checked[name] = {"value": value, "version": row.version}
    return checked


def _lock_project(connection: Connection, principal: Principal, name: str) -> Row[Any]:
    project = find_project(connection, principal, name)
    principal.check_may_write(project.tenant_id, f"The project '{name}'", project=project.id)
    # Of two that define the same label at once, the second makes a version behind the first one's.
    query = select(PROJECTS).where(PROJECTS.c.id == project.id, PROJECTS.c.deleted_at.is_(None))
    row: Row[Any] | None = connection.execute(query.with_for_update()).first()
    if row is None:
        raise NotFoundError(f"Project not found: {name}")
    return row


def _find_latest(connection: Connection, project: Row[Any], name: str) -> Row[Any] | None:
    columns = LABEL_SCHEMAS.c
    query = (
        select(LABEL_SCHEMAS)
        .where(columns.project_id == project.id, columns.name == name)
        .order_by(columns.version.desc())
        .limit(1)
    )
    row: Row[Any] | None = connection.execute(query).first()
    return row


def _of_project(connection: Connection, project_id: str) -> dict[str, Row[Any]]:
    """The latest version of each label that is not retired."""
    query = select(LABEL_SCHEMAS).where(LABEL_SCHEMAS.c.project_id == project_id)
    latest = {row.name: row for row in connection.execute(query.order_by(LABEL_SCHEMAS.c.version))}
    return {name: row for name, row in latest.items() if row.retired_at is None}
