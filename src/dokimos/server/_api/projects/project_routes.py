"""Routes of projects and experiments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from sqlalchemy import Connection, Row
from starlette.requests import Request

from dokimos.server._api.http.access import Access, Caller, access, reload_roles
from dokimos.server._api.http.json_body import describe_body, json_body
from dokimos.server._api.http.list_parameters import list_request
from dokimos.server._api.http.parameters import ExperimentId, PathName, Search, Store, lane_of
from dokimos.server._api.runs.run_answers import describe_counts, describe_trend, pass_rate
from dokimos.server._api.runs.run_schemas import (
    EvaluatorTrendsAnswer,
    ExperimentAnswer,
    PinBaselineBody,
    ProjectAnswer,
    StatusAnswer,
    TrendsAnswer,
)
from dokimos.server._api.traces.trace_removal_routes import prepare_removal, remove_traces_of
from dokimos.server._db.clock import format_time
from dokimos.server._db.ids import parse_id
from dokimos.server._services.comparisons.stored_comparisons import verdicts_of_projects
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.projects.projects import (
    PROJECT_ORDERS,
    ProjectSummary,
    delete_experiment,
    delete_project,
    find_experiment_with_project,
    list_projects,
)
from dokimos.server._services.runs.runs import pin_baseline
from dokimos.server._services.runs.trends import (
    EXPERIMENT_ORDERS,
    evaluators_over_runs,
    find_changed_evaluators,
    latest_completed_runs,
    latest_runs_of_projects,
    list_experiments,
)

ROUTER = APIRouter(prefix="/api/v1", tags=["Projects"])
_PROJECTS_PAGE = list_request(PROJECT_ORDERS)
_EXPERIMENTS_PAGE = list_request(EXPERIMENT_ORDERS)
_MAX_TRENDS = 1000
_RowsByProject: TypeAlias = dict[str, list[Row[Any]]]


@ROUTER.get("/projects", response_model=list[ProjectAnswer])
@access(Access.READ)
async def get_projects(
    caller: Caller,
    store: Store,
    page: _PROJECTS_PAGE,  # type: ignore[valid-type] # made by a function, for its orders
    search: Search = None,
) -> list[dict[str, Any]]:
    """List the projects, the newest first; with `limit`, a page of them."""

    def read(connection: Connection) -> tuple[list[ProjectSummary], _RowsByProject, _RowsByProject]:
        projects = list_projects(connection, caller, page, search=search)
        ids = [project.id for project in projects]
        latest = latest_runs_of_projects(connection, caller, ids)
        return projects, verdicts_of_projects(connection, caller, ids), latest

    projects, verdicts, latest = await store.read(read, lane_of(search))
    return [
        {
            "id": project.id,
            "name": project.name,
            "experimentCount": project.experiment_count,
            "createdAt": format_time(project.created_at),
            "runCount": project.run_count,
            "lastActivityAt": format_time(project.last_activity_at),
            "verdicts": [
                {
                    "experimentId": row.experiment_id,
                    "experimentName": row.experiment_name,
                    "runId": row.run_id,
                    "status": row.verdict,
                    "startedAt": format_time(row.started_at),
                }
                for row in verdicts[project.id]
            ],
            "latestRuns": [
                {
                    "experimentId": run.experiment_id,
                    "experimentName": run.experiment_name,
                    "runId": run.id,
                    "status": run.status,
                    "startedAt": format_time(run.started_at),
                    **describe_counts(run),
                }
                for run in latest[project.id]
            ],
        }
        for project in projects
    ]


@ROUTER.delete("/projects/{name}", status_code=204)
@access(Access.PROJECT_WRITE)
async def remove_project(request: Request, caller: Caller, store: Store, name: PathName) -> Response:
    """Delete a project with its experiments, runs, items and traces."""
    project_id = await prepare_removal(request.app.state, caller, name)
    await store.write(lambda connection: delete_project(connection, caller, name))
    await remove_traces_of(request.app.state, project_id)
    await reload_roles(request)
    return Response(status_code=204)


@ROUTER.get("/projects/{name}/experiments", response_model=list[ExperimentAnswer])
@access(Access.READ)
async def get_experiments(
    caller: Caller,
    store: Store,
    name: PathName,
    page: _EXPERIMENTS_PAGE,  # type: ignore[valid-type] # made by a function, for its orders
    search: Search = None,
) -> list[dict[str, Any]]:
    """List the experiments of a project with the latest run of each, the newest experiment first.

    With `limit`, it is a page of them.
    """
    rows = await store.read(
        lambda connection: list_experiments(connection, caller, name, page, search=search), lane_of(search)
    )
    return [
        {
            "id": experiment.id,
            "name": experiment.name,
            "createdAt": format_time(experiment.created_at),
            "latestRun": latest
            and {
                "runId": latest.id,
                "status": latest.status,
                "passRate": None if latest.status == "RUNNING" else pass_rate(latest),
                "startedAt": format_time(latest.started_at),
                **describe_counts(latest),
            },
            "runCount": experiment.run_count,
            "baselineRunId": experiment.baseline_run_id,
        }
        for experiment, latest in rows
    ]


@ROUTER.get("/experiments/{experimentId}/trends", response_model=TrendsAnswer)
@access(Access.READ)
async def get_trends(
    caller: Caller,
    store: Store,
    experiment_id: ExperimentId,
    limit: Annotated[int, Query(description=f"How many, 1 to {_MAX_TRENDS}.")] = 20,
) -> dict[str, Any]:
    """Return the pass rates of the latest runs that succeeded or failed, oldest first."""

    def read(connection: Connection) -> tuple[Row[Any], Sequence[Row[Any]], dict[str, list[str]]]:
        experiment = find_experiment_with_project(connection, caller, experiment_id)
        runs = latest_completed_runs(connection, caller, experiment_id, min(max(limit, 1), _MAX_TRENDS))
        return experiment, runs, find_changed_evaluators(connection, runs)

    experiment, runs, changed = await store.read(read)
    return {
        "experimentName": experiment.name,
        "projectName": experiment.project_name,
        "runs": [
            {
                "runId": run.id,
                "startedAt": format_time(run.started_at),
                "passRate": pass_rate(run) or 0.0,  # documented: 0 for a run without items
                "totalItems": run.item_count,
                "passedItems": run.passed_count,
                "judgedCount": run.judged_count,
                "changedEvaluators": changed.get(run.id, []),
            }
            for run in runs
        ],
    }


@ROUTER.get("/experiments/{experimentId}/evaluator-trends", response_model=EvaluatorTrendsAnswer)
@access(Access.READ)
async def get_evaluator_trends(
    caller: Caller,
    store: Store,
    experiment_id: ExperimentId,
    limit: Annotated[
        int, Query(description=f"How many runs, 1 to {_MAX_TRENDS}.", ge=1, le=_MAX_TRENDS)
    ] = 20,
) -> dict[str, Any]:
    """Return the mean scores of each evaluator in the latest runs that succeeded or failed, oldest first."""

    def read(connection: Connection) -> dict[str, list[Row[Any]]]:
        find_experiment_with_project(connection, caller, experiment_id)
        return evaluators_over_runs(connection, caller, experiment_id, limit)

    return {"evaluators": [describe_trend(rows) for rows in (await store.read(read)).values()]}


@ROUTER.delete("/experiments/{experimentId}", status_code=204)
@access(Access.PROJECT_WRITE)
async def remove_experiment(caller: Caller, store: Store, experiment_id: ExperimentId) -> Response:
    """Delete an experiment with its runs and items."""
    await store.write(lambda connection: delete_experiment(connection, caller, experiment_id))
    return Response(status_code=204)


@ROUTER.put(
    "/experiments/{experimentId}/baseline",
    response_model=StatusAnswer,
    openapi_extra=describe_body(PinBaselineBody),
)
@access(Access.PROJECT_WRITE)
async def set_baseline(
    caller: Caller,
    store: Store,
    experiment_id: ExperimentId,
    body: Annotated[PinBaselineBody, Depends(json_body(PinBaselineBody))],
) -> dict[str, str]:
    """Pin a run as the baseline that the gate compares with; null removes the pin."""
    run_id = body.run_id
    if run_id is not None and parse_id(run_id) is None:
        raise InvalidRequestError("must be a UUID", field="runId")
    await store.write(lambda connection: pin_baseline(connection, caller, experiment_id, run_id))
    return {"status": "updated"}
