"""Archives of a server's database: what they hold, what they give back, and what goes wrong with them."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from tests.server.db_command import (
    KINDS,
    Command,
    call,
    fill,
    open_server,
    quote,
    read_everything,
    variables_of,
)
from tests.server.killed_clients import Progress, RunClient, sending
from tests.server.server_process import execute, wait_until

from dokimos.server import ServerSettings
from dokimos.server._admin.export import write_archive
from dokimos.server._admin.selection import Selection
from dokimos.server._admin.table_contents import CONTENTS, HARMLESS_COLUMNS, SECRET_COLUMNS, Content
from dokimos.server._db.migrate import HEAD
from dokimos.server._db.schema import METADATA

IS_LONG = "DOKIMOS_LONG_TESTS" in os.environ
KILLS = 40 if IS_LONG else 2
PAIRS = [(source, target) for source in KINDS for target in KINDS if IS_LONG or source != target]
"""Of kinds of databases: those of two kinds read and write both."""


@pytest.fixture
def db(monkeypatch, capsys):
    return Command(monkeypatch, capsys)


@pytest.fixture
def archive(tmp_path):
    return tmp_path / "archive.zip"


def read_manifest(path):
    with zipfile.ZipFile(path) as file:
        return json.loads(file.read("manifest.json"))


def rewrite(path, change):
    """Write an archive again with members that a function has changed."""
    with zipfile.ZipFile(path) as file:
        members = {info.filename: file.read(info) for info in file.infolist()}
    change(members)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)


def change_manifest(path, **values):
    def change(members):
        manifest = json.loads(members["manifest.json"]) | values
        members["manifest.json"] = json.dumps(manifest).encode()

    rewrite(path, change)


def table_counts(settings):
    """The number of rows of each table, none where there are no tables."""
    counts = {}
    for name in METADATA.tables:
        with suppress(Exception):
            counts[name] = execute(settings, f"SELECT count(*) FROM {name}")[0][0]
    counts.pop("audit_log", None)  # names the restore itself
    return {name: count for name, count in counts.items() if count}


def test_every_table_is_classified():
    assert CONTENTS.keys() == METADATA.tables.keys()


def test_no_column_that_sounds_like_a_secret_is_exported_by_accident():
    words = ("secret", "token", "hash", "key", "password", "credential")
    suspicious = {
        f"{table.name}.{column.name}"
        for table in METADATA.sorted_tables
        if CONTENTS[table.name] in (Content.DATA, Content.COMPARISON)
        for column in table.columns
        if any(word in column.name for word in words)
    }
    secret = {f"{table}.{column}" for table, columns in SECRET_COLUMNS.items() for column in columns}
    assert suspicious == secret | HARMLESS_COLUMNS


@pytest.mark.parametrize(("kind", "other"), PAIRS)
def test_an_import_gives_the_answers_that_the_source_gave(
    copy_filled, new_database, db, archive, kind, other
):
    source, target = copy_filled(kind), new_database(other)
    with open_server(source) as api:
        db.succeed(source, "export", archive)  # while the server runs
        before = read_everything(api)
    db.succeed(target, "import", archive)
    db.succeed(target, "check")
    with open_server(target) as api:
        assert read_everything(api) == before


@pytest.mark.parametrize(("kind", "other"), PAIRS)
def test_a_restore_gives_the_answers_that_the_source_gave(
    copy_filled, new_database, db, archive, kind, other
):
    source, target = copy_filled(kind), new_database(other)
    with open_server(source, api_key="admin") as api:
        api.headers["Authorization"] = "Bearer admin"
        key = call(api, "POST", "/api-keys", {"name": "ci", "role": "EDITOR"})["key"]
        db.succeed(source, "backup", archive)
        before = read_everything(api)
    said = db.succeed(target, "restore", archive)
    assert "revoke again those that were revoked since then" in said
    db.succeed(target, "check")
    with open_server(target, api_key="admin") as api:
        api.headers["Authorization"] = "Bearer admin"
        assert read_everything(api) == before
        api.headers["Authorization"] = f"Bearer {key}"
        call(api, "POST", "/projects/new/runs", {"experimentName": "qa"})


def test_a_project_goes_with_the_dataset_versions_of_its_runs_and_nothing_else(
    new_database, filled_database, db, archive
):
    of_all = ["/api/v1/datasets", "/api/v1/projects", "/api/v1/review-queue"]
    with open_server(filled_database) as api:
        items = [{"inputs": {"n": n}} for n in range(5)]
        call(api, "POST", f"/datasets/{quote('chat set')}/versions", {"items": items})
        call(api, "POST", "/datasets", {"name": "apart"})
        projects = read_everything(api, leave_out=of_all)
    db.succeed(filled_database, "export", "--project", "chat", archive)
    target = new_database("sqlite")
    db.succeed(target, "import", archive)
    db.succeed(target, "check")
    with open_server(target) as api:
        assert [each["name"] for each in call(api, "GET", "/projects")] == ["chat"]
        (dataset,) = call(api, "GET", "/datasets")
        assert (dataset["name"], dataset["latestVersion"], dataset["latestItemCount"]) == ("chat set", 2, 3)
        answers = read_everything(api, leave_out=of_all)
    shared = answers.keys() & projects.keys()
    assert len(shared) > 10
    assert {url: answers[url] for url in shared} == {url: projects[url] for url in shared}
    assert b"other/project" not in archive.read_bytes()
    # What the first export left out comes with the next one.
    db.succeed(filled_database, "export", archive, "--force")
    assert "were there already" in db.succeed(target, "import", archive)
    db.succeed(target, "check")
    with open_server(target) as api:
        versions = {each["name"]: each["latestVersion"] for each in call(api, "GET", "/datasets")}
    assert versions == {"chat set": 3, "other/project set": 2, "apart": None}


def test_a_project_that_does_not_exist_is_named(filled_database, db, archive):
    code, text = db(filled_database, "export", "--project", "chatt", archive)
    assert code == 2
    assert "There is no project 'chatt'. The database has: 'chat', 'other/project'." in text
    assert list(archive.parent.glob("archive*")) == []


def test_an_export_has_no_keys_unless_they_are_asked_for(new_database, filled_database, db, archive):
    with open_server(filled_database, api_key="admin") as api:
        api.headers["Authorization"] = "Bearer admin"
        key = call(api, "POST", "/api-keys", {"name": "ci", "role": "EDITOR"})["key"]
    db.succeed(filled_database, "export", archive)
    assert not {"api_keys", "sessions"} & {table["name"] for table in read_manifest(archive)["tables"]}
    target = new_database("sqlite")
    code, text = db(target, "import", "--with-keys", archive)
    assert code == 2
    assert "holds no keys" in text

    db.succeed(filled_database, "export", "--with-keys", archive, "--force")
    db.succeed(target, "import", archive)
    assert "api_keys" not in table_counts(target)
    assert "1 API key\n" in db.succeed(target, "import", "--with-keys", archive)
    with open_server(target) as api:
        assert api.post("/api/v1/projects/new/runs", json={"experimentName": "qa"}).status_code == 401
        api.headers["Authorization"] = f"Bearer {key}"
        call(api, "POST", "/projects/new/runs", {"experimentName": "qa"})


def test_what_was_deleted_is_not_exported(new_database, database_settings, db, archive):
    with open_server(database_settings) as api:
        runs = fill(api)
        fill(api, "gone")
        call(api, "DELETE", f"/runs/{runs[1]}")
        call(api, "DELETE", f"/datasets/{quote('chat set')}")
        call(api, "DELETE", "/projects/gone")
        db.succeed(database_settings, "export", archive)
    target = new_database("sqlite")
    db.succeed(target, "import", archive)
    db.succeed(target, "check")
    assert execute(target, "SELECT count(*) FROM runs WHERE deleted_at IS NOT NULL") == [(0,)]
    assert execute(target, "SELECT count(*) FROM runs") == [(3,)]
    assert execute(target, "SELECT count(*) FROM items WHERE dataset_item_id IS NOT NULL") == [(0,)]


def test_an_import_can_be_repeated(new_database, filled_database, db, archive):
    db.succeed(filled_database, "export", "--with-comparisons", archive)
    target = new_database("sqlite" if "database_url" in filled_database else "postgresql")
    db.succeed(target, "import", archive)
    counts = table_counts(target)
    text = db.succeed(target, "import", archive)
    assert "imported" in text
    assert text.splitlines()[0].endswith("nothing")
    assert table_counts(target) == counts
    db.succeed(target, "check")


def test_what_differs_is_refused_by_its_id_or_left_as_it_is(new_database, filled_database, db, archive):
    target = new_database("sqlite" if "database_url" in filled_database else "postgresql")
    db.succeed(filled_database, "export", archive)
    db.succeed(target, "import", archive)
    with open_server(filled_database) as api:
        (run,) = [each["id"] for each in runs_of(api, "chat") if each["status"] == "RUNNING"]
        call(api, "POST", f"/runs/{run}/items", {"items": [{"inputs": {"n": 9}, "evalResults": []}]})
        call(api, "PATCH", f"/runs/{run}", {"status": "SUCCESS"})
        new = call(api, "POST", "/projects/chat/runs", {"experimentName": "qa"})["runId"]
        call(api, "POST", f"/runs/{new}/items", {"items": [{"inputs": {"n": 1}, "evalResults": []}]})
    db.succeed(filled_database, "export", archive, "--force")
    before = table_counts(target)
    code, text = db(target, "import", archive)
    assert code == 2
    assert f"The run {run} exists already, with another status" in text
    assert "--skip-existing" in text
    assert table_counts(target) == before

    text = db.succeed(target, "import", "--skip-existing", archive)
    assert "differ and were skipped: 1 run," in text
    db.succeed(target, "check")
    with open_server(target) as api:
        assert call(api, "GET", f"/runs/{run}")["totalItems"] == 4  # as it was
        assert call(api, "GET", f"/runs/{new}")["totalItems"] == 1
        (experiment,) = call(api, "GET", "/projects/chat/experiments")
        assert experiment["latestRun"]["runId"] == new


def runs_of(api, project):
    (experiment,) = call(api, "GET", f"/projects/{quote(project)}/experiments")
    return call(api, "GET", f"/experiments/{experiment['id']}/runs")


def test_a_name_that_another_row_has_is_refused_with_both_ids(new_database, filled_database, db, archive):
    db.succeed(filled_database, "export", "--project", "chat", archive)
    target = new_database("postgresql" if "data_dir" in filled_database else "sqlite")
    with open_server(target) as api:
        call(api, "POST", "/projects/chat/runs", {"experimentName": "qa"})
        (project,) = call(api, "GET", "/projects")
    before = table_counts(target)
    code, text = db(target, "import", archive)
    assert code == 2
    assert "has the same name 'chat' as the row" in text
    assert project["id"] in text
    assert table_counts(target) == before


def test_an_import_moves_the_last_activity_of_what_is_there_and_never_back(
    new_database, filled_database, db, archive
):
    def read_times(settings):
        projects = "SELECT name, last_activity_at, shared_activity_at FROM projects ORDER BY name"
        datasets = "SELECT name, updated_at FROM datasets ORDER BY name"
        return [execute(settings, query) for query in (projects, datasets)]

    target = new_database("sqlite" if "database_url" in filled_database else "postgresql")
    db.succeed(filled_database, "export", archive)
    db.succeed(target, "import", archive)
    with open_server(filled_database) as api:
        call(api, "POST", "/projects/chat/runs", {"experimentName": "qa"})
        call(api, "POST", f"/datasets/{quote('chat set')}/versions", {"items": [{"inputs": {"n": 7}}]})
    earlier = read_times(target)
    assert read_times(filled_database) > earlier
    newer = archive.with_name("newer.zip")
    db.succeed(filled_database, "export", newer)
    db.succeed(target, "import", newer)
    assert read_times(target) == read_times(filled_database)
    db.succeed(target, "import", archive)
    assert read_times(target) == read_times(filled_database)


def test_a_server_on_sqlite_must_be_stopped_first(tmp_path, db, archive, process_on):
    settings = {"data_dir": tmp_path / "data"}
    process_on(settings)
    db.succeed(settings, "backup", archive)  # reads only
    db.succeed(settings, "check")
    for command in (["import", archive], ["restore", archive], ["upgrade"]):
        code, text = db(settings, *command)
        assert code == 2, command
        assert "A server or another command (process" in text
        assert "stop the server" in text


@pytest.fixture
def process_on():
    """A function that starts a server in a process of its own, on a database of the test's."""
    from tests.server.server_process import Process

    started = []

    def start(settings):
        started.append(Process(settings))
        return started[-1]

    yield start
    for each in started:
        each.kill()


def test_an_import_into_a_postgresql_that_is_in_use(copy_filled, new_database, db, archive):
    source, target = copy_filled("sqlite"), new_database("postgresql")
    db.succeed(source, "export", "--project", "chat", archive)
    with open_server(target) as api:
        run = call(api, "POST", "/projects/mine/runs", {"experimentName": "qa"})["runId"]
        assert [each["name"] for each in call(api, "GET", "/projects")] == ["mine"]
        db.succeed(target, "import", archive)
        assert {each["name"] for each in call(api, "GET", "/projects")} == {"mine", "chat"}
        call(api, "POST", f"/runs/{run}/items", {"items": [{"inputs": {"n": 9}, "evalResults": []}]})
        call(api, "POST", "/projects/chat/runs", {"experimentName": "qa"})
    db.succeed(target, "check")


def test_a_backup_under_load_is_one_moment(new_database, database_settings, process, db, archive):
    progress = Progress()
    clients = [RunClient(number, progress) for number in range(3)]
    server = process()
    with sending(clients, server):
        for _ in range(3):
            progress.wait_for(15)
            db.succeed(database_settings, "backup", archive, "--force")
        server.kill()
    target = new_database("sqlite")
    db.succeed(target, "restore", archive)
    db.succeed(target, "check")
    with open_server(target) as api:
        runs = [
            call(api, "GET", f"/runs/{each['id']}?size=2000")
            for client in clients
            for experiment in call(api, "GET", f"/projects/{client.name}/experiments")
            for each in call(api, "GET", f"/experiments/{experiment['id']}/runs")
        ]
    assert runs
    for run in runs:
        assert run["totalItems"] == len(run["items"]["content"])
        assert run["totalItems"] % 3 == 0


def test_a_restore_refuses_a_database_with_rows_and_replaces_it_on_demand(
    new_database, filled_database, db, archive
):
    db.succeed(filled_database, "backup", archive)
    target = new_database("sqlite" if "data_dir" in filled_database else "postgresql")
    with open_server(target) as api:
        call(api, "POST", "/projects/mine/runs", {"experimentName": "qa"})
    code, text = db(target, "restore", archive)
    assert code == 2
    assert "is not empty" in text
    assert "--replace" in text
    assert table_counts(target)["projects"] == 1
    db.succeed(target, "restore", "--replace", archive)
    assert table_counts(target) == table_counts(filled_database)
    db.succeed(target, "check")
    with open_server(target) as api:
        assert {each["name"] for each in call(api, "GET", "/projects")} == {"chat", "other/project"}


@pytest.mark.skipif(sys.platform == "win32", reason="needs the permissions of POSIX")
def test_a_restored_file_is_for_those_alone_who_could_read_the_one_before(new_database, db, archive):
    """It holds keys as hashes, and the secrets of webhooks."""
    settings, empty = new_database("sqlite"), new_database("sqlite")
    with open_server(settings) as api:
        call(api, "POST", "/projects/mine/runs", {"experimentName": "qa"})
    file = settings["data_dir"] / "server.db"
    db.succeed(settings, "backup", archive)
    for mode in (0o600, 0o640):
        file.chmod(mode)
        db.succeed(settings, "restore", "--replace", archive)
        assert file.stat().st_mode & 0o777 == mode
    db.succeed(empty, "restore", archive)
    assert (empty["data_dir"] / "server.db").stat().st_mode & 0o777 == 0o600


def test_a_postgresql_that_a_server_is_using_is_not_replaced(
    new_database, filled_database, db, archive, monkeypatch
):
    db.succeed(filled_database, "backup", archive)
    target = new_database("postgresql")
    listeners = (
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name = 'dokimos events'"
    )
    with open_server(target) as api, monkeypatch.context() as patch:
        patch.setattr("dokimos.server._admin.databases._STOPPING_SECONDS", 0.0)
        call(api, "POST", "/projects/mine/runs", {"experimentName": "qa"})
        wait_until(lambda: execute(target, listeners) == [(1,)], "the server listens")
        code, text = db(target, "restore", "--replace", archive)
        assert (code, "1 server is using" in text) == (2, True)
        assert [each["name"] for each in call(api, "GET", "/projects")] == ["mine"]
    db.succeed(target, "restore", "--replace", archive)
    assert table_counts(target) == table_counts(filled_database)


def test_a_backup_leaves_sessions_out(database_settings, db, archive):
    with open_server(database_settings, api_key="admin") as api:
        headers = {"Sec-Fetch-Site": "same-origin"}
        assert api.post("/api/v1/session", json={"key": "admin"}, headers=headers).status_code < 300
    assert table_counts(database_settings)["sessions"] == 1
    db.succeed(database_settings, "backup", archive)
    assert "sessions" not in {table["name"] for table in read_manifest(archive)["tables"]}


def test_a_backup_may_be_read_by_its_owner_alone_and_replaces_nothing_unasked(filled_database, db, archive):
    db.succeed(filled_database, "backup", archive)
    if sys.platform != "win32":
        assert archive.stat().st_mode & 0o777 == 0o600
    content = archive.read_bytes()
    code, text = db(filled_database, "backup", archive)
    assert code == 2
    assert "exists already" in text
    assert archive.read_bytes() == content
    assert [path.name for path in archive.parent.iterdir() if "partial" in path.name] == []


def test_an_export_is_not_restored_and_a_backup_can_be_imported(new_database, filled_database, db, archive):
    db.succeed(filled_database, "export", archive)
    code, text = db(new_database("sqlite"), "restore", archive)
    assert code == 2
    assert "dokimos db import" in text
    db.succeed(filled_database, "backup", archive, "--force")
    target = new_database("sqlite")
    db.succeed(target, "import", archive)
    db.succeed(target, "check")


def test_what_is_in_a_file_is_counted_in_words(filled_database, db, archive):
    text = db.succeed(filled_database, "backup", archive)
    assert re.search(r" \([\d.]+ KiB\): (.*, )?\d+ audit log entries, (.*, )?2 projects, ", text)
    text = db.succeed(filled_database, "export", "--project", "chat", archive, "--force")
    assert re.search(r" KiB\): (.*, )?1 project, ", text)


def test_damaged_files_are_refused_and_change_nothing(new_database, filled_database, db, archive):
    db.succeed(filled_database, "backup", archive)
    target = new_database("postgresql" if "data_dir" in filled_database else "sqlite")
    db.succeed(target, "upgrade")
    content = archive.read_bytes()
    pick = random.Random(5)
    places = [pick.randrange(len(content)) for _ in range(KILLS)]
    for place in places:
        archive.write_bytes(content[:place])
        refuses(db, target, archive)
    for place in places:
        changed = bytearray(content)
        changed[place] ^= 1 << pick.randrange(8)
        archive.write_bytes(changed)
        code, text = db(target, "restore", archive)
        if code == 0:  # a bit that means nothing, such as that of a time
            db.succeed(target, "check")
            assert table_counts(target) == table_counts(filled_database)
            db.succeed(target, "restore", "--replace", empty_backup(new_database, db, archive.parent))
        else:
            assert code == 2, text
            assert str(archive) in text
        assert table_counts(target) == {}


def empty_backup(new_database, db, folder):
    path = folder / "empty.zip"
    if not path.exists():
        settings = new_database("sqlite")
        db.succeed(settings, "upgrade")
        db.succeed(settings, "backup", path)
    return path


def refuses(db, target, archive, *words):
    """Both commands refuse the file, name it, and change nothing."""
    before = table_counts(target)
    for command in ("restore", "import"):
        code, text = db(target, command, archive)
        assert code == 2, text
        assert str(archive) in text
        assert "Traceback" not in text
        for word in words:
            assert word in text
    assert table_counts(target) == before


def test_files_that_are_something_else_are_refused(new_database, db, archive):
    target = new_database("sqlite")
    refuses(db, target, archive, "does not exist")
    archive.write_bytes(b"")
    refuses(db, target, archive, "not an archive of dokimos")
    archive.write_text("hello")
    refuses(db, target, archive, "not an archive of dokimos")
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a.txt", "a")
    refuses(db, target, archive, "not an archive of dokimos")
    assert table_counts(target) == {}


def lines_of(members, table):
    return members[f"tables/{table}.jsonl"].splitlines(keepends=True)


def resign(members):
    """Give a changed archive the checksums and counts of what it holds now."""
    import hashlib

    manifest = json.loads(members["manifest.json"])
    for table in manifest["tables"]:
        content = members[f"tables/{table['name']}.jsonl"]
        table["sha256"] = hashlib.sha256(content).hexdigest()
        table["rows"] = content.count(b"\n")
    members["manifest.json"] = json.dumps(manifest).encode()


def repeat_a_row(members):
    lines = lines_of(members, "items")
    members["tables/items.jsonl"] = b"".join([*lines, lines[0]])
    resign(members)


def drop_the_runs(members):
    members["tables/runs.jsonl"] = b""
    resign(members)


def put(value, table="runs", place=0):
    def change(members):
        first, *rest = lines_of(members, table)
        row = json.loads(first)
        row[place] = value
        members[f"tables/{table}.jsonl"] = json.dumps(row).encode() + b"\n" + b"".join(rest)
        resign(members)

    return change


def put_line(line):
    def change(members):
        members["tables/runs.jsonl"] += line + b"\n"
        resign(members)

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (repeat_a_row, ["tables/items.jsonl"]),
        (drop_the_runs, []),
        (lambda members: members.update({"tables/runs.jsonl": b""}), ["damaged", "tables/runs.jsonl"]),
        (lambda members: members.pop("tables/runs.jsonl"), ["damaged", "tables/runs.jsonl"]),
        (put("not an id"), ["'not an id' is not an id"]),
        (put(7), ["7 is not an id"]),
        (put(None), ["tables/runs.jsonl"]),
        (put({"a": 1}, "items", 5), ["tables/items.jsonl"]),
        (put("text", "items", 2), ["tables/items.jsonl"]),
        (put(2**70, "items", 2), ["tables/items.jsonl"]),
        (put_line(b"{}"), ["is not an array of"]),
        (put_line(b"[1],[2]"), ["is not an array of"]),
        (put_line(b"[1"), ["is not JSON"]),
        (put_line(b'["\\ud800"]'), ["tables/runs.jsonl"]),
        (put_line(b"\xff"), ["is not JSON"]),
    ],
)
def test_rows_that_cannot_be_are_refused(database_settings, filled_backup, db, archive, change, words):
    archive.write_bytes(filled_backup)
    rewrite(archive, change)
    refuses(db, database_settings, archive, *words)
    assert table_counts(database_settings) == {}


@pytest.fixture(scope="module")
def filled_backup(filled_sqlite, tmp_path_factory):
    """The content of a backup of two projects."""
    path = tmp_path_factory.mktemp("backup") / "archive.zip"
    write_archive(ServerSettings(data_dir=filled_sqlite), path, Selection(is_backup=True))
    return path.read_bytes()


def test_archives_of_newer_versions_are_refused(new_database, filled_database, db, archive):
    db.succeed(filled_database, "backup", archive)
    target = new_database("sqlite")
    change_manifest(archive, schema="9999", dokimos_version="9.9")
    refuses(db, target, archive, "written by dokimos 9.9", "9999", HEAD)
    change_manifest(archive, schema=HEAD, format_version=99)
    refuses(db, target, archive, "has version 99 of the format", "9.9")
    change_manifest(archive, format_version=1, tables=[{"name": "secrets", "columns": ["id"]}])
    refuses(db, target, archive, "a table 'secrets' that no archive has")
    change_manifest(archive, tables=[{"name": "runs", "columns": ["id", "x; DROP TABLE runs"]}])
    refuses(db, target, archive, "columns that the table runs does not have")
    change_manifest(archive, tables=7)
    refuses(db, target, archive, "manifest cannot be used")
    assert table_counts(target) == {}


def run_killed(settings, steps, call):
    """Run a call in a process that kills itself after some steps; say whether it came so far."""
    code = f"""
import os, signal, sys
from pathlib import Path
from dokimos.server import ServerSettings
from dokimos.server._admin.export import write_archive
from dokimos.server._admin.importing import import_archive
from dokimos.server._admin.restoring import restore_archive
from dokimos.server._admin.selection import Selection
from dokimos.server._admin import export, loading
export._ROWS = loading._ROWS = 2
steps = 0
def progress(table, rows):
    global steps
    steps += 1
    if steps == {steps}:
        os.kill(os.getpid(), signal.SIGKILL)
settings = ServerSettings.from_environment()
{call}
"""
    environment = {**os.environ, **variables_of(settings)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_what_is_killed_in_the_middle_leaves_nothing(new_database, filled_database, db, archive):
    pick = random.Random(11)
    target = new_database("sqlite" if "data_dir" in filled_database else "postgresql")
    path = f"Path({str(archive)!r})"
    for _ in range(KILLS):
        steps = pick.randrange(1, 80)
        write = f"write_archive(settings, {path}, Selection(is_backup=True), progress=progress)"
        assert run_killed(filled_database, steps, write)
        assert not archive.exists()
    db.succeed(filled_database, "backup", archive)  # writes over what is left
    for _ in range(KILLS):
        for command in ("restore_archive", "import_archive"):
            assert run_killed(
                target, pick.randrange(1, 80), f"{command}(settings, {path}, progress=progress)"
            )
            assert table_counts(target) == {}
    db.succeed(target, "restore", archive)
    assert table_counts(target) == table_counts(filled_database)
    for _ in range(KILLS):
        replace = f"restore_archive(settings, {path}, replaces=True, progress=progress)"
        assert run_killed(target, pick.randrange(1, 80), replace)
        assert table_counts(target) == table_counts(filled_database)
    code, printed = db(target, "check")  # on SQLite, it names the file that was being built
    assert (code, "server.db.restoring" in printed) == ((1, True) if "data_dir" in target else (0, False))
    db.succeed(target, "restore", "--replace", archive)
    db.succeed(target, "check")


def run_interrupted(settings, step, *arguments):
    """Run `dokimos db` in a process that gets Ctrl-C at a step; return it."""
    code = f"""
import contextlib, itertools, signal, sys
from dokimos._cli import db
from dokimos._cli.main import main
from dokimos.server._admin import export, loading
export._ROWS = loading._ROWS = 2
steps = itertools.count()
def progress(table, rows):
    if next(steps) == {step}:
        signal.raise_signal(signal.SIGINT)
db._progress = lambda: contextlib.nullcontext(progress)
main(sys.argv[1:])
"""
    command = [sys.executable, "-c", code, "db", *map(str, arguments)]
    environment = {**os.environ, **variables_of(settings)}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGINT")
@pytest.mark.parametrize("step", [0, 30])
def test_ctrl_c_ends_with_a_message_and_leaves_nothing(new_database, filled_database, db, archive, step):
    done = run_interrupted(filled_database, step, "export", archive)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.split() == ["Interrupted."]
    assert list(archive.parent.glob("archive*")) == []
    db.succeed(filled_database, "export", archive)
    target = new_database("sqlite" if "data_dir" in filled_database else "postgresql")
    done = run_interrupted(target, step, "import", archive)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.split() == ["Interrupted."]
    assert table_counts(target) == {}
    db.succeed(target, "import", archive)


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of a process")
def test_a_full_disk_leaves_nothing(new_database, filled_database, archive, db):
    limited = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
from dokimos._cli.main import main
import sys
main(sys.argv[1:])
"""

    def run(settings, *arguments):
        environment = {**os.environ, **variables_of(settings)}
        command = [sys.executable, "-c", limited, "db", *map(str, arguments)]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    with open_server(filled_database) as api:
        noise = random.Random(1).randbytes(200_000).hex()  # which cannot be compressed much
        call(api, "POST", "/datasets", {"name": "noise"})
        call(api, "POST", "/datasets/noise/versions", {"items": [{"inputs": {"noise": noise}}]})
    done = run(filled_database, "backup", archive)
    assert done.returncode == 2, done.stderr
    assert f"{archive} cannot be written" in done.stderr
    assert list(archive.parent.glob("archive*")) == []
    db.succeed(filled_database, "backup", archive)
    target = new_database("sqlite")
    for command in ("restore", "import"):
        done = run(target, command, archive)
        assert done.returncode == 2, done.stderr
        assert "cannot be" in done.stderr
        assert table_counts(target) == {}
        assert not list(target["data_dir"].glob("*.restoring"))
    db.succeed(target, "restore", archive)


def test_two_imports_at_once_take_turns(copy_filled, new_database, db, archive):
    source, target = copy_filled("sqlite"), new_database("postgresql")
    db.succeed(source, "export", "--project", "chat", archive)
    environment = {**os.environ, **variables_of(target)}
    command = [sys.executable, "-m", "dokimos", "db", "import", str(archive)]

    def run(_):
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    with ThreadPoolExecutor(3) as threads:
        for done in threads.map(run, range(3)):
            assert done.returncode == 0, done.stderr
    assert table_counts(target)["projects"] == 1
    db.succeed(target, "check")


def test_the_manifest_says_what_is_in_the_archive(filled_database, db, archive):
    db.succeed(filled_database, "backup", archive)
    manifest = read_manifest(archive)
    assert (manifest["kind"], manifest["schema"], manifest["projects"]) == ("backup", HEAD, None)
    counts = {table["name"]: table["rows"] for table in manifest["tables"] if table["rows"]}
    assert counts.pop("audit_log") > 0
    assert counts == table_counts(filled_database)
    with zipfile.ZipFile(archive) as file:
        for table in manifest["tables"]:
            rows = [json.loads(line) for line in file.read(f"tables/{table['name']}.jsonl").splitlines()]
            assert len(rows) == table["rows"]
            assert all(len(row) == len(table["columns"]) for row in rows)


def test_a_database_that_is_not_there_is_named(tmp_path, db, archive):
    for command in (["backup", archive], ["export", archive], ["check"]):
        code, text = db({"data_dir": tmp_path / "none"}, *command)
        assert code == 2
        assert "There is no database at" in text
        assert not Path(tmp_path / "none").exists()
    code, text = db({"database_url": "postgresql://postgres@127.0.0.1:1/none"}, "check")
    assert code == 2
    assert "The database cannot be used" in text
