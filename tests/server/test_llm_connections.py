"""Connections to models: as documented, without their keys, and with keys that go nowhere else."""

import sqlite3

import pytest
from sqlalchemy import select
from tests.server.shapes import is_flag, is_text, is_time, is_uuid, one_of, or_null, problems

from dokimos._http.address_policy import AddressPolicy
from dokimos.server import ServerSettings
from dokimos.server._db.connection_tables import LLM_CONNECTIONS
from dokimos.server._judge_settings import JudgeSettings
from dokimos.server._services.encryption import secret_vault

pytest.importorskip("cryptography", reason="the extra 'encryption' is not installed")

PATH = "/api/v1/llm-connections"
KEY = "sk-not-a-real-key-1234567890"
ADMIN = {"Authorization": "Bearer k"}
DOCUMENTED = {
    "name": "openai-judge", "baseUrl": "https://api.openai.com/v1", "model": "gpt-4o-mini",
    "protocol": "RESPONSES", "apiKey": KEY,
}  # fmt: skip
CONNECTION = {
    "id": is_uuid, "name": is_text, "baseUrl": is_text, "model": is_text,
    "protocol": one_of("RESPONSES", "CHAT_COMPLETIONS"), "credentialRef": or_null(is_text),
    "hasInlineKey": is_flag, "createdAt": is_time,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _quick_keys(monkeypatch):
    monkeypatch.setattr(secret_vault, "_ITERATIONS", 10)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OTHER_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def api(serve):
    return serve(encryption_keys=("passphrase",))


def by_reference(**body):
    return {"name": "judge", "baseUrl": "https://api.openai.com/v1", "model": "gpt-4o-mini",
            "credentialRef": "OPENAI_API_KEY", **body}  # fmt: skip


def create(api, body=DOCUMENTED, headers=None, **more):
    answer = api.post(PATH, json={**body, **more}, headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()


def put(api, connection, headers=None, **change):
    body = {name: connection[name] for name in ("name", "baseUrl", "model")}
    return api.put(f"{PATH}/{connection['id']}", json={**body, **change}, headers=headers)


def stored(api):
    query = select(LLM_CONNECTIONS).order_by(LLM_CONNECTIONS.c.created_at)
    return api.portal.call(api.app.state.database.read, lambda c: c.execute(query).all())


def key_of(api, role, tenant=None):
    body = {"name": f"{role} {tenant}", "role": role, **({"tenantId": tenant} if tenant else {})}
    return {"Authorization": f"Bearer {api.post('/api/v1/api-keys', json=body, headers=ADMIN).json()['key']}"}


def test_the_documented_request_creates_a_connection_without_showing_its_key(api):
    answer = api.post(PATH, json=DOCUMENTED)

    assert answer.status_code == 201
    made = answer.json()
    assert problems(made, CONNECTION) == []
    assert answer.headers["Location"] == f"{PATH}/{made['id']}"
    assert (made["hasInlineKey"], made["credentialRef"], made["problem"]) == (True, None, None)
    assert api.get(answer.headers["Location"]).json() == made
    assert api.get(PATH).json() == [made]
    assert KEY not in answer.text
    (row,) = stored(api)
    assert row.api_key.startswith("v1:")
    assert api.app.state.vault.unseal(row.api_key, row.id) == KEY

    assert api.delete(answer.headers["Location"]).status_code == 204
    assert api.get(answer.headers["Location"]).status_code == 404
    assert api.delete(answer.headers["Location"]).status_code == 404
    assert api.get(PATH).json() == []


def test_a_reference_needs_no_passphrase_and_a_protocol_is_responses(serve, monkeypatch):
    api = serve()
    made = create(api, by_reference())

    assert (made["protocol"], made["credentialRef"], made["hasInlineKey"]) == (
        "RESPONSES", "OPENAI_API_KEY", False,
    )  # fmt: skip
    assert "OPENAI_API_KEY" in made["problem"]
    assert "is not set" in made["problem"]
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert api.get(f"{PATH}/{made['id']}").json()["problem"] is None


def test_an_inline_key_needs_a_passphrase(serve):
    api = serve()
    answer = api.post(PATH, json=DOCUMENTED)

    assert answer.status_code == 409
    assert "DOKIMOS_ENCRYPTION_KEY" in answer.json()["message"]
    assert KEY not in answer.text
    assert stored(api) == []
    made = create(api, by_reference())
    assert put(api, made, apiKey=KEY).status_code == 409


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": None}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"name": ".."}, "name"),
        ({"model": " "}, "model"),
        ({"model": None}, "model"),
        ({"baseUrl": ""}, "baseUrl"),
        ({"baseUrl": None}, "baseUrl"),
        ({"baseUrl": "api.openai.com/v1"}, "baseUrl"),
        ({"baseUrl": "ftp://api.openai.com/v1"}, "baseUrl"),
        ({"baseUrl": "https://api.openai.com:99999/v1"}, "baseUrl"),
        ({"baseUrl": "https://api.openai.com/v1?key=x"}, "baseUrl"),
        ({"baseUrl": "https://api.openai.com/v1#x"}, "baseUrl"),
        ({"baseUrl": "https://user:s3cret@api.openai.com/v1"}, "baseUrl"),
        ({"baseUrl": "https://api.openai.com\\@evil.example/v1"}, "baseUrl"),
        ({"baseUrl": f"https://api.openai.com/{'x' * 512}"}, "baseUrl"),
        ({"protocol": "GRPC"}, "protocol"),
        ({"apiKey": None}, "apiKey"),
        ({"apiKey": "  "}, "apiKey"),
        ({"apiKey": "sk-a key"}, "apiKey"),
        ({"apiKey": "sk-1\r\nX-Evil: 1"}, "apiKey"),
        ({"apiKey": "sk-ключ"}, "apiKey"),
        ({"apiKey": "x" * 4097}, "apiKey"),
        ({"credentialRef": "OPENAI_API_KEY"}, "apiKey"),
        ({"apiKey": None, "credentialRef": ""}, "apiKey"),
        ({"inputPricePerMillion": 1}, "outputPricePerMillion"),
        ({"outputPricePerMillion": 1}, "inputPricePerMillion"),
        ({"inputPricePerMillion": -1, "outputPricePerMillion": 1}, "inputPricePerMillion"),
        ({"maxOutputTokens": 0}, "maxOutputTokens"),
        ({"requestsPerMinute": 0}, "requestsPerMinute"),
        ({"temperature": 3}, "temperature"),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_refused_by_name(serve, change, field):
    api = serve(encryption_keys=("passphrase",))
    answer = api.post(PATH, json={**DOCUMENTED, **change})

    assert answer.status_code == 400, answer.text
    assert answer.json()["message"].startswith(f"{field}: ")
    assert "s3cret" not in answer.text
    assert "sk-" not in answer.text
    assert stored(api) == []


NAMES = [
    "DB_PASSWORD", "DB_API_KEY", "db_api_key", "DOKIMOS_API_KEY", "dokimos_api_key",
    "DOKIMOS_ENCRYPTION_KEY", "DOKIMOS_FORMER_ENCRYPTION_KEYS", "PATH", "AWS_SECRET_ACCESS_KEY",
    "OPENAI_API_KEY ", "OPENAI_API_KEY=", "_API_KEY\n", "DOKIMOS_CRED_", "DOKIMOS_CRED_X_HOSTS",
    "DOKIMOS_OIDC_CLIENT_SECRET", "DOKIMOS_DATABASE_URL", "${OPENAI_API_KEY}", "1_API_KEY",
]  # fmt: skip


@pytest.mark.parametrize("name", [name for name in NAMES if name.strip() == name])
def test_only_variables_for_keys_of_models_can_be_named(serve, monkeypatch, name):
    api = serve()
    answer = api.post(PATH, json=by_reference(credentialRef=name))

    assert answer.status_code == 400
    assert answer.json()["message"].startswith("credentialRef: must name an environment variable")
    assert stored(api) == []


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "MY_OWN_API_KEY", "DOKIMOS_CRED_JUDGE", "X_API_KEY"])
def test_variables_for_keys_of_models_can_be_named(serve, name):
    assert create(serve(), by_reference(credentialRef=name))["credentialRef"] == name


def test_a_change_keeps_the_credential_unless_there_is_another_one(api):
    made = create(api, protocol="CHAT_COMPLETIONS")
    (before,) = stored(api)

    changed = put(api, made, name="renamed", model="gpt-5").json()
    assert (changed["name"], changed["model"], changed["protocol"]) == (
        "renamed", "gpt-5", "CHAT_COMPLETIONS",
    )  # fmt: skip
    assert changed["hasInlineKey"] is True
    assert stored(api)[0].api_key == before.api_key

    changed = put(api, made, credentialRef="OPENAI_API_KEY").json()
    assert (changed["hasInlineKey"], changed["credentialRef"]) == (False, "OPENAI_API_KEY")
    assert stored(api)[0].api_key is None
    changed = put(api, made, apiKey="sk-another", protocol="RESPONSES").json()
    assert (changed["hasInlineKey"], changed["credentialRef"], changed["protocol"]) == (
        True, None, "RESPONSES",
    )  # fmt: skip
    both = put(api, made, apiKey="sk-another", credentialRef="OPENAI_API_KEY")
    assert both.status_code == 400
    assert api.put(f"{PATH}/{made['id']}", json={"name": "x"}).status_code == 400


def test_prices_and_limits_stay_unless_they_are_named(api):
    limits = {
        "inputPricePerMillion": 0.15, "outputPricePerMillion": 0.6, "maxOutputTokens": 500,
        "requestsPerMinute": 60, "maxConcurrency": 4, "temperature": 0,
    }  # fmt: skip
    made = create(api, **limits)
    assert {name: made[name] for name in limits} == limits
    kept = put(api, made, model="other").json()
    assert {name: kept[name] for name in limits} == limits
    changed = put(api, made, maxOutputTokens=None, temperature=0.5).json()
    assert (changed["maxOutputTokens"], changed["temperature"], changed["requestsPerMinute"]) == (
        None, 0.5, 60,
    )  # fmt: skip
    half = put(api, made, inputPricePerMillion=None)
    assert half.status_code == 400
    assert half.json()["message"].startswith("inputPricePerMillion: ")


SAME = [
    "https://api.openai.com/v1", "https://api.openai.com/v2/", "https://API.OpenAI.com/v1",
    "HTTPS://api.openai.com:443/v1", "https://api.openai.com./v1",
]  # fmt: skip
OTHER = [
    "http://api.openai.com/v1", "https://api.openai.com:8443/v1", "https://api.openai.com.evil.example/v1",
    "https://evil.example/api.openai.com/v1", "https://api。openai。com/v1", "https://ａpi.openai.com/v1",
    "https://api.openai.com%2eevil.example/v1", "https://api.openai.com@evil.example/v1",
    "https://api.openai.com:443@evil.example/v1", "https://evil.example\\@api.openai.com/v1",
    "https://openai.com/v1", "https://api.оpenai.com/v1", "https://xn--api-5cd.openai.com/v1",
]  # fmt: skip


@pytest.mark.parametrize("url", SAME)
def test_the_key_stays_where_the_host_is_the_same(api, url):
    made = create(api)
    assert put(api, made, baseUrl=url).status_code == 200
    assert stored(api)[0].base_url == url


@pytest.mark.parametrize("url", OTHER)
@pytest.mark.parametrize("credential", ["apiKey", "credentialRef"])
def test_another_host_asks_for_the_key_again_however_it_is_spelled(api, monkeypatch, url, credential):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    made = create(api, DOCUMENTED if credential == "apiKey" else by_reference())
    before = stored(api)

    answer = put(api, made, baseUrl=url)
    assert answer.status_code == 400
    assert answer.json()["message"].startswith((f"{credential}: must be given again", "baseUrl: "))
    tried = api.post(f"{PATH}/{made['id']}/test", json={"baseUrl": url})
    assert tried.status_code == 400
    assert stored(api) == before


def test_another_host_with_its_own_key_is_fine(api):
    made = create(api)
    changed = put(api, made, baseUrl="https://models.example.com/v1", apiKey="sk-theirs").json()
    assert changed["baseUrl"] == "https://models.example.com/v1"
    # Translated differently by different programs, and so another host whatever it becomes.
    create(api, name="sharp", baseUrl="https://straße.example/v1", apiKey=KEY)
    sharp = next(each for each in api.get(PATH).json() if each["name"] == "sharp")
    for url in ("https://strasse.example/v1", "https://xn--strae-oqa.example/v1"):
        assert put(api, sharp, baseUrl=url).status_code == 400


def test_an_editor_sends_the_keys_of_the_server_only_where_they_belong(serve, monkeypatch):
    api = serve(api_key="k")
    editor, tenant_admin = key_of(api, "EDITOR"), key_of(api, "ADMIN", "acme")
    own = by_reference(baseUrl="https://models.example.com/v1", credentialRef="OPENAI_API_KEY")

    for headers in (editor, tenant_admin):
        for body in (
            own,
            {**own, "baseUrl": "http://api.openai.com/v1"},  # without TLS anybody on the way reads it
            {**own, "baseUrl": "https://api.openai.com.evil.example/v1"},
            {**own, "credentialRef": "DOKIMOS_CRED_JUDGE"},
            {**own, "baseUrl": "https://api.openai.com/v1", "credentialRef": "GROQ_API_KEY"},
        ):
            answer = api.post(PATH, json=body, headers=headers)
            assert answer.status_code == 403, body
            assert api.post(f"{PATH}/test", json=body, headers=headers).status_code == 403
    assert stored(api) == []
    made = create(api, by_reference(), editor)
    assert put(api, made, editor, baseUrl=own["baseUrl"], credentialRef="OPENAI_API_KEY").status_code == 403

    # An administrator may, and so may everybody where the operator says so.
    create(api, own, ADMIN, name="admins")
    monkeypatch.setenv("OPENAI_API_KEY_HOSTS", "models.example.com, http://vllm.example:8000")
    create(api, own, editor, name="editors")
    create(api, own, editor, name="inside", baseUrl="http://vllm.example:8000/v1")
    for url in ("https://api.openai.com/v1", "http://models.example.com/v1"):
        refused = api.post(PATH, json={**own, "name": "n", "baseUrl": url}, headers=ADMIN)
        assert refused.status_code == 400
        assert "OPENAI_API_KEY_HOSTS" in refused.json()["message"]
    # What was created before the list is named as a problem, and its key stays here.
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    shown = api.get(f"{PATH}/{made['id']}", headers=ADMIN).json()
    assert "OPENAI_API_KEY_HOSTS does not name that host" in shown["problem"]
    check = api.post(f"{PATH}/{made['id']}/test", headers=ADMIN).json()
    assert check["problem"] == "REFERENCE_UNUSABLE"


PRIVATE = [
    "http://127.0.0.1:8080/", "http://localhost/", "http://2130706433/", "http://0x7f.1/",
    "http://[::1]/", "http://[::ffff:10.0.0.1]/", "http://[64:ff9b::a00:1]/", "http://100.64.0.1/",
    "http://169.254.169.254/latest/meta-data/", "http://127.0.0.1./", "http://①②⑦.⓪.⓪.①/",
]  # fmt: skip


def test_a_private_address_is_refused_when_it_is_stored_and_says_what_allows_it(serve):
    api = serve(api_key="k", encryption_keys=("passphrase",))
    made = create(api, headers=ADMIN)

    for url in PRIVATE:
        body = {**DOCUMENTED, "name": "private", "baseUrl": url}
        for answer in (
            api.post(PATH, json=body, headers=ADMIN),
            api.post(f"{PATH}/test", json=body, headers=ADMIN),
            put(api, made, ADMIN, baseUrl=url, apiKey=KEY),
        ):
            assert answer.status_code == 400, url
            assert answer.json()["message"].startswith("baseUrl: ")
    answer = api.post(PATH, json={**DOCUMENTED, "baseUrl": "http://10.1.2.3:8000/v1"}, headers=ADMIN)
    assert "DOKIMOS_ALLOWED_PRIVATE_HOSTS=10.1.2.3:8000" in answer.json()["message"]
    other = serve(
        api_key="k", encryption_keys=("passphrase",), address_policy=AddressPolicy.parse("10.1.2.3:8000")
    )
    create(other, headers=ADMIN, name="inside", baseUrl="http://10.1.2.3:8000/v1")


def test_names_are_unique_in_a_tenant(serve):
    api = serve(api_key="k", encryption_keys=("passphrase",))
    acme, other = key_of(api, "EDITOR", "acme"), key_of(api, "EDITOR", "other")
    shared = create(api, headers=ADMIN)
    own = create(api, headers=acme)
    create(api, headers=other)

    for headers in (ADMIN, acme):
        answer = api.post(PATH, json=DOCUMENTED, headers=headers)
        assert answer.status_code == 409
        assert "openai-judge" in answer.json()["message"]
    second = create(api, headers=acme, name="second")
    assert put(api, second, acme, name="openai-judge").status_code == 409
    assert put(api, second, acme, name="second").status_code == 200
    assert {each["id"] for each in api.get(PATH, headers=acme).json()} == {
        shared["id"], own["id"], second["id"],
    }  # fmt: skip
    for call in (
        api.get(f"{PATH}/{own['id']}", headers=other),
        put(api, own, other),
        api.post(f"{PATH}/{own['id']}/test", headers=other),
        api.delete(f"{PATH}/{own['id']}", headers=other),
    ):
        assert call.status_code == 404
    assert len(api.get(PATH, headers=ADMIN).json()) == 4


def test_roles_and_shared_rows(serve):
    settings = {"api_key": "k", "encryption_keys": ("passphrase",)}
    api = serve(**settings)
    viewer, editor, acme = key_of(api, "VIEWER"), key_of(api, "EDITOR"), key_of(api, "EDITOR", "acme")
    made = create(api, headers=editor)

    assert api.post(PATH, json=DOCUMENTED).status_code == 401
    for call in (
        api.post(PATH, json={**DOCUMENTED, "name": "n"}, headers=viewer),
        put(api, made, viewer),
        api.post(f"{PATH}/{made['id']}/test", headers=viewer),
        api.delete(f"{PATH}/{made['id']}", headers=viewer),
    ):
        assert call.status_code == 403
        assert call.json() == {"error": "Insufficient role: EDITOR required"}
    assert put(api, made, acme, model="theirs").status_code == 200

    closed = serve(**settings, read_only_shared_rows=True)
    assert put(closed, made, acme).status_code == 403
    assert closed.delete(f"{PATH}/{made['id']}", headers=acme).status_code == 403

    strict = serve(**settings, judging=JudgeSettings(connections_need_admin=True))
    for call in (
        strict.post(PATH, json={**DOCUMENTED, "name": "n"}, headers=editor),
        strict.post(f"{PATH}/test", json={**DOCUMENTED, "name": "n"}, headers=editor),
        strict.post(f"{PATH}/{made['id']}/test", json={"model": "m"}, headers=editor),
        put(strict, made, editor),
        strict.delete(f"{PATH}/{made['id']}", headers=editor),
    ):
        assert call.status_code == 403
        assert call.json() == {"error": "Insufficient role: ADMIN required"}
    assert strict.delete(f"{PATH}/{made['id']}", headers=ADMIN).status_code == 204


def test_the_setting_comes_from_the_environment():
    settings = ServerSettings.from_environment(
        {"DOKIMOS_CONNECTIONS_NEED_ADMIN": "true", "DOKIMOS_JUDGE_REQUEST_SECONDS": "5"}
    )
    assert (settings.judging.connections_need_admin, settings.judging.request_seconds) == (True, 5)


def test_whoever_reads_without_a_key_learns_no_names_of_variables(serve):
    api = serve(api_key="k")
    made = create(api, by_reference(), ADMIN)

    for answer in (api.get(PATH), api.get(f"{PATH}/{made['id']}")):
        assert "OPENAI" not in answer.text
    shown = api.get(f"{PATH}/{made['id']}").json()
    assert (shown["credentialRef"], shown["problem"], shown["hasInlineKey"]) == ("...", None, False)
    assert shown["baseUrl"] == made["baseUrl"]
    assert serve(api_key="k", require_auth_for_reads=True).get(PATH).status_code == 401


def test_the_list_is_sorted_searched_and_paged(api):
    for name, model in (("b", "small"), ("A", "large"), ("c", "SMALL-2")):
        create(api, name=name, model=model)

    def names(**query):
        return [each["name"] for each in api.get(PATH, params=query).json()]

    assert names() == ["b", "A", "c"]
    assert names(sort="name") == ["A", "b", "c"]
    assert names(sort="createdAt,desc") == ["c", "A", "b"]
    assert names(search="small") == ["b", "c"]
    first = api.get(PATH, params={"limit": 2}).json()
    assert [each["name"] for each in first] == ["b", "A"]
    assert names(limit=2, after=first[-1]["id"]) == ["c"]
    assert api.get(PATH, params={"sort": "apiKey"}).status_code == 400


def test_a_key_is_in_no_answer_no_log_and_no_row_of_the_database(api, caplog, tmp_path):
    caplog.set_level("DEBUG")
    made = create(api)
    put(api, made, apiKey=KEY)
    api.post(PATH, json=DOCUMENTED)
    api.post(PATH, json={**DOCUMENTED, "apiKey": [KEY]})
    texts = [api.get(path).text for path in (PATH, f"{PATH}/{made['id']}", "/api/v1/audit-log", "/metrics")]
    assert KEY not in "".join(texts)
    assert KEY not in caplog.text
    assert "passphrase" not in caplog.text
    if (tmp_path / "server.db").exists():
        with sqlite3.connect(tmp_path / "server.db") as database:
            assert KEY not in "".join(database.iterdump())
        database.close()


def test_the_audit_log_says_who_sends_which_key_where(api):
    made = create(api)
    put(api, made, model="gpt-5")
    api.delete(f"{PATH}/{made['id']}")

    rows = api.get("/api/v1/audit-log").json()
    rows = rows["content"] if isinstance(rows, dict) else rows
    found = {row["action"]: row for row in rows if row["action"].startswith("llm-connection")}
    assert set(found) == {"llm-connection.create", "llm-connection.set", "llm-connection.delete"}
    row = found["llm-connection.set"]
    assert (row["target"]["id"], row["target"]["name"]) == (made["id"], "openai-judge")
    assert row["details"] == {
        "host": "https://api.openai.com", "model": "gpt-5", "protocol": "RESPONSES", "credential": "apiKey",
    }  # fmt: skip


@pytest.mark.parametrize("keys", [(), ("another",)])
def test_a_key_that_is_lost_is_named_and_can_be_set_again(serve, keys):
    made = create(serve(encryption_keys=("passphrase",)))
    other = serve(encryption_keys=keys)
    before = stored(other)

    (shown,) = other.get(PATH).json()
    assert "DOKIMOS_ENCRYPTION_KEY" in shown["problem"]
    check = other.post(f"{PATH}/{made['id']}/test").json()
    assert (check["ok"], check["problem"]) == (False, "KEY_LOST")
    assert "openai-judge" in check["message"]
    assert stored(other) == before
    if keys:
        assert put(other, made, apiKey="sk-new").json()["problem"] is None
