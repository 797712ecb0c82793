"""Routes of the members of a project, and of the datasets that it was given."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Path
from fastapi.responses import Response
from starlette.requests import Request

from dokimos.server._api.accounts.member_schemas import MemberAnswer, MemberBody, ProjectDatasetAnswer
from dokimos.server._api.http.access import Access, Caller, access, reload_roles
from dokimos.server._api.http.json_body import describe_body, json_body
from dokimos.server._api.http.list_parameters import list_request
from dokimos.server._api.http.parameters import DatasetName, PathName, Search, Store, lane_of
from dokimos.server._db.clock import format_time
from dokimos.server._services.accounts.members import Member, list_members, remove_member, set_member
from dokimos.server._services.accounts.principal import Role
from dokimos.server._services.datasets.project_datasets import (
    PROJECT_DATASET_ORDERS,
    grant_dataset,
    list_project_datasets,
    revoke_dataset,
)

ROUTER = APIRouter(prefix="/api/v1/projects/{name}", tags=["Projects"])
_DATASETS_PAGE = list_request(PROJECT_DATASET_ORDERS)


async def _read_member_id(member_id: Annotated[UUID, Path(alias="memberId")]) -> str:
    return str(member_id)


MemberId = Annotated[str, Depends(_read_member_id)]


@ROUTER.get("/members", response_model=list[MemberAnswer])
@access(Access.PROJECT_ADMIN)
async def get_members(caller: Caller, store: Store, name: PathName) -> list[dict[str, Any]]:
    """List the keys and users with a role in this project, by their names.

    Those whose role in all projects lets them in are not among them.
    """
    members = await store.read(lambda connection: list_members(connection, caller, name))
    return [_describe(member) for member in members]


@ROUTER.put("/members/{memberId}", response_model=MemberAnswer, openapi_extra=describe_body(MemberBody))
@access(Access.PROJECT_ADMIN)
async def put_member(
    request: Request,
    caller: Caller,
    store: Store,
    name: PathName,
    member_id: MemberId,
    body: Annotated[MemberBody, Depends(json_body(MemberBody))],
) -> dict[str, Any]:
    """Give a key or a user a role in this project, by its id; it holds from this answer on."""
    role = Role[body.role]
    member = await store.write(lambda connection: set_member(connection, caller, name, member_id, role))
    await reload_roles(request)
    return _describe(member)


@ROUTER.delete("/members/{memberId}", status_code=204)
@access(Access.PROJECT_ADMIN)
async def delete_member(
    request: Request, caller: Caller, store: Store, name: PathName, member_id: MemberId
) -> Response:
    """Take its role in this project from a key or a user."""
    await store.write(lambda connection: remove_member(connection, caller, name, member_id))
    await reload_roles(request)
    return Response(status_code=204)


@ROUTER.get("/datasets", response_model=list[ProjectDatasetAnswer])
@access(Access.READ)
async def get_project_datasets(
    caller: Caller,
    store: Store,
    name: PathName,
    page: _DATASETS_PAGE,  # type: ignore[valid-type] # made by a function, for its orders
    search: Search = None,
) -> list[dict[str, Any]]:
    """List the datasets that members of this project see: those that its runs use, or that it was given."""
    rows = await store.read(
        lambda connection: list_project_datasets(connection, caller, name, page, search=search),
        lane_of(search),
    )
    return [{"id": row.id, "name": row.name, "access": "WRITE" if row.is_granted else "READ"} for row in rows]


@ROUTER.put("/datasets/{datasetName}", status_code=204)
@access(Access.WRITE)
async def give_dataset(caller: Caller, store: Store, name: PathName, dataset: DatasetName) -> Response:
    """Give a dataset to this project: its members may read it, and its EDITORs may add versions."""
    await store.write(lambda connection: grant_dataset(connection, caller, name, dataset))
    return Response(status_code=204)


@ROUTER.delete("/datasets/{datasetName}", status_code=204)
@access(Access.WRITE)
async def take_dataset(caller: Caller, store: Store, name: PathName, dataset: DatasetName) -> Response:
    """Take a dataset from this project; members still read it as long as a run of the project uses it."""
    await store.write(lambda connection: revoke_dataset(connection, caller, name, dataset))
    return Response(status_code=204)


def _describe(member: Member) -> dict[str, Any]:
    return {
        "id": member.id,
        "kind": member.kind,
        "name": member.name,
        "role": member.role.name,
        "createdAt": format_time(member.created_at),
    }
