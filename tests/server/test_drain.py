"""What happens between the signal that asks a server to stop, and its end."""

import http.client
import json
import os
import signal
import socket
import threading
import time
from contextlib import closing, suppress

import pytest
from tests.server.event_watcher import Watcher
from tests.server.gate_runs import gate, items_of, run_of
from tests.server.server_process import wait_until

LONG = 3600
SCORE = {"name": "exact", "score": 1.0, "success": True}
BODY = json.dumps({"experimentName": "qa"}).encode()


def start_run(server):
    return server.call("POST", "/projects/chat/runs", {"experimentName": "qa"})[1]["runId"]


def ask(server, path):
    """The status and the headers of an answer, on a connection of its own."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.load(answer), answer.headers


def is_ready(server):
    return ask(server, "/actuator/health/readiness")[0] == 200


def is_listening(server):
    try:
        socket.create_connection(("127.0.0.1", server.port), timeout=60).close()
    except ConnectionRefusedError:
        return False
    return True


def begin_request(server, path="/api/v1/projects/late/runs", body=BODY):
    """A connection on which the server waits for the last byte of a request's body."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    # The server asks for the body as soon as it handles the request. Before, it has perhaps not accepted the
    # connection, which is then cut when it stops listening.
    connection.sendall(f"{head}Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n".encode())
    interim = b""
    while not interim.endswith(b"\r\n\r\n"):
        part = connection.recv(1024)
        assert part, interim
        interim += part
    assert interim.startswith(b"HTTP/1.1 100 "), interim
    connection.sendall(body[:-1])
    return connection


def read_answer(connection):
    with closing(http.client.HTTPResponse(connection)) as answer:
        answer.begin()
        return answer.status, json.load(answer), answer.headers


def end(server):
    _, log = server.process.communicate(timeout=60)
    return server.process.returncode, log


class Sender(threading.Thread):
    """Sends items on one connection, as long as a server answers."""

    def __init__(self, server, run, number):
        super().__init__()
        self.server, self.run_id, self.number = server, run, number
        self.stored = []
        self.has_begun = threading.Event()
        self.closings = 0

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        with closing(connection), suppress(ConnectionError, http.client.HTTPException):
            for count in range(1_000_000):
                ordinal = 1_000_000 * self.number + count
                item = {"inputs": {"n": ordinal}, "ordinal": ordinal, "evalResults": [SCORE]}
                body = json.dumps({"items": [item]})
                headers = {"Content-Type": "application/json", "Idempotency-Key": f"{ordinal}"}
                connection.request("POST", f"/api/v1/runs/{self.run_id}/items", body, headers)
                answer = connection.getresponse()
                answer.read()
                assert answer.status in (201, 503), answer.status
                if answer.status == 201:
                    self.stored.append(ordinal)
                self.closings += answer.headers.get("Connection") == "close"
                if count == 5:
                    self.has_begun.set()
                time.sleep(0.01)  # a longer time of draining takes no more of the processor


def test_a_server_under_load_drains_and_loses_nothing(process):
    server = process(drain_seconds=10)
    run = start_run(server)
    senders = [Sender(server, run, number) for number in range(4)]
    for sender in senders:
        sender.start()
    for sender in senders:
        assert sender.has_begun.wait(60)
    watcher = Watcher(server.address)
    assert watcher.read()[0] == "ready"

    server.process.send_signal(signal.SIGTERM)
    wait_until(lambda: not is_ready(server), "the server says that it is not ready")
    status, body, headers = ask(server, "/actuator/health/readiness")
    assert (status, body["status"], headers["Connection"]) == (503, "OUT_OF_SERVICE", "close")
    assert ask(server, "/actuator/health/liveness")[0] == 200
    status, _, headers = ask(server, f"/api/v1/runs/{run}")
    assert (status, headers["Connection"]) == (200, "close")

    blocks = []
    while (lines := watcher.read_lines()) is not None:
        blocks.append(lines)
    assert any(line.startswith("event: run.items") for lines in blocks for line in lines)
    assert 1000 <= int(blocks[-1][0].removeprefix("retry: ")) < 5000
    code, log = end(server)
    assert code == 0, log
    for sender in senders:
        sender.join()
    assert all(sender.closings for sender in senders)

    again = process()
    stored = {ordinal for sender in senders for ordinal in sender.stored}
    there, after = set(), ""
    while True:
        items = again.call("GET", f"/runs/{run}?size=2000{after}")[1]["items"]
        there |= {item["ordinal"] for item in items["content"]}
        if items["last"]:
            break
        after = f"&after={items['content'][-1]['id']}"
    assert stored <= there
    assert items["totalElements"] == len(there)


def test_a_request_that_has_begun_is_answered_although_nobody_can_connect_any_more(process):
    server = process(stop_timeout=LONG)
    with closing(begin_request(server)) as connection:
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not is_listening(server), "the server listens no more")
        connection.sendall(BODY[-1:])
        status, body, headers = read_answer(connection)
    assert (status, headers["Connection"]) == (201, "close")
    code, log = end(server)
    assert code == 0, log
    assert process().call("GET", f"/runs/{body['runId']}")[0] == 200


def test_a_request_that_takes_longer_than_it_may_is_told_to_come_again(process):
    server = process(stop_timeout=1)
    with closing(begin_request(server)) as connection:
        server.process.send_signal(signal.SIGTERM)
        status, body, headers = read_answer(connection)
    assert (status, headers["Connection"], headers["Retry-After"]) == (503, "close", "5")
    assert body["message"].startswith("The server is stopping")
    code, log = end(server)
    assert code == 0, log
    assert process().call("GET", "/projects")[1] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(process, number):
    server = process(drain_seconds=LONG, stop_timeout=LONG)
    with closing(begin_request(server)) as connection:
        server.process.send_signal(number)
        wait_until(lambda: not is_ready(server), "the server says that it is not ready")
        connection.setblocking(False)

        def is_cut():
            server.process.send_signal(number)  # only later than the first ones, which may be one Ctrl-C
            try:
                return connection.recv(1) == b""
            except BlockingIOError:
                return False
            except ConnectionResetError:
                return True

        wait_until(is_cut, "the connection is cut")
    code, log = end(server)
    assert code == 0, log
    assert process().call("GET", "/projects")[1] == []


def test_what_is_asked_of_an_idle_server_ends_it(process):
    server = process(drain_seconds=0, stop_timeout=LONG)
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        connection.request("GET", "/actuator/info")  # and keeps the connection
        connection.getresponse().read()
        server.process.send_signal(signal.SIGTERM)
        assert end(server)[0] == 0


def test_a_signal_to_all_processes_of_a_service_does_not_end_the_one_that_compares(serve, tmp_path):
    api = serve(data_dir=tmp_path, database_url=None)
    run_of(api, items_of([0.9, 0.1]))
    candidate = run_of(api, items_of([0.9, 0.2]))
    assert gate(api, candidate).status_code == 200
    comparer = api.app.state.comparisons._comparer
    pid = comparer.pid
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(pid, number)
        assert gate(api, candidate, severityMargin=0.1 + number / 100).status_code == 200
        assert comparer.pid == pid
