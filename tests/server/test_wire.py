"""Bodies and connections as odd clients send them, against a server that listens on a socket."""

import contextlib
import gzip
import json
import re
import socket
import zlib

import pytest


def exchange(port, *parts):
    """Send bytes over one connection, and return status, headers and body of the first answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        for part in parts:
            connection.sendall(part)
        return read_answer(connection)


def read_answer(connection):
    file = connection.makefile("rb")
    status = int(file.readline().split()[1])
    headers = {}
    while line := file.readline().strip():
        name, _, value = line.decode().partition(":")
        headers[name.lower()] = value.strip()
    return status, headers, file.read(int(headers.get("content-length", 0)))


def request(body, *lines, method="POST", path="/api/v1/projects/chat/runs"):
    head = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *lines]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


BODY = b'{"experimentName": "qa"}'
JSON = "Content-Type: application/json"


def test_a_body_with_an_upgrade_to_http_2_is_read_and_the_upgrade_ignored(listening):
    """What the JVM's HTTP client sends over plain HTTP with each first request."""
    port = listening()
    upgrade = (
        "Connection: Upgrade, HTTP2-Settings",
        "Upgrade: h2c",
        "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk",
    )
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        for _ in range(2):  # the connection stays usable
            connection.sendall(request(BODY, JSON, *upgrade))
            status, _, body = read_answer(connection)
            assert status == 201
            assert set(json.loads(body)) == {"runId"}


def test_a_body_that_comes_after_the_head_of_an_upgrade_is_read(listening):
    port = listening()
    whole = request(BODY, JSON, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAEA")
    cut = whole.index(b"\r\n\r\n") + 4
    status, _, _ = exchange(port, whole[:cut], whole[cut : cut + 5], whole[cut + 5 :])
    assert status == 201


def test_a_chunked_body_with_an_upgrade_is_read(listening):
    port = listening()
    head = (
        b"POST /api/v1/projects/chat/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        b"HTTP2-Settings: AAEA\r\n\r\n"
    )
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    assert exchange(port, head, chunks)[0] == 201


def test_json_without_a_content_type_is_read_with_a_key(listening):
    port = listening(api_key="secret")
    assert exchange(port, request(BODY, "Authorization: Bearer secret"))[0] == 201
    form = "Content-Type: application/x-www-form-urlencoded"  # what curl -d says
    assert exchange(port, request(BODY, "Authorization: Bearer secret", form))[0] == 201


def test_json_without_a_content_type_is_refused_without_a_key(listening):
    port = listening()
    for line in ((), ("Content-Type: text/plain",), ("Content-Type: application/x-www-form-urlencoded",)):
        status, _, body = exchange(port, request(BODY, *line))
        assert status == 415
        assert json.loads(body)["message"] == "Send the body with 'Content-Type: application/json'."


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [("gzip", gzip.compress), ("x-gzip", gzip.compress), ("deflate", zlib.compress), ("GZIP", gzip.compress)],
)
def test_a_compressed_body_is_read(listening, encoding, pack):
    assert exchange(listening(), request(pack(BODY), JSON, f"Content-Encoding: {encoding}"))[0] == 201


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (gzip.compress(BODY, mtime=0)[:-4], "Malformed request body: the gzip data is cut off"),
        (BODY, "Malformed request body: not gzip"),
        (
            gzip.compress(BODY, mtime=0) + b"more",
            "Malformed request body: data follows the end of the gzip data",
        ),
    ],
)
def test_a_damaged_compressed_body_is_refused(listening, body, message):
    status, _, answer = exchange(listening(), request(body, JSON, "Content-Encoding: gzip"))
    assert (status, json.loads(answer)["message"]) == (400, message)


def test_an_unknown_compression_is_refused(listening):
    assert exchange(listening(), request(BODY, JSON, "Content-Encoding: br"))[0] == 415


@pytest.mark.parametrize("encoding", [None, "gzip"])
def test_a_body_over_the_limit_is_refused_and_says_the_limit(listening, encoding):
    port = listening(max_body_bytes=10_000)
    body = b'{"experimentName": "' + b"x" * 200_000_000 + b'"}' if encoding else b" " * 10_001
    lines = [JSON] if encoding is None else [JSON, "Content-Encoding: gzip"]
    status, _, answer = exchange(port, request(gzip.compress(body, 1) if encoding else body, *lines))
    assert status == 413
    assert json.loads(answer)["error"] == "Payload Too Large"
    assert json.loads(answer)["message"] == "The body is larger than 10000 bytes; send it in smaller parts."


def test_a_chunked_body_over_the_limit_is_refused(listening):
    port = listening(max_body_bytes=10_000)
    head = (
        b"POST /api/v1/projects/chat/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    assert exchange(port, head, b"4e20\r\n" + b" " * 20_000 + b"\r\n0\r\n\r\n")[0] == 413


def test_compressed_data_without_end_that_gives_nothing_is_refused(listening):
    port = listening(max_body_bytes=10_000)
    empty_block = b"\x00\x00\x00\xff\xff"
    endless = zlib.compress(b"")[:2] + empty_block * 3_000
    assert exchange(port, request(endless, JSON, "Content-Encoding: deflate"))[0] == 413


def test_a_body_that_stops_arriving_is_given_up(listening):
    port = listening(keep_alive=0.2)
    whole = request(BODY, JSON)
    status, _, answer = exchange(port, whole[:-3])
    assert status == 408
    assert "did not arrive in time" in json.loads(answer)["message"]


def test_a_body_that_is_cut_off_stores_nothing(listening):
    port = listening()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(request(BODY, JSON)[:-3])
    status, _, answer = exchange(port, request(b"", method="GET", path="/api/v1/projects"))
    assert (status, json.loads(answer)) == (200, [])


def test_expect_continue_is_answered(listening):
    port = listening()
    whole = request(BODY, JSON, "Expect: 100-continue")
    cut = whole.index(b"\r\n\r\n") + 4
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(whole[:cut])
        assert connection.recv(100).startswith(b"HTTP/1.1 100")
        connection.sendall(whole[cut:])
        assert read_answer(connection)[0] == 201


def test_requests_in_one_packet_are_answered_in_order(listening):
    port = listening()
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        upgrade = ("Connection: Upgrade", "Upgrade: h2c")
        last = request(b"", "Connection: close", method="GET", path="/api/v1/none")
        connection.sendall(request(BODY, JSON, *upgrade) + request(BODY, JSON) + last)
        text = connection.makefile("rb").read()
    assert re.findall(rb"HTTP/1.1 (\d+)", text) == [b"201", b"201", b"404"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"gitSha": "a\0b"}, "gitSha: must not contain NUL or half a character"),
        ({"notes": "\ud800"}, "notes: must not contain NUL or half a character"),
        (
            {"evaluators": [{"name": "e"}, {"name": "e"}]},
            "evaluators[1].name: 'e' is the name of another evaluator too",
        ),
    ],
)
def test_texts_that_no_column_holds_are_refused(api, body, message):
    answer = api.post(
        "/api/v1/projects/chat/runs",
        content=json.dumps({"experimentName": "qa", **body}),
        headers={"Content-Type": "application/json"},
    )
    assert (answer.status_code, answer.json()["message"]) == (400, message)
    assert api.get("/api/v1/projects").json() == []


def test_nul_in_a_query_is_refused(api):
    assert api.get("/api/v1/projects?search=a%00").status_code == 400


@pytest.mark.parametrize("part", [b"x", b"x: y\r\n"])
def test_a_head_without_end_is_refused(listening, part):
    port = listening()
    endless = part * (1024 * 1024 // len(part))
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(b"GET /api/v1/projects HTTP/1.1\r\nHost: localhost\r\nx-long: a\r\n")
        with contextlib.suppress(ConnectionError):  # it is refused before all of it is sent
            for _ in range(8):
                connection.sendall(endless)
        with contextlib.suppress(ConnectionError):
            assert read_answer(connection)[0] == 431
    assert exchange(port, request(b"", method="GET", path="/api/v1/projects"))[0] == 200


def test_long_headers_below_the_limit_are_read_on_a_connection_that_is_used_again(listening):
    with socket.create_connection(("127.0.0.1", listening()), timeout=20) as connection:
        for _ in range(4):
            head = request(b"", f"x-long: {'a' * 40_000}", method="GET", path="/api/v1/projects")
            connection.sendall(head[:30_000])
            connection.sendall(head[30_000:])
            assert read_answer(connection)[0] == 200


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"GET /api/v1/projects?search=%b HTTP/1.1\r\nHost: localhost\r\n\r\n" % (b"a" * 66_000), 431),
        (b"GET /api/v1/projects HTTP/1.1\r\nHost: localhost\r\nno header\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),  # what a client of https begins with
        (b"POST /api/v1/projects HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
    ],
    ids=["long address", "broken header", "https", "negative length"],
)
def test_what_is_no_request_has_the_body_of_all_errors(listening, head, expected):
    status, headers, body = exchange(listening(), head)
    assert status == expected
    assert headers["content-type"] == "application/json"
    assert headers["connection"] == "close"
    assert sorted(json.loads(body)) == ["error", "message", "timestamp"]
