"""Routes of the settings of a project."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import AfterValidator, BeforeValidator, Field
from sqlalchemy import Connection
from starlette.requests import Request

from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.json_body import StrictBody, WireModel, describe_body, json_body
from dokimos.server._api.http.parameters import PathName, Store
from dokimos.server._api.runs.run_schemas import ShortText, read_whole
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.projects.project_settings import (
    FOREVER,
    AlertOn,
    ProjectSettings,
    change_settings,
    default_settings,
    merge_settings,
)
from dokimos.server._services.projects.projects import find_project
from dokimos.server._services.runs.run_retention import count_expired_runs

ROUTER = APIRouter(prefix="/api/v1/projects/{name}/settings", tags=["Projects"])
_MAX_DAYS = 36_500
_MAX_KEPT = 10_000
_MAX_BRANCHES = 50
_MAX_ALARMS = 365
_PREVIEW = "Answer as if this were set; nothing is changed."


def _check_days(days: float) -> float:
    if days != FOREVER and not 0 <= days <= _MAX_DAYS:
        raise ValueError(f"must be from 0 to {_MAX_DAYS} days, or -1 to keep them for ever")
    return days


async def _read_defaults(request: Request) -> ProjectSettings:
    return default_settings(request.app.state.settings)


_Defaults = Annotated[ProjectSettings, Depends(_read_defaults)]
"""What holds for projects without settings of their own."""


_Days = Annotated[float, AfterValidator(_check_days), Field(json_schema_extra={"minimum": -1})]
_Kept = Annotated[int, Field(ge=0, le=_MAX_KEPT), BeforeValidator(read_whole)]
_Share = Annotated[float, Field(ge=0, le=1)]


class ProjectSettingsBody(StrictBody):
    """Settings to change: what is missing stays, and null goes back to the default."""

    alert_on: Annotated[AlertOn, Field(strict=False)] | None = None
    run_retention_days: _Days | None = None
    keep_latest_runs: _Kept | None = None
    baseline_branches: Annotated[list[ShortText], Field(max_length=_MAX_BRANCHES)] | None = None
    blind_review: bool | None = None
    review_overlap: _Share | None = None
    review_random_share: _Share | None = None
    trace_retention_days: _Days | None = None
    trace_false_alarms_per_year: Annotated[float, Field(gt=0, le=_MAX_ALARMS)] | None = None


class SettingValues(WireModel):
    """A value of each setting of a project."""

    alert_on: AlertOn
    run_retention_days: float
    keep_latest_runs: int
    baseline_branches: list[str]
    blind_review: bool
    review_overlap: float
    review_random_share: float
    trace_retention_days: float
    trace_false_alarms_per_year: float


class OwnSettings(WireModel):
    """What was set for a project; null where the default holds."""

    alert_on: AlertOn | None = None
    run_retention_days: float | None = None
    keep_latest_runs: int | None = None
    baseline_branches: list[str] | None = None
    blind_review: bool | None = None
    review_overlap: float | None = None
    review_random_share: float | None = None
    trace_retention_days: float | None = None
    trace_false_alarms_per_year: float | None = None


class ProjectSettingsAnswer(WireModel):
    """The settings of a project."""

    project_id: str
    project_name: str
    settings: OwnSettings
    defaults: SettingValues
    effective: SettingValues
    expired_run_count: int
    """How many runs are to be removed for their age, of those that the caller sees."""


@ROUTER.get("", response_model=ProjectSettingsAnswer)
@access(Access.READ)
async def get_settings(
    caller: Caller,
    store: Store,
    defaults: _Defaults,
    name: PathName,
    run_retention_days: Annotated[_Days | None, Query(alias="runRetentionDays", description=_PREVIEW)] = None,
    keep_latest_runs: Annotated[_Kept | None, Query(alias="keepLatestRuns", description=_PREVIEW)] = None,
) -> ProjectSettingsAnswer:
    """Return what is set for a project, the defaults, and what holds.

    `expiredRunCount` says how many runs are about to be removed because of their age; with
    `runRetentionDays` or `keepLatestRuns`, how many would be if that were set.
    """
    asked = {"run_retention_days": run_retention_days, "keep_latest_runs": keep_latest_runs}
    change = {key: value for key, value in asked.items() if value is not None}
    return await store.read(lambda connection: _describe(connection, caller, defaults, name, change))


@ROUTER.patch("", response_model=ProjectSettingsAnswer, openapi_extra=describe_body(ProjectSettingsBody))
@access(Access.PROJECT_WRITE)
async def patch_settings(
    request: Request,
    caller: Caller,
    store: Store,
    defaults: _Defaults,
    name: PathName,
    body: Annotated[ProjectSettingsBody, Depends(json_body(ProjectSettingsBody))],
) -> ProjectSettingsAnswer:
    """Change settings of a project: what is missing stays, and null goes back to the default."""
    change = body.model_dump(include=body.model_fields_set)
    await store.write(lambda connection: change_settings(connection, caller, name, change))
    request.app.state.trace_ingestion.projects.forget()
    return await store.read(lambda connection: _describe(connection, caller, defaults, name, {}))


def _describe(
    connection: Connection,
    caller: Principal,
    defaults: ProjectSettings,
    name: str,
    change: dict[str, Any],
) -> ProjectSettingsAnswer:
    project = find_project(connection, caller, name)
    own = merge_settings(project, change)
    effective = replace(defaults, **own)
    return ProjectSettingsAnswer(
        project_id=project.id,
        project_name=project.name,
        settings=OwnSettings(**_as_json(own)),
        defaults=SettingValues(**_as_json(asdict(defaults))),
        effective=SettingValues(**_as_json(asdict(effective))),
        expired_run_count=count_expired_runs(connection, caller, project.id, effective),
    )


def _as_json(values: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
