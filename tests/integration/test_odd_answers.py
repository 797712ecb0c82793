"""What a judge says of answers that are none: pages of other servers, redirects, garbage."""

from __future__ import annotations

import asyncio
import base64
import socket
import socketserver
import threading

import pytest

from dokimos import judge
from dokimos.errors import JudgeUnavailableError
from dokimos.http import retries
from dokimos.judges.capabilities import forget_capabilities


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    monkeypatch.delenv("HTTP_PROXY", raising=False)
    monkeypatch.delenv("http_proxy", raising=False)
    monkeypatch.setattr(retries, "FIRST_BACKOFF", 0.01)
    forget_capabilities()


def complaint(url, **settings):
    with pytest.raises(JudgeUnavailableError) as failure:
        asyncio.run(judge(f"{url}/v1#tiny", attempts=2, **settings).complete("Is it?"))
    return str(failure.value)


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("<html>\n<h1>Sign in</h1></html>", "<html> <h1>Sign in</h1></html>"),
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

    assert text.startswith(f"openai tiny: the answer is no JSON: {shown}")
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

    assert "the answer cannot be decompressed (tried 2 times)" in complaint(server.url)


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
        ("socks5://127.0.0.1:1080", "the proxy that the environment names speaks socks5, not HTTP"),
        ("http://name:pass@127.0.0.1:99999", "the proxy that the environment names is no URL"),
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
