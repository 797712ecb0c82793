"""Runs of a matrix: only those with the same parameters are a run before and a run after."""

from __future__ import annotations

import json
from typing import Any, Final

from sqlalchemy import Connection, Row, Select

from dokimos.server._db.tables import RUNS

_DECLARED: Final = "matrix"
"""The member of a run's metadata that names its parameters, each a member beside it."""
_MOST_READ: Final = 1_000
"""Of so many earlier runs the parameters are read, which is a few runs of each combination."""


def select_place(connection: Connection, earlier: Select[Any], candidate: Row[Any]) -> Select[Any]:
    """Return a selection of runs with those alone that have the parameters of a run of a matrix.

    Another prompt or model is another column, and no earlier state of this one. Runs of no matrix keep all.
    """
    place = _read_place(candidate.config)
    if place is None:
        return earlier
    latest = earlier.with_only_columns(RUNS.c.id, RUNS.c.config).order_by(
        RUNS.c.started_at.desc(), RUNS.c.id.desc()
    )
    rows = connection.execute(latest.limit(_MOST_READ))
    return earlier.where(RUNS.c.id.in_([row.id for row in rows if _read_place(row.config) == place]))


def describe_place(candidate: Row[Any]) -> str:
    """Return what a sentence says of the runs that are looked for, nothing of a run of no matrix."""
    place = _read_place(candidate.config)
    return "" if place is None else f" with the same {' and '.join(name for name, _ in place)}"


def _read_place(config: str | None) -> tuple[tuple[str, str], ...] | None:
    """Return the parameters of a run with their values as JSON, None where it is part of no matrix."""
    tree = json.loads(config) if config else None
    if not isinstance(tree, dict):
        return None
    names = tree.get(_DECLARED)
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, list):
        return None
    known = [name for name in names if isinstance(name, str) and name in tree]
    return tuple((name, json.dumps(tree[name], sort_keys=True)) for name in known) or None
