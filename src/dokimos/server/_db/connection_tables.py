"""The table of connections to models."""

from __future__ import annotations

from typing import Final

from sqlalchemy import CheckConstraint, Column, Index, Table, Text, text

from dokimos.server._db.columns import LONG, NUMBER, TIME, Id
from dokimos.server._db.metadata import METADATA

LLM_CONNECTIONS: Final = Table(
    "llm_connections",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("tenant_id", Text),
    Column("name", Text, nullable=False),
    Column("base_url", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("protocol", Text, nullable=False),  # RESPONSES or CHAT_COMPLETIONS
    Column("api_key", Text),  # as `SecretVault.seal` returns it
    Column("credential_ref", Text),  # the environment variable with the key
    Column("input_price", NUMBER),  # US dollars per million tokens; None where it is not known
    Column("output_price", NUMBER),
    Column("max_output_tokens", LONG),
    Column("requests_per_minute", LONG),
    Column("max_concurrency", LONG),
    Column("temperature", NUMBER),  # None leaves it to the model
    Column("created_by", Text, nullable=False),
    Column("created_at", TIME, nullable=False),
    Column("updated_at", TIME, nullable=False),
    CheckConstraint("(api_key IS NULL) <> (credential_ref IS NULL)", name="ck_llm_connections_credential"),
    sqlite_strict=True,
)

for _suffix, _condition, _columns in (
    ("tenant", "tenant_id IS NOT NULL", ("tenant_id", "name")),
    ("shared", "tenant_id IS NULL", ("name",)),
):
    Index(
        f"uq_llm_connections_name_{_suffix}",
        *(LLM_CONNECTIONS.c[_column] for _column in _columns),
        unique=True,
        sqlite_where=text(_condition),
        postgresql_where=text(_condition),
    )
