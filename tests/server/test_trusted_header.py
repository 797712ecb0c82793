"""People whom a proxy before the server has signed in, and those who only say that it has."""

import logging
from types import SimpleNamespace

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient
from tests.server.clock_steps import Clock

from dokimos.errors import ConfigurationError
from dokimos.server import ServerSettings
from dokimos.server._api.accounts.trusted_header import read_identity
from dokimos.server._api.http.proxy import IS_FROM_PROXY
from dokimos.server._services.errors import ForbiddenError
from dokimos.server._sign_in_settings import RoleRules, TrustedHeader

PROXY = "192.0.2.10"
ADMIN = {"Authorization": "Bearer admin-key"}
OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}
ADA = {"X-Forwarded-User": "ada", "X-Forwarded-Groups": "ml, sales", **OWN_PAGE}
HEADERS = {"user": "x-forwarded-user", "email": "x-forwarded-email", "groups": "x-forwarded-groups"}
RULES = {"role_map": {"ml": "EDITOR", "platform": "ADMIN"}}


@pytest.fixture
def serve_behind_proxy(serve):
    """A function that returns a client at some address, of a server behind a proxy."""
    clients = {}

    def at(address=PROXY, *, rules=None, **headers):
        key = repr((rules, headers))
        if key not in clients:
            clients[key] = serve(
                api_key="admin-key",
                trusted_proxies=(PROXY, "198.51.100.0/24"),
                trusted_header=TrustedHeader(**HEADERS, **headers, rules=RoleRules(**(rules or RULES))),
            )
        started = clients[key]
        other = TestClient(started.app, client=(address, 50_000), raise_server_exceptions=False)
        other.portal = started.portal  # the event loop that the server lives in
        return other

    return at


def start(api, headers):
    return api.post("/api/v1/projects/chat/runs", json={"experimentName": "qa"}, headers=headers)


def test_whom_the_proxy_names_has_the_role_of_its_groups(serve_behind_proxy):
    api = serve_behind_proxy()
    answer = start(api, ADA)
    assert answer.status_code == 201
    session = api.get("/api/v1/session", headers=ADA).json()
    assert (session["role"], session["isAuthenticated"], session["signInWays"]) == (
        "EDITOR",
        True,
        ["key", "proxy"],
    )
    assert session["signedInWith"] == "proxy"
    [user] = api.get("/api/v1/users", headers=ADMIN).json()
    assert (user["subject"], user["issuer"], user["role"], user["id"]) == (
        "ada", "trusted proxy", "EDITOR", session["id"],
    )  # fmt: skip
    assert api.get("/api/v1/users", headers=ADA).status_code == 403
    boss = {**ADA, "X-Forwarded-User": "bob", "X-Forwarded-Groups": "ml,platform"}
    assert api.get("/api/v1/users", headers=boss).status_code == 200


@pytest.mark.parametrize("address", ["203.0.113.9", "192.0.2.11", "::1", "127.0.0.1", "testclient"])
def test_whoever_is_no_proxy_cannot_say_who_it_is(serve_behind_proxy, address, caplog):
    api = serve_behind_proxy(address)
    caplog.set_level(logging.WARNING)
    for _ in range(3):
        assert start(api, ADA).status_code == 401
        assert api.get("/api/v1/session", headers=ADA).json()["isAuthenticated"] is False
    assert caplog.text.count("has the header x-forwarded-user, but does not come from a proxy") == 1
    assert api.get("/api/v1/users", headers=ADMIN).json() == []


@pytest.mark.parametrize("forwarded", [PROXY, f"203.0.113.9, {PROXY}", f"{PROXY}, {PROXY}"])
def test_an_address_in_a_header_makes_nobody_a_proxy(serve_behind_proxy, forwarded):
    api = serve_behind_proxy("203.0.113.9")
    assert start(api, {**ADA, "X-Forwarded-For": forwarded, "X-Real-IP": PROXY}).status_code == 401


def test_behind_a_proxy_the_address_of_the_client_is_not_that_of_a_proxy(serve_behind_proxy):
    # The proxy has made the connection; where its client is does not matter.
    assert start(serve_behind_proxy(), {**ADA, "X-Forwarded-For": "203.0.113.9"}).status_code == 201
    assert start(serve_behind_proxy("198.51.100.77"), ADA).status_code == 201


def test_a_page_of_another_site_cannot_write_through_the_proxy(serve_behind_proxy):
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "http://evil.example"},
    ):
        assert start(serve_behind_proxy(), {**ADA, "Sec-Fetch-Site": "", **headers}).status_code == 403
    bare = {name: value for name, value in ADA.items() if name != "Sec-Fetch-Site"}
    refused = start(serve_behind_proxy(), bare)
    assert (refused.status_code, refused.json()["message"]) == (
        403,
        "The request does not say in Origin or Sec-Fetch-Site which page it comes from, as browsers do; "
        "programs send 'Authorization: Bearer <key>'.",
    )
    assert start(serve_behind_proxy(), {**bare, "Origin": "http://testserver"}).status_code == 201
    text = {**ADA, "Content-Type": "text/plain"}
    assert (
        serve_behind_proxy().post("/api/v1/projects/chat/runs", content=b"{}", headers=text).status_code
        == 415
    )


def test_a_key_wins_over_the_proxy_and_the_proxy_over_a_cookie(serve_behind_proxy):
    api = serve_behind_proxy()
    assert api.get("/api/v1/session", headers={**ADA, **ADMIN}).json()["id"] == "system"
    assert start(api, {**ADA, "Authorization": "Bearer wrong"}).status_code == 401
    api.post("/api/v1/session", json={"key": "admin-key"}, headers=OWN_PAGE)
    assert api.get("/api/v1/session", headers=OWN_PAGE).json()["id"] == "system"
    assert api.get("/api/v1/session", headers=ADA).json()["role"] == "EDITOR"


def test_whose_groups_have_no_role_is_refused(serve_behind_proxy):
    for groups in ("", "sales", "ML", "mlx", "platform;ml"):
        refused = start(serve_behind_proxy(), {**ADA, "X-Forwarded-Groups": groups})
        assert refused.status_code == 403
        assert "None of your groups has a role" in refused.json()["message"]
    default = serve_behind_proxy(rules={"default_role": "VIEWER", "role_map": {"ml": "EDITOR"}})
    assert start(default, {**ADA, "X-Forwarded-Groups": ""}).json() == {
        "error": "Insufficient role: EDITOR required"
    }
    assert start(default, ADA).status_code == 201


def test_a_change_of_groups_counts_at_once(serve_behind_proxy):
    api = serve_behind_proxy()
    assert start(api, ADA).status_code == 201
    assert start(api, {**ADA, "X-Forwarded-Groups": "sales"}).status_code == 403
    assert api.get("/api/v1/api-keys", headers={**ADA, "X-Forwarded-Groups": "platform"}).status_code == 200
    assert api.get("/api/v1/api-keys", headers=ADA).status_code == 403


def test_only_people_of_some_domains_come_in(serve_behind_proxy):
    api = serve_behind_proxy(rules={**RULES, "allowed_domains": ("acme.example",)})
    assert start(api, {**ADA, "X-Forwarded-Email": "ada@ACME.example"}).status_code == 201
    for email in ("", "ada@other.example", "ada@acme.example.evil.example", "acme.example", "a@x@b.example"):
        assert start(api, {**ADA, "X-Forwarded-Email": email}).status_code == 403


def test_a_header_sent_twice_is_refused(serve_behind_proxy):
    headers = [*ADA.items(), ("X-Forwarded-User", "root")]
    refused = start(serve_behind_proxy(), headers)
    assert refused.status_code == 403
    assert refused.json()["message"] == "The proxy has sent the header x-forwarded-user more than once."


@pytest.mark.parametrize("name", [b"x" * 256, b"a\x7fb", b"a\xc2\x85b"])
def test_a_name_that_cannot_be_one_is_refused(serve_behind_proxy, name):
    headers = [(key.encode(), value.encode()) for key, value in ADA.items() if key != "X-Forwarded-User"]
    refused = start(serve_behind_proxy(), [*headers, (b"x-forwarded-user", name)])
    assert refused.status_code == 403


def test_names_are_utf_8(serve_behind_proxy):
    api = serve_behind_proxy()
    headers = [(key.encode(), value.encode()) for key, value in ADA.items() if key != "X-Forwarded-User"]
    assert start(api, [*headers, (b"x-forwarded-user", "Zoë@例".encode())]).status_code == 201
    assert [user["subject"] for user in api.get("/api/v1/users", headers=ADMIN).json()] == ["Zoë@例"]


def test_a_name_that_is_not_utf_8_is_refused():
    # Not through the client of the tests, which sends UTF-8 whatever it is given.
    header = TrustedHeader(**HEADERS, rules=RoleRules(**RULES))
    state = SimpleNamespace(settings=SimpleNamespace(trusted_header=header))
    headers = [(b"x-forwarded-user", b"\xff\xfe")]
    app = SimpleNamespace(state=state)
    request = Request({"type": "http", "headers": headers, "app": app, IS_FROM_PROXY: True})
    with pytest.raises(ForbiddenError, match="not UTF-8"):
        read_identity(request)


def test_an_empty_header_names_nobody(serve_behind_proxy):
    assert start(serve_behind_proxy(), {**ADA, "X-Forwarded-User": " "}).status_code == 401


def test_people_of_a_tenant_see_that_tenant(serve_behind_proxy):
    api = serve_behind_proxy(tenant="x-forwarded-tenant")
    a, b, everyone = (
        {**ADA, "X-Forwarded-User": f"of {name}", "X-Forwarded-Tenant": name} for name in ("a", "b", "*")
    )
    run = start(api, a).json()["runId"]
    path = f"/api/v1/runs/{run}"
    assert [api.get(path, headers=each).status_code for each in (a, b, everyone)] == [200, 404, 200]
    refused = start(api, ADA)
    assert (refused.status_code, "which tenant" in refused.json()["message"]) == (403, True)


def test_a_disabled_user_is_refused_at_once_and_let_in_again(serve_behind_proxy):
    api = serve_behind_proxy()
    assert start(api, ADA).status_code == 201
    [user] = api.get("/api/v1/users", headers=ADMIN).json()
    assert api.post(f"/api/v1/users/{user['id']}/disable", headers=ADMIN).json()["enabled"] is False
    refused = start(api, ADA)
    assert (refused.status_code, "disabled your account" in refused.json()["message"]) == (403, True)
    assert api.get("/api/v1/projects", headers=ADA).status_code == 403
    api.post(f"/api/v1/users/{user['id']}/enable", headers=ADMIN)
    assert start(api, ADA).status_code == 201


def test_when_somebody_was_seen_is_kept_once_a_minute(serve_behind_proxy, monkeypatch):
    clock = Clock(monkeypatch)
    api = serve_behind_proxy()

    def last_seen():
        assert start(api, ADA).status_code == 201
        return api.get("/api/v1/users", headers=ADMIN).json()[0]["lastSeenAt"]

    begun = last_seen()
    clock.step(59)
    assert last_seen() == begun
    clock.step(1)
    assert last_seen() == clock.format()


def test_people_are_limited_as_keys_are(serve):
    header = TrustedHeader(**HEADERS, rules=RoleRules(**RULES))
    started = serve(trusted_header=header, trusted_proxies=(PROXY,), requests_per_minute=2)
    api = TestClient(started.app, client=(PROXY, 1), raise_server_exceptions=False)
    api.portal = started.portal
    statuses = [api.get("/api/v1/projects", headers=ADA).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    assert api.get("/api/v1/projects", headers={**ADA, "X-Forwarded-User": "bob"}).status_code == 200


def test_behind_such_a_proxy_a_server_without_keys_is_not_open(serve):
    header = TrustedHeader(**HEADERS, rules=RoleRules(**RULES))
    api = serve(trusted_header=header, trusted_proxies=(PROXY,))
    assert api.get("/api/v1/session").json()["needsKey"] is True
    assert start(api, {}).status_code == 401
    assert api.get("/api/v1/projects").status_code == 200


@pytest.mark.parametrize("given", ["by the groups", "here", "to nobody"])
def test_keys_without_an_administrator_are_warned_of_only_where_no_person_is_one(serve, given):
    role_map = {"ml": "EDITOR", **({"platform": "ADMIN"} if given == "by the groups" else {})}
    header = TrustedHeader(**HEADERS, rules=RoleRules(role_map=role_map))
    options = {"trusted_header": header, "trusted_proxies": (PROXY,)}
    api = serve(api_key="admin-key", **options)
    behind_proxy = TestClient(api.app, client=(PROXY, 50_000))
    behind_proxy.portal = api.portal  # the event loop that the server lives in
    assert start(behind_proxy, ADA).status_code == 201
    if given == "here":
        [user] = api.get("/api/v1/users", headers=ADMIN).json()
        path = f"/api/v1/users/{user['id']}"
        assert api.patch(path, json={"roleOverride": "ADMIN"}, headers=ADMIN).status_code == 200
    assert (
        api.post("/api/v1/api-keys", json={"name": "ci", "role": "EDITOR"}, headers=ADMIN).status_code == 201
    )

    restarted = serve(**options)

    advice = restarted.app.state.keys.advice
    assert (advice is None) == (given != "to nobody")


def settings(**variables):
    return ServerSettings.from_environment(
        {f"DOKIMOS_TRUSTED_{name}": value for name, value in variables.items()}
    )


def test_the_headers_are_read_from_the_environment():
    header = settings(
        HEADER_USER="Remote-User",
        HEADER_GROUPS="Remote-Groups",
        HEADER_ROLE_MAP="ops=admin, cn=ml=EDITOR",
        HEADER_ALLOWED_DOMAINS="@Acme.example",
    ).trusted_header
    assert (header.user, header.groups, header.email) == ("remote-user", "remote-groups", None)
    assert header.rules.role_map == {"ops": "ADMIN", "cn=ml": "EDITOR"}
    assert header.rules.allowed_domains == ("acme.example",)
    directory = '{"cn=ml,ou=groups,dc=acme": "VIEWER"}'
    rules = settings(HEADER_USER="Remote-User", HEADER_ROLE_MAP=directory).trusted_header.rules
    assert rules.role_map == {"cn=ml,ou=groups,dc=acme": "VIEWER"}


@pytest.mark.parametrize(
    ("variables", "variable"),
    [
        ({"HEADER_USER": "Remote-User"}, "HEADER_ROLE_MAP"),
        ({"HEADER_GROUPS": "Remote-Groups"}, "HEADER_GROUPS"),
        ({"HEADER_USER": "Remote User", "HEADER_DEFAULT_ROLE": "VIEWER"}, "HEADER_USER"),
        ({"HEADER_USER": "Remote-User", "HEADER_DEFAULT_ROLE": "OWNER"}, "HEADER_DEFAULT_ROLE"),
        ({"HEADER_USER": "Remote-User", "HEADER_ROLE_MAP": "ops"}, "HEADER_ROLE_MAP"),
        ({"HEADER_USER": "Remote-User", "HEADER_ROLE_MAP": "=ADMIN"}, "HEADER_ROLE_MAP"),
        ({"HEADER_USER": "Remote-User", "HEADER_ROLE_MAP": "{ops"}, "HEADER_ROLE_MAP"),
        ({"HEADER_USER": "Remote-User", "HEADER_DEFAULT_ROLE": "ADMIN", "PROXIES": "*"}, "PROXIES"),
        ({"HEADER_USER": "Remote-User", "HEADER_DEFAULT_ROLE": "ADMIN", "PROXIES": "0.0.0.0/0"}, "PROXIES"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_the_name_of_their_variable(variables, variable):
    with pytest.raises(ConfigurationError, match=f"DOKIMOS_TRUSTED_{variable}") as refusal:
        settings(**variables)
    assert refusal.value.setting == f"DOKIMOS_TRUSTED_{variable}"


@pytest.mark.parametrize("proxies", ["::/00", "0.0.0.0/0.0.0.0", "0.0.0.0/1, 128.0.0.0/1", "10.0.0.1, ::/3"])
def test_networks_that_hold_strangers_are_refused_however_they_are_written(proxies):
    with pytest.raises(ConfigurationError, match="name the proxy"):
        settings(HEADER_USER="Remote-User", HEADER_DEFAULT_ROLE="ADMIN", PROXIES=proxies)


def test_private_networks_may_hold_the_proxy():
    allowed = "10.0.0.0/8, fc00::/7, proxy.internal"
    assert settings(HEADER_USER="Remote-User", HEADER_DEFAULT_ROLE="ADMIN", PROXIES=allowed).trusted_header
