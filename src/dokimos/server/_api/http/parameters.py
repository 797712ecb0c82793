"""Parameters that many routes have.

Their functions are `async`, although none waits: the framework would run a plain function in a thread, which
costs more than most of the routes themselves.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Path, Query
from starlette.requests import Request

from dokimos.server._api.http.text_types import NAME_SCHEMA
from dokimos.server._db.database import Database, Lane
from dokimos.server._services.comparisons.comparisons import Comparisons

ENCODED_SLASH = "\x1f"
"""What a slash inside a name of a path is between `_app`, which decodes the path, and `path_name`.

No name contains it, since it is a control character.
"""


async def _read_name(name: Annotated[str, Path(json_schema_extra=NAME_SCHEMA)]) -> str:
    return name.replace(ENCODED_SLASH, "/")


async def _read_database(request: Request) -> Database:
    database: Database = request.app.state.database
    return database


async def _read_comparisons(request: Request) -> Comparisons:
    comparisons: Comparisons = request.app.state.comparisons
    return comparisons


async def _read_dataset_name(
    name: Annotated[str, Path(alias="datasetName", json_schema_extra=NAME_SCHEMA)],
) -> str:
    return name.replace(ENCODED_SLASH, "/")


PathName = Annotated[str, Depends(_read_name)]
"""The part `{name}` of a path, percent-decoded; it may contain slashes."""
DatasetName = Annotated[str, Depends(_read_dataset_name)]
"""The part `{datasetName}` of a path, likewise."""
Store = Annotated[Database, Depends(_read_database)]
"""The database."""
Engine = Annotated[Comparisons, Depends(_read_comparisons)]
"""What compares runs."""
Search = Annotated[str | None, Query(max_length=500, description="Text that must occur, in any case.")]


def lane_of(search: str | None) -> Lane:
    """Return the lane of a list: looking for a text must not hold up the pages that need no search."""
    return Lane.SEARCH if search else Lane.PAGE


async def _read_experiment_id(experiment_id: Annotated[UUID, Path(alias="experimentId")]) -> str:
    return str(experiment_id)


async def _read_run_id(run_id: Annotated[UUID, Path(alias="runId")]) -> str:
    return str(run_id)


ExperimentId = Annotated[str, Depends(_read_experiment_id)]
"""The part `{experimentId}` of a path."""
RunId = Annotated[str, Depends(_read_run_id)]
"""The part `{runId}` of a path."""


async def _read_item_id(item_id: Annotated[UUID, Path(alias="itemId")]) -> str:
    return str(item_id)


ItemId = Annotated[str, Depends(_read_item_id)]
"""The part `{itemId}` of a path."""
