"""Backups move traces between SQLite, PostgreSQL and ClickHouse, with all that is easily lost."""

import pytest
from tests.server.clickhouse import read_clickhouse, run_on_clickhouse
from tests.server.db_command import Command, open_server
from tests.server.test_trace_backup import fill, read_answers

from dokimos.server._admin import trace_archive
from dokimos.server._db import clickhouse_spans
from dokimos.server._services.traces import restored_spans
from dokimos.server._trace_settings import TraceSettings

COUNT = "SELECT count() FROM spans"


@pytest.fixture
def db(monkeypatch, capsys):
    """A function that runs a command on a database, with its spans in a ClickHouse or not."""
    command = Command(monkeypatch, capsys)

    def run(settings, url, *arguments):
        monkeypatch.setenv("DOKIMOS_TRACE_DATABASE_URL", url or "")
        return command(settings, *arguments)

    return run


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(trace_archive, "_ROWS", 3)
    monkeypatch.setattr(trace_archive, "_TRACES", 2)
    monkeypatch.setattr(clickhouse_spans, "_TRACES_AT_ONCE", 2)
    monkeypatch.setattr(clickhouse_spans, "_SPANS_AT_ONCE", 3)
    monkeypatch.setattr(restored_spans, "_ROWS_APART", 4)


@pytest.fixture
def archive(tmp_path):
    return tmp_path / "archive.zip"


def serve(settings, url):
    return open_server(settings, traces=TraceSettings(clickhouse_url=url))


@pytest.mark.parametrize(("kind", "other"), [("sqlite", "postgresql"), ("postgresql", "sqlite")])
def test_traces_move_into_clickhouse_and_out_of_it(
    new_database, db, archive, tmp_path, clickhouse_database, kind, other
):
    plain, beside, back = new_database(kind), new_database(other), new_database(kind)
    with serve(plain, None) as api:
        fill(api)
        before = read_answers(api)
        assert db(plain, None, "backup", archive, "--with-traces")[0] == 0
    code, printed = db(beside, clickhouse_database, "restore", archive)
    assert (code, "11 spans" in printed) == (0, True), printed
    assert read_clickhouse(clickhouse_database, COUNT) == [(11,)]
    again = tmp_path / "again.zip"
    with serve(beside, clickhouse_database) as api:
        assert read_answers(api) == before
        assert db(beside, clickhouse_database, "backup", again, "--with-traces")[0] == 0
        code, printed = db(beside, clickhouse_database, "check")
        assert (code, "the newest have all of their spans" in printed) == (0, True), printed
    assert db(back, None, "restore", again)[0] == 0
    with serve(back, None) as api:
        assert read_answers(api) == before


def test_a_restore_refuses_a_clickhouse_that_has_spans(new_database, db, archive, clickhouse_database):
    source, target = new_database("sqlite"), new_database("sqlite")
    with serve(source, clickhouse_database) as api:
        fill(api)
        assert db(source, clickhouse_database, "backup", archive, "--with-traces")[0] == 0
    code, printed = db(target, clickhouse_database, "restore", archive)
    assert (code, "TRUNCATE TABLE spans" in printed) == (2, True), printed
    assert read_clickhouse(clickhouse_database, COUNT) == [(11,)]
    run_on_clickhouse(clickhouse_database, "TRUNCATE TABLE spans")
    assert db(target, clickhouse_database, "restore", archive)[0] == 0


def test_a_check_finds_spans_that_clickhouse_lost(new_database, db, clickhouse_database):
    source = new_database("sqlite")
    with serve(source, clickhouse_database) as api:
        fill(api)
    run_on_clickhouse(clickhouse_database, f"DELETE FROM spans WHERE span_id = '{2:016x}'")
    code, printed = db(source, clickhouse_database, "check")
    assert code == 1
    assert "should have 2 spans, and 1 can be read" in printed


def test_a_file_of_traces_without_their_spans_is_not_copied(new_database, db, archive, clickhouse_database):
    source = new_database("sqlite")
    with serve(source, clickhouse_database) as api:
        fill(api)
    code, printed = db(source, clickhouse_database, "backup", archive, "--traces", f"{archive}.db")
    assert code == 2
    assert "--with-traces" in printed


def test_a_server_without_its_clickhouse_says_so(new_database, clickhouse_database, caplog):
    source = new_database("sqlite")
    with serve(source, clickhouse_database) as api:
        fill(api)
    assert "traces without spans" not in caplog.text
    with serve(source, None):
        pass
    assert "traces without spans" in caplog.text


def test_an_upgrade_makes_the_tables(new_database, db, clickhouse_database):
    target = new_database("postgresql")
    assert db(target, clickhouse_database, "upgrade")[0] == 0
    assert read_clickhouse(clickhouse_database, COUNT) == [(0,)]


def test_a_span_that_comes_with_a_new_source_during_a_backup_does_not_spoil_it(
    new_database, db, archive, clickhouse_database
):
    source, target = new_database("sqlite"), new_database("sqlite")
    with serve(source, clickhouse_database) as api:
        fill(api)
    columns = "day, trace, name, role, encoding, body, received_at, version"
    late = f"INSERT INTO spans ({columns}, span_id, source) SELECT {columns}, 'late', 1 FROM spans LIMIT 1"
    run_on_clickhouse(clickhouse_database, late)
    assert db(source, clickhouse_database, "backup", archive, "--with-traces")[0] == 0
    code, printed = db(target, None, "restore", archive)
    assert (code, "11 spans" in printed) == (0, True), printed
