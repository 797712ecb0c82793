"""Routes of datasets, and promotion into them."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse, Response
from sqlalchemy import Connection

from dokimos.server._api.answer_schemas import DatasetDiffAnswer
from dokimos.server._api.datasets.dataset_answers import (
    dataset_path,
    describe_version,
    differences_json,
    optional_json,
    summarize_dataset,
)
from dokimos.server._api.datasets.dataset_schemas import (
    CreateDatasetBody,
    DatasetAnswer,
    DatasetRunAnswer,
    DatasetSummaryAnswer,
    PromoteBody,
    VersionAnswer,
)
from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.json_body import describe_body, json_body
from dokimos.server._api.http.list_parameters import list_request
from dokimos.server._api.http.paging import PageRequest, page_request
from dokimos.server._api.http.parameters import PathName, Search, Store, lane_of
from dokimos.server._api.http.spliced_json import JsonText, json_response, splice_json
from dokimos.server._api.runs.run_answers import pass_rate
from dokimos.server._db.clock import format_time
from dokimos.server._db.database import Lane
from dokimos.server._db.ids import parse_id
from dokimos.server._services.datasets.dataset_access import find_hidden_sources
from dokimos.server._services.datasets.dataset_diff import CaseStatus, count_differences, list_differences
from dokimos.server._services.datasets.dataset_runs import DATASET_RUN_ORDERS, list_dataset_runs
from dokimos.server._services.datasets.datasets import (
    DATASET_ORDERS,
    LATEST,
    VERSION_ORDERS,
    create_dataset,
    delete_dataset,
    describe_dataset,
    find_dataset,
    find_version,
    list_datasets,
)
from dokimos.server._services.datasets.promotion import Promotion, promote_items
from dokimos.server._services.errors import InvalidRequestError, NotFoundError

ROUTER = APIRouter(prefix="/api/v1", tags=["Datasets"])
_DIFF_PAGE = page_request(20)
_DATASETS_PAGE = list_request(DATASET_ORDERS)
_VERSIONS_PAGE = list_request(VERSION_ORDERS)
_RUNS_PAGE = list_request(DATASET_RUN_ORDERS, 100)


@ROUTER.post(
    "/datasets",
    status_code=201,
    response_model=DatasetAnswer,
    openapi_extra=describe_body(CreateDatasetBody),
)
@access(Access.PROJECT_WRITE)
async def add_dataset(
    caller: Caller, store: Store, body: Annotated[CreateDatasetBody, Depends(json_body(CreateDatasetBody))]
) -> Response:
    """Create a dataset without versions."""

    def create(connection: Connection) -> dict[str, Any]:
        create_dataset(connection, caller, body.name, body.description)
        summary, _ = describe_dataset(connection, caller, body.name)
        return {**summarize_dataset(summary), "versions": []}

    answer = await store.write(create)
    return JSONResponse(answer, 201, {"Location": dataset_path(body.name)})


@ROUTER.get("/datasets", response_model=list[DatasetSummaryAnswer])
@access(Access.READ)
async def get_datasets(
    caller: Caller,
    store: Store,
    page: _DATASETS_PAGE,  # type: ignore[valid-type] # made by a function, for its orders
    search: Search = None,
) -> list[dict[str, Any]]:
    """List the datasets with the latest version of each, the newest first; with `limit`, a page of them."""
    datasets = await store.read(
        lambda connection: list_datasets(connection, caller, page, search=search), lane_of(search)
    )
    return [summarize_dataset(dataset) for dataset in datasets]


@ROUTER.post(
    "/datasets/promote",
    status_code=201,
    response_model=VersionAnswer,
    openapi_extra=describe_body(PromoteBody),
)
@access(Access.PROJECT_WRITE)
async def promote(
    caller: Caller,
    store: Store,
    body: Annotated[PromoteBody, Depends(json_body(PromoteBody))],
    mode: Annotated[Literal["append", "replace"] | None, Query()] = None,
    use_corrections: Annotated[bool | None, Query(alias="useCorrections")] = None,
) -> Response:
    """Write a new version of a dataset with items of runs in it.

    With `append`, the default, the items of the latest version stay; with `replace` they do not. An item
    without an expected output of its own here gets the one of its annotation, else that of the run.
    """
    promotion = _read_promotion(body, mode, use_corrections)
    written = await promote_items(store, caller, promotion)
    location = f"{dataset_path(body.dataset_name)}/versions/{written.row.version}"
    return JSONResponse(describe_version(body.dataset_name, written.row), 201, {"Location": location})


@ROUTER.get("/datasets/{name}/runs", response_model=list[DatasetRunAnswer])
@access(Access.READ)
async def get_dataset_runs(
    caller: Caller,
    store: Store,
    name: PathName,
    page: _RUNS_PAGE,  # type: ignore[valid-type] # made by a function, for its orders
    version_id: Annotated[
        UUID | None, Query(alias="datasetVersionId", description="Only those that used this version.")
    ] = None,
) -> list[dict[str, Any]]:
    """List the runs that used a dataset, in whatever project and experiment, the newest first."""
    version = None if version_id is None else str(version_id)
    rows = await store.read(lambda connection: list_dataset_runs(connection, caller, name, version, page))
    return [
        {
            "id": row.id,
            "name": row.name,
            "version": row.version,
            "experimentId": row.experiment_id,
            "experimentName": row.experiment_name,
            "projectName": row.project_name,
            "status": row.status,
            "startedAt": format_time(row.started_at),
            "totalItems": row.item_count,
            "erroredCount": row.errored_count,
            "passedCount": row.passed_count,
            "judgedCount": row.judged_count,
            "passRate": pass_rate(row),
        }
        for row in rows
    ]


@ROUTER.get("/datasets/{name}", response_model=DatasetAnswer)
@access(Access.READ)
async def get_dataset(
    caller: Caller,
    store: Store,
    name: PathName,
    page: _VERSIONS_PAGE,  # type: ignore[valid-type] # made by a function, for its orders
    search: Search = None,
) -> dict[str, Any]:
    """Return a dataset with its versions, the newest first.

    `search` looks in the descriptions of the versions; with `limit`, it is a page of them.
    """
    summary, versions = await store.read(
        lambda connection: describe_dataset(connection, caller, name, page, search=search), lane_of(search)
    )
    return {
        **summarize_dataset(summary),
        "versions": [describe_version(summary.name, version) for version in versions],
    }


@ROUTER.delete("/datasets/{name}", status_code=204)
@access(Access.WRITE)
async def remove_dataset(caller: Caller, store: Store, name: PathName) -> Response:
    """Delete a dataset with all its versions."""
    await store.write(lambda connection: delete_dataset(connection, caller, name))
    return Response(status_code=204)


@ROUTER.get("/datasets/{name}/diff", response_model=DatasetDiffAnswer)
@access(Access.READ)
async def get_differences(
    caller: Caller,
    store: Store,
    name: PathName,
    page: _DIFF_PAGE,  # type: ignore[valid-type] # made by a function, for its default size
    before: Annotated[str | None, Query(alias="from")] = None,
    after: Annotated[str, Query(alias="to")] = LATEST,
    status: CaseStatus | None = None,
) -> Response:
    """Compare two versions case by case; by default the latest one and the one before it.

    A case is the same one in both where its lineage id is the same.
    """
    return json_response(
        await store.read(
            lambda connection: _differences(connection, caller, name, (before, after), status, page),
            Lane.WORK,
        )
    )


def _differences(
    connection: Connection,
    caller: Caller,
    name: str,
    chosen: tuple[str | None, str],
    status: CaseStatus | None,
    page: PageRequest,
) -> bytes:
    dataset = find_dataset(connection, caller, name)
    after = find_version(connection, caller, dataset, chosen[1])
    before_name = chosen[0]
    if before_name is None:
        if after.version == 1:
            raise NotFoundError("There is no version before the first one; name two with ?from= and ?to=")
        before_name = str(after.version - 1)
    before = find_version(connection, caller, dataset, before_name)
    counts = count_differences(connection, before, after)
    rows = list_differences(connection, before, after, status=status, offset=page.offset, limit=page.size)
    total = sum(counts.values()) if status is None else counts[status]
    summary = {
        "datasetName": dataset.name,
        "from": before.version,
        "to": after.version,
        "added": counts[CaseStatus.ADDED],
        "removed": counts[CaseStatus.REMOVED],
        "changed": counts[CaseStatus.CHANGED],
        "unchanged": after.item_count - counts[CaseStatus.ADDED] - counts[CaseStatus.CHANGED],
        "isEqual": before.content_hash == after.content_hash,
    }
    sides = [side for row in rows for side in (row.before, row.after) if side is not None]
    hidden = find_hidden_sources(connection, caller, sides)
    content = JsonText(differences_json(rows, hidden).encode())
    cases = splice_json({"content": content, **page.envelope(total, len(rows))})
    return splice_json({"summary": summary, "cases": JsonText(cases)})


def _read_promotion(body: PromoteBody, mode: str | None, use_corrections: bool | None) -> Promotion:
    items: dict[str, str | None] = {}
    for index, item in enumerate(body.items):
        item_id = parse_id(item.item_result_id)
        if item_id is None:
            raise InvalidRequestError("must be a UUID", field=f"items[{index}].itemResultId")
        path = f"items[{index}].overriddenExpectedOutput"
        items[item_id] = optional_json(item.overridden_expected_output, path)
    chosen = body.use_corrections if use_corrections is None else use_corrections
    return Promotion(
        dataset=body.dataset_name,
        description=body.description,
        items=items,
        mode="replace" if (mode or body.mode) == "replace" else "append",
        use_corrections=chosen is not False,
        only_reviewed=body.only_reviewed,
    )
