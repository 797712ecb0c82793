"""Signing in with an identity provider, one that behaves and one that does not."""

import logging
import time
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("authlib", reason="the extra 'oidc' is not installed")

from joserfc.jwk import OctKey
from tests.server.clock_steps import Clock
from tests.server.oidc_provider import CLIENT_ID, CLIENT_SECRET, Provider

from dokimos._http.address_policy import AddressPolicy
from dokimos.errors import ConfigurationError
from dokimos.server import ServerSettings
from dokimos.server._oidc import provider as provider_module
from dokimos.server._oidc.attempt import Attempt
from dokimos.server._sign_in_settings import OidcSettings, RoleRules

ADMIN = {"Authorization": "Bearer admin-key"}
OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}
START = "/api/v1/session/oidc/start"
CALLBACK = "/api/v1/session/oidc/callback"
RULES = {"role_map": {"ml": "EDITOR", "platform": "ADMIN"}}


@pytest.fixture(scope="module")
def running_provider():
    provider = Provider()  # its keys take long to make
    yield provider
    provider.stop()


@pytest.fixture
def provider(running_provider):
    fresh = Provider.__new__(Provider)
    fresh.__dict__.update(vars(running_provider))
    fresh.person = dict(running_provider.person)
    for name in ("metadata", "claims", "header", "codes"):
        setattr(fresh, name, {})
    fresh.published, fresh.requests = [fresh.key], []
    fresh.start()
    yield fresh
    fresh.stop()


@pytest.fixture
def sign_in_server(serve, provider):
    """A function that starts a server with the provider, whose client follows no redirects."""

    def start(*, rules=None, settings=None, **oidc):
        api = serve(
            api_key="admin-key",
            oidc=OidcSettings(
                issuer=provider.issuer,
                client_id=CLIENT_ID,
                client_secret=CLIENT_SECRET,
                rules=RoleRules(**(rules or RULES)),
                policy=AddressPolicy.parse("127.0.0.1"),
                **oidc,
            ),
            **(settings or {}),
        )
        api.follow_redirects = False
        return api

    return start


def begin(api, **query):
    answer = api.get(START, params=query)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def sign_in(api, provider, **query):
    """Go the whole way as a browser does; return the last answer."""
    answer = provider.sign_in(begin(api, **query))
    return api.get(CALLBACK, params=answer)


def who(api):
    return api.get("/api/v1/session").json()


def test_somebody_signs_in_and_is_led_back(sign_in_server, provider):
    api = sign_in_server()
    answer = sign_in(api, provider, returnTo="/projects/chat?tab=runs#top")

    assert (answer.status_code, answer.headers["location"]) == (303, "/projects/chat?tab=runs#top")
    cookies = answer.headers.get_list("set-cookie")
    [session] = [cookie for cookie in cookies if cookie.startswith("dokimos_session=")]
    assert {"HttpOnly", "SameSite=lax", "Path=/", "Max-Age=604800"} <= set(session.split("; "))
    [forgotten] = [cookie for cookie in cookies if cookie.startswith("dokimos_sign_in=")]
    assert "Max-Age=0" in forgotten
    assert (who(api)["role"], who(api)["isAuthenticated"], who(api)["signInWays"]) == (
        "EDITOR",
        True,
        ["key", "oidc"],
    )
    assert who(api)["signedInWith"] == "oidc"
    run = api.post("/api/v1/projects/chat/runs", json={"experimentName": "qa"}, headers=OWN_PAGE)
    assert run.status_code == 201
    [user] = api.get("/api/v1/users", headers=ADMIN).json()
    assert {name: user[name] for name in ("issuer", "subject", "name", "email", "role", "roleOverride")} == {
        "issuer": provider.issuer,
        "subject": "ada-1",
        "name": "Ada",
        "email": "ada@acme.example",
        "role": "EDITOR",
        "roleOverride": None,
    }
    [listed] = api.get("/api/v1/sessions").json()
    assert (listed["kind"], listed["userId"], listed["name"], listed["isCurrent"]) == (
        "user",
        user["id"],
        "Ada",
        True,
    )


def test_the_redirect_names_this_server_as_it_was_reached_or_as_it_is_set(sign_in_server, provider):
    def redirect_uri(api, **headers):
        location = api.get(START, headers=headers).headers["location"]
        return parse_qs(urlsplit(location).query)["redirect_uri"][0]

    api = sign_in_server()
    assert redirect_uri(api) == f"http://testserver{CALLBACK}"
    assert (
        redirect_uri(api, **{"X-Forwarded-Proto": "https", "Host": "evals.acme"})
        == f"https://evals.acme{CALLBACK}"
    )
    named = sign_in_server(settings={"public_url": "https://evals.acme"})
    assert redirect_uri(named, Host="evil.example") == f"https://evals.acme{CALLBACK}"


def test_below_a_path_of_another_site_people_are_led_back_to_that_path(sign_in_server, provider):
    root = "/tools/dokimos"
    api = sign_in_server(settings={"public_url": f"http://testserver{root}"})
    begun = api.get(root + START, params={"returnTo": "/projects/chat"})
    answer = provider.sign_in(begun.headers["location"])
    asked = parse_qs(urlsplit(begun.headers["location"]).query)
    finished = api.get(root + CALLBACK, params=answer)

    assert asked["redirect_uri"] == [f"http://testserver{root}{CALLBACK}"]
    assert f"Path={root}/api/v1/session/oidc" in begun.headers["set-cookie"].split("; ")
    assert (finished.status_code, finished.headers["location"]) == (303, f"{root}/projects/chat")
    assert api.get(f"{root}/api/v1/session").json()["role"] == "EDITOR"
    failed = api.get(root + CALLBACK, params=answer, headers={"Accept": "text/html"})
    assert f'<a href="{root}{START}">' in failed.text


@pytest.mark.parametrize(
    "path",
    [
        *("//evil.example", "https://evil.example", "/\\evil.example", "\\\\evil.example", "evil", ""),
        *("/\t/evil.example", "/a b", "/" + "x" * 1000, "/\x7f", "javascript:alert(1)"),
        *(
            "/.//evil.example",
            "/..//evil.example",
            "/a/..//evil.example",
            "/%2e//evil.example",
            "/a/%2E%2e/b",
        ),
    ],
)
def test_nobody_is_led_to_another_site(sign_in_server, path):
    refused = sign_in_server().get(START, params={"returnTo": path})
    assert refused.status_code == 400
    assert "returnTo" in refused.json()["message"]
    assert "location" not in refused.headers


def test_a_path_that_was_changed_in_the_cookie_is_refused(sign_in_server, provider):
    api = sign_in_server()
    answer = provider.sign_in(begin(api))
    attempt = Attempt.load(_read_cookie(api, "dokimos_sign_in"))
    forged = Attempt(
        state=attempt.state,
        nonce=attempt.nonce,
        verifier=attempt.verifier,
        return_to="//evil.example",
        begun_at=attempt.begun_at,
    )
    api.cookies.clear()
    refused = api.get(CALLBACK, params=answer, headers={"Cookie": f"dokimos_sign_in={forged.dump()}"})
    assert (refused.status_code, "location" in refused.headers) == (400, False)


FAULTS = {
    "another issuer": ({"iss": "https://evil.example"}, "it is from another issuer"),
    "no issuer": ({"iss": None}, "it is from another issuer"),
    "another audience": ({"aud": "other"}, "it is meant for another application"),
    "other audiences": ({"aud": ["other", "more"]}, "it is meant for another application"),
    "no audience": ({"aud": None}, "it is meant for another application"),
    "several audiences without azp": ({"aud": [CLIENT_ID, "other"]}, "it was issued to another application"),
    "another azp": ({"aud": [CLIENT_ID, "other"], "azp": "other"}, "it was issued to another application"),
    "another azp alone": ({"azp": "other"}, "it was issued to another application"),
    "expired": ({"exp": int(time.time()) - 61}, "it has expired"),
    "no expiry": ({"exp": None}, "it has expired"),
    "an expiry that is none": ({"exp": "tomorrow"}, "it has expired"),
    "from the future": ({"iat": int(time.time()) + 3600}, "it is from the future"),
    "not valid yet": ({"nbf": int(time.time()) + 3600}, "it is not valid yet"),
    "another nonce": ({"nonce": "x"}, "it belongs to another sign-in"),
    "no nonce": ({"nonce": None}, "it belongs to another sign-in"),
    "an access token of another": ({"at_hash": "x"}, "it belongs to another access token"),
    "no subject": ({"sub": None}, "it does not say who somebody is"),
    "a subject that is none": ({"sub": 7}, "it does not say who somebody is"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_token_that_is_not_for_this_sign_in_is_refused(sign_in_server, provider, fault):
    provider.claims, problem = FAULTS[fault]
    api = sign_in_server()
    refused = sign_in(api, provider)
    assert refused.status_code == 403
    assert problem in refused.json()["message"]
    assert who(api)["isAuthenticated"] is False
    assert api.get("/api/v1/users", headers=ADMIN).json() == []


def test_clocks_may_differ_a_little(sign_in_server, provider):
    now = int(time.time())
    provider.claims = {"iat": now + 45, "nbf": now + 45, "exp": now - 45}
    assert sign_in(sign_in_server(), provider).status_code == 303


@pytest.mark.parametrize("audience", [[CLIENT_ID], [CLIENT_ID, "other"]])
def test_a_token_for_several_says_for_whom_it_was_issued(sign_in_server, provider, audience):
    provider.claims = {"aud": audience, "azp": CLIENT_ID}
    assert sign_in(sign_in_server(), provider).status_code == 303


FORGERIES = {
    "none": lambda provider: provider.unsigned,
    "HS256 with the public key": lambda provider: provider.signed_with_the_public_key,
    "HS256 with the secret": lambda provider: provider.signed_with_the_client_secret,
    "no token": lambda provider: lambda claims: "x",
    "two parts": lambda provider: lambda claims: "e30.e30",
    "encrypted": lambda provider: lambda claims: "a.b.c.d.e",
    "empty": lambda provider: lambda claims: "",
}


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")  # what the forger does
@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_token_is_refused(sign_in_server, provider, forgery):
    provider.tokens = FORGERIES[forgery](provider)
    api = sign_in_server()
    assert sign_in(api, provider).status_code == 403
    assert who(api)["isAuthenticated"] is False


def test_a_token_of_another_key_is_refused(sign_in_server, provider):
    provider.published, provider.key = [provider.key], Provider.new_curve_key(provider.key.kid)
    assert sign_in(sign_in_server(), provider).status_code == 403


def test_a_token_of_another_key_of_the_same_kind_is_refused(sign_in_server, provider):
    true = provider.key
    provider.key = Provider.new_key(true.kid)
    refused = sign_in(sign_in_server(), provider)
    assert "its signature or its form is wrong" in refused.json()["message"]


def test_a_key_that_the_token_brings_along_is_not_used(sign_in_server, provider):
    own = Provider.new_key("own")
    provider.header = {"jwk": own.as_dict(private=False), "jku": f"{provider.issuer}/keys"}
    provider.key = own
    assert sign_in(sign_in_server(), provider).status_code == 403


def test_a_curve_signs_too_where_the_provider_announces_it(sign_in_server, provider):
    provider.key = Provider.new_curve_key("curve")
    provider.published = [provider.key]
    assert sign_in(sign_in_server(), provider).status_code == 303
    provider.metadata = {"id_token_signing_alg_values_supported": ["RS256"]}
    assert sign_in(sign_in_server(), provider).status_code == 403


def test_keys_of_other_kinds_are_left_out(sign_in_server, provider):
    shared = OctKey.import_key(CLIENT_SECRET * 3, {"kid": provider.key.kid})
    encrypting = Provider.new_key("for encryption")
    encrypting.dict_value["use"] = "enc"
    provider.published = [shared, encrypting, provider.key]
    api = sign_in_server()
    assert sign_in(api, provider).status_code == 303
    provider.published = [shared]
    assert sign_in_server().get(START).status_code == 503


def test_a_token_without_a_key_id_is_read_where_there_is_one_key(sign_in_server, provider):
    provider.header = {"kid": None}
    assert sign_in(sign_in_server(), provider).status_code == 303
    provider.published = [provider.key, Provider.new_key("second")]
    refused = sign_in(sign_in_server(), provider)
    assert "which key has signed it" in refused.json()["message"]


class Seconds:
    now = 1000.0

    def __call__(self):
        return self.now


def set_provider_clock(api):
    clock = Seconds()
    api.app.state.oidc._clock = clock
    return clock


def test_new_keys_of_the_provider_are_found(sign_in_server, provider):
    api = sign_in_server()
    clock = set_provider_clock(api)
    assert sign_in(api, provider).status_code == 303
    provider.key = Provider.new_key("second")
    provider.published = [provider.key]

    clock.now += 9  # so soon after the last time they are not read again
    assert sign_in(api, provider).status_code == 403
    clock.now += 2
    assert sign_in(api, provider).status_code == 303
    reads = provider.requests.count(urlsplit(f"{provider.issuer}/keys").path)
    assert sign_in(api, provider).status_code == 303
    assert provider.requests.count(urlsplit(f"{provider.issuer}/keys").path) == reads == 2


def test_a_key_that_was_withdrawn_is_forgotten_after_an_hour(sign_in_server, provider):
    api = sign_in_server()
    clock = set_provider_clock(api)
    assert sign_in(api, provider).status_code == 303
    provider.published = [Provider.new_key("second")]
    clock.now += 3600
    assert sign_in(api, provider).status_code == 403


def test_an_answer_is_accepted_once(sign_in_server, provider):
    provider.forgets_codes = False  # as no provider should
    api = sign_in_server()
    answer = provider.sign_in(begin(api))
    cookie = {"Cookie": f"dokimos_sign_in={_read_cookie(api, 'dokimos_sign_in')}"}
    api.cookies.clear()
    assert api.get(CALLBACK, params=answer, headers=cookie).status_code == 303
    api.cookies.clear()
    replayed = api.get(CALLBACK, params=answer, headers=cookie)
    assert (replayed.status_code, "has been used already" in replayed.json()["message"]) == (403, True)
    assert "dokimos_session" not in api.cookies


def test_a_code_that_was_used_is_refused_by_the_provider(sign_in_server, provider):
    api = sign_in_server()
    answer = provider.sign_in(begin(api))
    provider.codes.clear()
    refused = api.get(CALLBACK, params=answer)
    assert (refused.status_code, "does not accept this sign-in any more" in refused.text) == (403, True)


def test_an_answer_belongs_to_the_browser_that_has_begun(sign_in_server, provider):
    api = sign_in_server()
    theirs = provider.sign_in(begin(api))
    api.cookies.clear()
    assert api.get(CALLBACK, params=theirs).status_code == 400  # a link that somebody sent

    begin(api)
    refused = api.get(CALLBACK, params=theirs)  # to a browser that has begun another
    assert (refused.status_code, refused.json()["message"].startswith("state:")) == (400, True)
    for state in ("", "x", "é"):
        begin(api)
        assert api.get(CALLBACK, params={**theirs, "state": state}).status_code == 400
    begin(api)
    assert api.get(CALLBACK, params={"code": theirs["code"]}).status_code == 400
    assert who(api)["isAuthenticated"] is False
    assert not any(path.endswith("/token") for path in provider.requests)


def test_a_stolen_code_is_worth_nothing_in_another_browser(sign_in_server, provider):
    api = sign_in_server()
    stolen = provider.sign_in(begin(api))["code"]
    api.cookies.clear()
    own = provider.sign_in(begin(api))
    # The provider checks the verifier; it fails as one that finds it wrong.
    answer = api.get(CALLBACK, params={**own, "code": stolen})
    assert answer.status_code == 503
    assert who(api)["isAuthenticated"] is False


def test_who_takes_too_long_begins_again(sign_in_server, provider, monkeypatch):
    clock = Clock(monkeypatch)
    api = sign_in_server()
    answer = provider.sign_in(begin(api))
    cookie = {"Cookie": f"dokimos_sign_in={_read_cookie(api, 'dokimos_sign_in')}"}
    api.cookies.clear()
    for step, status in ((601, 400), (-1300, 400), (700, 303)):
        clock.step(step)
        assert api.get(CALLBACK, params=answer, headers=cookie).status_code == status


@pytest.mark.parametrize("cookie", ["", "x", "e30", "bnVsbA", "WzEsMiwzLDQsNV0", "W10", "!!!", "é"])
def test_a_cookie_that_is_no_attempt_is_refused(sign_in_server, cookie):
    headers = [(b"cookie", f"dokimos_sign_in={cookie}".encode())]
    assert (
        sign_in_server().get(CALLBACK, params={"code": "c", "state": "s"}, headers=headers).status_code == 400
    )


def test_the_answer_may_say_which_provider_it_is_from(sign_in_server, provider):
    api = sign_in_server()
    answer = provider.sign_in(begin(api))
    assert api.get(CALLBACK, params={**answer, "iss": "https://evil.example"}).status_code == 403
    answer = provider.sign_in(begin(api))
    assert api.get(CALLBACK, params={**answer, "iss": provider.issuer}).status_code == 303
    provider.metadata = {"authorization_response_iss_parameter_supported": True}
    strict = sign_in_server()
    assert sign_in(strict, provider).status_code == 403


def test_a_refusal_of_the_provider_is_told_in_words(sign_in_server, provider):
    api = sign_in_server()
    for error, name in (("access_denied", "access_denied"), ("<script>", "unknown error")):
        answer = provider.sign_in(begin(api))
        query = {"state": answer["state"], "error": error, "error_description": "<b>no</b>"}
        refused = api.get(CALLBACK, params=query, headers={"Accept": "text/html"})
        assert refused.status_code == 403
        assert f"The identity provider has refused the sign-in: {name}." in refused.text
        assert "<b>" not in refused.text
        assert refused.headers["content-type"].startswith("text/html")
        assert START in refused.text


def test_a_provider_that_is_away_is_said_to_be(sign_in_server, provider, caplog):
    api = sign_in_server()
    provider.stop()
    for accept, kind in (("text/html", "text/html"), ("*/*", "application/json")):
        away = api.get(START, headers={"Accept": accept})
        assert away.status_code == 503
        assert away.headers["content-type"].startswith(kind)
        assert away.headers["retry-after"] == "5"
        assert "The identity provider cannot be used at the moment" in away.text
        assert "127.0.0.1" not in away.text
    assert "Nobody can sign in with the identity provider" in caplog.text
    assert api.post("/api/v1/session", json={"key": "admin-key"}, headers=OWN_PAGE).status_code == 200


def test_a_provider_that_comes_back_is_asked_again(sign_in_server, provider):
    api = sign_in_server()
    clock = set_provider_clock(api)
    provider.status = 500
    assert api.get(START).status_code == 503
    asked = len(provider.requests)
    assert api.get(START).status_code == 503
    assert len(provider.requests) == asked  # those who wait do not queue up behind it
    provider.status = 200
    clock.now += 5
    assert sign_in(api, provider).status_code == 303


def test_a_provider_that_goes_away_half_way_fails_the_sign_in_alone(sign_in_server, provider):
    api = sign_in_server()
    answer = provider.sign_in(begin(api))
    port = provider.port
    provider.stop()
    assert api.get(CALLBACK, params=answer).status_code == 503
    provider.start(port)
    assert sign_in(api, provider).status_code == 303


@pytest.mark.parametrize(
    ("metadata", "logged"),
    [
        ({"issuer": "https://evil.example"}, "it calls itself 'https://evil.example'"),
        ({"token_endpoint": "http://10.0.0.1/token"}, "its token_endpoint does not begin with https://"),
        ({"jwks_uri": "file:///etc/passwd"}, "its jwks_uri is not a URL"),
        ({"authorization_endpoint": None}, "its authorization_endpoint is not a URL"),
        ({"id_token_signing_alg_values_supported": ["HS256", "none"]}, "it signs with none of RS256"),
        ({"jwks_uri": "https://127.0.0.2/keys"}, "DOKIMOS_ALLOWED_PRIVATE_HOSTS=127.0.0.2:443 allows it"),
    ],
)
def test_a_description_that_cannot_be_used_is_logged(sign_in_server, provider, caplog, metadata, logged):
    provider.metadata = metadata
    api = sign_in_server()
    assert api.get(START).status_code == 503
    assert logged in caplog.text


def test_private_addresses_are_called_only_where_they_are_allowed(serve, provider, caplog):
    settings = OidcSettings(issuer=provider.issuer, client_id=CLIENT_ID, rules=RoleRules(**RULES))
    api = serve(api_key="admin-key", oidc=settings)
    assert api.get(START).status_code == 503
    assert f"DOKIMOS_ALLOWED_PRIVATE_HOSTS=127.0.0.1:{provider.port} allows it" in caplog.text
    assert provider.requests == []


def test_a_secret_goes_into_the_body_where_the_provider_wants_it_there(sign_in_server, provider):
    provider.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    assert sign_in(sign_in_server(), provider).status_code == 303


def test_groups_that_the_token_lacks_are_asked_for(sign_in_server, provider):
    del provider.person["groups"]
    provider.userinfo = {"sub": "ada-1", "groups": ["platform"], "name": "Someone else"}
    api = sign_in_server()
    assert sign_in(api, provider).status_code == 303
    [user] = api.get("/api/v1/users", headers=ADMIN).json()
    assert (user["role"], user["name"]) == ("ADMIN", "Ada")
    provider.userinfo = {"sub": "someone-else", "groups": ["platform"]}
    refused = sign_in(api, provider)
    assert (refused.status_code, "about different people" in refused.text) == (403, True)


@pytest.mark.parametrize(
    ("claims", "claim", "role"),
    [
        ({"groups": "platform"}, "groups", "ADMIN"),
        ({"groups": ["x", "ml", "platform"]}, "groups", "ADMIN"),
        ({"realm_access": {"roles": ["ml"]}}, "realm_access.roles", "EDITOR"),
        ({"https://acme.example/roles": ["ml"]}, "https://acme.example/roles", "EDITOR"),
        ({"roles": {"ml": {"org": "acme"}}}, "roles", "EDITOR"),
        ({"groups": [7, None, {"a": 1}, "ml"]}, "groups", "EDITOR"),
    ],
)
def test_the_claim_of_groups_may_have_any_shape(sign_in_server, provider, claims, claim, role):
    provider.person.pop("groups")
    provider.person.update(claims)
    api = sign_in_server(role_claim=claim)
    assert sign_in(api, provider).status_code == 303
    assert who(api)["role"] == role


def test_who_has_no_role_is_refused_and_not_kept(sign_in_server, provider):
    provider.userinfo = {"sub": "ada-1"}
    for groups in (["sales"], [], "ML", None, 7):
        provider.person["groups"] = groups
        api = sign_in_server()
        refused = sign_in(api, provider)
        assert (refused.status_code, "None of your groups" in refused.text) == (403, True)
        assert api.get("/api/v1/users", headers=ADMIN).json() == []


@pytest.mark.parametrize(
    ("person", "status"),
    [
        ({}, 303),
        ({"email": "ada@ACME.EXAMPLE"}, 303),
        ({"email_verified": "true"}, 303),
        ({"email_verified": False}, 403),
        ({"email_verified": "false"}, 403),
        ({"email_verified": None}, 403),
        ({"email": "ada@acme.example.evil"}, 403),
        ({"email": "ada"}, 403),
        ({"email": None}, 403),
    ],
)
def test_only_verified_addresses_of_some_domains_come_in(sign_in_server, provider, person, status):
    provider.person.update(person)
    provider.userinfo = {"sub": "ada-1"}
    api = sign_in_server(rules={**RULES, "allowed_domains": ("acme.example",)})
    assert sign_in(api, provider).status_code == status


def test_people_of_a_tenant_see_that_tenant(sign_in_server, provider):
    api = sign_in_server(tenant_claim="org")
    provider.userinfo = {"sub": "ada-1"}
    runs = {}
    for tenant in ("a", "b"):
        provider.person["org"] = tenant
        assert sign_in(api, provider).status_code == 303
        assert who(api)["tenantId"] == tenant
        path = "/api/v1/projects/chat/runs"
        runs[tenant] = api.post(path, json={"experimentName": "qa"}, headers=OWN_PAGE).json()["runId"]
    assert api.get(f"/api/v1/runs/{runs['b']}").status_code == 200
    assert api.get(f"/api/v1/runs/{runs['a']}").status_code == 404
    provider.person["org"] = "*"
    assert sign_in(api, provider).status_code == 303
    assert api.get(f"/api/v1/runs/{runs['a']}").status_code == 200
    for nothing in (None, [], ["a", "b"], "", 7, "x\n"):
        provider.person["org"] = nothing
        assert sign_in(api, provider).status_code == 403, nothing


def test_a_role_that_has_changed_counts_from_the_next_sign_in(sign_in_server, provider):
    api = sign_in_server()
    sign_in(api, provider)
    first = _read_cookie(api, "dokimos_session")
    provider.person.update(groups=["platform"], name="Ada L.", email="ada@new.example")
    assert who(api)["role"] == "EDITOR"
    sign_in(api, provider)
    assert who(api)["role"] == "ADMIN"
    [user] = api.get("/api/v1/users").json()
    assert (user["role"], user["name"], user["email"]) == ("ADMIN", "Ada L.", "ada@new.example")
    api.cookies.clear()  # a session that began before has the role of now
    old = {"Cookie": f"dokimos_session={first}"}
    assert api.get("/api/v1/session", headers=old).json()["role"] == "ADMIN"


def test_who_has_the_same_address_is_not_the_same_person(sign_in_server, provider):
    api = sign_in_server()
    sign_in(api, provider)
    provider.person["sub"] = "another-ada"
    sign_in(api, provider)
    users = api.get("/api/v1/users", headers=ADMIN).json()
    assert {user["subject"] for user in users} == {"ada-1", "another-ada"}


def test_a_disabled_users_sessions_end_at_once_and_it_cannot_come_back(sign_in_server, provider):
    api = sign_in_server()
    sign_in(api, provider)
    [user] = api.get("/api/v1/users", headers=ADMIN).json()
    assert api.post(f"/api/v1/users/{user['id']}/disable", headers=ADMIN).status_code == 200
    assert who(api)["isAuthenticated"] is False
    refused = sign_in(api, provider)
    assert (refused.status_code, "disabled your account" in refused.text) == (403, True)
    assert api.post(f"/api/v1/users/{user['id']}/enable", headers=ADMIN).status_code == 200
    assert who(api)["isAuthenticated"] is False
    assert sign_in(api, provider).status_code == 303


def test_signing_out_leads_to_the_provider(sign_in_server, provider):
    api = sign_in_server()
    sign_in(api, provider)
    path = "/api/v1/session/oidc/sign-out"
    assert api.post(path).status_code == 403  # by a page of another site
    assert who(api)["isAuthenticated"] is True
    answer = api.post(path, headers=OWN_PAGE)
    target = urlsplit(answer.json()["redirectTo"])
    query = {name: values[0] for name, values in parse_qs(target.query).items()}
    assert f"{target.scheme}://{target.netloc}{target.path}" == f"{provider.issuer}/logout"
    assert query["post_logout_redirect_uri"] == "http://testserver/"
    assert (query["client_id"], query["id_token_hint"].count(".")) == (CLIENT_ID, 2)
    assert who(api)["isAuthenticated"] is False
    provider.metadata = {"end_session_endpoint": None}
    api = sign_in_server()
    sign_in(api, provider)
    assert api.post(path, headers=OWN_PAGE).json() == {"redirectTo": None}


def test_wrong_codes_count_as_wrong_keys_do(sign_in_server, provider):
    api = sign_in_server(settings={"failed_logins_per_minute": 3})

    def try_code():
        answer = provider.sign_in(begin(api))
        return api.get(CALLBACK, params={**answer, "code": f"guess {len(provider.codes)}"}).status_code

    assert [try_code() for _ in range(5)] == [403, 403, 403, 429, 429]


def test_without_a_provider_there_is_nothing_to_sign_in_with(api):
    for answer in (api.get(START), api.get(CALLBACK), api.post("/api/v1/session/oidc/sign-out")):
        assert answer.status_code == 404
        assert "DOKIMOS_OIDC_ISSUER" in answer.json()["message"]


def test_with_a_provider_a_server_without_keys_is_not_open(serve, provider):
    rules = RoleRules(**RULES)
    policy = AddressPolicy.parse("127.0.0.1")
    api = serve(oidc=OidcSettings(issuer=provider.issuer, client_id=CLIENT_ID, rules=rules, policy=policy))
    assert api.post("/api/v1/projects/chat/runs", json={"experimentName": "qa"}).status_code == 401
    assert api.get("/api/v1/session").json()["needsKey"] is True
    assert api.post("/api/v1/api-keys", json={"name": "k", "role": "ADMIN"}).status_code == 401


def test_nothing_secret_is_logged_or_answered(sign_in_server, provider, caplog):
    caplog.set_level(logging.DEBUG, "dokimos")
    api = sign_in_server()
    answer = sign_in(api, provider)
    token = _read_cookie(api, "dokimos_session")
    provider.claims = {"aud": "other"}
    refused = sign_in(api, provider)
    texts = [caplog.text, answer.text, refused.text, api.get("/api/v1/sessions", headers=ADMIN).text]
    for secret in (CLIENT_SECRET, "s3cret+%26+more", provider.access_token, token):
        for text in texts:
            assert secret not in text


def test_a_server_without_authlib_says_what_to_install(tmp_path, monkeypatch):
    from dokimos.errors import MissingExtraError
    from dokimos.server import create_app

    def fail(module, extra):
        raise MissingExtraError(f'pip install "dokimos[{extra}]"')

    monkeypatch.setattr(provider_module, "require", fail)
    oidc = OidcSettings(issuer="https://id.example", client_id="x", rules=RoleRules(**RULES))
    with pytest.raises(MissingExtraError, match="dokimos\\[oidc\\]"):
        create_app(ServerSettings(data_dir=tmp_path, oidc=oidc))


def settings(**variables):
    return ServerSettings.from_environment(
        {
            name if name.startswith("DOKIMOS") else f"DOKIMOS_OIDC_{name}": value
            for name, value in variables.items()
        }
    )


GOOD = {"ISSUER": "https://id.example/", "CLIENT_ID": "dokimos", "DEFAULT_ROLE": "viewer"}


def test_the_provider_is_read_from_the_environment():
    oidc = settings(
        **GOOD, CLIENT_SECRET="sesame", SCOPES="openid,groups", ROLE_MAP="a=ADMIN", TENANT_CLAIM="org"
    ).oidc
    assert (oidc.issuer, oidc.client_id, oidc.scopes) == (
        "https://id.example/",
        "dokimos",
        ("openid", "groups"),
    )
    assert (oidc.role_claim, oidc.tenant_claim, oidc.rules.default_role) == ("groups", "org", "VIEWER")
    assert "sesame" not in repr(settings(**GOOD, CLIENT_SECRET="sesame"))
    assert settings(**GOOD).oidc.scopes == ("openid", "profile", "email")
    inside = {"DOKIMOS_ALLOWED_PRIVATE_HOSTS": "keycloak:8080"}
    assert settings(**{**GOOD, "ISSUER": "http://keycloak:8080/realms/a"}, **inside).oidc is not None


@pytest.mark.parametrize(
    ("variables", "variable"),
    [
        ({"ISSUER": "https://id.example"}, "DOKIMOS_OIDC_CLIENT_ID"),
        ({"ISSUER": "https://id.example", "CLIENT_ID": "x"}, "DOKIMOS_OIDC_ROLE_MAP"),
        ({"CLIENT_SECRET": "x"}, "DOKIMOS_OIDC_CLIENT_SECRET"),
        ({**GOOD, "ISSUER": "id.example"}, "DOKIMOS_OIDC_ISSUER"),
        ({**GOOD, "ISSUER": "http://id.example"}, "DOKIMOS_OIDC_ISSUER"),
        ({**GOOD, "ISSUER": "https://id.example?x=1"}, "DOKIMOS_OIDC_ISSUER"),
        ({**GOOD, "DEFAULT_ROLE": "root"}, "DOKIMOS_OIDC_DEFAULT_ROLE"),
        ({"DOKIMOS_PUBLIC_URL": "evals.acme"}, "DOKIMOS_PUBLIC_URL"),
        ({"DOKIMOS_SESSION_HOURS": "0"}, "DOKIMOS_SESSION_HOURS"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_the_name_of_their_variable(variables, variable):
    with pytest.raises(ConfigurationError, match=variable) as refusal:
        settings(**variables)
    assert refusal.value.setting == variable


def _read_cookie(api, name):
    return next(cookie.value for cookie in api.cookies.jar if cookie.name == name)
