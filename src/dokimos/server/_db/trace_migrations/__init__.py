"""Migrations of the tables of traces, by Alembic."""
