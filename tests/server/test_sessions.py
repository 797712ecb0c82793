"""Sessions of browsers: how long they last, who sees them, who ends them."""

import pytest
from tests.server.clock_steps import HOUR, Clock

ADMIN = {"Authorization": "Bearer admin-key"}
OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}
SESSION = "/api/v1/session"
SESSIONS = "/api/v1/sessions"
DAY = 24 * HOUR


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def make_key(api, name="ci", role="EDITOR", tenant=None):
    body = {"name": name, "role": role, "tenantId": tenant}
    return api.post("/api/v1/api-keys", json=body, headers=ADMIN).json()["key"]


def sign_in(api, key="admin-key", agent="Firefox"):
    """Sign in and return the cookie; the client forgets it."""
    headers = {**OWN_PAGE, "User-Agent": agent}
    answer = api.post(SESSION, json={"key": key}, headers=headers)
    assert answer.status_code == 200, answer.text
    token = api.cookies["dokimos_session"]
    api.cookies.clear()
    return {"Cookie": f"dokimos_session={token}", **OWN_PAGE}


def is_signed_in(api, cookie):
    return api.get(SESSION, headers=cookie).json()["isAuthenticated"]


def list_sessions(api, headers=ADMIN, **query):
    answer = api.get(SESSIONS, params=query, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_session_ends_after_its_hours_however_it_is_used(serve, clock):
    api = serve(api_key="admin-key", session_hours=48.0)
    cookie = sign_in(api)
    for _ in range(47):
        clock.step(HOUR)
        assert is_signed_in(api, cookie)
    clock.step(HOUR)
    assert not is_signed_in(api, cookie)


def test_a_session_that_nobody_uses_ends(serve, clock):
    api = serve(api_key="admin-key", session_idle_hours=2.0)
    cookie = sign_in(api)
    for _ in range(5):
        clock.step(2 * HOUR - 120)
        assert is_signed_in(api, cookie)
    clock.step(2 * HOUR)
    assert not is_signed_in(api, cookie)
    assert list_sessions(api) == []


def test_a_clock_that_is_set_back_makes_no_session_longer(serve, clock):
    api = serve(api_key="admin-key")
    clock.step(365 * DAY)  # by mistake
    cookie = sign_in(api)
    assert is_signed_in(api, cookie)
    clock.step(-365 * DAY)
    assert not is_signed_in(api, cookie)
    again = sign_in(api)
    clock.step(-120)  # as clocks of two servers may differ
    assert is_signed_in(api, again)


def test_when_a_session_was_used_is_kept_once_a_minute(serve, clock):
    api = serve(api_key="admin-key")
    cookie = sign_in(api)
    begun = clock.format()
    clock.step(59)
    assert is_signed_in(api, cookie)
    assert list_sessions(api)[0]["lastSeenAt"] == begun
    clock.step(1)
    assert is_signed_in(api, cookie)
    assert list_sessions(api)[0]["lastSeenAt"] == clock.format()


def test_sessions_are_listed_with_whose_they_are_and_where(serve, clock):
    api = serve(api_key="admin-key")
    sign_in(api)
    clock.step(1)
    cookie = sign_in(api, make_key(api, "laptop"), agent="Safari " + "x" * 1000)

    own, system = list_sessions(api, headers=cookie) + list_sessions(api, search="firefox")

    assert (own["kind"], own["name"], own["isCurrent"], own["address"]) == (
        "key",
        "laptop",
        True,
        "testclient",
    )
    assert own["userAgent"] == ("Safari " + "x" * 1000)[:300]
    assert own["createdAt"] == own["lastSeenAt"] == clock.format()
    assert own["expiresAt"] == clock.format(7 * DAY)
    assert (system["kind"], system["keyId"], system["userId"], system["name"]) == ("system", None, None, None)
    assert system["isCurrent"] is False
    listed = list_sessions(api)
    assert [each["id"] for each in listed] == [own["id"], system["id"]]
    assert [each["id"] for each in list_sessions(api, own=True)] == [system["id"]]
    assert [each["id"] for each in list_sessions(api, keyId=own["keyId"])] == [own["id"]]
    assert [each["id"] for each in list_sessions(api, limit=1, after=own["id"])] == [system["id"]]
    token = cookie["Cookie"].partition("=")[2]
    assert token not in str(listed)


def test_a_session_is_ended_by_whom_it_belongs_to_or_who_administers_it(serve):
    api = serve(api_key="admin-key")
    keys = {
        "a": make_key(api, "a", "EDITOR", "one"),
        "b": make_key(api, "b", "VIEWER", "one"),
        "admin of one": make_key(api, "admin of one", "ADMIN", "one"),
        "c": make_key(api, "c", "ADMIN", "two"),
    }
    cookies = {name: sign_in(api, key) for name, key in keys.items()}
    ids = {each["name"]: each["id"] for each in list_sessions(api)}

    def end(by, name):
        return api.delete(f"{SESSIONS}/{ids[name]}", headers=cookies[by]).status_code

    assert {each["name"] for each in list_sessions(api, cookies["a"])} == {"a"}
    assert {each["name"] for each in list_sessions(api, cookies["admin of one"])} == {
        "a",
        "b",
        "admin of one",
    }
    assert end("a", "b") == end("a", "c") == end("admin of one", "c") == end("c", "a") == 404
    assert end("b", "b") == 204
    assert not is_signed_in(api, cookies["b"])
    assert end("admin of one", "a") == 204
    assert not is_signed_in(api, cookies["a"])
    assert api.delete(f"{SESSIONS}/{ids['c']}", headers=ADMIN).status_code == 204
    assert api.delete(f"{SESSIONS}/{ids['c']}", headers=ADMIN).status_code == 404
    assert is_signed_in(api, cookies["admin of one"])


def test_all_sessions_of_a_caller_or_a_key_are_ended(serve):
    api = serve(api_key="admin-key")
    key = make_key(api)
    cookies = [sign_in(api, key) for _ in range(3)]
    system = sign_in(api)
    [key_id] = {each["keyId"] for each in list_sessions(api)} - {None}

    ended = api.delete(SESSIONS, headers=cookies[0])
    assert (ended.status_code, ended.json()) == (200, {"count": 3})
    assert not any(is_signed_in(api, cookie) for cookie in cookies)
    assert is_signed_in(api, system)

    again = sign_in(api, key)
    ended = api.delete(f"/api/v1/api-keys/{key_id}/sessions", headers=ADMIN)
    assert ended.json() == {"count": 1}
    assert not is_signed_in(api, again)
    assert api.delete(SESSIONS, headers=ADMIN).json() == {"count": 1}
    assert not is_signed_in(api, system)


def test_who_does_not_say_who_it_is_has_no_sessions(serve):
    api = serve(api_key="admin-key")
    sign_in(api)
    for answer in (
        api.get(SESSIONS),
        api.delete(SESSIONS),
        api.delete(f"{SESSIONS}/018f0000-0000-7000-8000-000000000000"),
    ):
        assert answer.status_code == 401


def test_a_page_of_another_site_ends_no_session(serve):
    api = serve(api_key="admin-key")
    cookie = sign_in(api)
    foreign = {**cookie, "Sec-Fetch-Site": "cross-site"}
    assert api.delete(SESSIONS, headers=foreign).status_code == 403
    assert is_signed_in(api, cookie)
