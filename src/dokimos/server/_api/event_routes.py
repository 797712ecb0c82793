"""The stream of what changes."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Header, Query
from fastapi.responses import Response
from starlette.requests import Request

from dokimos.server._api.accounts.key_ring import KeyRing
from dokimos.server._api.event_stream import EventStream
from dokimos.server._api.http.access import Access, Caller, access, address_of, authorize
from dokimos.server._api.http.admission import slot_of
from dokimos.server._api.http.failed_logins import network_of
from dokimos.server._api.http.parameters import Store
from dokimos.server._db.database import DatabaseUnavailable
from dokimos.server._services.accounts.principal import ANONYMOUS, SYSTEM, Principal
from dokimos.server._services.errors import ServiceError
from dokimos.server._services.event_hub import EventHub
from dokimos.server._services.event_queries import find_scope
from dokimos.server._services.projects.names import MAX_LENGTH

ROUTER = APIRouter(prefix="/api/v1/events", tags=["Events"])
_RETRY_SECONDS: Final = 1.0
_EXAMPLE: Final = (
    "id: 9f86d081884c7d65\nevent: run.items\n"
    'data: {"projectId":"019a...","experimentId":"019a...","runId":"019a...","itemCount":20,"passedCount":18,'
    '"judgedCount":20,"erroredCount":0}\n\n'
)
_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Server-sent events, without end.",
        "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}},
    },
    503: {
        "description": "As many clients receive events as are allowed, in all or for one caller; "
        "`Retry-After` says when to try again."
    },
}


@ROUTER.get("", response_class=Response, responses=_ANSWERS)
@access(Access.READ)
async def get_events(
    request: Request,
    caller: Caller,
    store: Store,
    project: Annotated[str | None, Query(max_length=MAX_LENGTH, description="The name of a project.")] = None,
    experiment: Annotated[UUID | None, Query(description="The id of an experiment.")] = None,
    run: Annotated[UUID | None, Query(description="The id of a run.")] = None,
    last_event_id: Annotated[
        str | None, Header(description="The last event that was received: the stream goes on behind it.")
    ] = None,
) -> Response:
    """Stream what changes, as server-sent events: ids and counts, to whoever may see the rows.

    The first event is `ready`: what changes from then on is told. `reload` says that events were missed,
    so that what is shown must be read again. The others are `project.created`, `project.updated`,
    `project.deleted`, `members.changed`, `experiment.created`, `experiment.updated`,
    `experiment.deleted`, `run.created`, `run.updated`, `run.items` (at most twice in a second for each
    run), `run.completed`, `run.deleted`, `comparison.ready`, `verdict.ready`, `annotation.changed`,
    `annotation.deleted`, `comment.created`, `comment.updated`, `comment.deleted`, `view.changed`,
    `view.deleted`, `dataset.created`, `dataset.deleted` and `dataset.version.created`.
    """
    hub: EventHub = request.app.state.events
    keys: KeyRing = request.app.state.keys
    owner = owner_of(request, caller)
    hub.check_capacity(owner)
    scope = await store.read(
        lambda connection: find_scope(
            connection,
            caller,
            project=project,
            experiment_id=None if experiment is None else str(experiment),
            run_id=None if run is None else str(run),
        )
    )

    async def is_still_admitted() -> bool:
        while True:
            try:
                return await authorize(request) == caller
            except ServiceError:
                return False
            except DatabaseUnavailable:  # nothing is sent until it says who may go on
                await asyncio.sleep(_RETRY_SECONDS)

    slot_of(request).leave()  # it has no end, and a limit of its own
    return EventStream(
        lambda: hub.subscribe(caller, scope, last_event_id or None, owner=owner),
        is_still_admitted,
        lambda: keys.changes,
    )


def owner_of(request: Request, caller: Principal) -> str:
    """Return who a stream counts for: a key of its own, or else the address that it goes to."""
    if caller in (SYSTEM, ANONYMOUS):  # many people, who may have no key at all
        return network_of(address_of(request))
    return caller.id
