"""`dokimos db check` and `dokimos db upgrade`."""

import sqlite3

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine
from tests.server.db_command import KINDS, Command, call, fill, open_server
from tests.server.server_process import execute

from dokimos.server._db import migrate
from dokimos.server._services.kept_counts import COUNTED


@pytest.fixture
def db(monkeypatch, capsys):
    return Command(monkeypatch, capsys)


def test_a_sound_database_has_no_problems(filled_database, db):
    text = db.succeed(filled_database, "check")
    assert "problem" not in text
    for subject in ("connection", "schema", "permissions", "disk space", "foreign keys", "counts"):
        assert f"ok       {subject}" in text


WRONG = [
    ("UPDATE runs SET item_count = item_count + 1", "item_count is 5, counted 4"),
    ("UPDATE runs SET passed_count = 0 WHERE passed_count > 0", "passed_count is 0"),
    ("UPDATE runs SET cost_usd = cost_usd + 0.01", "cost_usd"),
    ("UPDATE runs SET next_ordinal = 0", "next_ordinal is 0, counted 4"),
    ("UPDATE runs SET informational_count = 3", "informational_count is 3, counted 0"),
    ("UPDATE run_evaluators SET score_sum = 7", "score_sum of the evaluator 'exact' is 7.0"),
    ("UPDATE projects SET run_count = 9, experiment_count = 9", "run_count is 9, counted 4"),
    ("UPDATE experiments SET run_count = 9", "run_count is 9"),
    ("UPDATE datasets SET latest_version = 9", "latest_version is 9, counted 2"),
    ("UPDATE dataset_versions SET item_count = 9", "item_count is 9"),
]
GONE = [("DELETE FROM run_evaluators", "score_count of the evaluator 'exact' is None, counted 3")]


def test_a_count_that_is_wrong_is_named_and_repaired(filled_database, db):
    for wrong in (WRONG, GONE):
        for statement, _ in wrong:
            execute(filled_database, statement)
        details = db_details(filled_database)
        assert [words for _, words in wrong if words not in details] == []
        code, text = db(filled_database, "check", "--repair")
        assert code == 0, text
        assert "repaired" in text
        assert db_details(filled_database) == ""
    execute(filled_database, WRONG[0][0])
    code, text = db(filled_database, "check")
    assert code == 1
    assert WRONG[0][1] in text
    assert "dokimos db check --repair" in text


def test_every_kept_count_of_a_run_is_counted_again(filled_database, db):
    from dokimos.server._db.tables import RUNS

    names = {column.name for column in RUNS.columns if column.name.endswith("_count")}
    names.remove("planned_item_count")
    for name in sorted(names):
        execute(filled_database, f"UPDATE runs SET {name} = 77")
    code, text = db(filled_database, "check")
    assert code == 1
    for name in names:
        assert f"{name} is 77" in db_details(filled_database), (name, text)
    db.succeed(filled_database, "check", "--repair")


def db_details(settings):
    from dokimos.server import ServerSettings
    from dokimos.server._admin.checking import check_database

    return "\n".join(map(str, check_database(ServerSettings(**settings)).differences))


def test_every_kept_count_of_other_tables_is_counted_again():
    from dokimos.server._db.tables import DATASET_VERSIONS, DATASETS, EXPERIMENTS, PROJECTS

    for table in (DATASET_VERSIONS, DATASETS, EXPERIMENTS, PROJECTS):
        names = {column.name for column in table.columns if column.name.endswith("_count")}
        assert names <= COUNTED[table].keys()


def test_a_repair_needs_the_server_on_sqlite_to_be_stopped(tmp_path, db):
    settings = {"data_dir": tmp_path}
    with open_server(settings) as api:
        fill(api)
    execute(settings, "UPDATE projects SET run_count = 9")
    from dokimos._runtime.file_lock import ProcessLock

    lock = ProcessLock(tmp_path / "server.lock")
    code, text = db(settings, "check", "--repair")
    lock.release()
    assert code == 2
    assert "stop the server" in text


def test_a_damaged_file_and_a_broken_reference_are_problems(tmp_path, db):
    settings = {"data_dir": tmp_path}
    with open_server(settings) as api:
        fill(api)
    connection = sqlite3.connect(tmp_path / "server.db")
    connection.execute("UPDATE run_comments SET run_id = zeroblob(16)")
    connection.commit()
    connection.close()
    code, text = db(settings, "check")
    assert code == 1
    assert "run_comments row" in text
    assert "refers to a row of runs that is not there" in text

    content = bytearray((tmp_path / "server.db").read_bytes())
    half = len(content) // 2
    content[half : half + 8192] = b"\xff" * 8192
    (tmp_path / "server.db").write_bytes(content)
    code, text = db(settings, "check")
    assert code in (1, 2)
    assert "Traceback" not in text
    (tmp_path / "server.db").write_bytes(b"hello" * 1000)
    code, text = db(settings, "check")
    assert code == 2
    assert "not a database" in text


def test_missing_rights_are_named_with_the_statement_that_gives_them(postgres_database, db):
    settings = {"database_url": postgres_database}
    db.succeed(settings, "upgrade")
    execute(settings, "CREATE ROLE reader LOGIN PASSWORD 'r'")
    try:
        execute(settings, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
        code, text = db({"database_url": postgres_database.replace("postgres@", "reader:r@", 1)}, "check")
        assert code == 1
        assert "missing CREATE on the schema: GRANT ALL ON SCHEMA public TO reader" in text
        assert "missing INSERT on " in text
    finally:
        execute(settings, "DROP OWNED BY reader")
        execute(settings, "DROP ROLE reader")


def make_old(settings, version):
    """Make the tables as an older version has left them."""
    url = settings.get("database_url")
    if url is None:
        path = settings["data_dir"] / "server.db"
        engine = create_engine(f"sqlite:///{path}")
        with engine.begin() as connection:
            _migrate_to(connection, version)
        return
    import asyncio

    from sqlalchemy.ext.asyncio import create_async_engine

    async def run():
        engine = create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://"))
        async with engine.begin() as connection:
            await connection.run_sync(_migrate_to, version)
        await engine.dispose()

    asyncio.run(run())


def _migrate_to(connection, version):
    from pathlib import Path

    config = Config()
    config.set_main_option("script_location", str(Path(migrate.__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, version)


ROWS = """
INSERT INTO projects (id, name, created_at, experiment_count, run_count, last_activity_at)
VALUES ({0}, 'old', 1, 1, 1, 1);
INSERT INTO experiments (id, project_id, name, created_at, run_count, latest_run_id)
VALUES ({0}, {0}, 'qa', 1, 1, {0});
INSERT INTO runs (id, experiment_id, project_id, status, created_by, started_at, last_activity_at,
  next_ordinal, item_count, passed_count, judged_count, errored_count, tokens_in, tokens_in_count, tokens_out,
  tokens_out_count, cost_usd, cost_count, latency_ms, latency_count, idempotency_scope)
VALUES ({0}, {0}, {0}, 'SUCCESS', 'system', 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0.0, 0, 0, 0, '');
INSERT INTO items
  (id, run_id, ordinal, repetition, ordinal_assigned, input, actual_output, passed, judged, created_at)
VALUES ({0}, {0}, 0, 0, {1}, '{{"q":1}}', '{{}}', {1}, {1}, 1);
INSERT INTO evaluations (item_id, position, evaluator, score, success) VALUES ({0}, 0, 'exact', 1.0, {1});
INSERT INTO run_evaluators (run_id, name, position, score_count, score_sum, success_count)
VALUES ({0}, 'exact', 0, 1, 1.0, 1)
"""


def fill_old(settings):
    is_sqlite = "data_dir" in settings
    one = "x'018f0000000070008000000000000001'" if is_sqlite else "'018f0000-0000-7000-8000-000000000001'"
    for statement in ROWS.format(one, "1" if is_sqlite else "true").strip().split(";"):
        execute(settings, statement)


OLD = ["0001", "0002"]


@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("kind", KINDS)
def test_an_older_database_is_upgraded_with_its_rows(new_database, db, kind, version):
    database_settings = new_database(kind)
    make_old(database_settings, version)
    fill_old(database_settings)
    code, text = db(database_settings, "check")
    assert code == 1
    assert f"it is {version} and should be {migrate.HEAD}: run 'dokimos db upgrade'" in text
    assert "not counted again" in text
    for option in ("--check", "--dry-run"):
        code, text = db(database_settings, "upgrade", option)
        assert code == 1
        assert f"to do  {migrate.HEAD}" in text
    assert f"done  {migrate.HEAD}" in db.succeed(database_settings, "upgrade")
    assert "It is up to date." in db.succeed(database_settings, "upgrade", "--check")
    db.succeed(database_settings, "check")
    with open_server(database_settings) as api:
        assert [each["name"] for each in api.get("/api/v1/projects").json()] == ["old"]


@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("kind", KINDS)
def test_a_backup_of_an_older_database_is_restored_up_to_date(new_database, db, tmp_path, kind, version):
    database_settings = new_database(kind)
    make_old(database_settings, version)
    fill_old(database_settings)
    db.succeed(database_settings, "backup", tmp_path / "old.zip")
    assert execute(database_settings, "SELECT version_num FROM alembic_version") == [(version,)]
    for command_ in ("restore", "import"):
        target = new_database("sqlite" if "database_url" in database_settings else "postgresql")
        db.succeed(target, command_, tmp_path / "old.zip")
        db.succeed(target, "check")
        with open_server(target) as api:
            run = call(api, "GET", "/runs/018f0000-0000-7000-8000-000000000001")
        assert run["items"]["content"][0]["evalResults"][0]["score"] == 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_place_is_upgraded(new_database, db, kind):
    database_settings = new_database(kind)
    code, text = db(database_settings, "upgrade", "--check")
    assert code == 1
    assert "to do  0001" in text
    db.succeed(database_settings, "upgrade")
    assert "There is nothing to remove" in db.succeed(database_settings, "upgrade", "--contract")
    db.succeed(database_settings, "check")


def test_a_newer_database_is_left_alone(filled_database, db, tmp_path):
    execute(filled_database, "UPDATE alembic_version SET version_num = '9999'")
    for arguments in (["upgrade"], ["upgrade", "--check"], ["backup", tmp_path / "b.zip"]):
        code, text = db(filled_database, *arguments)
        assert code == 2
        assert "A newer dokimos has migrated the database to 9999" in text
    code, text = db(filled_database, "check")
    assert code == 1
    assert "of a newer dokimos" in text


def test_a_postgresql_that_cannot_be_reached_is_said_in_words(db):
    code, text = db({"database_url": "postgresql://ada:s3cret@127.0.0.1:1/chat"}, "check")
    assert code == 2
    assert text == (
        "Error: The database cannot be used: postgresql://ada:***@127.0.0.1:1/chat: Connection refused\n"
    )
