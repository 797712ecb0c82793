"""Secrets of webhooks: encrypted where there is a key, never shown, told where they are lost."""

import base64
import sqlite3

import pytest
from sqlalchemy import select, update
from tests.server.alert_receiver import (
    begin,
    deliveries,
    fail,
    hooks,
    open_receiver,
    register,
    wait_for_delivery,
    write,
)

from dokimos.errors import ConfigurationError, MissingExtraError
from dokimos.server import ServerSettings
from dokimos.server._db.alert_tables import ALERT_DELIVERIES, ALERT_WEBHOOKS
from dokimos.server._services.encryption import secret_vault
from dokimos.server._services.encryption.secret_vault import SecretLost, SecretVault

pytest.importorskip("cryptography", reason="the extra 'encryption' is not installed")

SECRET = "s3cret-value"


@pytest.fixture(autouse=True)
def _quick_keys(monkeypatch):
    monkeypatch.setattr(secret_vault, "_ITERATIONS", 10)


@pytest.fixture
def receiver():
    with open_receiver() as receiver:
        yield receiver


def read_secrets(api):
    query = select(ALERT_WEBHOOKS.c.secret).order_by(ALERT_WEBHOOKS.c.id)
    return api.portal.call(api.app.state.database.read, lambda c: c.execute(query).scalars().all())


def test_a_secret_is_encrypted_and_still_signs(serve, receiver):
    api = serve(encryption_keys=("passphrase",))
    project = begin(api)
    hook = register(api, project, receiver.url, secret=SECRET)
    fail(api)
    (request,) = receiver.wait_for(1)

    (sealed,) = read_secrets(api)
    assert sealed.startswith("v1:")
    assert SECRET not in sealed
    assert SECRET.encode() not in base64.b64decode(sealed.split(":")[2])
    assert "X-Dokimos-Signature" in request.headers
    assert api.get(hooks(project, hook)).json()["problem"] is None


def test_a_server_that_is_started_again_and_a_second_one_read_it(serve, receiver):
    first = serve(encryption_keys=("passphrase",))
    second = serve(encryption_keys=("passphrase",))
    project = begin(first)
    hooks_ = [register(each, project, receiver.url, secret=SECRET) for each in (first, second)]
    third = serve(encryption_keys=("passphrase",))

    for api in (first, second, third):
        for hook in hooks_:
            assert api.post(hooks(project, hook, "test")).json()["status"] == "DELIVERED"
        assert [each["problem"] for each in api.get(hooks(project)).json()] == [None, None]


@pytest.mark.parametrize("keys", [(), ("another",)])
def test_a_lost_secret_is_told_and_nothing_is_sent_unsigned(serve, receiver, keys):
    api = serve(encryption_keys=("passphrase",))
    project = begin(api)
    hook = register(api, project, receiver.url, secret=SECRET)
    sealed = read_secrets(api)
    other = serve(encryption_keys=keys)

    (shown,) = other.get(hooks(project)).json()
    assert "DOKIMOS_ENCRYPTION_KEY" in shown["problem"]
    assert shown["hasSecret"] is True
    attempt = other.post(hooks(project, hook, "test")).json()
    assert (attempt["status"], attempt["lastError"]) == ("DEAD", shown["problem"])
    assert receiver.requests == []
    assert read_secrets(other) == sealed  # it can still be read with the former key

    other.put(hooks(project, hook), json={"url": receiver.url, "secret": "new"})
    assert other.get(hooks(project, hook)).json()["problem"] is None
    assert other.post(hooks(project, hook, "test")).json()["status"] == "DELIVERED"


def test_alerts_wait_for_a_lost_secret(serve, receiver, monkeypatch):
    api = serve(encryption_keys=("passphrase",))
    project = begin(api)
    hook = register(api, project, receiver.url, secret=SECRET)
    write(api, update(ALERT_WEBHOOKS).values(secret=ALERT_WEBHOOKS.c.secret + "x"))
    fail(api)
    shown = wait_for_delivery(api, project, hook, attempts=1)
    assert (shown["status"], shown["lastError"]) == (
        "PENDING", "The stored secret is damaged; set it again.",
    )  # fmt: skip
    assert receiver.requests == []

    api.put(hooks(project, hook), json={"url": receiver.url, "secret": SECRET})
    write(api, update(ALERT_DELIVERIES).values(next_attempt_at=0))
    api.portal.call(api.app.state.alerts.wake)
    wait_for_delivery(api, project, hook, status="DELIVERED")
    assert len(deliveries(api, project, hook)) == 1


def test_a_new_key_encrypts_everything_anew(serve, receiver):
    plain = serve()
    project = begin(plain)
    hook = register(plain, project, receiver.url, secret=SECRET)
    assert read_secrets(plain) == [f"plain:{SECRET}"]

    first = serve(encryption_keys=("first",))
    (with_first,) = read_secrets(first)
    assert with_first.startswith("v1:")
    second = serve(encryption_keys=("second", "first"))
    (with_second,) = read_secrets(second)
    assert with_second.split(":")[1] != with_first.split(":")[1]
    alone = serve(encryption_keys=("second",))
    assert alone.post(hooks(project, hook, "test")).json()["status"] == "DELIVERED"
    assert read_secrets(alone) == [with_second]


async def test_a_secret_can_be_read_in_its_row_only():
    vault = SecretVault(["passphrase"])
    vault._keys, vault._present = {"key": b"k" * 32}, "key"
    sealed = vault.seal(SECRET, "one")

    assert vault.unseal(sealed, "one") == SECRET
    assert sealed != vault.seal(SECRET, "one")
    with pytest.raises(SecretLost):
        vault.unseal(sealed, "two")


def test_settings_of_encryption(monkeypatch):
    def keys(**variables):
        return ServerSettings.from_environment(variables).encryption_keys

    assert keys() == ()
    assert keys(DOKIMOS_ENCRYPTION_KEY="new") == ("new",)
    both = {"DOKIMOS_ENCRYPTION_KEY": "new", "DOKIMOS_FORMER_ENCRYPTION_KEYS": "old, older"}
    assert keys(**both) == ("new", "old", "older")
    assert "older" not in repr(ServerSettings.from_environment(both))
    with pytest.raises(ConfigurationError, match="DOKIMOS_ENCRYPTION_KEY"):
        keys(DOKIMOS_FORMER_ENCRYPTION_KEYS="old")

    def find_nothing(name):
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr("importlib.import_module", find_nothing)
    with pytest.raises(MissingExtraError, match=r"dokimos\[encryption\]"):
        SecretVault(["passphrase"])
    SecretVault()


def test_a_secret_is_in_no_answer_and_no_log(serve, receiver, caplog, tmp_path):
    caplog.set_level("DEBUG")
    api = serve(encryption_keys=("passphrase",))
    project = begin(api)
    hook = register(api, project, receiver.url, secret=SECRET)
    receiver.answers = [(500, {})]
    fail(api)
    wait_for_delivery(api, project, hook, attempts=1)
    for path in (hooks(project), hooks(project, hook), hooks(project, hook, "deliveries")):
        assert SECRET not in api.get(path).text
    assert SECRET not in caplog.text
    assert "passphrase" not in caplog.text
    if (tmp_path / "server.db").exists():
        with sqlite3.connect(tmp_path / "server.db") as database:
            assert SECRET not in "".join(database.iterdump())
        database.close()
