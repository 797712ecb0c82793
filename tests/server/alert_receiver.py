"""A receiver of webhooks on this machine, and projects whose runs fail the gate."""

import json
import socket
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import NamedTuple

from sqlalchemy import delete
from tests.server.gate_runs import items_of, run_of, start
from tests.server.server_process import PATIENCE, wait_until
from tests.server.test_comparisons import wait_for_verdicts

from dokimos.server._db.alert_tables import ALERT_DELIVERIES, ALERT_WEBHOOKS

GOOD, BAD = items_of([1.0] * 20), items_of([0.0] * 8 + [1.0] * 12)


class Request(NamedTuple):
    """A request that arrived."""

    path: str
    headers: dict
    body: bytes

    def json(self):
        return json.loads(self.body)


class Receiver:
    """Answers each request with the next of the given answers, `(status, headers)`, then the last one."""

    def __init__(self):
        self.answers = [(200, {})]
        self.requests = []
        self._changed = threading.Condition()

    def wait_for(self, count):
        """Wait until so many requests have come; return them."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.requests) >= count, PATIENCE), "nobody calls"
            return list(self.requests)

    def receive(self, request):
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def open_receiver():
    """A receiver that listens, with its `url`."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, headers = receiver.receive(Request(self.path, dict(self.headers), body))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    receiver.port = server.server_address[1]
    receiver.url = f"http://127.0.0.1:{receiver.port}/hooks/T0/secret-path?token=hidden"
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def raw_receiver(answer):
    """A socket that `answer(connection)` is called for, with each connection; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        is_over = threading.Event()

        def accept():
            while not is_over.is_set():
                connection, _ = listener.accept()
                with connection:
                    if not is_over.is_set():
                        connection.settimeout(PATIENCE)
                        with suppress(OSError):  # the other side has had enough
                            connection.recv(65536)
                            answer(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/hook"
        finally:
            is_over.set()
            with socket.create_connection(listener.getsockname()):
                pass
            thread.join(PATIENCE)


NUMBERS = count()


@contextmanager
def own_project(api):
    """A server that many tests share: with a project of the test's own, and without webhooks of others."""
    api.project = f"project-{next(NUMBERS)}"
    yield api
    for table in (ALERT_DELIVERIES, ALERT_WEBHOOKS):
        write(api, delete(table))


def name_of(api):
    """The project that a test uses."""
    return getattr(api, "project", "chat")


def project_of(api, name=None, headers=None):
    name = name or name_of(api)
    return next(
        each["id"] for each in api.get("/api/v1/projects", headers=headers).json() if each["name"] == name
    )


def finish_run(api, items, **body):
    """A run that has ended, of the test's project."""
    return run_of(api, items, **{"project": name_of(api), **body})


def begin(api, headers=None):
    """A project with a run; return its id."""
    start(api, project=name_of(api), headers=headers)
    return project_of(api, headers=headers)


def fail(api, headers=None, **body):
    """A run that fails the gate, after a good one; its verdict is stored when this returns."""
    finish_run(api, GOOD, headers=headers, **body)
    wait_for_verdicts(api)
    run = finish_run(api, BAD, headers=headers, **body)
    wait_for_verdicts(api)
    return run


def hooks(project, *parts):
    return "/".join((f"/api/v1/projects/{project}/alert-webhooks", *parts))


def register(api, project, url, headers=None, **body):
    answer = api.post(hooks(project), json={"url": url, **body}, headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def deliveries(api, project, hook, headers=None, **query):
    answer = api.get(hooks(project, hook, "deliveries"), params=query, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def wait_for_delivery(api, project, hook, headers=None, **fields):
    """Wait until the newest delivery has these fields; return it."""
    found = []

    def is_there():
        found[:] = deliveries(api, project, hook, headers, limit=1)
        return bool(found) and all(found[0][name] == value for name, value in fields.items())

    try:
        wait_until(is_there, fields)
    except AssertionError:
        assert found == fields  # shows both
        raise
    return found[0]


def write(api, change):
    return api.portal.call(
        api.app.state.database.write, lambda connection: connection.execute(change).rowcount
    )
