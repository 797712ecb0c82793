"""What a judge says of answers that are none: pages of other servers, redirects, garbage."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import socket
import socketserver
import threading
import zlib

import pytest

from dokimos import judge
from dokimos._http import backoff
from dokimos._http.answer import NoAnswer
from dokimos._http.session import Session
from dokimos.errors import JudgeUnavailableError
from dokimos.judges._capabilities import forget_capabilities


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    monkeypatch.delenv("HTTP_PROXY", raising=False)
    monkeypatch.delenv("http_proxy", raising=False)
    monkeypatch.setattr(backoff, "FIRST_BACKOFF", 0.01)
    forget_capabilities()


def complaint(url, **settings):
    with pytest.raises(JudgeUnavailableError) as failure:
        asyncio.run(judge(f"{url}/v1#tiny", attempts=2, **settings).complete("Is it?"))
    return str(failure.value)


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("<html>\n<h1>Sign in</h1></html>", "an HTML page: Sign in"),
        ('data: {"choices": []}\n\ndata: [DONE]\n\n', 'data: {"choices": []} data: [DONE]'),
        ("", "it is empty"),
        ("[" * 200_000, "[[["),
        ("x" * 1_000_000, "xxx"),
    ],
    ids=["page", "stream", "nothing", "deep", "long"],
)
def test_an_answer_that_is_no_json_is_shown(scripted, server, content, shown):
    server.then(scripted.raw(content), times=2)
    text = complaint(server.url)

    assert text.startswith(f"openai tiny: the answer is not JSON: {shown}")
    assert text.endswith("(tried 2 times)")
    assert len(text) < 500


def test_a_deeply_nested_complaint_is_shown_too(scripted, server):
    server.then(scripted.Misbehaviour(status=400, raw="[" * 200_000))

    assert complaint(server.url).startswith("openai tiny: 400 Bad Request: [[[")


@pytest.mark.parametrize(
    ("location", "place"),
    [
        ("https://api.example/v2/chat/completions?key=abc", "https://api.example/v2/chat/completions"),
        ("/v2/chat", "{url}/v2/chat"),
    ],
)
def test_a_redirect_says_where_to(scripted, server, location, place):
    server.then(scripted.status(308, Location=location))
    place = place.format(url=server.url)

    assert f": 308 Permanent Redirect: the API is at {place} instead; give" in complaint(server.url)
    assert len(server.received) == 1


def test_a_redirect_to_nowhere_tells_its_status(scripted, server):
    server.then(scripted.status(308, Location="http://[x"))

    assert complaint(server.url).startswith("openai tiny: 308 Permanent Redirect: ")


def test_an_answer_that_is_not_what_it_says_is_no_cut_connection(scripted, server):
    server.then(scripted.Misbehaviour(raw="plain", headers={"Content-Encoding": "gzip"}), times=2)

    assert "the answer cannot be decompressed (it is not valid gzip) (tried 2 times)" in complaint(server.url)


def test_a_wait_beyond_patience_is_told_as_it_was_asked_for(scripted, server):
    server.then(scripted.too_many(86_400))

    assert "(it asks to wait 86400 s, given up after " in complaint(server.url)


class OtherProtocol(socketserver.StreamRequestHandler):
    def handle(self):
        self.rfile.readline()
        self.wfile.write(b"SSH-2.0-OpenSSH_9\r\n\r\n")
        self.connection.shutdown(socket.SHUT_WR)
        self.rfile.read()  # to close with something unread would cut the answer off


def test_a_server_of_another_protocol_is_not_said_to_have_a_status():
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), OtherProtocol) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        text = complaint(f"http://127.0.0.1:{other.server_address[1]}")
        other.shutdown()

    assert "cannot be read as HTTP (Bad status line" in text
    assert "400" not in text


class Unfinished(socketserver.StreamRequestHandler):
    """Begins an answer, and waits for the connection to be closed."""

    def handle(self):
        while self.rfile.readline().strip():
            pass
        self.rfile.read(2)
        head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
        self.wfile.write(f"{head}{self.server.header}\r\n5\r\nhello\r\n".encode())
        if self.rfile.read() == b"":
            self.server.is_closed.set()


@pytest.mark.parametrize(
    ("header", "seconds", "problem"),
    [
        ("", 0.2, "no answer within 0.2 s"),
        ("Content-Encoding: br\r\n", 60, "the answer cannot be decompressed (it is encoded as 'br'"),
    ],
    ids=["too slow", "undecodable"],
)
def test_the_connection_of_an_answer_that_is_not_read_to_its_end_is_closed(header, seconds, problem):
    async def ask(url, is_closed):
        session = Session(url)
        with pytest.raises(NoAnswer) as failure:
            await session.send("POST", url, b"{}", {}, seconds, most=100)
        # Before the others are closed.
        closed = await asyncio.to_thread(is_closed.wait, 60)
        await session.close()
        return str(failure.value), closed

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Unfinished) as other:
        other.header, other.is_closed = header, threading.Event()
        threading.Thread(target=other.serve_forever, daemon=True).start()
        text, closed = asyncio.run(ask(f"http://127.0.0.1:{other.server_address[1]}", other.is_closed))
        other.shutdown()

    assert text.startswith(problem)
    assert closed


def test_a_harmless_header_is_not_cut_out_of_answers(server):
    server.answer = "Send application/json and Bearer of the key."
    named = judge(
        f"{server.url}/v1#tiny", headers={"Accept": "application/json", "X-Key": "correct-horse-battery"}
    )

    assert asyncio.run(named.complete("How?")).text == server.answer
    server.answer = "It is correct-horse-battery."
    assert asyncio.run(named.complete("Which?")).text == "It is [secret]."


@pytest.mark.parametrize(
    ("proxy", "reason"),
    [
        (
            "socks5://127.0.0.1:1080",
            "the proxy that the environment names speaks socks5; only HTTP proxies are supported",
        ),
        ("http://name:pass@127.0.0.1:99999", "the proxy that the environment names is not a URL"),
    ],
)
def test_a_proxy_that_cannot_be_used_says_so(monkeypatch, proxy, reason):
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("no_proxy", "")

    assert complaint("http://unproxied.invalid") == f"openai tiny: the request cannot be sent ({reason})"


def test_a_proxy_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://name:word@127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    text = complaint("http://behind.invalid")

    assert text.startswith("openai tiny: cannot connect to 127.0.0.1:9 (")
    assert "word" not in text


def test_a_proxy_that_refuses_is_told_from_the_server(monkeypatch):
    class Refusing(socketserver.StreamRequestHandler):
        def handle(self):
            while self.rfile.readline().strip():
                pass
            self.wfile.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Refusing) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.server_address[1]}")
        monkeypatch.setenv("no_proxy", "")
        text = complaint("https://refused.invalid")
        proxy.shutdown()

    assert "openai tiny: the proxy refuses with 407 Proxy Authentication Required" in text


def test_a_proxy_gets_the_name_and_password_of_its_url(server, monkeypatch):
    monkeypatch.setenv("http_proxy", server.url.replace("http://", "http://us%40er:p%3Ass@"))
    monkeypatch.setenv("no_proxy", "")
    asyncio.run(judge("http://proxied.invalid/v1#tiny").complete("Is it?"))

    given = server.received[0].headers["Proxy-Authorization"].removeprefix("Basic ")
    assert base64.b64decode(given) == b"us@er:p:ss"


def test_no_proxy_may_name_a_port(server, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", server.url.removeprefix("http://"))

    assert asyncio.run(judge(f"{server.url}/v1#tiny").complete("Is it?")).text


def test_an_answer_that_says_much_with_little_is_not_read_to_its_end(scripted, server):
    bomb = gzip.compress(b'{"choices": "' + bytes(64 * 2**20) + b'"}')
    server.then(scripted.Misbehaviour(body=bomb, headers={"Content-Encoding": "gzip"}), times=2)

    text = complaint(server.url)

    assert text == (
        "openai tiny: the answer is larger than 16 MB; max_reply_mb or DOKIMOS_MAX_REPLY_MB allows more"
    )
    assert len(server.received) == 1  # it was paid for, and another one would be as large


@pytest.mark.parametrize("by", ["setting", "environment"])
def test_the_limit_of_answers_can_be_set(scripted, server, monkeypatch, by):
    server.answer = "long " * 300_000
    assert asyncio.run(judge(f"{server.url}/v1#tiny").complete("Is it?")).text == server.answer
    settings = {"max_reply_mb": 1} if by == "setting" else {}
    if by == "environment":
        monkeypatch.setenv("DOKIMOS_MAX_REPLY_MB", "1")

    assert "the answer is larger than 1 MB" in complaint(server.url, **settings)


def test_an_error_that_is_too_large_is_told_by_its_beginning(scripted, server):
    body = gzip.compress(b"Out of order. " * 5_000_000)
    server.then(scripted.Misbehaviour(status=400, body=body, headers={"Content-Encoding": "gzip"}))

    text = complaint(server.url)

    assert text.startswith("openai tiny: 400 Bad Request")
    assert len(text) < 500


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_compressed_answers_are_read(scripted, server, encoding):
    pack = {"gzip": gzip.compress, "deflate": zlib.compress}[encoding]
    reply = json.dumps({"choices": [{"message": {"content": "Yes."}}]}).encode()
    server.then(scripted.Misbehaviour(body=pack(reply), headers={"Content-Encoding": encoding}))

    assert asyncio.run(judge(f"{server.url}/v1#tiny").complete("Is it?")).text == "Yes."
    assert server.received[0].headers["Accept-Encoding"] == "gzip, deflate"
