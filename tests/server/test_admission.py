"""Too many requests at once, and connections that drip."""

import contextlib
import json
import socket
import time

import pytest

from dokimos.server._api.http import admission

PATIENCE = 60.0
BODY = b'{"experimentName": "qa"}'
RUNS = "/api/v1/projects/chat/runs"


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def head(method, path, length=0, *lines, kind="application/json"):
    fixed = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Type: {kind}"]
    return "\r\n".join([*fixed, f"Content-Length: {length}", *lines]).encode() + b"\r\n\r\n"


def read_answer(connection):
    file = connection.makefile("rb")
    status = int(file.readline().split()[1])
    headers = {}
    while line := file.readline().strip():
        name, _, value = line.decode().partition(":")
        headers[name.lower()] = value.strip()
    return status, headers, file.read(int(headers.get("content-length", 0)))


def ask(port, method, path, body=b"", **options):
    with connect(port) as connection:
        connection.sendall(head(method, path, len(body), **options) + body)
        return read_answer(connection)


@contextlib.contextmanager
def requests_that_wait(port, count, body=BODY, first=5):
    """Requests whose bodies have begun to arrive."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connect(port)) for _ in range(count)]
        for connection in connections:
            connection.sendall(head("POST", RUNS, len(body)) + body[:first])
        yield connections


def wait_for(ask_once, status):
    """Ask until the requests that were begun have been noticed."""
    until = time.monotonic() + PATIENCE
    while (answer := ask_once())[0] != status:
        assert time.monotonic() < until, answer
    return answer


def test_requests_beyond_the_limit_are_503_and_health_checks_are_answered(listening):
    port = listening(max_requests=3)
    with requests_that_wait(port, 3) as waiting:
        _, headers, body = wait_for(lambda: ask(port, "GET", "/api/v1/projects"), 503)
        assert headers["retry-after"] == "1"
        assert set(json.loads(body)) == {"error", "message", "timestamp"}
        assert "busy" in json.loads(body)["message"]
        assert ask(port, "GET", "/actuator/health")[0] == 200

        for connection in waiting:  # those that were admitted are not disturbed
            connection.sendall(BODY[5:])
        assert [read_answer(connection)[0] for connection in waiting] == [201] * 3
    assert ask(port, "GET", "/api/v1/projects")[0] == 200


def test_large_bodies_beyond_their_places_wait_and_keep_no_other_request_out(listening, monkeypatch):
    monkeypatch.setattr(admission, "_PATIENCE_SECONDS", 0.0)
    port = listening(max_requests=17)
    large = BODY[:-1] + b" " * 2_000_000 + b"}"
    with requests_that_wait(port, 16, large, first=1) as waiting:
        _, headers, body = wait_for(lambda: ask(port, "POST", RUNS, large), 503)
        assert headers["retry-after"] == "1"
        assert "as many large request bodies as it admits at once" in json.loads(body)["message"]
        assert ask(port, "POST", RUNS, BODY)[0] == 201
        # Uploads have places of their own: this one is refused for what it is.
        path = "/api/v1/datasets/none/versions"
        assert ask(port, "POST", path, large, kind="application/x-ndjson")[0] == 404

        waiting[0].sendall(large[1:])
        assert read_answer(waiting[0])[0] == 201
        assert ask(port, "POST", RUNS, large)[0] == 201


def test_a_body_that_drips_is_given_up_and_its_connection_closed(listening):
    port = listening(keep_alive=1, min_body_rate=1_000_000)
    with connect(port) as connection:
        connection.sendall(head("POST", RUNS, 1_000_000))
        drip(connection)
        status, headers, body = read_answer(connection)
        assert (status, headers["connection"]) == (408, "close")
        assert json.loads(body)["message"] == "The body of the request did not arrive in time, or too slowly"


def test_a_body_that_arrives_steadily_may_take_longer_than_an_idle_connection_is_kept(listening):
    port = listening(keep_alive=1, min_body_rate=10)
    body = b'{"experimentName": "qa"' + b" " * 300 + b"}"

    def send_steadily(connection, pace):
        connection.sendall(head("POST", RUNS, len(body)))
        for start in range(0, len(body), 25):
            connection.sendall(body[start : start + 25])
            pace(0.15)  # two seconds in all
        assert read_answer(connection)[0] == 201

    repeat_until_steady(port, send_steadily)


@pytest.mark.parametrize("first", [b"", b"GET /api/v1/pro", b"GET /api/v1/projects HTTP/1.1\r\nHost: lo"])
def test_a_head_that_does_not_arrive_is_not_waited_for(listening, first):
    port = listening(keep_alive=1)
    with connect(port) as connection:
        connection.sendall(first)
        assert connection.recv(100) == b""


def test_a_head_that_drips_is_not_waited_for(listening):
    port = listening(keep_alive=1)
    with connect(port) as connection:
        connection.sendall(b"GET /api/v1/projects HTTP/1.1\r\nX-Drip: ")
        drip(connection)
        check_is_closed(connection)


def test_the_rest_of_a_body_that_was_refused_is_not_waited_for(listening):
    port = listening(keep_alive=1)
    with connect(port) as connection:
        connection.sendall(head("POST", "/api/v1/nowhere", 1_000_000))
        assert read_answer(connection)[0] == 404
        drip(connection)
        check_is_closed(connection)


def test_a_connection_that_is_used_stays_open(listening):
    port = listening(keep_alive=1)

    def ask_steadily(connection, pace):
        for _ in range(9):
            connection.sendall(head("GET", "/api/v1/projects"))
            assert read_answer(connection)[0] == 200
            pace(0.3)  # two and a half seconds in all, never idle for one

    repeat_until_steady(port, ask_steadily)


def repeat_until_steady(port, use):
    """Use a connection, anew where the machine stalled: then it was idle for longer than it says."""
    gaps = [PATIENCE]
    while max(gaps) > 0.7:
        last = time.monotonic()
        gaps.clear()

        def pace(seconds):
            nonlocal last
            time.sleep(seconds)
            gaps.append(time.monotonic() - last)
            last += gaps[-1]

        try:
            with connect(port) as connection:
                use(connection, pace)
        except (OSError, ValueError, IndexError, AssertionError):
            pace(0)
            if max(gaps) <= 0.7:
                raise


def drip(connection):
    """Send byte after byte until there is an answer: each is in time, all of them together are not."""
    with contextlib.suppress(OSError):  # closed while we send
        while not _has_answer(connection):
            connection.sendall(b"x")
            time.sleep(0.05)


def check_is_closed(connection):
    with contextlib.suppress(ConnectionResetError):
        assert connection.recv(100) == b""


def _has_answer(connection):
    """Whether something, or the end, can be read."""
    connection.setblocking(False)
    try:
        connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    finally:
        connection.settimeout(PATIENCE)
    return True
