"""The names of the projects that traces belong to: they are in another database than the traces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, select

from dokimos.server._db.batches import in_batches
from dokimos.server._db.database import Database
from dokimos.server._db.ids import parse_id
from dokimos.server._db.tables import PROJECTS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.errors import NotFoundError
from dokimos.server._services.projects.projects import find_project, find_project_by_id


async def read_project_names(
    database: Database, principal: Principal, project_ids: Iterable[str | None]
) -> Mapping[str, str]:
    """Return the names of projects by their ids, of those that the caller sees."""
    ids = sorted({each for each in project_ids if each is not None})
    if not ids:
        return {}

    def read(connection: Connection) -> dict[str, str]:
        query = select(PROJECTS.c.id, PROJECTS.c.name).where(principal.sees(PROJECTS))
        return {
            row.id: row.name
            for batch in in_batches(ids)
            for row in connection.execute(query.where(PROJECTS.c.id.in_(batch)))
        }

    return await database.read(read)


async def find_project_id(database: Database, principal: Principal, project: str) -> str:
    """Return the id of a project by its name or its id.

    Raises:
        NotFoundError: There is none that the caller sees.
    """

    def read(connection: Connection) -> str:
        identifier = parse_id(project)
        if identifier is not None:
            try:
                return str(find_project_by_id(connection, principal, identifier).id)
            except NotFoundError:
                pass  # it may be a name
        return str(find_project(connection, principal, project).id)

    return await database.read(read)
