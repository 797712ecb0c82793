"""Where requests may go: every spelling of a private address, what a name resolves to, what is allowed."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading

import pytest

from dokimos._http.address_policy import (
    AddressPolicy,
    current_address_policy,
    normalize_host,
    parse_odd_ipv4,
    use_address_policy,
)
from dokimos._http.answer import Forbidden
from dokimos._http.session import PolicyResolver, _check_host
from dokimos._http.webhook import WebhookFailure, post_webhook
from dokimos._runtime.concurrency import call_in_thread
from dokimos.errors import ConfigurationError

STRICT = AddressPolicy()
PRIVATE = [
    "0.0.0.0", "10.0.0.1", "100.64.0.1", "100.127.255.254", "127.0.0.1", "127.255.255.255", "168.63.129.16",
    "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.168.1.1",
    "198.18.0.1",
    "198.51.100.7", "203.0.113.7", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
    "::", "::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "100::1",
    "2001:db8::1", "2001::1", "2002:7f00:1::", "2002:808:808::", "3fff::1", "4000::1", "64:ff9b:1::808:808",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::8.8.8.8",
    "64:ff9b::127.0.0.1", "64:ff9b::a00:1", "64:ff9b::169.254.169.254",
]  # fmt: skip
PUBLIC = [
    "8.8.8.8", "1.1.1.1", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0", "169.253.1.1",
    "192.0.1.1", "2606:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8",
]  # fmt: skip


def url_of(address: str) -> str:
    return f"http://[{address}]/x" if ":" in address else f"http://{address}/x"


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_public_is_refused_in_a_url_and_behind_a_name(address):
    assert "DOKIMOS_ALLOWED_PRIVATE_HOSTS" in STRICT.find_host_fault(address, 80)
    fault = STRICT.find_resolved_fault("hook.example", 443, ["8.8.8.8", address])
    assert fault.endswith("DOKIMOS_ALLOWED_PRIVATE_HOSTS=hook.example:443 allows it")
    assert address not in fault  # which strangers need not learn


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_allowed(address):
    assert STRICT.find_fault(url_of(address)) is None
    assert STRICT.find_resolved_fault("hook.example", 443, [address]) is None


@pytest.mark.parametrize(
    "host",
    [
        "2130706433", "0x7f000001", "0x7f.1", "0x7F.0.0.1", "0177.0.0.1", "017700000001", "127.1", "127.0.1",
        "127.0.0.1.", "localhost", "LOCALHOST", "localhost.", "db.localhost", "１２７.０.０.１",
        "127。0。0。1",
        "①②⑦.⓪.⓪.①", "0", "0x", "1.2.3.4.5", "00000000177.0.0.1", "169.254.43518", "0xa9fea9fe",
        "134744072", "0x08080808",
    ],
)  # fmt: skip
def test_every_spelling_of_an_address_is_refused(host):
    assert STRICT.find_fault(f"http://{host}/x") is not None
    assert STRICT.find_host_fault(host, 80) is not None


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("http://good.example@127.0.0.1/", "names 127.0.0.1, a loopback address"),
        ("http://good.example:80@[::1]:80/", "names ::1, a loopback address"),
        ("http://a:b@c@127.0.0.1/", "names 127.0.0.1, a loopback address"),
        ("http://good.example\\@127.0.0.1/", "has a backslash in it"),
        ("http://127.0.0.1\\@good.example/", "has a backslash in it"),
        ("ftp://good.example/", "must start with http:// or https://"),
        ("file:///etc/passwd", "must start with http:// or https://"),
        ("http:///x", "names no host"),
        ("http://good.example /", "has a blank or line break in it"),
        ("http://[::1/", "an IPv6 address stands in"),
    ],
)
def test_a_url_that_is_a_trick_is_refused(url, fault):
    assert fault in STRICT.find_fault(url)


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1@good.example/", "http://user:secret@good.example/", "http://good.example#@127.0.0.1/"],
)
def test_the_host_counts_and_not_what_is_before_or_after_it(url):
    from yarl import URL

    assert STRICT.find_fault(url) is None
    _check_host(STRICT, URL(url))


def test_a_name_is_not_resolved_when_a_url_is_looked_at():
    assert STRICT.find_fault("https://hooks.example/services/x?y=1") is None


@pytest.mark.parametrize(
    ("allowed", "url"),
    [
        ("*", "http://127.0.0.1/"),
        ("a.example,*", "http://localhost/"),
        ("127.0.0.1", "http://127.0.0.1:99/"),
        ("127.0.0.1:8080", "http://127.0.0.1:8080/"),
        ("localhost", "http://LOCALHOST.:1/"),
        ("localhost:443", "https://localhost/"),
        ("10.0.0.0/8, fd00::/8", "http://10.200.1.1/"),
        ("10.0.0.0/8, fd00::/8", "http://[fd12::1]/"),
        ("10.0.0.0/8", "http://[::ffff:10.0.0.9]/"),
        ("10.0.0.0/8", "http://[64:ff9b::10.0.0.9]/"),
        ("[::1]:8080", "http://[::1]:8080/"),
        ("::1", "http://[::1]/"),
        ("10.1.2.3/8", "http://10.0.0.1/"),
    ],
)
def test_what_is_allowed_is_let_through(allowed, url):
    assert AddressPolicy.parse(allowed).find_fault(url) is None
    assert STRICT.find_fault(url) is not None


@pytest.mark.parametrize(
    ("allowed", "url"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8081/"),
        ("10.0.0.0/8", "http://11.0.0.1.localhost/"),
        ("10.0.0.0/8", "http://192.168.0.1/"),
        ("example", "http://localhost/"),
        ("host.localhost", "http://localhost/"),
        ("::1", "http://127.0.0.1/"),
        ("", "http://127.0.0.1/"),
    ],
)
def test_nothing_else_is_let_through(allowed, url):
    assert AddressPolicy.parse(allowed).find_fault(url) is not None


def test_a_name_is_allowed_whatever_it_resolves_to():
    policy = AddressPolicy.parse("ollama:11434")

    assert policy.find_resolved_fault("Ollama.", 11434, ["10.0.0.4"]) is None
    assert policy.find_resolved_fault("ollama", 80, ["10.0.0.4"]) is not None
    assert policy.find_resolved_fault("other", 11434, ["10.0.0.4"]) is not None


def test_a_name_is_allowed_where_all_of_its_addresses_are():
    policy = AddressPolicy.parse("10.0.0.0/8")

    assert policy.find_resolved_fault("a", 80, ["10.0.0.4", "8.8.8.8"]) is None
    assert policy.find_resolved_fault("a", 80, ["10.0.0.4", "127.0.0.1"]) is not None
    assert policy.find_resolved_fault("a", 80, ["garbage"]) is not None


@pytest.mark.parametrize(
    "entry",
    ["http://ollama:11434", "a b", "host:0", "host:99999", "host:x", "10.0.0.0/33", "*.example", "127.1",
     "0x7f.1", "[::1", "a/b", "-", "::g"],
)  # fmt: skip
def test_an_entry_that_cannot_be_read_is_refused_by_name(entry):
    with pytest.raises(ConfigurationError) as error:
        AddressPolicy.parse(f"good.example, {entry}")

    assert "DOKIMOS_ALLOWED_PRIVATE_HOSTS" in str(error.value)
    assert repr(entry) in str(error.value)


def test_the_list_comes_from_the_environment(monkeypatch):
    monkeypatch.delenv("DOKIMOS_ALLOWED_PRIVATE_HOSTS", raising=False)
    assert AddressPolicy.from_environment() == STRICT
    monkeypatch.setenv("DOKIMOS_ALLOWED_PRIVATE_HOSTS", " 10.0.0.0/8 ,, localhost ")
    assert AddressPolicy.from_environment() == AddressPolicy.parse("10.0.0.0/8,localhost")


def test_a_policy_holds_in_tasks_and_threads_and_nowhere_else():
    async def main():
        with use_address_policy(STRICT):
            task = asyncio.create_task(asyncio.sleep(0, current_address_policy()))
            in_thread = await call_in_thread(current_address_policy)
            return await task, in_thread

    assert asyncio.run(main()) == (STRICT, STRICT)
    assert current_address_policy() is None


class Names:
    """A name server whose answers change: each is given once."""

    def __init__(self, *answers):
        self.answers = list(answers)

    async def resolve(self, host, port=0, family=0):
        return [{"hostname": host, "host": address, "port": port} for address in self.answers.pop(0)]

    async def close(self):
        pass


def test_the_resolver_gives_the_addresses_that_were_looked_at_and_no_others():
    names = Names(["8.8.8.8", "2606:4700::1111"], ["10.0.0.1"])
    resolver = PolicyResolver(STRICT, names)

    found = asyncio.run(resolver.resolve("hook.example", 443))

    assert [each["host"] for each in found] == ["8.8.8.8", "2606:4700::1111"]
    assert len(names.answers) == 1  # asked once
    with pytest.raises(Forbidden, match=r"DOKIMOS_ALLOWED_PRIVATE_HOSTS=hook\.example:443"):
        asyncio.run(resolver.resolve("hook.example", 443))


@pytest.mark.parametrize(
    "url",
    [
        "http://１２７.０.０.１/", "http://127。0。0。1/", "http://[::ffff:7f00:1]/", "http://127.1/", "http://0x7f.1/",
        "http://8.8.8.8@127.0.0.1/", "http://8.8.8.8\\@127.0.0.1/", "http://2130706433/", "http://LocalHost./",
    ],
)  # fmt: skip
def test_the_host_is_looked_at_as_it_is_sent(url):
    from yarl import URL

    with pytest.raises((Forbidden, ValueError)):
        _check_host(STRICT, URL(url))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.1", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("1.65536", "1.1.0.0"),
        ("256", "0.0.1.0"),
        ("08", "0.0.0.8"),
    ],
)
def test_odd_spellings_are_read_as_c_reads_them(text, address):
    assert parse_odd_ipv4(text) == ipaddress.ip_address(address)


@pytest.mark.parametrize("text", ["", "a", "1.2.3.256", "256.1", "1.2.3.4.5", "1..2", "0x1g", "4294967296"])
def test_what_is_not_an_address_is_not_read_as_one(text):
    assert parse_odd_ipv4(text) is None


def test_hosts_are_compared_in_ascii():
    assert normalize_host("Bücher.Example.") == "xn--bcher-kva.example"
    assert normalize_host("[::1]") == "::1"


@pytest.mark.parametrize("text", ["*", "", "ollama:11434,10.0.0.0/8", "[::1/128]:80,fd00::/8,a.example"])
def test_a_policy_is_written_as_the_list_that_it_was_read_from(text):
    policy = AddressPolicy.parse(text.replace("/128", ""))

    assert AddressPolicy.parse(str(policy)) == policy


async def test_names_of_strangers_that_nobody_resolves_keep_no_other_name_waiting(monkeypatch):
    waiting, end = threading.Semaphore(0), threading.Event()

    def look_up(host, port, *more, **options):
        if host.endswith(".example"):
            waiting.release()
            end.wait(60)
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.215.14", port))]

    monkeypatch.setattr("socket.getaddrinfo", look_up)

    async def call(number):
        with pytest.raises(WebhookFailure):
            await post_webhook(f"http://slow{number}.example/", b"{}", {}, policy=STRICT)

    calls = [asyncio.create_task(call(number)) for number in range(20)]
    try:
        for _ in range(8):
            assert await asyncio.to_thread(waiting.acquire, timeout=60)
        async with asyncio.timeout(60):
            [found] = await PolicyResolver(STRICT).resolve("provider.test", 443)
        assert found["host"] == "93.184.215.14"
        assert not end.is_set()
    finally:
        end.set()
        await asyncio.gather(*calls)
