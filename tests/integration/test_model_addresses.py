"""Models at addresses that somebody entered: nothing private is ever connected to, as with webhooks."""

import asyncio
import socket

import pytest
from tests.integration.test_webhook_addresses import HOSTS, PRIVATE, Trap, answers, serve_reply

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")

from dokimos._http.address_policy import AddressPolicy
from dokimos.errors import JudgeUnavailableError
from dokimos.judges._capabilities import forget_capabilities
from dokimos.server._services.encryption.secret_vault import SecretVault
from dokimos.server._services.models.llm_connections import ConnectionDraft
from dokimos.server._services.models.model_access import ConnectionProblem, ProblemKind, open_model
from dokimos.server._services.models.model_check import check_model

KEY = "sk-not-a-real-key-1234567890"
PROTOCOLS = ["RESPONSES", "CHAT_COMPLETIONS"]


@pytest.fixture
def trap():
    with Trap() as trap:
        yield trap
        assert trap.connections == 0


@pytest.fixture
def no_connections(monkeypatch):
    """Whatever tries to connect fails the test: the private hosts of the corpus may well exist."""
    tried = []

    def connect(*arguments, **options):
        tried.append(arguments)
        raise OSError("no connections here")

    monkeypatch.setattr("aiohttp.connector.aiohappyeyeballs.start_connection", connect)
    yield
    assert tried == []


def open_at(url, protocol="CHAT_COMPLETIONS", policy=None, **more):
    draft = ConnectionDraft(
        id="one", name="judge", base_url=url, model="m", protocol=protocol, api_key=f"plain:{KEY}",
        credential_ref=None, **more,
    )  # fmt: skip
    return open_model(draft, SecretVault(), policy or AddressPolicy(), timeout=5.0).judge


def call(url, protocol="CHAT_COMPLETIONS", policy=None):
    """Try a connection, and judge with it as a job does; return what kept both from it."""
    forget_capabilities()
    try:
        judge = open_at(url, protocol, policy)
    except ConnectionProblem as problem:
        return problem.kind, str(problem)

    async def main():
        check = await check_model(judge, seconds=5.0)
        with pytest.raises(JudgeUnavailableError) as error:
            await judge.with_settings(attempts=1).complete("question")
        return check, error.value

    check, error = asyncio.run(main())
    assert KEY not in check.message
    assert KEY not in str(error)
    return check.problem, f"{check.message} {error}"


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_no_spelling_of_this_machine_is_connected_to(trap, monkeypatch, scheme, host):
    """What is left to a name server leads here, as one could that the sender of the address owns."""

    def resolve(name, port, family=0, *arguments, **options):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    problem, _ = call(f"{scheme}://{host}:{trap.port}/v1")
    assert problem in (ProblemKind.ADDRESS_REFUSED, ProblemKind.UNUSABLE)


@pytest.mark.parametrize("address", PRIVATE)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_private_address_is_connected_to(no_connections, monkeypatch, address, protocol):
    """As it is, behind a name, and behind a name that has a public address too."""
    shown = f"[{address}]" if ":" in address else address
    assert call(f"https://{shown}/v1", protocol)[0] is ProblemKind.ADDRESS_REFUSED
    for found in ([address], ["8.8.8.8", address], [address, "2606:4700::1111"]):
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, found=found, **__: answers(*found))
        problem, message = call("https://models.example/v1", protocol)
        assert problem is ProblemKind.ADDRESS_REFUSED
        assert message.count("DOKIMOS_ALLOWED_PRIVATE_HOSTS=models.example:443") == 2
        assert address not in message or address in ("::", "::1")


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
    judge = open_at("http://models.example/v1").with_settings(attempts=1)

    async def main():
        with pytest.raises(JudgeUnavailableError, match="cannot connect"):
            await judge.complete("question")
        # The address that was checked is still the one that is used; a new session looks again, and refuses.
        return await check_model(judge, seconds=5.0)

    assert asyncio.run(main()).problem is ProblemKind.ADDRESS_REFUSED
    assert connected == ["8.8.8.8"]
    assert len(lookups) == 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("is_check", [True, False])
def test_a_redirect_to_a_private_address_is_not_followed(trap, status, is_check):
    head = f"HTTP/1.1 {status} Moved\r\nLocation: http://127.0.0.1:{trap.port}/\r\nContent-Length: 0\r\n\r\n"
    with serve_reply(head.encode()) as url:
        place = url.removeprefix("http://").partition("/")[0]
        judge = open_at(url.removesuffix("/hook"), policy=AddressPolicy.parse(place))
        if is_check:
            assert asyncio.run(check_model(judge, seconds=5.0)).problem is ProblemKind.REDIRECTED
        else:
            with pytest.raises(JudgeUnavailableError):
                asyncio.run(judge.with_settings(attempts=1).complete("question"))


def test_a_proxy_of_the_environment_is_not_used(trap, monkeypatch):
    """It would look up the name by itself."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{trap.port}")
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers("10.0.0.1"))

    for url in ("http://models.example/v1", "https://models.example/v1"):
        assert call(url)[0] is ProblemKind.ADDRESS_REFUSED


def test_a_policy_of_whoever_calls_does_not_replace_that_of_the_connection(no_connections):
    from dokimos._http.address_policy import use_address_policy

    judge = open_at("http://127.0.0.1:9/v1", policy=AddressPolicy.parse("127.0.0.1:9"))
    strict = judge.with_settings(policy=AddressPolicy(), attempts=1)

    async def main():
        with use_address_policy(AddressPolicy(allows_all=True)):
            await strict.complete("question")

    with pytest.raises(JudgeUnavailableError, match="a loopback address"):
        asyncio.run(main())
