"""The table of saved views."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, ForeignKey, Index, Table, Text, text

from dokimos.server._db.columns import TIME, Flag, Id
from dokimos.server._db.metadata import METADATA

SAVED_VIEWS: Final = Table(
    "saved_views",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("tenant_id", Text),
    Column("project_id", Id, ForeignKey("projects.id", ondelete="CASCADE")),  # None: of all projects
    Column("owner", Text, nullable=False),  # the id of the principal
    Column("kind", Text, nullable=False),  # of the list that it is a view of
    Column("name", Text, nullable=False),
    Column("query", Text, nullable=False),  # JSON: the parameters of the list
    Column("is_shared", Flag, nullable=False),  # with all who see rows of its tenant
    Column("created_at", TIME, nullable=False),
    Column("updated_at", TIME, nullable=False),
    Index(None, "project_id"),
    Index(
        "uq_saved_views_of_project",
        *("owner", "kind", "name", "project_id"),
        unique=True,
        sqlite_where=text("project_id IS NOT NULL"),
        postgresql_where=text("project_id IS NOT NULL"),
    ),
    Index(
        "uq_saved_views_of_all",
        *("owner", "kind", "name"),
        unique=True,
        sqlite_where=text("project_id IS NULL"),
        postgresql_where=text("project_id IS NULL"),
    ),
    sqlite_strict=True,
)
