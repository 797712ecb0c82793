"""Backups with production traces: what they hold, what they give back, and what goes wrong with them."""

import json
import os
import sqlite3
import zipfile
from contextlib import closing
from types import SimpleNamespace

import pytest
from sqlalchemy import func, select
from tests.server.db_command import KINDS, Command, open_server
from tests.server.test_trace_scores import add_jobs
from tests.server.trace_requests import make_project, send, send_protobuf, span, trace_id
from tests.server.trace_server import log_export, message_log

from dokimos.errors import ConfigurationError
from dokimos.server import ServerSettings
from dokimos.server._admin import archive as archives
from dokimos.server._admin import restoring, trace_archive
from dokimos.server._db import bulk_rows
from dokimos.server._db.database import read_traces_once, write_once
from dokimos.server._db.trace_tables import SPANS, TRACE_METADATA
from dokimos.server._trace_settings import TraceSettings

IS_LONG = "DOKIMOS_LONG_TESTS" in os.environ
PAIRS = [(source, target) for source in KINDS for target in KINDS if IS_LONG or source != target]
TRACES = "/api/v1/traces"
SEARCHES = [
    {"search": "zürich example path"},
    {"search": "it failed"},
    {"attribute": "tier=2"},
    {"attribute": ["region=eu", "tier=3"], "project": "chat"},
    {"sessionId": "s1"},
]


@pytest.fixture
def db(monkeypatch, capsys):
    return Command(monkeypatch, capsys)


@pytest.fixture
def archive(tmp_path):
    return tmp_path / "archive.zip"


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(trace_archive, "_ROWS", 3)


def fill(api):
    """Store traces with all that is easily lost: bytes, logs, scores, both encodings."""
    project = make_project(api, "chat")
    for number in range(1, 6):
        send(
            api,
            span(
                number,
                error=number == 3,
                session__id=f"s{number % 2}",
                input=f"Zürich \0 example.com/path_{number}",
                raw=b"\x00\xff",
                tier=number,
            ),
            span(number, 2, parent=1, gen_ai__usage__input_tokens=number, gen_ai__request__model="m"),
            project="chat",
            region="eu",
        )
    send_protobuf(api, span(9, tier=2))
    logs = log_export(message_log("told beside it", trace=1, number=2), project="chat")
    assert api.post("/v1/logs", json=logs).status_code == 200
    add_jobs(api, project, "helpful", {1: (0.2, False), 2: (0.9, True)})


def read_rows(settings):
    """All rows of traces, but what one kind of database alone has."""

    def read(connection):
        return {
            table.name: sorted(
                map(repr, connection.execute(select(*(each for each in table.c if each.name != "row"))))
            )
            for table in TRACE_METADATA.sorted_tables
        }

    return read_traces_once(ServerSettings(**settings), read)


def read_answers(api):
    lists = [api.get(TRACES, params=each).json()["content"] for each in SEARCHES]
    traces = [api.get(f"{TRACES}/{trace_id(number)}").json() for number in (1, 3, 9)]
    for each in traces:  # scores of a rule that is not there are removed when a server starts
        del each["evalJobs"]
    return lists, traces


@pytest.mark.parametrize(("kind", "other"), PAIRS)
def test_a_restore_gives_the_traces_that_the_source_had(new_database, db, archive, kind, other):
    source, target = new_database(kind), new_database(other)
    with open_server(source) as api:
        fill(api)
        printed = db.succeed(source, "backup", archive, "--with-traces")  # while the server runs
        before, rows = read_answers(api), read_rows(source)
    assert "11 spans" in printed
    assert "Production traces are not in it" not in printed
    assert [len(found) for found in before[0]] == [5, 1, 2, 1, 3]

    assert "11 spans" in db.succeed(target, "restore", archive)

    assert read_rows(target) == rows
    db.succeed(target, "check")
    with open_server(target) as api:
        assert read_answers(api) == before
        send(api, span(3, 7, name="a later one", tier=8), project="chat")  # into a trace that is there
        send(api, span(10, tier=2), project="chat")
        assert [
            each["spanCount"] for each in api.get(TRACES, params={"search": "later"}).json()["content"]
        ] == [3]
        assert len(api.get(TRACES, params={"attribute": "tier=2"}).json()["content"]) == 3


@pytest.mark.parametrize("kind", KINDS if IS_LONG else ["postgresql"])
def test_traces_are_replaced_only_when_they_are_given_up(new_database, db, archive, kind):
    source, target = new_database("sqlite"), new_database(kind)
    with open_server(source) as api:
        send(api, span(1))
    db.succeed(source, "backup", archive, "--with-traces")
    with open_server(target) as api:
        send(api, span(2), span(2, 2))
    rows = read_rows(target)

    code, printed = db(target, "restore", archive)
    assert (code, "has traces, and the backup has some too" in printed) == (2, True), printed
    assert read_rows(target) == rows
    db.succeed(target, "restore", "--replace", archive)
    assert read_rows(target) == read_rows(source)


@pytest.mark.parametrize("kind", KINDS if IS_LONG else ["sqlite"])
def test_a_damaged_backup_changes_neither_database(new_database, db, archive, kind):
    source, target = new_database("sqlite"), new_database(kind)
    with open_server(source) as api:
        send(api, span(1), span(1, 2), project=None)
    db.succeed(source, "backup", archive, "--with-traces")
    with open_server(target) as api:
        make_project(api, "mine")
        send(api, span(2))
    rows = read_rows(target)
    with zipfile.ZipFile(archive) as file:
        members = {info.filename: file.read(info) for info in file.infolist()}

    for change in (damage_body, name_other_column, claim_newer_schema):
        with zipfile.ZipFile(archive, "w") as file:
            for name, content in change(dict(members)).items():
                file.writestr(name, content)
        code, printed = db(target, "restore", "--replace", archive)
        assert code == 2, printed
        assert read_rows(target) == rows
        with open_server(target) as api:
            assert [each["name"] for each in api.get("/api/v1/projects").json()] == ["mine"]


def damage_body(members):
    lines = members["tables/spans.jsonl"].splitlines(keepends=True)
    row = json.loads(lines[-1])
    row[-2] = "!" + row[-2]
    members["tables/spans.jsonl"] = b"".join(lines[:-1]) + json.dumps(row).encode() + b"\n"
    return members


def name_other_column(members):
    return change_manifest(members, lambda manifest: manifest["trace_tables"][-1]["columns"].append("x"))


def claim_newer_schema(members):
    return change_manifest(members, lambda manifest: manifest.update(trace_schema="9999"))


def change_manifest(members, change):
    manifest = json.loads(members["manifest.json"])
    change(manifest)
    members["manifest.json"] = json.dumps(manifest).encode()
    return members


def test_a_backup_of_a_server_without_traces_empties_those_of_the_target(new_database, db, archive):
    source, target = new_database("sqlite"), new_database("sqlite")
    with open_server(source) as api:
        make_project(api, "chat")
    (source["data_dir"] / "traces.db").unlink()
    db.succeed(source, "backup", archive, "--with-traces")
    with open_server(target) as api:
        send(api, span(1))

    db.succeed(target, "restore", "--replace", archive)

    assert read_rows(target) == {table.name: [] for table in TRACE_METADATA.sorted_tables}


def test_an_import_leaves_the_traces_of_a_backup_out(new_database, db, archive):
    source, target = new_database("sqlite"), new_database("sqlite")
    with open_server(source) as api:
        send(api, span(1))
        make_project(api, "chat")
    db.succeed(source, "backup", archive, "--with-traces")

    assert "project" in db.succeed(target, "import", archive)

    assert not (target["data_dir"] / "traces.db").exists()


def test_jobs_that_were_being_scored_wait_anew(new_database, db, archive):
    source, target = new_database("sqlite"), new_database("sqlite")
    with open_server(source) as api:
        fill(api)
    with closing(sqlite3.connect(ServerSettings(**source).sqlite_trace_path)) as traces, traces:
        # Its batch was opened after the rest had been read, so the backup does not have it.
        claimed = "UPDATE trace_eval_jobs SET status = 'CLAIMED', batch = ?, lease = 'l' WHERE score < 0.5"
        assert traces.execute(claimed, (b"0123456789abcdef",)).rowcount == 1
    db.succeed(source, "backup", archive, "--with-traces")
    db.succeed(target, "restore", archive)
    with closing(sqlite3.connect(ServerSettings(**target).sqlite_trace_path)) as traces:
        found = traces.execute("SELECT status, batch, lease FROM trace_eval_jobs ORDER BY score").fetchall()
    assert found == [("PENDING", None, None), ("SUCCEEDED", None, None)]


def test_nothing_is_replaced_where_the_traces_cannot_be(tmp_path):
    elsewhere = TraceSettings(database_url="postgresql://nobody@127.0.0.1:1/traces")
    settings = ServerSettings(host="127.0.0.1", data_dir=tmp_path, traces=elsewhere)
    archive = SimpleNamespace(manifest=SimpleNamespace(with_traces=True))
    with pytest.raises(ConfigurationError):
        restoring._check_traces_may_go(settings, archive, True)


@pytest.fixture
def apart(new_database, monkeypatch):
    """A function that returns settings of a server whose traces are in a PostgreSQL of their own."""

    def make(kind):
        url = new_database("postgresql")["database_url"]
        monkeypatch.setenv("DOKIMOS_TRACE_DATABASE_URL", url)
        return {**new_database(kind), "traces": TraceSettings(database_url=url)}

    return make


def back_up_two_spans(new_database, db, archive):
    source = new_database("sqlite")
    with open_server(source) as api:
        make_project(api, "theirs")
        send(api, span(1), span(1, 2), project=None)
    db.succeed(source, "backup", archive, "--with-traces")
    return source


def name_projects(settings):
    with open_server(settings) as api:
        return [each["name"] for each in api.get("/api/v1/projects").json()]


@pytest.mark.parametrize("kind", KINDS)
def test_traces_apart_are_restored_with_the_rest_or_nothing_is(new_database, apart, db, archive, kind):
    source = back_up_two_spans(new_database, db, archive)
    whole = archive.read_bytes()
    target = apart(kind)
    with open_server(target) as api:
        make_project(api, "mine")
        send(api, span(2))
    rows = read_rows(target)
    with zipfile.ZipFile(archive) as file:
        members = {info.filename: file.read(info) for info in file.infolist()}
    with zipfile.ZipFile(archive, "w") as file:
        for name, content in damage_body(members).items():
            file.writestr(name, content)

    code, printed = db(target, "restore", "--replace", archive)

    assert (code, "Nothing was changed" in printed) == (2, True), printed
    assert (name_projects(target), read_rows(target) == rows) == (["mine"], True)

    archive.write_bytes(whole)
    db.succeed(target, "restore", "--replace", archive)
    assert (name_projects(target), read_rows(target) == read_rows(source)) == (["theirs"], True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_restore_that_ends_between_two_databases_says_which_one_it_has_restored(
    new_database, apart, db, archive, monkeypatch, kind
):
    source = back_up_two_spans(new_database, db, archive)
    target = apart(kind)
    with open_server(target) as api:
        make_project(api, "mine")
    if kind == "postgresql":
        refuse_commits(target)
    else:
        monkeypatch.setattr(restoring.os, "replace", fail_to_replace)

    code, printed = db(target, "restore", "--replace", archive)

    assert code == 2, printed
    assert f"are those of the backup now, and {target.get('data_dir', 'postgresql')}" in printed
    assert "is as it was" in printed
    assert f"dokimos db restore --replace {archive}" in printed
    monkeypatch.undo()
    assert (name_projects(target), read_rows(target) == read_rows(source)) == (["mine"], True)


def refuse_commits(settings):
    """Have a PostgreSQL fail when a restore commits."""

    def change(connection):
        for statement in (
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN IF NEW.action = 'db.restore' THEN RAISE 'no space'; END IF; RETURN NULL; END $$",
            "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON audit_log DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION refuse()",
        ):
            connection.exec_driver_sql(statement)

    write_once(ServerSettings(**settings), change)


def fail_to_replace(*names):
    raise OSError(28, "no space")


def test_an_error_of_the_disk_names_the_file_that_it_is_about(new_database, db, archive):
    back_up_two_spans(new_database, db, archive)
    target = new_database("sqlite")
    (target["data_dir"] / "traces.db.restoring").mkdir()

    code, printed = db(target, "restore", archive)

    assert code == 2
    assert f"cannot be written: {target['data_dir'] / 'traces.db.restoring'}: " in printed
    assert sorted(path.name for path in target["data_dir"].glob("*.db*")) == ["traces.db.restoring"]


def test_what_a_killed_restore_has_left_is_named_until_it_is_repeated(new_database, db, archive):
    back_up_two_spans(new_database, db, archive)
    target = new_database("sqlite")
    db.succeed(target, "restore", archive)
    db.succeed(target, "check")
    left = target["data_dir"] / "server.db.restoring"
    left.write_bytes(b"half")

    code, printed = db(target, "check")

    assert (code, str(left) in printed) == (1, True), printed
    db.succeed(target, "restore", "--replace", archive)
    db.succeed(target, "check")


@pytest.mark.parametrize("kind", KINDS)
def test_large_rows_are_read_a_few_at_a_time(new_database, db, archive, monkeypatch, kind):
    sizes = [*[100] * 30, 40_000, *[5_000] * 10, *[100] * 30, *[40_000] * 3]
    source = new_database(kind)
    with open_server(source) as api:
        send(api, *(span(1, number, raw="x" * size) for number, size in enumerate(sizes, 1)))
    monkeypatch.setattr(bulk_rows, "PART_BYTES", 20_000)
    monkeypatch.setattr(archives, "PART_BYTES", 20_000)
    monkeypatch.setattr(bulk_rows, "_SMALL", 2_000)
    monkeypatch.setattr(bulk_rows, "_MEDIUM", 10_000)
    query = select(SPANS.c.span_id, SPANS.c.parent_id, SPANS.c.body)

    def read(connection):
        parts = [list(map(tuple, rows)) for rows in bulk_rows.stream_rows(connection, query, 25)]
        return parts, connection.execute(select(func.count()).select_from(SPANS)).scalar_one()

    parts, count = read_traces_once(ServerSettings(**source), read)

    rows = [row for part in parts for row in part]
    assert len(rows) == len({row[0] for row in rows}) == count == len(sizes)
    assert all(len(row[2]) > sizes[int(row[0], 16) - 1] for row in rows)
    assert max(sum(len(row[2]) for row in part) for part in parts) < 65_000
    db.succeed(source, "backup", archive, "--with-traces")
    with archives.Archive(archive) as file:
        entry = next(each for each in file.manifest.trace_tables if each.name == "spans")
        sizes_of_parts = [sum(map(len, lines)) for lines in file.read_lines(entry, 25)]
    assert max(sizes_of_parts) < 20_000 + 60_000
