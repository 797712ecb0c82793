"""A passphrase that is replaced: nothing is lost, whatever interrupts it, and servers go on."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
import zipfile

import pytest
from sqlalchemy import insert, select, update
from tests.server.db_command import Command, variables_of

from dokimos.server import ServerSettings
from dokimos.server._db.connection_tables import LLM_CONNECTIONS
from dokimos.server._db.database import open_database, read_once, write_once
from dokimos.server._db.ids import new_id
from dokimos.server._services.encryption import secret_rotation, secret_vault
from dokimos.server._services.encryption.secret_vault import SecretVault

pytest.importorskip("cryptography", reason="the extra 'encryption' is not installed")

CONNECTIONS = "/api/v1/llm-connections"
_ALL = select(LLM_CONNECTIONS).order_by(LLM_CONNECTIONS.c.created_at)


@pytest.fixture(autouse=True)
def _quick_keys(monkeypatch):
    monkeypatch.setattr(secret_vault, "_ITERATIONS", 10)


@pytest.fixture
def db(monkeypatch, capsys):
    return Command(monkeypatch, capsys)


@pytest.fixture
def keys(monkeypatch):
    """A function that sets the passphrases of commands."""

    def set_keys(present, *former):
        monkeypatch.setenv("DOKIMOS_ENCRYPTION_KEY", present)
        monkeypatch.setenv("DOKIMOS_FORMER_ENCRYPTION_KEYS", ",".join(former))

    return set_keys


async def _add(settings, count, passphrase="old"):
    """Store connections with the keys `key 0`, `key 1` ..., encrypted with a passphrase."""
    database = open_database(ServerSettings(**settings))
    await database.open()
    vault = SecretVault([passphrase])
    await vault.open(database)
    ids = [new_id() for _ in range(count)]
    rows = [
        {
            "id": each, "name": f"{passphrase} {number}", "base_url": "https://models.example.com",
            "model": "m", "protocol": "RESPONSES", "api_key": vault.seal(f"key {number}", each),
            "created_by": "system", "created_at": number, "updated_at": number,
        }
        for number, each in enumerate(ids)
    ]  # fmt: skip
    await database.write(lambda connection: connection.execute(insert(LLM_CONNECTIONS), rows).rowcount)
    await database.close()
    return ids


def add(*arguments):
    return asyncio.run(_add(*arguments))


def unseal_all(*arguments):
    return asyncio.run(_unseal_all(*arguments))


def stored(settings):
    return read_once(ServerSettings(**settings), lambda connection: connection.execute(_ALL).all())


async def _unseal_all(settings, *passphrases):
    """Return the keys of all connections, None for those that these passphrases do not open."""
    database = open_database(ServerSettings(**settings))
    await database.open()
    vault = SecretVault(passphrases)
    await vault.open(database)
    rows = await database.read(lambda connection: connection.execute(_ALL).all())
    await database.close()
    return [None if vault.find_problem(row.api_key) else vault.unseal(row.api_key, row.id) for row in rows]


def test_all_secrets_are_encrypted_with_the_new_passphrase(database_settings, db, keys):
    add(database_settings, 250)
    keys("new", "old")

    text = db.succeed(database_settings, "rotate-key")
    assert "encrypted anew: 250 LLM connections" in text
    assert "The former passphrases are no longer needed." in text
    assert unseal_all(database_settings, "new") == [f"key {number}" for number in range(250)]
    before = stored(database_settings)
    assert "encrypted anew: nothing; 250 already were" in db.succeed(database_settings, "rotate-key")
    assert stored(database_settings) == before
    assert "key 1" not in text


def test_a_key_that_cannot_be_read_is_named_and_all_others_are_rotated(database_settings, db, keys):
    ids = add(database_settings, 3)
    add(database_settings, 1, "forgotten")
    damaged = (
        update(LLM_CONNECTIONS).where(LLM_CONNECTIONS.c.id == ids[1])
        .values(api_key=LLM_CONNECTIONS.c.api_key + "x")
    )  # fmt: skip
    write_once(ServerSettings(**database_settings), lambda connection: connection.execute(damaged).rowcount)
    before = {row.name: row.api_key for row in stored(database_settings)}
    keys("new", "old")

    code, text = db(database_settings, "rotate-key")
    assert code == 1
    assert "encrypted anew: 2 LLM connections" in text
    assert f"cannot be read: LLM connection 'old 1' ({ids[1]}): The stored secret is damaged" in text
    assert "cannot be read: LLM connection 'forgotten 0'" in text
    assert "no longer needed" not in text
    after = {row.name: row.api_key for row in stored(database_settings)}
    assert {name for name in before if before[name] == after[name]} == {"old 1", "forgotten 0"}

    keys("new", "old", "forgotten")  # the right passphrase has been found again
    assert "encrypted anew: 1 LLM connection;" in db(database_settings, "rotate-key")[1]


def test_without_a_passphrase_it_says_what_to_set(database_settings, db, monkeypatch):
    monkeypatch.delenv("DOKIMOS_ENCRYPTION_KEY", raising=False)
    code, text = db(database_settings, "rotate-key")
    assert code == 2
    assert "DOKIMOS_ENCRYPTION_KEY" in text
    assert "DOKIMOS_FORMER_ENCRYPTION_KEYS" in text


def test_a_database_that_is_not_up_to_date_is_refused(empty_database_settings, db, keys):
    keys("new", "old")
    code, text = db(empty_database_settings, "rotate-key")
    assert code == 2
    assert "dokimos db upgrade" in text or "no database" in text


@pytest.mark.parametrize("database_settings", ["postgresql"], indirect=True)
def test_servers_that_know_both_passphrases_go_on(serve, database_settings, db, keys):
    """The passphrases in the order of a rotation without a pause: all know both before one is replaced."""
    body = {"name": "one", "baseUrl": "http://127.0.0.1:9", "model": "m", "apiKey": "sk-one"}
    old = serve(encryption_keys=("old", "new"))
    made = old.post(CONNECTIONS, json=body).json()
    keys("new", "old")
    assert "encrypted anew: 1 LLM connection" in db.succeed(database_settings, "rotate-key")

    for server in (old, serve(encryption_keys=("new", "old")), serve(encryption_keys=("new",))):
        assert server.get(f"{CONNECTIONS}/{made['id']}").json()["problem"] is None
        check = server.post(f"{CONNECTIONS}/{made['id']}/test").json()
        assert check["problem"] == "UNREACHABLE"  # and so it has a key


def test_a_secret_that_somebody_sets_meanwhile_stays(database_settings):
    (connection_id,) = add(database_settings, 1)
    newer, step = asyncio.run(_rotate_while_it_changes(database_settings, connection_id))
    assert (step.seen, step.changed) == (1, 0)
    assert stored(database_settings)[0].api_key == newer


async def _rotate_while_it_changes(database_settings, connection_id):
    database = open_database(ServerSettings(**database_settings))
    await database.open()
    vault = SecretVault(["new", "old"])
    await vault.open(database)
    newer = vault.seal("newer", connection_id)
    unseal = vault.unseal

    def rotate(connection):
        def replace_and_unseal(sealed, owner):
            connection.execute(update(LLM_CONNECTIONS).values(api_key=newer))
            return unseal(sealed, owner)

        vault.unseal = replace_and_unseal
        column = secret_rotation.SEALED_COLUMNS[1]
        return secret_rotation._rotate_some(vault, column, None, connection)

    step = await database.write(rotate)
    await database.close()
    return newer, step


COMMAND = """
import sys
from dokimos.server._services.encryption import secret_rotation, secret_vault
secret_vault._ITERATIONS = 10
secret_rotation.BATCH_ROWS = 5
from dokimos._cli.main import run_command
print("begins", flush=True)
sys.exit(run_command(["db", "rotate-key"]))
"""


def test_a_rotation_that_is_killed_loses_nothing_and_is_continued(database_settings):
    count = 400
    add(database_settings, count)
    environment = {
        **os.environ, **variables_of(database_settings),
        "DOKIMOS_ENCRYPTION_KEY": "new", "DOKIMOS_FORMER_ENCRYPTION_KEYS": "old",
    }  # fmt: skip
    chance = random.Random(7)
    for _ in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND], env=environment, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "begins\n"
        time.sleep(chance.uniform(0.1, 0.9))  # until it is somewhere in the middle; wherever that is
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert unseal_all(database_settings, "new", "old") == [f"key {n}" for n in range(count)]
    ended = subprocess.run(
        [sys.executable, "-c", COMMAND], env=environment, capture_output=True, text=True, check=True
    )
    assert "no longer needed" in ended.stdout
    assert unseal_all(database_settings, "new") == [f"key {n}" for n in range(count)]


def test_the_audit_log_names_the_rotation(serve, database_settings, db, keys):
    api = serve(encryption_keys=("old",))
    api.post(
        CONNECTIONS,
        json={"name": "one", "baseUrl": "http://127.0.0.1:9", "model": "m", "apiKey": "sk-one"},
    )
    keys("new", "old")
    if "data_dir" in database_settings:
        pytest.skip("SQLite is for one process: the command is tested without the server")
    db.succeed(database_settings, "rotate-key")
    rows = api.get("/api/v1/audit-log").json()
    assert "db.rotate-key" in json.dumps(rows)


def test_a_backup_takes_connections_along_with_their_keys_still_encrypted(
    database_settings, new_database, db, tmp_path
):
    add(database_settings, 2)
    rows = stored(database_settings)
    file, project = tmp_path / "backup.zip", tmp_path / "export.zip"
    db.succeed(database_settings, "backup", file)
    db.succeed(database_settings, "export", "--with-keys", project)

    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(project) as exported:
        assert not [name for name in archive.namelist() if b"key 0" in archive.read(name)]
        assert not [name for name in exported.namelist() if b"models.example.com" in exported.read(name)]
    for kind in ("sqlite", "postgresql"):
        other = new_database(kind)
        db.succeed(other, "restore", file)
        assert unseal_all(other, "old") == ["key 0", "key 1"]
        assert [tuple(row) for row in stored(other)] == [tuple(row) for row in rows]
