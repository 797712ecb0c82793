"""The application: routes, middleware, and what lives as long as the server."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, Final

from fastapi import Depends, FastAPI

from dokimos._version import __version__
from dokimos.server._api import (
    annotation_routes,
    comment_routes,
    dataset_routes,
    dataset_version_routes,
    event_routes,
    gate_routes,
    health_routes,
    key_routes,
    project_routes,
    run_routes,
    session_routes,
)
from dokimos.server._api.access import Access, KeyRing, access, authorize
from dokimos.server._api.admission import AdmissionMiddleware
from dokimos.server._api.api_description import describe_api
from dokimos.server._api.disconnects import DisconnectMiddleware
from dokimos.server._api.error_responses import add_error_handlers
from dokimos.server._api.health_routes import DatabaseHealth
from dokimos.server._api.items_endpoint import ItemsMiddleware
from dokimos.server._api.middleware import GuardMiddleware
from dokimos.server._db.database import open_database
from dokimos.server._services.comparisons import Comparisons
from dokimos.server._services.event_hub import EventHub
from dokimos.server._settings import ServerSettings
from dokimos.server._workers.comparison_process import ComparisonProcess
from dokimos.server._workers.event_relay import relay_events
from dokimos.server._workers.maintenance import maintain

_LOGGER: Final = logging.getLogger("dokimos.server")
_ROUTERS: Final = (
    project_routes.ROUTER,
    run_routes.ROUTER,
    comment_routes.ROUTER,
    annotation_routes.ROUTER,
    dataset_routes.ROUTER,
    dataset_version_routes.ROUTER,
    gate_routes.ROUTER,
    event_routes.ROUTER,
    key_routes.ROUTER,
    session_routes.ROUTER,
    health_routes.ROUTER,
)


def create_app(settings: ServerSettings | None = None) -> FastAPI:
    """Return the server as an ASGI application.

    Args:
        settings: How it runs; by default what the environment variables say.

    Example:
        >>> app = create_app(ServerSettings(api_key="secret"))  # doctest: +SKIP
        >>> uvicorn.run(app, port=8080)  # doctest: +SKIP
    """
    settings = ServerSettings.from_environment() if settings is None else settings
    app = FastAPI(
        title="dokimos",
        version=__version__,
        dependencies=[Depends(authorize)],
        lifespan=_lifespan,
        # Served below, with a rule: the framework's own routes for these have none.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    database = open_database(settings)
    app.state.settings = settings
    app.state.database = database
    app.state.keys = KeyRing(database, settings)
    app.state.health = DatabaseHealth(database)
    app.state.comparisons = Comparisons(
        database, ComparisonProcess(settings), most_waiting=settings.max_waiting_comparisons
    )
    app.state.events = EventHub(settings.max_event_streams)
    app.state.is_draining = False
    add_error_handlers(app)
    for router in _ROUTERS:
        app.include_router(router)
    _add_openapi(app)
    app.add_middleware(ItemsMiddleware)
    app.add_middleware(AdmissionMiddleware, limit=settings.max_requests)
    app.add_middleware(DisconnectMiddleware)
    app.add_middleware(GuardMiddleware, allowed_hosts=settings.allowed_hosts)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    state = app.state
    _warn(state.settings)
    await state.database.open()
    try:
        await state.keys.reload()
        async with (
            relay_events(state.database, state.settings, state.events),
            maintain(state.database, state.settings, state.comparisons),
        ):
            yield
    finally:
        state.is_draining = True
        await state.comparisons.close()
        await state.database.close()


def _warn(settings: ServerSettings) -> None:
    for name in settings.ignored_variables:
        _LOGGER.warning("%s is set, but means nothing to this server.", name)
    if settings.api_key is None and not settings.is_loopback:
        _LOGGER.warning(
            "Anyone who reaches port %d can read, write and create keys, unless keys exist already: set "
            "DOKIMOS_API_KEY, or bind to 127.0.0.1.",
            settings.port,
        )
    elif not settings.require_auth_for_reads and not settings.is_loopback:
        _LOGGER.warning("Reading needs no key, as documented; DOKIMOS_REQUIRE_AUTH_FOR_READS=true closes it.")


def _add_openapi(app: FastAPI) -> None:
    @app.get("/openapi.json", include_in_schema=False)
    @app.get("/v3/api-docs", include_in_schema=False)
    @access(Access.READ)
    async def get_api_description() -> dict[str, Any]:
        return app.openapi()

    app.openapi = cache(lambda: describe_api(app))  # type: ignore[method-assign] # as the framework wants it
