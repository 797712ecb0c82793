"""Routes of annotations: what a person says about an item of a run."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from dokimos.server._api.answer_schemas import AnnotationAnswer
from dokimos.server._api.datasets.dataset_answers import annotation_json, optional_json
from dokimos.server._api.datasets.dataset_schemas import AnnotateBody
from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.json_body import describe_body, json_body
from dokimos.server._api.http.parameters import ItemId, RunId, Store
from dokimos.server._api.http.spliced_json import json_response
from dokimos.server._services.reviews.annotations import annotate, delete_annotation, find_annotation
from dokimos.server._services.reviews.reviews import NewAnnotation

ROUTER = APIRouter(prefix="/api/v1/runs/{runId}/items/{itemId}/annotation", tags=["Annotations"])


@ROUTER.put("", response_model=AnnotationAnswer, openapi_extra=describe_body(AnnotateBody))
@access(Access.PROJECT_WRITE)
async def set_annotation(
    caller: Caller,
    store: Store,
    run_id: RunId,
    item_id: ItemId,
    body: Annotated[AnnotateBody, Depends(json_body(AnnotateBody))],
) -> Response:
    """Create the annotation of an item, or replace all of it."""
    new = NewAnnotation(
        verdict=body.verdict,
        overridden_expected_output=optional_json(body.overridden_expected_output, "overriddenExpectedOutput"),
        note=optional_json(body.note, "note"),
    )
    row = await store.write(lambda connection: annotate(connection, caller, run_id, item_id, new))
    return json_response(annotation_json(row))


@ROUTER.get("", response_model=AnnotationAnswer)
@access(Access.READ)
async def get_annotation(caller: Caller, store: Store, run_id: RunId, item_id: ItemId) -> Response:
    """Return the annotation of an item."""
    row = await store.read(lambda connection: find_annotation(connection, caller, run_id, item_id))
    return json_response(annotation_json(row))


@ROUTER.delete("", status_code=204)
@access(Access.PROJECT_WRITE)
async def remove_annotation(caller: Caller, store: Store, run_id: RunId, item_id: ItemId) -> Response:
    """Delete the annotation of an item; where there is none, that is well too."""
    await store.write(lambda connection: delete_annotation(connection, caller, run_id, item_id))
    return Response(status_code=204)
