"""Keys that expire, are rotated, changed, listed and limited."""

import logging

import pytest
from tests.server.clock_steps import HOUR, Clock

from dokimos.server._api.http.rate_limits import RateLimits
from dokimos.server._services.errors import RateLimitError

KEYS = "/api/v1/api-keys"
ADMIN = {"Authorization": "Bearer admin-key"}
OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}
DAY = 24 * HOUR


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def keyed_api(serve):
    return serve(api_key="admin-key")


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def create(api, *, headers=ADMIN, **body):
    answer = api.post(KEYS, json={"name": "ci", "role": "EDITOR", **body}, headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()["apiKey"], bearer(answer.json()["key"])


def works(api, headers):
    return api.post("/api/v1/projects/chat/runs", json={"experimentName": "qa"}, headers=headers).status_code


def test_a_key_expires(keyed_api, clock, caplog):
    row, key = create(keyed_api, expiresAt=clock.format(30 * DAY))
    assert row["expiresAt"] == clock.format(30 * DAY)
    assert works(keyed_api, key) == 201

    clock.step(30 * DAY - 1)
    assert works(keyed_api, key) == 201
    clock.step(1)
    refused = keyed_api.post("/api/v1/projects/chat/runs", json={"experimentName": "qa"}, headers=key)

    assert (refused.status_code, refused.json()) == (401, {"error": "Invalid or missing API key"})
    assert f"'ci' ({row['id']}), whose text has expired" in caplog.text
    assert key["Authorization"].removeprefix("Bearer ") not in caplog.text
    clock.step(-1)
    assert works(keyed_api, key) == 201


def test_that_a_key_has_expired_is_logged_once_a_minute(keyed_api, clock, caplog):
    _, key = create(keyed_api, expiresAt=clock.format(DAY))
    clock.step(DAY)
    for _ in range(5):
        assert works(keyed_api, key) == 401
    assert caplog.text.count("has expired") == 1
    clock.step(61)
    assert works(keyed_api, key) == 401
    assert caplog.text.count("has expired") == 2


def test_an_expired_key_counts_as_no_guess(serve, clock):
    api = serve(api_key="admin-key", failed_logins_per_minute=1)
    _, key = create(api, expiresAt=clock.format(DAY))
    clock.step(DAY)
    assert [works(api, key) for _ in range(3)] == [401] * 3
    assert works(api, ADMIN) == 201


def test_a_server_whose_last_key_expires_stays_closed(serve, clock):
    api = serve()
    _, admin = create(api, headers={}, role="ADMIN", expiresAt=clock.format(DAY))
    assert works(api, {}) == 401

    clock.step(2 * DAY)

    assert works(api, {}) == 401
    assert api.get(KEYS).status_code == 401
    assert api.get(KEYS, headers=admin).status_code == 401


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("2020-01-01T00:00:00Z", "expiresAt: must be in the future"),
        (
            "2099-01-01T00:00:00",
            "expiresAt: must be a time in ISO 8601 with its offset, such as 2026-11-22T09:30:00Z",
        ),
        ("tomorrow", "expiresAt: must be a time in ISO 8601 with its offset, such as 2026-11-22T09:30:00Z"),
        ("", "expiresAt: must be a time in ISO 8601 with its offset, such as 2026-11-22T09:30:00Z"),
        (4102444800, "expiresAt: must be a time in ISO 8601 with its offset, such as 2026-11-22T09:30:00Z"),
    ],
)
def test_an_expiry_that_cannot_be_is_refused(keyed_api, value, message):
    body = {"name": "ci", "role": "EDITOR", "expiresAt": value}
    refused = keyed_api.post(KEYS, json=body, headers=ADMIN)
    assert (refused.status_code, refused.json()["message"]) == (400, message)
    assert keyed_api.get(KEYS, headers=ADMIN).json() == []


def test_a_time_of_another_zone_is_understood(keyed_api):
    row, _ = create(keyed_api, expiresAt="2099-01-01T02:00:00+02:00")
    assert row["expiresAt"] == "2099-01-01T00:00:00.000000Z"


def test_a_key_that_expires_within_two_weeks_says_so(keyed_api, clock):
    row, _ = create(keyed_api, expiresAt=clock.format(20 * DAY))
    assert row["expiresSoon"] is False
    for seconds, soon in ((6 * DAY, True), (14 * DAY, False)):  # by then it has expired
        clock.step(seconds)
        [listed] = keyed_api.get(KEYS, headers=ADMIN).json()
        assert listed["expiresSoon"] is soon
    assert create(keyed_api)[0]["expiresSoon"] is False


def test_a_rotated_key_accepts_its_old_text_for_some_time(keyed_api, clock):
    row, old = create(keyed_api)
    rotated = keyed_api.post(f"{KEYS}/{row['id']}/rotate", headers=ADMIN)
    assert rotated.status_code == 200
    new = bearer(rotated.json()["key"])
    assert rotated.json()["apiKey"]["id"] == row["id"]
    assert rotated.json()["apiKey"]["previousExpiresAt"] == clock.format(DAY)
    assert old != new

    for key in (old, new):
        assert keyed_api.get("/api/v1/session", headers=key).json()["id"] == row["id"]
    clock.step(DAY)
    assert (works(keyed_api, old), works(keyed_api, new)) == (401, 201)
    assert len(keyed_api.get(KEYS, headers=ADMIN).json()) == 1


def test_a_leaked_text_can_be_refused_at_once(keyed_api):
    row, old = create(keyed_api)
    rotated = keyed_api.post(f"{KEYS}/{row['id']}/rotate", json={"overlapHours": 0}, headers=ADMIN).json()
    assert works(keyed_api, old) == 401
    assert works(keyed_api, bearer(rotated["key"])) == 201
    assert rotated["apiKey"]["previousExpiresAt"] is None


def test_only_the_text_before_the_last_rotation_is_accepted(keyed_api):
    row, first = create(keyed_api)
    path = f"{KEYS}/{row['id']}/rotate"
    second, third = (bearer(keyed_api.post(path, headers=ADMIN).json()["key"]) for _ in range(2))
    assert [works(keyed_api, key) for key in (first, second, third)] == [401, 201, 201]


def test_the_old_text_does_not_outlive_its_key(keyed_api, clock):
    row, old = create(keyed_api, expiresAt=clock.format(HOUR))
    rotated = keyed_api.post(f"{KEYS}/{row['id']}/rotate", headers=ADMIN).json()
    assert rotated["apiKey"]["previousExpiresAt"] == clock.format(HOUR)
    keyed_api.patch(f"{KEYS}/{row['id']}", json={"expiresAt": None}, headers=ADMIN)
    clock.step(HOUR)
    assert (works(keyed_api, old), works(keyed_api, bearer(rotated["key"]))) == (401, 201)


def test_an_expired_key_is_renewed_without_its_old_text(keyed_api, clock):
    row, old = create(keyed_api, expiresAt=clock.format(HOUR))
    clock.step(HOUR)
    path = f"{KEYS}/{row['id']}/rotate"
    refused = keyed_api.post(path, headers=ADMIN)
    assert (refused.status_code, "expiresAt" in refused.json()["message"]) == (409, True)

    renewed = keyed_api.post(path, json={"expiresAt": clock.format(DAY)}, headers=ADMIN).json()

    assert works(keyed_api, old) == 401
    assert works(keyed_api, bearer(renewed["key"])) == 201
    keyed_api.post(f"{KEYS}/{row['id']}/disable", headers=ADMIN)
    assert keyed_api.post(path, headers=ADMIN).status_code == 409


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"overlapHours": -1}, "overlapHours: must be at least 0"),
        ({"overlapHours": 1e9}, "overlapHours: must be at most 2160"),
        ({"overlapHours": "1"}, "overlapHours: must be a number"),
        ({"overlap": 1}, "overlap: is not a field that is known here"),
    ],
)
def test_what_rotation_cannot_do_is_refused(keyed_api, body, message):
    row, key = create(keyed_api)
    refused = keyed_api.post(f"{KEYS}/{row['id']}/rotate", json=body, headers=ADMIN)
    assert refused.status_code == 400
    assert refused.json()["message"] == message
    assert works(keyed_api, key) == 201


def test_a_key_is_disabled_and_enabled_again(keyed_api):
    row, key = create(keyed_api)
    assert keyed_api.post(f"{KEYS}/{row['id']}/disable", headers=ADMIN).json()["enabled"] is False
    assert works(keyed_api, key) == 401
    assert keyed_api.post(f"{KEYS}/{row['id']}/enable", headers=ADMIN).json()["enabled"] is True
    assert works(keyed_api, key) == 201


def test_what_a_key_may_is_changed_and_what_is_left_out_stays(keyed_api, clock):
    row, key = create(keyed_api, expiresAt=clock.format(DAY), requestsPerMinute=100)
    path = f"{KEYS}/{row['id']}"

    changed = keyed_api.patch(path, json={"role": "VIEWER"}, headers=ADMIN).json()
    assert (changed["role"], changed["name"], changed["expiresAt"], changed["requestsPerMinute"]) == (
        "VIEWER", "ci", clock.format(DAY), 100,
    )  # fmt: skip
    assert works(keyed_api, key) == 403
    body = {"name": "nightly", "role": "EDITOR", "expiresAt": None, "requestsPerMinute": None}
    changed = keyed_api.patch(path, json=body, headers=ADMIN).json()
    assert {name: changed[name] for name in body} == body
    assert works(keyed_api, key) == 201
    for wrong in ({"role": None}, {"name": ""}, {"name": None}, {"key": "x"}, {"expiresAt": clock.format(0)}):
        assert keyed_api.patch(path, json=wrong, headers=ADMIN).status_code == 400, wrong
    assert keyed_api.patch(path, json={}, headers=ADMIN).json() == changed | {"lastUsedAt": clock.format()}


def test_an_administrator_of_a_tenant_changes_no_other_key(keyed_api):
    _, own = create(keyed_api, role="ADMIN", tenantId="a")
    for tenant in ("b", None):
        row, key = create(keyed_api, tenantId=tenant)
        path = f"{KEYS}/{row['id']}"
        for answer in (
            keyed_api.post(f"{path}/rotate", headers=own),
            keyed_api.post(f"{path}/enable", headers=own),
            keyed_api.patch(path, json={"name": "x"}, headers=own),
            keyed_api.delete(f"{path}/sessions", headers=own),
        ):
            assert answer.status_code == 404
        assert works(keyed_api, key) == 201


def test_keys_are_listed_sorted_searched_and_by_pages(keyed_api, clock):
    for name, days in (("b", 3), ("A", None), ("c", 1)):
        create(keyed_api, name=name, expiresAt=None if days is None else clock.format(days * DAY))
        clock.step(1)

    def names(**query):
        answer = keyed_api.get(KEYS, params=query, headers=ADMIN)
        assert answer.status_code == 200, answer.text
        return [row["name"] for row in answer.json()]

    assert names() == ["b", "A", "c"]
    assert names(sort="name") == ["A", "b", "c"]
    assert names(sort="expiresAt") == ["c", "b", "A"]
    assert names(search="a") == ["A"]
    rows = keyed_api.get(KEYS, params={"limit": 2}, headers=ADMIN).json()
    assert names(limit=2, after=rows[-1]["id"]) == ["c"]
    assert keyed_api.get(KEYS, params={"sort": "role"}, headers=ADMIN).status_code == 400


def test_who_has_created_a_key_is_kept(keyed_api):
    admin, headers = create(keyed_api, role="ADMIN")
    assert admin["createdBy"] == "system"
    assert create(keyed_api, headers=headers)[0]["createdBy"] == admin["id"]


def test_the_last_use_is_written_once_a_minute_by_all_servers_together(serve, clock, database_settings):
    if "data_dir" in database_settings:
        pytest.skip("one server at a time uses SQLite")
    first, second = (serve(api_key="admin-key") for _ in range(2))
    _, key = create(first)

    def last_use():
        return first.get(KEYS, headers=ADMIN).json()[0]["lastUsedAt"]

    assert works(first, key) == 201
    begun = last_use()
    clock.step(59)
    second.portal.call(second.app.state.keys.reload)
    assert works(second, key) == 201
    assert last_use() == begun
    clock.step(2)
    assert works(first, key) == 201
    assert last_use() == clock.format()


def test_a_session_ends_with_the_text_of_its_key(keyed_api, clock):
    def sign_in(key):
        keyed_api.cookies.clear()
        body = {"key": key["Authorization"].removeprefix("Bearer ")}
        assert keyed_api.post("/api/v1/session", json=body, headers=OWN_PAGE).status_code == 200

    def is_signed_in():
        return keyed_api.get("/api/v1/session").json()["isAuthenticated"]

    row, key = create(keyed_api, expiresAt=clock.format(DAY))
    path = f"{KEYS}/{row['id']}"
    sign_in(key)
    assert is_signed_in()
    clock.step(DAY)
    assert not is_signed_in()

    new = bearer(
        keyed_api.post(f"{path}/rotate", json={"expiresAt": clock.format(9 * DAY)}, headers=ADMIN).json()[
            "key"
        ]
    )
    assert not is_signed_in()
    sign_in(new)
    newer = bearer(keyed_api.post(f"{path}/rotate", json={"overlapHours": 2}, headers=ADMIN).json()["key"])
    assert is_signed_in()
    clock.step(2 * HOUR)
    assert not is_signed_in()

    sign_in(newer)
    keyed_api.post(f"{path}/disable", headers=ADMIN)
    keyed_api.post(f"{path}/enable", headers=ADMIN)
    assert not is_signed_in()


class Seconds:
    now = 1000.0

    def __call__(self):
        return self.now


def count(limits, caller, per_minute, times):
    """Make so many requests; return how many were admitted."""
    admitted, waits = 0, []
    for _ in range(times):
        try:
            limits.take(caller, per_minute)
            admitted += 1
        except RateLimitError as error:
            waits.append(error.seconds)
    assert all(seconds >= 1 for seconds in waits)
    return admitted


def test_a_bucket_holds_the_requests_of_a_minute_and_fills_up_evenly():
    clock = Seconds()
    limits = RateLimits(clock)
    assert count(limits, "a", 30, 100) == 30
    assert count(limits, "b", 30, 10) == 10
    clock.now += 1.9
    assert count(limits, "a", 30, 5) == 0
    clock.now += 0.1
    assert count(limits, "a", 30, 5) == 1
    clock.now += 20
    assert count(limits, "a", 30, 100) == 10
    clock.now += 3600
    assert count(limits, "a", 30, 100) == 30
    assert count(limits, "a", 0, 1000) == 1000


def test_a_lower_limit_is_waited_for_a_minute_at_most():
    clock = Seconds()
    limits = RateLimits(clock)
    assert count(limits, "a", 1000, 2000) == 1000
    assert count(limits, "a", 1, 1) == 0
    clock.now += 60
    assert count(limits, "a", 1, 3) == 1


def test_callers_that_are_remembered_do_not_grow():
    limits = RateLimits(Seconds())
    for number in range(100_100):
        limits.take(str(number), 1)
    assert len(limits._full_at) == 100_000


def test_a_key_beyond_its_limit_is_429_with_the_documented_body(keyed_api):
    _, key = create(keyed_api, requestsPerMinute=3)
    run = keyed_api.post("/api/v1/projects/chat/runs", json={"experimentName": "qa"}, headers=key).json()[
        "runId"
    ]
    item = {"inputs": {"q": 1}, "actualOutputs": {}, "evalResults": []}
    items = f"/api/v1/runs/{run}/items"
    assert keyed_api.post(items, json={"items": [item]}, headers=key).status_code == 201
    assert keyed_api.get("/api/v1/projects", headers=key).status_code == 200

    for refused in (
        keyed_api.post(items, json={"items": [item]}, headers=key),
        keyed_api.get("/api/v1/projects", headers=key),
    ):
        assert refused.status_code == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 20
        assert set(refused.json()) == {"error", "message", "timestamp"}
        assert refused.json()["message"].startswith("This key or account may make 3 requests per minute")
    assert keyed_api.get("/api/v1/projects").status_code == 200
    assert works(keyed_api, ADMIN) == 201
    assert keyed_api.get(f"/api/v1/runs/{run}", headers=ADMIN).json()["totalItems"] == 1


def test_a_key_without_a_limit_has_that_of_the_settings(serve):
    api = serve(api_key="admin-key", requests_per_minute=2)
    _, key = create(api)
    _, other = create(api, requestsPerMinute=4)
    _, free = create(api, requestsPerMinute=0)

    def statuses(headers):
        return [api.get("/api/v1/projects", headers=headers).status_code for _ in range(6)]

    assert statuses(key) == [200] * 2 + [429] * 4
    assert statuses(other) == [200] * 4 + [429] * 2
    assert statuses(free) == statuses(ADMIN) == statuses({}) == [200] * 6


def test_a_stream_of_events_counts_once(listen_on_database):
    # The caller of a stream is identified again while it lasts; that is no request.
    import requests
    from tests.server.event_watcher import Watcher

    port = listen_on_database(api_key="admin-key")
    address = f"http://127.0.0.1:{port}"
    body = {"name": "ui", "role": "EDITOR", "requestsPerMinute": 2}
    key = requests.post(f"{address}{KEYS}", json=body, headers=ADMIN, timeout=20).json()["key"]
    watcher = Watcher(address, headers=bearer(key))
    try:
        assert watcher.read()[0] == "ready"
        for number in range(5):  # each change of a key has streams look again
            extra = {"name": f"k{number}", "role": "VIEWER"}
            requests.post(f"{address}{KEYS}", json=extra, headers=ADMIN, timeout=20)
        run = {"experimentName": "qa"}
        requests.post(f"{address}/api/v1/projects/chat/runs", json=run, headers=ADMIN, timeout=20)
        watcher.read_until("run.created")
    finally:
        watcher.close()
    assert requests.get(f"{address}/api/v1/projects", headers=bearer(key), timeout=20).status_code == 200


def test_our_reporter_waits_as_long_as_it_is_told(listen_on_database):
    import requests

    from dokimos import Example, evaluate
    from dokimos.client import ServerReporter
    from dokimos.evaluators import ExactMatch

    port = listen_on_database(api_key="admin-key")
    address = f"http://127.0.0.1:{port}"
    body = {"name": "ci", "role": "EDITOR", "requestsPerMinute": 60}
    created = requests.post(f"{address}{KEYS}", json=body, headers=ADMIN, timeout=20).json()
    key = created["key"]
    for _ in range(59):  # the bucket is nearly empty when the run begins
        requests.get(f"{address}/api/v1/projects", headers=bearer(key), timeout=20)

    def answer(question):
        return question

    reporter = ServerReporter(server_url=address, project_name="chat", api_key=key)
    rows = [Example.of(str(number), str(number)) for number in range(3)]
    result = evaluate(
        rows, answer, [ExactMatch()], name="qa", reporters=[reporter], quiet=True, journal=False
    )
    reporter.close()

    assert reporter.failed_item_count == 0
    [run] = result.server_run_ids
    details = requests.get(f"{address}/api/v1/runs/{run}", headers=ADMIN, timeout=20).json()
    assert (details["totalItems"], details["status"]) == (3, "SUCCESS")


def test_nothing_secret_of_a_key_is_logged(keyed_api, caplog, clock):
    caplog.set_level(logging.DEBUG)
    row, key = create(keyed_api, expiresAt=clock.format(HOUR))
    new = keyed_api.post(f"{KEYS}/{row['id']}/rotate", headers=ADMIN).json()["key"]
    clock.step(HOUR)
    for headers in (key, bearer(new)):
        assert works(keyed_api, headers) == 401
    assert "has expired" in caplog.text
    for secret in (new, key["Authorization"].removeprefix("Bearer ")):
        assert secret not in caplog.text
        assert secret not in keyed_api.get(KEYS, headers=ADMIN).text
