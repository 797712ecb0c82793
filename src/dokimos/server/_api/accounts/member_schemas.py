"""What the members of projects look like on the wire."""

from __future__ import annotations

from typing import Literal

from dokimos.server._api.http.json_body import StrictBody, WireModel
from dokimos.server._api.http.text_types import Name

RoleName = Literal["NONE", "VIEWER", "EDITOR", "ADMIN"]
"""A role in all projects."""
ProjectRoleName = Literal["VIEWER", "EDITOR", "ADMIN"]


class ProjectRoleBody(WireModel):
    """A role in a project."""

    project: Name
    role: ProjectRoleName


class ProjectRoleAnswer(WireModel):
    """A role in a project."""

    project_id: str
    project: str
    role: str


class MemberBody(StrictBody):
    """The role that a member of a project has from now on."""

    role: ProjectRoleName


class MemberAnswer(WireModel):
    """A key or a user with its role in a project."""

    id: str
    kind: Literal["key", "user"]
    name: str
    role: str
    created_at: str


class ProjectDatasetAnswer(WireModel):
    """A dataset that a project knows of."""

    id: str
    name: str
    access: Literal["READ", "WRITE"]
    """`WRITE` where the project was given it: EDITORs of the project may add versions then."""
