"""Requests to ClickHouse's HTTP interface, against a server that answers what a test says."""

import asyncio
import gzip
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.server.embedded_clickhouse import read_form

from dokimos.server._clickhouse_address import ClickHouseAddress
from dokimos.server._db.clickhouse_client import ClickHouseClient, TookTooLong
from dokimos.server._db.clickhouse_parameters import Statement
from dokimos.server._db.clickhouse_schema import prepare_schema
from dokimos.server._db.database import DatabaseUnavailable

PASSWORD = "s3cret"


class Interface:
    """A server that answers each request with what is next, and remembers the requests."""

    def __init__(self):
        self.answers = []
        self.requests = []
        interface = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                interface.requests.append((urlsplit(self.path).query, dict(self.headers), body))
                answer = interface.answers.pop(0)
                if answer is None:
                    self.close_connection = True
                    return
                status, content, headers = answer
                if callable(content):
                    content = content()
                self.send_response(status)
                for name, value in {"Content-Length": len(content), **headers}.items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def answer(self, content=b"", status=200, **headers):
        self.answers.append(
            (status, content, {name.replace("_", "-"): each for name, each in headers.items()})
        )

    def cut_off(self):
        self.answers.append(None)


@contextmanager
def _serving():
    interface = Interface()
    thread = threading.Thread(target=interface.server.serve_forever)
    thread.start()
    yield interface
    interface.server.shutdown()
    thread.join()
    interface.server.server_close()


@pytest.fixture
def interface():
    with _serving() as interface:
        yield interface


@pytest.fixture
def client(interface):
    port = interface.server.server_port
    client = ClickHouseClient(ClickHouseAddress(f"http://127.0.0.1:{port}", "traces", "writer", PASSWORD))
    yield client
    client.close()


def run(client, request):
    return client.submit(request).result(20)


def test_a_query_goes_as_a_form_with_its_parameters_and_the_user_in_headers(client, interface):
    interface.answer(b"\x01\x01a\x05Int64" + (7).to_bytes(8, "little"))
    statement = Statement("SELECT {p0:Int64}", {"p0": "7"})
    assert run(client, client.read(statement, seconds=5)) == [(7,)]
    [(query, headers, body)] = interface.requests
    settings = parse_qs(query)
    assert settings["database"] == ["traces"]
    assert settings["max_execution_time"] == ["5"]
    assert settings["final"] == ["1"]
    assert read_form(headers["Content-Type"], body) == {"query": "SELECT {p0:Int64}", "param_p0": "7"}
    assert (headers["X-ClickHouse-User"], headers["X-ClickHouse-Key"]) == ("writer", PASSWORD)
    assert PASSWORD not in query


def test_rows_are_compressed_where_they_are_many(client, interface):
    for rows in (b"few", b"many" * 5000):
        interface.answer()
        run(client, client.insert("INSERT INTO spans FORMAT RowBinary", rows, {}, seconds=5))
        query, headers, body = interface.requests[-1]
        assert parse_qs(query)["query"] == ["INSERT INTO spans FORMAT RowBinary"]
        assert (gzip.decompress(body) if headers.get("Content-Encoding") == "gzip" else body) == rows
    assert len(body) < len(rows)


def test_an_error_is_named_without_the_values_that_it_repeats(client, interface):
    text = b"Code: 243. DB::Exception: Cannot reserve 1 MiB for 'a secret value'. (NOT_ENOUGH_SPACE)"
    interface.answer(text, 500, X_ClickHouse_Exception_Code=243)
    with pytest.raises(DatabaseUnavailable, match="error 243 NOT_ENOUGH_SPACE: its disk is full") as error:
        run(client, client.read(Statement("SELECT 1"), seconds=5))
    assert "secret value" not in str(error.value)
    assert PASSWORD not in str(error.value)


def test_a_gateway_that_answers_instead_is_named(client, interface):
    interface.answer(b"<html>", 502)
    with pytest.raises(DatabaseUnavailable, match="HTTP status 502"):
        run(client, client.read(Statement("SELECT 1"), seconds=5))


def test_a_query_that_clickhouse_stops_took_too_long(client, interface):
    interface.answer(b"Code: 159. DB::Exception: Timeout exceeded. (TIMEOUT_EXCEEDED)", 500)
    with pytest.raises(TookTooLong):
        run(client, client.read(Statement("SELECT 1"), seconds=5))


def test_an_answer_that_does_not_come_took_too_long(client, interface, monkeypatch):
    monkeypatch.setattr("dokimos.server._db.clickhouse_client._SLACK_SECONDS", 0.0)
    is_over = threading.Event()
    interface.answer(lambda: b"x" * is_over.wait(120))
    began_at = time.monotonic()
    with pytest.raises(TookTooLong):
        run(client, client.read(Statement("SELECT 1"), seconds=0.2))
    assert time.monotonic() - began_at < 60
    is_over.set()
    assert len(interface.requests) <= 1  # none where the time was over before the request had arrived


def test_a_connection_that_is_cut_off_is_tried_once_more(client, interface):
    interface.cut_off()
    interface.answer()
    assert run(client, client.read(Statement("SELECT 1"), seconds=5)) == []
    interface.cut_off()
    interface.cut_off()
    with pytest.raises(DatabaseUnavailable, match="does not answer"):
        run(client, client.read(Statement("SELECT 1"), seconds=5))


def test_nobody_who_listens_is_an_outage(client, interface):
    interface.server.server_close()
    with pytest.raises(DatabaseUnavailable, match="does not answer"):
        run(client, client.read(Statement("SELECT 1"), seconds=5))


def test_an_old_clickhouse_is_refused(client, interface):
    interface.answer(b"\x01\x01v\x06String\x0b24.8.4.13.1")
    with pytest.raises(DatabaseUnavailable, match=r"24\.8\.4\.13\.1, which is too old; the server needs 25"):
        run(client, prepare_schema(client))


def test_a_client_that_is_closed_opens_again(client, interface):
    for _ in range(2):
        interface.answer()
        assert run(client, client.read(Statement("SELECT 1"), seconds=5)) == []
        client.close()


def test_the_loop_of_the_server_goes_on_while_a_greenlet_waits(client, interface):
    from sqlalchemy.util import greenlet_spawn

    class Connection:
        class dialect:
            is_async = True

    ticked = threading.Event()
    interface.answer(lambda: b"" if ticked.wait(60) else None)

    async def tick():
        await asyncio.sleep(0.05)
        ticked.set()

    async def both():
        query = client.read(Statement("SELECT 1"), seconds=30)
        answer, _ = await asyncio.gather(greenlet_spawn(client.wait, Connection, query), tick())
        return answer

    assert asyncio.run(both()) == []
