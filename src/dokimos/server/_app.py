"""The application: routes, middleware, and what lives as long as the server."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Any, Final

from fastapi import APIRouter, Depends, FastAPI, Request
from starlette.datastructures import State
from starlette.routing import BaseRoute

from dokimos._version import __version__
from dokimos.server._api import (
    event_routes,
    health_routes,
    metrics_routes,
    server_settings_routes,
    web_pages,
)
from dokimos.server._api.accounts import (
    key_routes,
    member_routes,
    oidc_routes,
    session_list_routes,
    session_routes,
    user_routes,
)
from dokimos.server._api.accounts.key_ring import KeyRing
from dokimos.server._api.alerts import alert_routes
from dokimos.server._api.api_description import describe_api
from dokimos.server._api.audit import audit_routes
from dokimos.server._api.comparisons import gate_routes
from dokimos.server._api.datasets import dataset_routes, dataset_version_routes
from dokimos.server._api.health_routes import DatabaseHealth
from dokimos.server._api.http.access import Access, access, authorize
from dokimos.server._api.http.admission import AdmissionMiddleware
from dokimos.server._api.http.disconnects import DisconnectMiddleware
from dokimos.server._api.http.draining import DrainMiddleware
from dokimos.server._api.http.error_responses import add_error_handlers
from dokimos.server._api.http.middleware import GuardMiddleware
from dokimos.server._api.http.observation import ObservationMiddleware
from dokimos.server._api.http.proxy import ProxyMiddleware
from dokimos.server._api.http.query_parameters import check_query
from dokimos.server._api.http.root_path import RootPathMiddleware
from dokimos.server._api.judging import judge_call_routes, judge_routes
from dokimos.server._api.metrics_routes import watch_server
from dokimos.server._api.models import connection_routes
from dokimos.server._api.online import rule_routes, rule_use_routes
from dokimos.server._api.projects import project_routes, project_settings_routes, view_routes
from dokimos.server._api.reviews import (
    alignment_routes,
    annotation_routes,
    comment_routes,
    instruction_routes,
    label_routes,
    review_routes,
)
from dokimos.server._api.runs import run_routes
from dokimos.server._api.runs.items_endpoint import ItemsMiddleware
from dokimos.server._api.trace_alerts import trace_alert_routes, trace_alert_test_routes
from dokimos.server._api.traces import (
    otlp_routes,
    redaction_routes,
    trace_dataset_routes,
    trace_removal_routes,
    trace_review_routes,
    trace_routes,
    trace_session_routes,
)
from dokimos.server._api.traces.exports_endpoint import ExportsMiddleware
from dokimos.server._api.traces.otlp_errors import OtlpErrorMiddleware
from dokimos.server._db.clock import now
from dokimos.server._db.database import Database, Lane, open_database, open_trace_database
from dokimos.server._oidc.provider import Provider
from dokimos.server._services.alerts.alert_outbox import AlertsQueued
from dokimos.server._services.audit.audit_trail import AuditTrail
from dokimos.server._services.audit.audited_database import AuditedDatabase
from dokimos.server._services.comparisons.comparisons import Comparisons
from dokimos.server._services.encryption.secret_vault import SecretVault
from dokimos.server._services.event_hub import EventHub
from dokimos.server._services.events import EventKind
from dokimos.server._services.judging.judge_jobs import JobsChanged
from dokimos.server._services.measured_database import MeasuredDatabase
from dokimos.server._services.metrics import Metrics
from dokimos.server._services.models.model_check import ModelChecks
from dokimos.server._services.online.rules_changed import RulesChanged
from dokimos.server._services.start_warnings import warn_of_access, warn_of_ignored_variables
from dokimos.server._services.traces.stored_apart import lacks_spans
from dokimos.server._services.traces.trace_ingestion import TraceIngestion
from dokimos.server._services.traces.trace_projects import TraceProjects
from dokimos.server._settings import ServerSettings
from dokimos.server._workers.alert_delivery import AlertDelivery, deliver_alerts
from dokimos.server._workers.audit import keep_audit_log
from dokimos.server._workers.comparison_process import ComparisonProcess
from dokimos.server._workers.event_relay import relay_events
from dokimos.server._workers.judge_models import JobModels
from dokimos.server._workers.judging import JudgeWorker, judge_runs
from dokimos.server._workers.maintenance import maintain
from dokimos.server._workers.online_matching import OnlineMatching
from dokimos.server._workers.online_scoring import OnlineScoring, score_traces
from dokimos.server._workers.periodic import run_periodically
from dokimos.server._workers.score_export import ScoreExport, export_scores
from dokimos.server._workers.trace_alerts import TraceAlertWatch
from dokimos.server._workers.trace_retention import TraceSweeper, remove_traces
from dokimos.server._workers.trace_rollups import ROLLUP_DELAY_SECONDS, ROLLUP_SECONDS, roll_up_days

_LOGGER: Final = logging.getLogger("dokimos.server")
_ROUTERS: Final = (
    project_routes.ROUTER,
    project_settings_routes.ROUTER,
    member_routes.ROUTER,
    run_routes.ROUTER,
    comment_routes.ROUTER,
    annotation_routes.ROUTER,
    alignment_routes.ROUTER,
    review_routes.ROUTER,
    label_routes.ROUTER,
    instruction_routes.ROUTER,
    dataset_routes.ROUTER,
    dataset_version_routes.ROUTER,
    gate_routes.ROUTER,
    alert_routes.ROUTER,
    connection_routes.ROUTER,
    judge_routes.ROUTER,
    judge_call_routes.ROUTER,
    rule_routes.ROUTER,
    rule_use_routes.ROUTER,
    trace_alert_routes.ROUTER,
    trace_alert_test_routes.ROUTER,
    otlp_routes.ROUTER,
    trace_routes.ROUTER,
    trace_session_routes.ROUTER,
    trace_dataset_routes.ROUTER,
    trace_review_routes.ROUTER,
    trace_removal_routes.ROUTER,
    redaction_routes.ROUTER,
    event_routes.ROUTER,
    key_routes.ROUTER,
    session_routes.ROUTER,
    view_routes.ROUTER,
    server_settings_routes.ROUTER,
    audit_routes.ROUTER,
    metrics_routes.ROUTER,
    session_list_routes.ROUTER,
    oidc_routes.ROUTER,
    user_routes.ROUTER,
    health_routes.ROUTER,
    web_pages.ROUTER,
)
_CHECKS: Final = (Depends(authorize), Depends(check_query))
"""What each request passes, whatever its route."""

_PROJECT_EVENTS: Final = (
    EventKind.TRACE_EVAL_RULE_CHANGED,
    EventKind.TRACE_EVAL_RULE_DELETED,
    EventKind.PROJECT_CREATED,
    EventKind.PROJECT_UPDATED,
    EventKind.PROJECT_DELETED,
)
"""After which no server may rely on the rules, the settings and the names of projects that it knows."""


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
        dependencies=_CHECKS,
        lifespan=_lifespan,
        # Served below, with a rule: the framework's own routes for these have none.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    _add_parts(app.state, settings)
    watch_server(app.state)
    add_error_handlers(app)
    app.router.routes.extend(_include_routers())
    _add_openapi(app)
    _add_middleware(app, settings)
    return app


@cache
def _include_routers() -> tuple[BaseRoute, ...]:
    """Return the routes, which all applications of the process share.

    The framework analyzes the parameters of routes anew for each application that includes them, which takes
    0.2 seconds: a process with many applications, such as one of tests, would spend half of its time on it.
    """
    router = APIRouter(dependencies=_CHECKS)
    for each in _ROUTERS:
        router.include_router(each)
    return tuple(router.routes)


def _add_middleware(app: FastAPI, settings: ServerSettings) -> None:
    """Add what each request passes before its route, the last one first."""
    app.add_middleware(ItemsMiddleware)
    app.add_middleware(ExportsMiddleware)
    app.add_middleware(AdmissionMiddleware, limit=settings.max_requests)
    app.add_middleware(DisconnectMiddleware)
    app.add_middleware(GuardMiddleware, allowed_hosts=settings.allowed_hosts)
    app.add_middleware(DrainMiddleware)
    app.add_middleware(OtlpErrorMiddleware)
    app.add_middleware(ObservationMiddleware, metrics=app.state.metrics, trail=app.state.audit_trail)
    app.add_middleware(ProxyMiddleware, trusted=settings.trusted_proxies)
    if settings.root_path:
        app.add_middleware(RootPathMiddleware, root_path=settings.root_path)


def _add_parts(state: State, settings: ServerSettings) -> None:
    """Make the parts of a server, which requests and workers find in its state."""
    metrics = state.metrics = Metrics()
    trail = state.audit_trail = AuditTrail()
    database = MeasuredDatabase(open_database(settings), metrics)
    state.settings = settings
    # What requests and workers change is audited; the others look after keys, health and verdicts.
    state.unaudited_database = database
    state.database = AuditedDatabase(database, trail)
    _add_traces(state, database, settings)
    state.keys = KeyRing(database, settings)
    state.health = DatabaseHealth(database)
    state.trace_health = DatabaseHealth(state.traces)
    state.comparisons = Comparisons(
        database,
        ComparisonProcess(settings),
        most_waiting=settings.max_waiting_comparisons,
        durations=metrics.comparisons,
    )
    state.events = EventHub(settings.max_event_streams, settings.max_event_streams_per_caller)
    state.oidc = None if settings.oidc is None else Provider(settings.oidc)
    state.vault = SecretVault(settings.encryption_keys)
    state.alerts = AlertDelivery(state.database, settings, state.vault, metrics)
    state.model_checks = ModelChecks(metrics)
    state.judging = JudgeWorker(
        state.database,
        settings.judging,
        JobModels(state.database, settings, state.vault),
        metrics,
        state.comparisons.judge_soon,
    )
    state.score_export = ScoreExport(state.database, settings, metrics)
    state.scoring = OnlineScoring(
        state.database,
        state.traces,
        settings,
        JobModels(state.database, settings, state.vault),
        metrics,
        state.score_export,
    )
    state.matching = OnlineMatching(state.database, state.traces, settings.online, state.scoring.wake)
    state.trace_alerts = TraceAlertWatch(state.database, state.traces, settings.online, metrics)
    state.trace_ingestion.match_soon = state.matching.wake_for_spans
    state.is_draining = False


def _add_traces(state: State, database: MeasuredDatabase, settings: ServerSettings) -> None:
    """Make what takes traces in and removes them; `database` is that of everything else."""
    metrics = state.metrics
    state.traces = MeasuredDatabase(open_trace_database(settings), metrics)
    projects = TraceProjects(database, settings, hears_of_new=database.dialect == "sqlite")
    state.trace_ingestion = TraceIngestion(
        state.traces, projects, settings.traces, metrics, serves_requests=lambda: database.serves_requests
    )
    state.trace_sweeper = TraceSweeper(
        state.traces,
        database,
        state.trace_ingestion.store,
        metrics,
        # Not for what is stored into the traces, which waits for this transaction's end.
        serves_requests=lambda: database.serves_requests or state.traces.serves_reads,
    )


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    state = app.state
    for warning in warn_of_ignored_variables(state.settings):  # also where the database cannot be opened
        _LOGGER.warning("%s", warning)

    await state.database.open()
    try:
        await state.traces.open()
        await _warn_of_missing_spans(state.traces)
        await state.keys.reload()
        for warning in warn_of_access(state.settings, is_keyed=state.keys.is_keyed):
            _LOGGER.warning("%s", warning)
        state.started_at = now()
        async with _work_in_background(state):
            yield
    finally:
        state.is_draining = True
        await state.comparisons.close()
        state.trace_ingestion.close()
        await state.traces.close()
        await state.database.close()


@asynccontextmanager
async def _work_in_background(state: State) -> AsyncIterator[None]:
    """Run all that happens without a request, until the context ends; the first to start stops last."""

    def forget_projects() -> None:
        state.trace_ingestion.projects.forget()
        state.matching.wake_for_rules()
        state.scoring.wake()

    async with (
        keep_audit_log(
            state.unaudited_database,
            state.settings,
            state.audit_trail,
            is_keyed=state.keys.is_keyed,
        ),
        relay_events(
            state.database,
            state.settings,
            state.events,
            state.keys.expire,
            {
                AlertsQueued: state.alerts.wake,
                JobsChanged: state.judging.wake,
                RulesChanged: forget_projects,
            },
            dict.fromkeys(_PROJECT_EVENTS, forget_projects),
        ) as relay,
        deliver_alerts(state.alerts, state.database, state.vault),
        maintain(state.database, state.settings, state.comparisons),
        judge_runs(state.judging),
        export_scores(state.score_export),
        score_traces(state.matching, state.scoring),
        remove_traces(state.trace_sweeper, state.settings.traces.sweep_seconds),
        run_periodically(
            "Adding up days of traces",
            partial(roll_up_days, state.traces),
            ROLLUP_SECONDS,
            delay=ROLLUP_DELAY_SECONDS,
        ),
        run_periodically(
            "Watching traces for alerts",
            state.trace_alerts.watch,
            state.settings.online.alert_poll_seconds,
        ),
    ):
        state.keys.announce_to(relay.announce_access)
        yield


async def _warn_of_missing_spans(traces: Database) -> None:
    if await traces.read(lacks_spans, Lane.WORK):
        _LOGGER.warning(
            "There are traces without spans: these are in the ClickHouse that DOKIMOS_TRACE_DATABASE_URL "
            "named before. Name it again, or move them with 'dokimos db backup --with-traces'."
        )


# A function of the module: the framework keeps functions in its caches, and so the application that
# one of them holds.
@access(Access.READ)
async def _get_api_description(request: Request) -> dict[str, Any]:
    description: dict[str, Any] = request.app.openapi()
    return description


def _add_openapi(app: FastAPI) -> None:
    for path in ("/openapi.json", "/v3/api-docs"):
        app.add_api_route(path, _get_api_description, methods=["GET"], include_in_schema=False)
    root_path = app.state.settings.root_path
    app.openapi = cache(lambda: describe_api(app, root_path))  # type: ignore[method-assign] # as the framework wants it
