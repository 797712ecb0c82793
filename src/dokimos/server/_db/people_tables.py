"""The tables of who may do what where."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, ForeignKey, Index, Table, Text

from dokimos.server._db.columns import TIME, Flag, Id
from dokimos.server._db.metadata import METADATA

PROJECT_MEMBERS: Final = Table(
    "project_members",
    METADATA,
    Column("project_id", Id, ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True),
    # The id of a key or of a user. It is not a foreign key, since it is one of two tables: whoever removes a
    # key or a user removes its memberships.
    Column("member_id", Id, primary_key=True),
    Column("member_kind", Text, nullable=False),  # key, user
    Column("role", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", TIME, nullable=False),
    Index(None, "member_id"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

PROJECT_DATASETS: Final = Table(
    "project_datasets",
    METADATA,
    Column("project_id", Id, ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True),
    Column("dataset_id", Id, ForeignKey("datasets.id", ondelete="CASCADE"), primary_key=True),
    # True where the project was given it, false where only runs of the project use it.
    Column("is_granted", Flag, nullable=False),
    Index(None, "dataset_id"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""The datasets that a project knows of: members who see nothing but their projects see these."""
