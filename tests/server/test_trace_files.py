"""Production traces as files: `dokimos db export --only-traces` and `import`, between all stores."""

import gzip
import json

import pytest
from sqlalchemy import select
from tests.server.db_command import KINDS, Command, open_server
from tests.server.test_trace_backup import fill, read_answers
from tests.server.trace_requests import make_project, send, span, trace_id

from dokimos.server import ServerSettings
from dokimos.server._admin import trace_export, trace_import
from dokimos.server._db.database import read_traces_once, write_traces_once
from dokimos.server._db.trace_tables import TRACE_HOURS, TRACES
from dokimos.server._services.traces import span_pages
from dokimos.server._services.traces.trace_retention import mark_traces
from dokimos.server._trace_settings import TraceSettings

TRACES_URL = "/api/v1/traces"
PAIRS = [(source, target) for source in KINDS for target in KINDS if source != target]
CLICKHOUSE = [("sqlite", False, "sqlite", True), ("sqlite", True, "postgresql", False)]


@pytest.fixture
def db(monkeypatch, capsys):
    """A function that runs a command on a database, with its spans in a ClickHouse or not."""
    command = Command(monkeypatch, capsys)

    def run(settings, *arguments, url=None, code=0):
        monkeypatch.setenv("DOKIMOS_TRACE_DATABASE_URL", url or "")
        found, printed = command(settings, *arguments)
        assert found == code, printed
        return printed

    return run


@pytest.fixture
def file(tmp_path):
    return tmp_path / "traces.jsonl.gz"


@pytest.fixture
def _small_parts(monkeypatch):
    monkeypatch.setattr(span_pages, "MAX_SPANS", 2)
    monkeypatch.setattr(trace_export, "_LOGS_AT_ONCE", 1)
    monkeypatch.setattr(trace_export, "_TRACES_AT_ONCE", 2)
    monkeypatch.setattr(trace_import, "MAX_SPANS", 3)


def serve(settings, url=None):
    return open_server(settings, traces=TraceSettings(clickhouse_url=url))


def without_scores(answers):
    """What the files hold: scores stay where their rules are, and a change is when the last span came."""
    lists, traces = answers
    strip = ("scores", "updatedAt", "expiresAt")
    return (
        [[{key: row[key] for key in row if key not in strip} for row in rows] for rows in lists],
        [{key: trace[key] for key in trace if key not in strip} for trace in traces],
    )


def move_project(db, source, target, tmp_path, **options):
    archive = tmp_path / "projects.zip"
    db(source, "export", archive, "--force")
    db(target, "import", archive, **options)


def read_trace_rows(settings):
    def read(connection):
        query = select(TRACES.c.trace_id, TRACES.c.id, TRACES.c.day, TRACES.c.created_at, TRACES.c.span_count)
        return sorted(map(tuple, connection.execute(query.where(TRACES.c.deleted_at.is_(None)))))

    return read_traces_once(ServerSettings(**settings), read)


def read_hours(settings):
    """The counts of hours: how many traces and spans there are in all."""

    def read(connection):
        rows = connection.execute(select(TRACE_HOURS)).all()
        return sum(row.trace_count for row in rows), sum(row.span_count for row in rows)

    return read_traces_once(ServerSettings(**settings), read)


def lines_of(file):
    return gzip.decompress(file.read_bytes()).splitlines(keepends=True)


def write_lines(file, lines):
    file.write_bytes(gzip.compress(b"".join(lines)))


@pytest.mark.usefixtures("_small_parts")
@pytest.mark.parametrize(("kind", "other"), PAIRS)
def test_traces_move_from_one_database_to_another(new_database, db, file, tmp_path, kind, other):
    source, target = new_database(kind), new_database(other)
    with serve(source) as api:
        fill(api)
        printed = db(source, "export", "--only-traces", file)  # while the server runs
        before, rows = read_answers(api), read_trace_rows(source)
    assert "6 traces, 11 spans, 1 log record" in printed
    move_project(db, source, target, tmp_path)
    assert "11 spans in 6 traces" in db(target, "import", file)
    assert read_trace_rows(target) == rows
    assert read_hours(target) == read_hours(source) == (6, 11)
    with serve(target) as api:
        assert without_scores(read_answers(api)) == without_scores(before)
    db(target, "check")


@pytest.mark.usefixtures("_small_parts")
@pytest.mark.parametrize(("kind", "from_clickhouse", "other", "to_clickhouse"), CLICKHOUSE)
def test_traces_move_into_clickhouse_and_out_of_it(
    new_database, db, file, tmp_path, clickhouse_database, kind, from_clickhouse, other, to_clickhouse
):
    source, target = new_database(kind), new_database(other)
    source_url = clickhouse_database if from_clickhouse else None
    target_url = clickhouse_database if to_clickhouse else None
    with serve(source, source_url) as api:
        fill(api)
        before = read_answers(api)
    db(source, "export", "--only-traces", file, url=source_url)
    move_project(db, source, target, tmp_path, url=target_url)
    assert "11 spans in 6 traces" in db(target, "import", file, url=target_url)
    assert "11 spans" in db(target, "import", file, url=target_url).partition("were there already")[2]
    with serve(target, target_url) as api:
        assert without_scores(read_answers(api)) == without_scores(before)
    db(target, "check", url=target_url)


@pytest.mark.usefixtures("_small_parts")
@pytest.mark.parametrize("kind", KINDS)
def test_an_import_that_is_repeated_adds_nothing(new_database, db, file, tmp_path, kind):
    source, target = new_database("sqlite"), new_database(kind)
    with serve(source) as api:
        fill(api)
    db(source, "export", "--only-traces", file)
    move_project(db, source, target, tmp_path)
    db(target, "import", file)
    rows, hours = read_trace_rows(target), read_hours(target)
    printed = db(target, "import", file)
    assert "0 spans in 0 traces" in printed
    assert "were there already: 11 spans" in printed
    assert (read_trace_rows(target), read_hours(target)) == (rows, hours)


@pytest.mark.usefixtures("_small_parts")
@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_import_is_finished_by_repeating_it(
    new_database, db, file, tmp_path, monkeypatch, kind
):
    source, target = new_database("sqlite"), new_database(kind)
    with serve(source) as api:
        fill(api)
        send(api, *(span(7, number) for number in range(1, 8)), project="chat")  # more than one part
        before = read_answers(api)
    db(source, "export", "--only-traces", file)
    move_project(db, source, target, tmp_path)
    store, calls = trace_import._store, []

    async def interrupt(*arguments):
        calls.append(arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt
        await store(*arguments)

    with monkeypatch.context() as broken:
        broken.setattr(trace_import, "_store", interrupt)
        assert "Repeat the import" in db(target, "import", file, code=130)
    assert 0 < len(read_trace_rows(target)) < 7
    db(target, "import", file)
    assert read_trace_rows(target) == read_trace_rows(source)
    assert read_hours(target) == (7, 18)
    with serve(target) as api:
        assert without_scores(read_answers(api)) == without_scores(before)


def test_an_interrupted_export_leaves_no_file(new_database, db, file, monkeypatch):
    source = new_database("sqlite")
    with serve(source) as api:
        send(api, span(1))
    db(source, "export", "--only-traces", file)
    content = file.read_bytes()

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(trace_export, "read_pages", interrupt)
    db(source, "export", "--only-traces", "--force", file, code=130)
    assert [path.read_bytes() for path in file.parent.glob("traces*")] == [content]


def test_a_file_that_is_there_is_kept(new_database, db, file):
    source = new_database("sqlite")
    with serve(source) as api:
        send(api, span(1))
    file.write_text("mine")
    assert "--force" in db(source, "export", "--only-traces", file, code=2)
    assert file.read_text() == "mine"


def test_a_project_and_a_time_are_exported_alone(new_database, db, file):
    source = new_database("sqlite")
    with serve(source) as api:
        for name in ("chat", "shop"):
            make_project(api, name)
        send(api, span(1), project="chat")
        send(api, span(2), project="shop")
        send(api, span(3))
    for arguments, count in [
        (["--project", "chat"], 1),
        (["--project", "chat", "--project", "shop"], 2),
        ([], 3),
        (["--from", "2100-01-01"], 0),
        (["--to", "2100-01-01T00:00:00+02:00", "--from", "2020-01-01"], 3),
        (["--to", "2020-01-01"], 0),
    ]:
        printed = db(source, "export", "--only-traces", "--force", *arguments, file)
        assert f"{count} span" in printed, arguments
    names = [each["name"] for each in json.loads(lines_of(file)[0])["projects"]]
    assert sorted(names) == ["chat", "shop"]
    assert "no project 'none'" in db(
        source, "export", "--only-traces", "--force", "--project", "none", file, code=2
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "2026-01-01"], "--only-traces"),
        (["--only-traces", "--from", "yesterday"], "is not a time"),
        (["--only-traces", "--from", "2026-01-02", "--to", "2026-01-02"], "before --to"),
        (["--only-traces", "--with-keys"], "neither comparisons nor keys"),
    ],
)
def test_options_that_contradict_each_other_are_refused(new_database, db, file, arguments, message):
    assert message in db(new_database("sqlite"), "export", *arguments, file, code=2)
    assert not file.exists()


def export_traces(new_database, db, file, *spans):
    source = new_database("sqlite")
    with serve(source) as api:
        send(api, *(spans or (span(1), span(2))))
    db(source, "export", "--only-traces", file)
    return source


def test_a_file_that_was_cut_says_so_and_what_to_do(new_database, db, file):
    export_traces(new_database, db, file)
    content, target = file.read_bytes(), new_database("sqlite")
    file.write_bytes(content[:-20])
    assert "damaged or was cut off" in db(target, "import", file, code=2)
    file.write_bytes(content)
    lines = lines_of(file)
    write_lines(file, lines[:-1])
    printed = db(target, "import", file, code=2)
    assert f"{file.name}, line {len(lines)}" in printed
    assert "repeat the import" in printed
    write_lines(file, [*lines[:-2], lines[-1]])
    assert "should have" in db(target, "import", file, code=2)
    write_lines(file, lines)
    db(target, "import", file)
    assert len(read_trace_rows(target)) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda line: line.update(spans=[{"project": None, "source": 9, "body": ""}]), "line 3"),
        (lambda line: line["spans"][0].update(body="%"), "line 3"),
        (lambda line: line["spans"][0].update(body="AAAA"), "line 3"),
        (lambda line: line.update(traceId="f" * 32), "one of the trace"),
        (lambda line: line.update(trace="../.."), "its id"),
        (lambda line: line.update(createdAt=-1), "line 3"),
        (lambda line: line.pop("tenant"), "line 3"),
    ],
)
def test_a_line_that_is_damaged_is_named(new_database, db, file, change, message):
    export_traces(new_database, db, file, span(1))
    lines = lines_of(file)
    line = json.loads(lines[2])
    change(line)
    write_lines(file, [*lines[:2], json.dumps(line).encode() + b"\n", *lines[3:]])
    target = new_database("sqlite")
    with serve(target):
        pass
    assert message in db(target, "import", file, code=2)
    assert read_trace_rows(target) == []


def test_files_of_others_and_of_later_versions_are_refused(new_database, db, file):
    export_traces(new_database, db, file)
    target = new_database("sqlite")
    lines = lines_of(file)
    head = {**json.loads(lines[0]), "formatVersion": 99}
    write_lines(file, [json.dumps(head).encode() + b"\n", *lines[1:]])
    assert "version 99" in db(target, "import", file, code=2)
    write_lines(file, [b"hello\n"])
    assert "is not a file of traces" in db(target, "import", file, code=2)
    write_lines(file, lines)
    assert "not for these" in db(target, "import", "--with-keys", file, code=2)


def test_a_file_may_be_uncompressed(new_database, db, file):
    export_traces(new_database, db, file)
    file.write_bytes(gzip.decompress(file.read_bytes()))
    target = new_database("sqlite")
    assert "2 spans" in db(target, "import", file)


def test_projects_are_found_by_their_names_and_missed_before_anything_is_imported(new_database, db, file):
    source, target = new_database("sqlite"), new_database("sqlite")
    with serve(source) as api:
        make_project(api, "chat")
        send(api, span(1), project="chat")
    db(source, "export", "--only-traces", file)
    with serve(target):
        pass
    assert "no project 'chat'" in db(target, "import", file, code=2)
    with serve(target) as api:
        own = make_project(api, "chat")
    db(target, "import", file)
    with serve(target) as api:
        [trace] = api.get(TRACES_URL).json()["content"]
        assert trace["projectId"] == own


def test_traces_that_are_there_get_the_spans_that_they_lack(new_database, db, file):
    source, target = new_database("sqlite"), new_database("sqlite")
    early = {**span(1, 2), "endTimeUnixNano": "0"}
    with serve(source) as api:
        send(api, span(1), span(1, 2), span(1, 3))
    db(source, "export", "--only-traces", file)
    with serve(target) as api:
        send(api, span(1), early)
        [before] = read_trace_rows(target)
    printed = db(target, "import", file)
    assert "2 spans in 1 trace" in printed
    assert "were there already: 1 span" in printed
    [after] = read_trace_rows(target)
    assert after == (*before[:-1], 3)
    with serve(target) as api:
        assert api.get(f"{TRACES_URL}/{trace_id(1)}").json()["spanCount"] == 3


def test_a_trace_that_was_deleted_comes_back_as_a_new_one(new_database, db, file):
    source = export_traces(new_database, db, file, span(1))
    [(_, identifier, *_)] = read_trace_rows(source)
    settings = ServerSettings(**source)
    write_traces_once(settings, lambda connection: mark_traces(connection, [identifier]))
    db(source, "import", file)
    [(_, new, *_)] = read_trace_rows(source)
    assert new != identifier


def test_old_traces_keep_their_day_and_expire_as_they_would_have(new_database, db, file):
    export_traces(new_database, db, file, span(1))
    day = 86_400_000_000

    lines = lines_of(file)
    old = json.loads(lines[2])
    old["createdAt"] -= 20 * day
    old["updatedAt"] -= 20 * day
    write_lines(file, [*lines[:2], json.dumps(old).encode() + b"\n", *lines[3:]])
    for kind in KINDS:
        target = new_database(kind)
        db(target, "import", file)

        def read(connection):
            return connection.execute(select(TRACES.c.day, TRACES.c.created_at, TRACES.c.expires_at)).one()

        row = read_traces_once(ServerSettings(**target), read)
        assert row.created_at == old["createdAt"]
        assert row.day == old["createdAt"] // day
        assert row.expires_at == old["updatedAt"] + 30 * day
