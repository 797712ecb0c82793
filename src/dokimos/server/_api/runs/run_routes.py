"""Routes of runs and their items."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response, StreamingResponse
from sqlalchemy import Connection
from starlette.requests import Request

from dokimos.server._api.answer_schemas import ItemAttributesAnswer, OutlineAnswer, RunDetails
from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.admission import LongKind, slot_of
from dokimos.server._api.http.idempotency import IdempotencyKey, hash_body
from dokimos.server._api.http.json_body import describe_body, json_body
from dokimos.server._api.http.json_text import dump_json
from dokimos.server._api.http.list_parameters import cursor_request, list_request
from dokimos.server._api.http.paging import PageRequest, continue_page, page_request
from dokimos.server._api.http.parameters import Engine, ExperimentId, PathName, RunId, Search, Store, lane_of
from dokimos.server._api.http.spliced_json import JsonText, json_response, splice_json
from dokimos.server._api.runs.item_answers import items_json
from dokimos.server._api.runs.item_bodies import ITEMS_BODY
from dokimos.server._api.runs.item_exports import (
    ITEM_EXPORT_CONTENT,
    ExportFormat,
    MetadataValue,
    export_items,
)
from dokimos.server._api.runs.items_endpoint import store_items
from dokimos.server._api.runs.outline_answers import item_attributes_json, outline_json
from dokimos.server._api.runs.run_answers import run_json, runs_json
from dokimos.server._api.runs.run_schemas import (
    ChangeStatusBody,
    CreatedRun,
    CreateRunBody,
    DescribeRunBody,
    EvaluatorBody,
    RunSummary,
    StatusAnswer,
)
from dokimos.server._db.database import Lane
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.judging.judge_jobs import errors_of_items
from dokimos.server._services.list_pages import ListPage
from dokimos.server._services.reviews.annotations import visible_annotations
from dokimos.server._services.runs.item_attributes import read_item_attributes
from dokimos.server._services.runs.item_pages import (
    ITEM_ORDERS,
    ItemFilter,
    ScoreRange,
    count_items,
    read_item_page,
)
from dokimos.server._services.runs.run_evaluators import describe_evaluators
from dokimos.server._services.runs.run_lists import RUN_ORDERS, RunFilter, list_runs
from dokimos.server._services.runs.run_outline import read_outline
from dokimos.server._services.runs.run_parts import EvaluatorOfRun, evaluators_of_run, tags_of_runs
from dokimos.server._services.runs.runs import (
    COMPARABLE,
    NewRun,
    RunChange,
    RunStatus,
    change_status,
    create_run,
    delete_run,
    describe_run,
    find_described_run,
)

ROUTER = APIRouter(prefix="/api/v1", tags=["Runs"])
_ITEMS_PAGE = page_request(50)
_ITEMS_CURSOR = cursor_request(ITEM_ORDERS)
_RUNS_PAGE = list_request(RUN_ORDERS)
_MOST_NAMED_ITEMS = 500


@ROUTER.post(
    "/projects/{name}/runs",
    status_code=201,
    response_model=CreatedRun,
    openapi_extra=describe_body(CreateRunBody),
)
@access(Access.PROJECT_WRITE)
async def start_run(
    caller: Caller,
    store: Store,
    name: PathName,
    body: Annotated[CreateRunBody, Depends(json_body(CreateRunBody))],
    key: IdempotencyKey,
) -> dict[str, str]:
    """Start a run; its project and its experiment are created where they are missing."""
    new = _new_run(body, key)
    run_id = await store.write(lambda connection: create_run(connection, caller, name, new))
    return {"runId": run_id}


async def _read_filter(
    search: Search = None,
    status: Annotated[list[RunStatus] | None, Query()] = None,
    branch: str | None = None,
    tag: str | None = None,
    version_id: Annotated[
        UUID | None, Query(alias="datasetVersionId", description="Only those that used this version.")
    ] = None,
) -> RunFilter:
    version = None if version_id is None else str(version_id)
    return RunFilter(search=search, status=status or (), branch=branch, tag=tag, dataset_version_id=version)


@ROUTER.get("/experiments/{experimentId}/runs", response_model=list[RunSummary])
@access(Access.READ)
async def get_runs(
    caller: Caller,
    store: Store,
    experiment_id: ExperimentId,
    chosen: Annotated[RunFilter, Depends(_read_filter)],
    page: _RUNS_PAGE,  # type: ignore[valid-type] # made by a function, for its orders
) -> Response:
    """List the runs of an experiment, the newest first.

    With `limit` it is a page; `after` continues behind its last run.
    """
    return json_response(
        await store.read(
            lambda connection: runs_json(list_runs(connection, caller, experiment_id, chosen, page)),
            lane_of(chosen.search),
        )
    )


async def _read_item_filter(
    search: Search = None,
    outcome: Annotated[Literal["passed", "failed", "errored", "unjudged"] | None, Query()] = None,
    failed_evaluator: Annotated[str | None, Query(alias="failedEvaluator")] = None,
    ordinal: Annotated[
        list[Annotated[int, Query(ge=0, le=2**63 - 1)]] | None, Query(max_length=_MOST_NAMED_ITEMS)
    ] = None,
    item_id: Annotated[list[UUID] | None, Query(alias="itemId", max_length=_MOST_NAMED_ITEMS)] = None,
) -> ItemFilter:
    return ItemFilter(
        search=search,
        outcome=outcome,
        failed_evaluator=failed_evaluator,
        ordinals=ordinal or (),
        ids=tuple(map(str, item_id or ())),
    )


@ROUTER.get("/runs/{runId}", response_model=RunDetails)
@access(Access.READ)
async def get_run(
    caller: Caller,
    store: Store,
    run_id: RunId,
    page: _ITEMS_PAGE,  # type: ignore[valid-type] # made by a function, for its default size
    cursor: _ITEMS_CURSOR,  # type: ignore[valid-type] # and for its orders
    chosen: Annotated[ItemFilter, Depends(_read_item_filter)],
) -> Response:
    """Return a run with a page of its items, in the order of their ordinals unless `sort` names another.

    `after` continues behind an item, however far down the run it is, at the price of a first page; `page` is
    not looked at then.
    """
    return json_response(
        await store.read(
            lambda connection: _run_page(connection, caller, run_id, chosen, page, cursor),
            lane_of(chosen.search),
        )
    )


@ROUTER.get("/runs/{runId}/outline", response_model=OutlineAnswer)
@access(Access.READ)
async def get_outline(
    caller: Caller,
    store: Store,
    run_id: RunId,
    chosen: Annotated[ItemFilter, Depends(_read_item_filter)],
) -> Response:
    """Return the outcome and the scores of every item of a run as columns, without the texts of the items.

    The columns have one entry for each item, in the order of their ordinals.
    """

    def read(connection: Connection) -> bytes:
        return outline_json(read_outline(connection, caller, run_id, chosen))

    return json_response(await store.read(read, Lane.SEARCH))


@ROUTER.get("/runs/{runId}/item-attributes", response_model=ItemAttributesAnswer)
@access(Access.READ)
async def get_item_attributes(caller: Caller, store: Store, run_id: RunId) -> Response:
    """Return the dataset cases and the metadata of the items of a run as columns, to pair and slice runs by.

    The columns have one entry for each item, in the order of the outline.
    """

    def read(connection: Connection) -> bytes:
        return item_attributes_json(read_item_attributes(connection, caller, run_id))

    return json_response(await store.read(read, Lane.SEARCH))


async def _read_score_range(
    score_of: Annotated[
        str | None, Query(alias="scoreOf", description="Items with a score of this evaluator.")
    ] = None,
    low: Annotated[float | None, Query(alias="scoreFrom", description="The lowest of its scores.")] = None,
    high: Annotated[float | None, Query(alias="scoreTo", description="The highest of its scores.")] = None,
) -> ScoreRange | None:
    for name, bound in (("scoreFrom", low), ("scoreTo", high)):
        if bound is not None and (score_of is None or math.isnan(bound)):
            problem = "must be a number" if score_of is not None else "needs scoreOf, the evaluator"
            raise InvalidRequestError(problem, field=name)
    return None if score_of is None else ScoreRange(score_of, low, high)


async def _read_metadata_value(
    key: Annotated[
        str | None, Query(alias="metadataKey", description="A key of the metadata, with `metadataValue`.")
    ] = None,
    value: Annotated[
        str | None, Query(alias="metadataValue", description="Items with this value under `metadataKey`.")
    ] = None,
) -> MetadataValue | None:
    if key is None and value is None:
        return None
    if key is None or value is None:
        names = ("metadataKey", "metadataValue")
        given, missing = names if value is None else reversed(names)
        raise InvalidRequestError(f"needs {missing}", field=given)
    return MetadataValue(key, value)


@ROUTER.get(
    "/runs/{runId}/items/export",
    response_class=StreamingResponse,
    responses={200: {"content": ITEM_EXPORT_CONTENT}},
)
@access(Access.READ)
async def export_run_items(
    request: Request,
    caller: Caller,
    store: Store,
    run_id: RunId,
    chosen: Annotated[ItemFilter, Depends(_read_item_filter)],
    scores: Annotated[ScoreRange | None, Depends(_read_score_range)],
    metadata: Annotated[MetadataValue | None, Depends(_read_metadata_value)],
    format: ExportFormat = "jsonl",
) -> Response:
    """Return the items of a run that the filters choose as a file, in the order of their ordinals."""
    await slot_of(request).turn_into(LongKind.EXPORT)
    return await export_items(store, caller, run_id, replace(chosen, scores=scores), metadata, format)


@ROUTER.post(
    "/runs/{runId}/items",
    status_code=201,
    response_model=StatusAnswer,
    openapi_extra=describe_body(ITEMS_BODY, "ItemsBody"),
)
@access(Access.PROJECT_WRITE)
async def send_items(request: Request, caller: Caller, run_id: RunId, key: IdempotencyKey) -> Response:
    """Store items of a run that is going on. When this answers, they are on disk."""
    return await store_items(request, caller, run_id, key)


@ROUTER.patch("/runs/{runId}", response_model=StatusAnswer, openapi_extra=describe_body(ChangeStatusBody))
@access(Access.PROJECT_WRITE)
async def set_status(
    caller: Caller,
    store: Store,
    engine: Engine,
    run_id: RunId,
    body: Annotated[ChangeStatusBody, Depends(json_body(ChangeStatusBody))],
) -> dict[str, str]:
    """Change the status of a run."""
    evaluators = _evaluators(body.evaluators)

    def change(connection: Connection) -> bool:
        is_new = change_status(connection, caller, run_id, body.status, body.completed_at)
        if is_new:  # a repeat changes nothing: comparisons of the run as it ended are stored
            describe_evaluators(connection, caller, run_id, evaluators)
        return is_new

    is_new = await store.write(change)
    if is_new and body.status in COMPARABLE:
        engine.judge_soon(run_id)  # after the answer is on disk, and never part of it
    return {"status": "updated"}


@ROUTER.patch(
    "/runs/{runId}/description", response_model=StatusAnswer, openapi_extra=describe_body(DescribeRunBody)
)
@access(Access.PROJECT_WRITE)
async def set_description(
    caller: Caller,
    store: Store,
    run_id: RunId,
    body: Annotated[DescribeRunBody, Depends(json_body(DescribeRunBody))],
) -> dict[str, str]:
    """Change the name, the notes or the tags of a run; an empty text removes it."""
    change = RunChange(name=body.name, notes=body.notes, tags=body.tags)
    await store.write(lambda connection: describe_run(connection, caller, run_id, change))
    return {"status": "updated"}


@ROUTER.delete("/runs/{runId}", status_code=204)
@access(Access.PROJECT_WRITE)
async def remove_run(caller: Caller, store: Store, run_id: RunId) -> Response:
    """Delete a run with its items."""
    await store.write(lambda connection: delete_run(connection, caller, run_id))
    return Response(status_code=204)


def _run_page(
    connection: Connection,
    caller: Caller,
    run_id: str,
    chosen: ItemFilter,
    page: PageRequest,
    cursor: ListPage,
) -> bytes:
    run = find_described_run(connection, caller, run_id)
    if cursor.after is not None:
        page = PageRequest(0, page.size)
    items = read_item_page(connection, run_id, chosen, cursor, offset=page.offset, limit=page.size)
    total = count_items(connection, run, chosen)
    evaluators = evaluators_of_run(connection, run_id)
    tags = tags_of_runs(connection, [run_id])[run_id]
    envelope = page.envelope(total, len(items.items))
    if cursor.after is not None:
        envelope |= continue_page(page, len(items.items))
    annotations = visible_annotations(connection, caller, run.project_id, [item.id for item in items.items])
    failures = errors_of_items(connection, caller, run_id, [item.id for item in items.items])
    content = JsonText(items_json(items, annotations, failures).encode())
    return run_json(run, tags, evaluators, splice_json({"content": content, **envelope}))


def _new_run(body: CreateRunBody, key: str | None) -> NewRun:
    return NewRun(
        experiment=body.experiment_name,
        config=None if body.metadata is None else dump_json(body.metadata, "metadata"),
        name=body.name,
        git_sha=body.git_sha,
        git_branch=body.git_branch,
        triggered_by=body.triggered_by,
        pull_request=body.pull_request,
        provenance=None if body.provenance is None else dump_json(body.provenance, "provenance"),
        notes=body.notes,
        dataset_name=body.dataset_name,
        dataset_version=body.dataset_version,
        planned_item_count=body.planned_items,
        tags=body.tags or (),
        evaluators=_evaluators(body.evaluators),
        started_at=body.started_at,
        idempotency_key=key,
        idempotency_hash=None if key is None else _hash_run(body),
        renews_deleted=body.client_run_id is not None,
    )


def _hash_run(body: CreateRunBody) -> str:
    """Return a hash of what a key stands for: a body, or where the client names its run that run."""
    if body.client_run_id is not None:
        return hash_body({"clientRunId": body.client_run_id, "experimentName": body.experiment_name})
    # Without what is missing, so that the next field that bodies may have changes no hash.
    return hash_body(body.model_dump(by_alias=True, exclude_none=True))


def _evaluators(bodies: Sequence[EvaluatorBody] | None) -> list[EvaluatorOfRun]:
    return [
        EvaluatorOfRun(
            name=evaluator.name,
            range_low=evaluator.range_low,
            range_high=evaluator.range_high,
            direction=evaluator.direction,
            threshold=evaluator.threshold,
            fingerprint=evaluator.fingerprint,
            deterministic=evaluator.deterministic,
        )
        for evaluator in bodies or ()
    ]
