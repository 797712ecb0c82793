"""Routes of what a project tells its reviewers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import Field
from sqlalchemy import Connection

from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.json_body import StrictBody, WireModel, describe_body, json_body
from dokimos.server._api.http.parameters import PathName, Store
from dokimos.server._api.http.preconditions import IfMatch
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.projects.projects import find_project
from dokimos.server._services.reviews.review_instructions import (
    MAX_CHARACTERS,
    read_instructions,
    set_instructions,
    version_of_instructions,
)

ROUTER = APIRouter(prefix="/api/v1/projects/{name}/review-instructions", tags=["Review"])


class InstructionsBody(StrictBody):
    """A text in Markdown; a blank one removes the instructions."""

    text: Annotated[str, Field(max_length=MAX_CHARACTERS)]


class InstructionsAnswer(WireModel):
    """What a project tells its reviewers."""

    project_id: str
    project_name: str
    text: str
    """In Markdown; empty where the project has no instructions."""
    version: str
    """What `If-Match` takes: each text has its own."""
    max_characters: int
    """The most that `text` may have."""


@ROUTER.get("", response_model=InstructionsAnswer)
@access(Access.READ)
async def get_review_instructions(caller: Caller, store: Store, name: PathName) -> InstructionsAnswer:
    """Return the instructions that a project gives to its reviewers."""
    return await store.read(lambda connection: _describe(connection, caller, name))


@ROUTER.put("", response_model=InstructionsAnswer, openapi_extra=describe_body(InstructionsBody))
@access(Access.PROJECT_WRITE)
async def put_review_instructions(
    caller: Caller,
    store: Store,
    name: PathName,
    body: Annotated[InstructionsBody, Depends(json_body(InstructionsBody))],
    expected: IfMatch,
) -> InstructionsAnswer:
    """Set the instructions of a project for its reviewers; a blank text removes them."""

    def write(connection: Connection) -> InstructionsAnswer:
        set_instructions(connection, caller, name, body.text, expected)
        return _describe(connection, caller, name)

    return await store.write(write)


def _describe(connection: Connection, caller: Principal, name: str) -> InstructionsAnswer:
    project = find_project(connection, caller, name)
    text = read_instructions(project)
    return InstructionsAnswer(
        project_id=project.id,
        project_name=project.name,
        text=text,
        version=version_of_instructions(text),
        max_characters=MAX_CHARACTERS,
    )
