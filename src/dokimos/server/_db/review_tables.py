"""The tables of human review: who says what about items, who is at which item, what can be said."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, ForeignKey, Index, Table, Text, UniqueConstraint, text

from dokimos.server._db.columns import LONG, NUMBER, TIME, Flag, Id
from dokimos.server._db.metadata import METADATA
from dokimos.server._db.tables import ITEMS

# In all of them `tenant_id` is "" for what is shared, as in annotations: a column of a key cannot be NULL.
REVIEWS: Final = Table(
    "reviews",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("item_id", Id, ForeignKey("items.id", ondelete="CASCADE"), nullable=False),
    Column("run_id", Id, nullable=False),
    Column("project_id", Id, nullable=False),
    Column("tenant_id", Text, nullable=False, default=""),
    Column("reviewer", Text, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("overridden_expected_output", Text),  # JSON
    Column("note", Text),  # a JSON string
    Column("labels", Text),  # JSON: by the name of each label its value and the version of its schema
    # Whether chance chose the item, and with which probability it chose each item of the queue; None where
    # the item was not claimed.
    Column("sampled", Flag),
    Column("selection_probability", NUMBER),
    Column("created_at", TIME, nullable=False),
    Column("updated_at", TIME, nullable=False),
    UniqueConstraint("item_id", "tenant_id", "reviewer"),
    Index(None, "run_id", "item_id"),
    Index(None, "project_id", "item_id"),
    Index(None, "updated_at"),
    sqlite_strict=True,
)
"""What each reviewer says of an item now; the latest of a tenant is its annotation."""

REVIEW_CHANGES: Final = Table(
    "review_changes",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("item_id", Id, ForeignKey("items.id", ondelete="CASCADE"), nullable=False),
    Column("run_id", Id, nullable=False),
    Column("project_id", Id, nullable=False),
    Column("tenant_id", Text, nullable=False, default=""),
    Column("reviewer", Text, nullable=False),  # whose review was changed
    Column("kind", Text, nullable=False),
    Column("before", Text),  # JSON: the review as it was, None where there was none
    Column("after", Text),  # JSON: the review from then on, None where it was withdrawn
    Column("created_by", Text, nullable=False),
    Column("created_at", TIME, nullable=False),
    Column("undone", Flag, nullable=False, default=False),
    Index(None, "item_id", "created_at"),
    sqlite_strict=True,
)

REVIEW_CLAIMS: Final = Table(
    "review_claims",
    METADATA,
    Column("item_id", Id, ForeignKey("items.id", ondelete="CASCADE"), primary_key=True),
    Column("tenant_id", Text, primary_key=True, default=""),
    # 0 for the first reviewer; the items that two people look at have a place 1 as well.
    Column("place", LONG, primary_key=True, autoincrement=False),
    Column("run_id", Id, nullable=False),
    Column("project_id", Id, nullable=False),
    Column("reviewer", Text, nullable=False),
    Column("claimed_at", TIME, nullable=False),
    Column("expires_at", TIME),  # None for what somebody was assigned
    Column("assigned_by", Text),
    Column("sampled", Flag),
    Column("selection_probability", NUMBER),
    Index(None, "reviewer"),
    Index(None, "run_id"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Who is at which item. A claim that has expired counts as none, and the next one takes its place."""

RUN_REVIEW_COUNTS: Final = Table(
    "run_review_counts",
    METADATA,
    Column("run_id", Id, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("tenant_id", Text, primary_key=True),
    # Items that the tenant itself has decided, and those that own the run have not; and the other way round.
    Column("decided_count", LONG, nullable=False, default=0),
    Column("reopened_count", LONG, nullable=False, default=0),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""By how much the queue of a tenant differs from that of others, in a run that is shared."""

TRACE_REVIEWS: Final = Table(
    "trace_reviews",
    METADATA,
    Column("project_id", Id, primary_key=True),
    Column("tenant_id", Text, primary_key=True, default=""),
    Column("trace_id", Text, primary_key=True),  # that of OpenTelemetry: the trace may be gone
    Column("span_id", Text, primary_key=True),  # empty for the whole trace
    Column("item_id", Id, ForeignKey("items.id", ondelete="CASCADE"), nullable=False),
    Column("run_id", Id, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", TIME, nullable=False),
    Index(None, "item_id"),
    Index(None, "trace_id"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Which items were made of which traces, for people to review."""

LABEL_SCHEMAS: Final = Table(
    "label_schemas",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("project_id", Id, ForeignKey("projects.id", ondelete="CASCADE"), nullable=False),
    Column("tenant_id", Text, nullable=False, default=""),
    Column("name", Text, nullable=False),
    Column("version", LONG, nullable=False),
    Column("definition", Text, nullable=False),  # JSON
    Column("created_by", Text, nullable=False),
    Column("created_at", TIME, nullable=False),
    Column("retired_at", TIME),  # since when no new label is given by it
    UniqueConstraint("project_id", "tenant_id", "name", "version"),
    sqlite_strict=True,
)
"""What reviewers of a project can say beside the verdict. A version never changes."""

# The queue begins at the first item that nobody has reviewed, however many were reviewed before it.
_IS_UNREVIEWED: Final = text("reviewed IS NULL")
Index(
    "ix_items_unreviewed",
    ITEMS.c.run_id,
    ITEMS.c.created_at,
    ITEMS.c.id,
    sqlite_where=_IS_UNREVIEWED,
    postgresql_where=_IS_UNREVIEWED,
)
