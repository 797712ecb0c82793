"""Addresses in every spelling, names that change, redirects: nothing private is ever connected to.

Traps listen on this machine, on both of its addresses and on the ports that the corpus names; whatever
reaches one of them fails the test.
"""

import asyncio
import socket
import threading
from contextlib import contextmanager, suppress

import pytest

from dokimos._http import webhook
from dokimos._http.address_policy import AddressPolicy
from dokimos._http.webhook import WebhookFailure, post_webhook

STRICT = AddressPolicy()


class Trap:
    """A port of this machine, on its addresses of both versions, which counts connections."""

    def __init__(self):
        self.connections = 0
        self._is_over = False
        self._listeners = [socket.create_server(("127.0.0.1", 0))]
        self.port = self._listeners[0].getsockname()[1]
        with suppress(OSError):  # a machine without IPv6
            self._listeners.append(socket.create_server(("::1", self.port), family=socket.AF_INET6))
        self._threads = [threading.Thread(target=self._accept, args=(each,)) for each in self._listeners]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error):
        self._is_over = True
        for listener in self._listeners:
            with socket.create_connection(listener.getsockname()[:2]):
                pass
        for thread in self._threads:
            thread.join()
        for listener in self._listeners:
            listener.close()

    def _accept(self, listener):
        while True:
            connection, _ = listener.accept()
            with connection:
                if self._is_over:
                    return
                self.connections += 1
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


@pytest.fixture
def trap():
    with Trap() as trap:
        yield trap
        assert trap.connections == 0


def call(url, policy=STRICT):
    return asyncio.run(post_webhook(url, b"{}", {"Content-Type": "application/json"}, policy=policy))


HOSTS = [
    # This machine, as every program spells it.
    "127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "127.255.255.254", "0.0.0.0", "0", "2130706433",
    "017700000001", "0x7f000001", "0x7f.0.0.1", "0x7F.0x0.0x0.0x1", "0177.0.0.1", "0177.0.0.01",
    "00000177.0.0.1", "127.0.0.0x1", "127.000.000.001", "localhost", "LOCALHOST", "LocalHost.",
    "localhost.localhost", "x.localhost", "ip6-localhost",
    # The same in signs that are read as digits and full stops.
    "１２７.０.０.１", "127。0。0。1", "①②⑦.⓪.⓪.①", "127．0．0．1", "ⓛocalhost",
    "loc%61lhost", "%31%32%37.0.0.1",
    "127%2e0%2e0%2e1", "127.0.0.1%00.example.com", "localhost%00.example.com",
    "127.0.0.1%2f.example.com",
    # IPv6, and IPv4 inside it.
    "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[0000::0001]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:127.0.0.1]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]",
    "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[::ffff:0:127.0.0.1]",
    "[fe80::1%25lo]", "[fe80::1%lo]", "[::1%lo]", "[::ffff:127.0.0.1%lo]", "[v1.127.0.0.1]",
    # Before and behind the host.
    "good.example@127.0.0.1", "good.example:80@127.0.0.1", "a:b@c:d@127.0.0.1",
    "good.example%40127.0.0.1", "127.0.0.1\\@good.example", "good.example\\@127.0.0.1",
    "good.example#@127.0.0.1", "[::1]@127.0.0.1",
]  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_no_spelling_of_this_machine_is_connected_to(trap, monkeypatch, scheme, host):
    """What is left to a name server leads here, as one could that the sender of the address owns."""

    def resolve(name, port, family=0, *arguments, **options):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with pytest.raises(WebhookFailure):
        call(f"{scheme}://{host}:{trap.port}/hook")


PRIVATE = [
    "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "100.100.100.200", "169.254.169.254",
    "168.63.129.16", "192.0.0.192", "198.18.0.1", "224.0.0.1", "255.255.255.255", "0.0.0.0",
    "127.0.0.1", "::1", "::", "fd00::1", "fd00:ec2::254", "fe80::1", "::ffff:10.0.0.1",
    "64:ff9b::a00:1", "2002:a00:1::", "2001:0:a00:1::", "ff02::1",
]  # fmt: skip


@pytest.fixture
def no_connections(monkeypatch):
    """Whatever tries to connect fails the test: the private hosts of the corpus may well exist."""
    tried = []

    def connect(*arguments, **options):
        tried.append(arguments)
        raise OSError("no connections here")

    monkeypatch.setattr("aiohappyeyeballs.start_connection", connect)
    monkeypatch.setattr("aiohttp.connector.aiohappyeyeballs.start_connection", connect)
    yield
    assert tried == []


def answers(*addresses):
    """What a look-up returns."""
    return [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, 443, 0, 0))
        if ":" in address
        else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443))
        for address in addresses
    ]


@pytest.mark.parametrize("address", PRIVATE)
def test_no_private_address_is_connected_to(no_connections, monkeypatch, address):
    """As it is, behind a name, and behind a name that has a public address too."""
    shown = f"[{address}]" if ":" in address else address
    with pytest.raises(WebhookFailure, match="Not sent"):
        call(f"https://{shown}/hook")
    for found in ([address], ["8.8.8.8", address], [address, "2606:4700::1111"]):
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, found=found, **__: answers(*found))
        with pytest.raises(
            WebhookFailure, match=r"DOKIMOS_ALLOWED_PRIVATE_HOSTS=hooks\.example:443"
        ) as error:
            call("https://hooks.example/secret-path?token=hidden")
        assert address not in str(error.value) or address in ("::", "::1")
        assert "secret-path" not in str(error.value)
        assert "hidden" not in str(error.value)


def test_a_name_that_changes_between_two_look_ups_is_connected_to_where_it_was_looked_at(monkeypatch):
    """DNS rebinding: the connection goes to the very addresses that were checked, without another look-up."""
    lookups, connected = [], []

    def resolve(*_, **__):
        lookups.append(1)
        return answers("8.8.8.8") if len(lookups) == 1 else answers("127.0.0.1")

    async def connect(addr_infos, **_):
        connected.extend(info[4][0] for info in addr_infos)
        raise OSError("no connections here")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr("aiohttp.connector.aiohappyeyeballs.start_connection", connect)
    with pytest.raises(WebhookFailure, match="Cannot connect"):
        call("http://hooks.example/")

    assert connected == ["8.8.8.8"]
    assert len(lookups) == 1
    with pytest.raises(WebhookFailure, match="a loopback address"):
        call("http://hooks.example/")  # another call asks again, and refuses
    assert connected == ["8.8.8.8"]


@contextmanager
def serve_reply(reply):
    """A server that answers anything with these bytes; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(reply)

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/hook"
        thread.join()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_a_private_address_is_not_followed(trap, status):
    head = f"HTTP/1.1 {status} Moved\r\nLocation: http://127.0.0.1:{trap.port}/\r\nContent-Length: 0\r\n\r\n"
    with serve_reply(head.encode()) as url:
        place = url.removeprefix("http://").partition("/")[0]

        assert call(url, AddressPolicy.parse(place)).status == status


@pytest.mark.parametrize("header", ["Refresh: 0; url={}", "Alt-Svc: h2={}", "Link: <{}>; rel=preload"])
def test_no_other_header_leads_elsewhere(trap, header):
    place = f"http://127.0.0.1:{trap.port}/"
    with serve_reply(
        f"HTTP/1.1 200 OK\r\n{header.format(place)}\r\nContent-Length: 0\r\n\r\n".encode()
    ) as url:
        assert call(url, AddressPolicy.parse("127.0.0.1")).status == 200


def test_a_proxy_of_the_environment_is_not_used(trap, monkeypatch):
    """It would look up the name by itself."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{trap.port}")
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers("10.0.0.1"))

    for url in ("http://hooks.example/", "https://hooks.example/"):
        with pytest.raises(WebhookFailure, match="Not sent"):
            call(url)


def test_look_ups_that_never_end_keep_no_threads_that_others_need(monkeypatch):
    is_over = threading.Event()

    def resolve(*_, **__):
        is_over.wait(60)
        return answers("127.0.0.1")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(webhook, "TOTAL_SECONDS", 0.2)
    monkeypatch.setattr(webhook, "CONNECT_SECONDS", 0.1)

    async def main():
        calls = [
            asyncio.create_task(post_webhook(f"http://h{n}.example/", b"", {}, policy=STRICT))
            for n in range(40)
        ]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        return outcomes, await asyncio.to_thread(lambda: "done")

    try:
        outcomes, done = asyncio.run(main())
    finally:
        is_over.set()

    assert {type(outcome) for outcome in outcomes} == {WebhookFailure}
    assert done == "done"


def test_names_that_hang_keep_no_other_name_waiting(monkeypatch):
    """Their threads cannot be stopped, and stay long after whoever asked has given up."""
    is_over = threading.Event()
    asked = []

    def resolve(host, *_, **__):
        asked.append(host)
        if host != "good.example":
            is_over.wait(60)
        return answers("127.0.0.1")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(webhook, "CONNECT_SECONDS", 0.1)

    def call_hanging(number):
        with pytest.raises(WebhookFailure, match="annot connect"):
            call(f"http://h{number}.example/")

    try:
        for number in [*range(12), 0, 0]:
            call_hanging(number)
        monkeypatch.setattr(webhook, "CONNECT_SECONDS", 5.0)
        with pytest.raises(WebhookFailure, match="Not sent"):  # it was resolved
            call("http://good.example/")
    finally:
        is_over.set()

    assert asked.count("h0.example") == 1  # the later calls waited for the first


def test_the_name_is_checked_by_tls_and_not_the_address(monkeypatch):
    """The connection goes to the checked address, and the name of the host is what the server must prove."""
    import ssl

    seen = []

    async def connect(addr_infos, **_):
        left, right = socket.socketpair()
        seen.append(right)
        return left

    names = []
    wrap = ssl.SSLContext.wrap_bio

    def record(self, *arguments, **options):
        names.append(options.get("server_hostname"))
        return wrap(self, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers("8.8.8.8"))
    monkeypatch.setattr("aiohttp.connector.aiohappyeyeballs.start_connection", connect)
    monkeypatch.setattr(ssl.SSLContext, "wrap_bio", record)
    monkeypatch.setattr(webhook, "TOTAL_SECONDS", 0.3)
    with pytest.raises(WebhookFailure):
        call("https://hooks.example/")

    for each in seen:
        each.close()
    assert names == ["hooks.example"]
