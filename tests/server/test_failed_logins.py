"""Wrong keys: how many an address may try, and whom that keeps out."""

import json

import pytest
from starlette.testclient import TestClient

from dokimos.server._api.http.failed_logins import FailedLogins

OWN = "correct horse"


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def fail(failures, address, times):
    """Try wrong keys as long as that is admitted; return how many were."""
    for attempt in range(times):
        if failures.seconds_to_wait(address):
            return attempt
        failures.note_failure(address, str(attempt))
    return times


def test_an_address_may_fail_so_often_a_minute_and_then_as_its_allowance_grows_back():
    clock = Clock()
    failures = FailedLogins(6, clock)

    assert fail(failures, "192.0.2.1", 100) == 6
    assert failures.seconds_to_wait("192.0.2.1") == 10.0
    assert fail(failures, "192.0.2.2", 100) == 6
    clock.now += 9.9
    assert fail(failures, "192.0.2.1", 100) == 0
    clock.now += 0.2
    assert fail(failures, "192.0.2.1", 100) == 1
    clock.now += 3600
    assert fail(failures, "192.0.2.1", 100) == 6


def test_many_addresses_together_are_limited_but_never_one_that_has_not_failed():
    clock = Clock()
    failures = FailedLogins(4, clock)

    admitted = [fail(failures, f"192.0.{number}.1", 10) for number in range(60)]

    assert admitted == [4] * 25 + [1] * 35
    assert failures.seconds_to_wait("198.51.100.1") == 0
    clock.now += 120
    assert fail(failures, "192.0.1.1", 10) == 4


def test_addresses_of_one_network_of_ipv6_count_as_one():
    failures = FailedLogins(2, Clock())

    assert fail(failures, "2001:db8::1", 5) == 2
    assert fail(failures, "2001:db8::ffff:1", 5) == 0
    assert fail(failures, "2001:db8:0:1::1", 5) == 2
    assert fail(failures, "::ffff:192.0.2.1", 5) == 2
    assert fail(failures, "192.0.2.1", 5) == 0
    assert fail(failures, "fe80::1%eth0", 5) == 2
    assert fail(failures, "not:an:address", 5) == 2


def test_what_is_remembered_does_not_grow():
    failures = FailedLogins(2, Clock())
    for number in range(20_000):
        failures.note_failure(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", f"hash {number}")
    assert len(failures._used_up_until) == 10_000
    assert len(failures._wrong_keys) == 10_000
    assert failures.has_failed_with("10.0.78.31", "hash 19999")
    assert not failures.has_failed_with("10.0.78.30", "hash 19999")


def test_no_limit_is_a_limit_too():
    assert fail(FailedLogins(0, Clock()), "192.0.2.1", 100) == 100


@pytest.fixture
def connect_from(serve):
    """A client of a server with a key, from some address."""
    client = serve(api_key=OWN, failed_logins_per_minute=3)

    def at(address):
        other = TestClient(client.app, client=(address, 50_000), raise_server_exceptions=False)
        other.portal = client.portal  # the event loop that the server lives in
        return other

    return at


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def try_keys(client, times=3):
    return [client.get("/api/v1/api-keys", headers=bearer(f"no {turn}")).status_code for turn in range(times)]


def test_too_many_wrong_keys_are_429_with_the_documented_body(connect_from):
    client = connect_from("192.0.2.1")
    assert try_keys(client) == [401] * 3

    for answer in (
        client.get("/api/v1/api-keys", headers=bearer("no")),
        client.post("/api/v1/session", json={"key": "no"}),
        client.get("/api/v1/session", headers=bearer("no")),
        client.post("/api/v1/runs/018f0000-0000-7000-8000-000000000000/items", headers=bearer("no")),
    ):
        assert answer.status_code == 429
        assert 1 <= int(answer.headers["retry-after"]) <= 20
        assert set(answer.json()) == {"error", "message", "timestamp"}
        assert answer.json()["error"] == "Too Many Requests"
        assert "wrong keys came from your address" in answer.json()["message"]


def test_wrong_keys_at_one_address_keep_no_other_out(connect_from):
    created = connect_from("192.0.2.9").post(
        "/api/v1/api-keys", json={"name": "ci", "role": "ADMIN"}, headers=bearer(OWN)
    )
    made = bearer(created.json()["key"])
    assert try_keys(connect_from("192.0.2.1")) == [401] * 3

    assert connect_from("192.0.2.1").get("/api/v1/api-keys", headers=bearer(OWN)).status_code == 429
    assert connect_from("192.0.2.2").get("/api/v1/api-keys", headers=bearer(OWN)).status_code == 200
    # A key that the server has made cannot be guessed: it is accepted from everywhere.
    assert connect_from("192.0.2.1").get("/api/v1/api-keys", headers=made).status_code == 200


def test_a_job_with_an_old_key_locks_out_nobody_behind_the_same_address(connect_from):
    run = {"experimentName": "qa"}
    old, own = (bearer(key) for key in ("the key of last year", OWN))

    for _ in range(20):
        assert (
            connect_from("192.0.2.1").post("/api/v1/projects/x/runs", json=run, headers=old).status_code
            == 401
        )
        assert (
            connect_from("192.0.2.1").post("/api/v1/projects/x/runs", json=run, headers=own).status_code
            == 201
        )
    # Each other wrong key is another guess.
    assert try_keys(connect_from("192.0.2.1"), 3) == [401, 401, 429]
    assert connect_from("192.0.2.1").post("/api/v1/projects/x/runs", json=run, headers=old).status_code == 401


def test_an_open_read_with_a_wrong_key_stays_one_without_a_key(connect_from):
    client = connect_from("192.0.2.1")
    answers = [client.get("/api/v1/projects", headers=bearer(f"no {turn}")) for turn in range(8)]
    assert [answer.status_code for answer in answers] == [200] * 8
    assert client.get("/api/v1/api-keys", headers=bearer("another")).status_code == 429


def test_a_trusted_proxy_says_where_a_request_comes_from(listening):
    # The tests come from this machine, as a proxy on it would.
    import urllib.error
    import urllib.request

    port = listening(api_key=OWN, failed_logins_per_minute=2)

    def read(key, address):
        headers = {**bearer(key), "X-Forwarded-For": f"203.0.113.7, {address}"}
        request = urllib.request.Request(f"http://127.0.0.1:{port}/api/v1/api-keys", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    assert [read(f"no {turn}", "192.0.2.1")[0] for turn in range(3)] == [401, 401, 429]
    assert read(OWN, "192.0.2.1")[0] == 429
    assert read(OWN, "192.0.2.2")[0] == 200


def test_an_address_that_is_no_proxy_cannot_say_it_is_another(listening):
    import urllib.error
    import urllib.request

    port = listening(api_key=OWN, failed_logins_per_minute=2, trusted_proxies=("192.0.2.200",))

    def status(address):
        headers = {**bearer(f"no {address}"), "X-Forwarded-For": address}
        request = urllib.request.Request(f"http://127.0.0.1:{port}/api/v1/api-keys", headers=headers)
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(request, timeout=20)
        with error.value:
            return error.value.code

    assert [status(f"192.0.2.{number}") for number in range(3)] == [401, 401, 429]
