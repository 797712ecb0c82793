"""Request ids, and the lines of the log."""

import io
import json
import logging
import threading

import pytest
from tests.server.test_access import ADMIN, bearer, make_key, sign_in, start

from dokimos.server import ServerSettings
from dokimos.server._logs import make_formatter
from dokimos.server._services.request_context import RequestContext, begin_request, current_request

LOGGER = logging.getLogger("dokimos.server.test")


@pytest.fixture
def log():
    """A function that collects the lines of a server with some settings, as text."""
    handlers = []

    def collect(**settings):
        stream = io.StringIO()
        handler = logging.StreamHandler(stream)
        handler.setFormatter(make_formatter(ServerSettings(**settings)))
        root = logging.getLogger()
        root.addHandler(handler)
        handlers.append((handler, root.level))
        root.setLevel(logging.DEBUG)
        logging.getLogger("dokimos.access").setLevel(logging.INFO)
        return stream

    yield collect
    for handler, level in handlers:
        logging.getLogger().removeHandler(handler)
        logging.getLogger().setLevel(level)
    logging.getLogger("dokimos.access").setLevel(logging.NOTSET)


@pytest.mark.parametrize(
    ("sent", "is_kept"),
    [
        ("build-17/step.3", True),
        ("4bf92f3577b34da6a3ce929d0e0e4736", True),
        ("x" * 128, True),
        ("x" * 129, False),
        ("two words", False),
        ("<script>", False),
        ("é", False),
        ("", False),
    ],
)
def test_a_sane_request_id_of_the_client_is_kept(serve, sent, is_kept):
    api = serve()
    for path in ("/api/v1/projects", "/nowhere", "/actuator/health"):
        headers = [(b"x-request-id", sent.encode("latin-1"))]
        found = api.get(path, headers=headers).headers.get_list("x-request-id")
        assert len(found) == 1
        assert (found[0] == sent) is is_kept


def test_every_line_of_a_request_has_its_id_also_those_of_the_database(serve, log):
    api = serve(api_key="admin-key")
    stream = log(log_format="json")
    database = api.app.state.database
    threads = set()

    async def work():
        begin_request(RequestContext("req-1", "GET", "192.0.2.1"))

        def query(connection):
            threads.add(threading.current_thread().name)
            LOGGER.info("in the database")

        await database.read(query)
        await database.write(query)
        LOGGER.info("outside")

    api.portal.call(work)
    LOGGER.info("no request")

    lines = [json.loads(line) for line in stream.getvalue().splitlines() if "dokimos.server.test" in line]
    assert [line.get("requestId") for line in lines] == ["req-1"] * 3 + [None]
    assert current_request() is None


def test_json_lines_have_what_one_looks_for(serve, log):
    api = serve(api_key="admin-key")
    stream = log(log_format="json")
    start(api, headers={**ADMIN, "X-Request-Id": "req-2"})

    [line] = [json.loads(line) for line in stream.getvalue().splitlines() if '"dokimos.access"' in line]

    assert line.pop("time").endswith("+00:00")
    assert line.pop("durationMs") >= 0
    assert line.pop("message").startswith("POST /api/v1/projects/chat/runs 201 in ")
    assert line == {
        "level": "INFO",
        "logger": "dokimos.access",
        "requestId": "req-2",
        "principal": "system",
        "route": "/api/v1/projects/{name}/runs",
        "method": "POST",
        "status": 201,
    }


def test_health_checks_are_not_logged_and_failures_are_warnings(serve, log, monkeypatch):
    api = serve()
    stream = log(log_format="json")
    for path in ("/actuator/health", "/actuator/health/liveness"):
        api.get(path)

    async def fail(*_):
        raise RuntimeError("secret cause")

    monkeypatch.setattr("dokimos.server._api.projects.project_routes.list_projects", lambda *_, **__: 1 / 0)
    answer = api.get("/api/v1/projects")

    assert answer.status_code == 500
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    access = [line for line in lines if line["logger"] == "dokimos.access"]
    assert [(line["level"], line["status"]) for line in access] == [("WARNING", 500)]
    [failure] = [line for line in lines if "exception" in line]
    assert "ZeroDivisionError" in failure["exception"]
    assert failure["requestId"] == answer.json()["requestId"] == answer.headers["x-request-id"]


def test_the_query_of_a_request_is_not_logged(serve, log):
    api = serve()
    stream = log()
    api.get("/api/v1/projects", params={"search": "confidential"})
    assert "GET /api/v1/projects 200" in stream.getvalue()
    assert "confidential" not in "".join(
        line for line in stream.getvalue().splitlines() if "dokimos." in line
    )


def test_nothing_that_is_sent_makes_a_line_of_its_own(log):
    stream = log()
    begin_request(None)
    LOGGER.info("name %s", "a\n2026-01-01 CRITICAL fake\x1b[2J")
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_line_holds_a_secret(serve, log, log_format, tmp_path):
    """Also where something logs what it should not."""
    settings = {
        "api_key": "correct-horse-battery-staple",
        "database_url": "postgresql://dokimos:p%40ssword-of-the-database@db/dokimos",
    }
    api = serve(api_key=settings["api_key"])
    stream = log(log_format=log_format, **settings)
    own = bearer(settings["api_key"])
    made = make_key(api, "ADMIN", by=own)
    sign_in(api, settings["api_key"])
    sign_in(api, "dok_wrong-key-that-looks-like-one-of-ours")
    start(api, headers=bearer("wrong-key-of-somebody-0123456789"))
    cookie = api.cookies["dokimos_session"]
    key = made["Authorization"].removeprefix("Bearer ")
    LOGGER.error("cannot connect to %s", settings["database_url"])
    LOGGER.error("key %s, header %s", key, own)
    try:
        raise RuntimeError(f"in a traceback: {key} {settings['api_key']} p@ssword-of-the-database")
    except RuntimeError:
        LOGGER.exception("failed")

    text = stream.getvalue()
    assert "cannot connect to" in text
    secrets = ("correct-horse", key, "ssword-of-the-database", cookie, "wrong-key-of-somebody", "dok_wrong")
    for secret in secrets:
        assert secret not in text, secret
