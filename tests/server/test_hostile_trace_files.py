"""Files of traces that are damaged, forged or of another place, and what holds for them in the target."""

import gzip
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select
from tests.server.db_command import KINDS, Command, open_server
from tests.server.test_trace_backup import fill
from tests.server.trace_requests import make_project, send, span, trace_id
from tests.server.trace_server import log_export, message_log

from dokimos.server import ServerSettings
from dokimos.server._admin import trace_export, trace_file
from dokimos.server._admin.databases import hold_database
from dokimos.server._db.database import DatabaseUnavailable, read_traces_once, write_traces_once
from dokimos.server._db.trace_tables import (
    SPAN_LOGS,
    SPANS,
    TRACE_HOURS,
    TRACE_LATENCIES,
    TRACE_MODELS,
    TRACES,
)
from dokimos.server._services.traces import day_storage
from dokimos.server._services.traces.trace_partitions import hold_day

TRACES_URL = "/api/v1/traces"
DAY = 86_400_000_000


@pytest.fixture
def db(monkeypatch, capsys):
    command = Command(monkeypatch, capsys)

    def run(settings, *arguments, code=0):
        found, printed = command(settings, *arguments)
        assert found == code, printed
        return printed

    return run


@pytest.fixture
def file(tmp_path):
    return tmp_path / "traces.jsonl.gz"


def export_traces(new_database, db, file, *spans, project=None):
    source = new_database("sqlite")
    with open_server(source) as api:
        if project is not None:
            make_project(api, project)
        send(api, *spans, project=project)
    db(source, "export", "--only-traces", file)
    return source


def lines_of(file):
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


def write_lines(file, lines):
    file.write_bytes(gzip.compress(b"".join(json.dumps(line).encode() + b"\n" for line in lines)))


def read(settings, query):
    return read_traces_once(ServerSettings(**settings), lambda connection: connection.execute(query).all())


def is_empty(settings):
    return not settings["data_dir"].joinpath("traces.db").exists() or read(settings, select(TRACES)) == []


def damage(content):
    """Change a bit within the checksum, which the lines themselves do not show."""
    return content[:-6] + bytes([content[-6] ^ 1]) + content[-5:]


@pytest.mark.parametrize("change", [damage, lambda content: content[:-5], lambda content: content[:-60]])
def test_nothing_of_a_file_that_is_damaged_is_imported(new_database, db, file, change):
    export_traces(new_database, db, file, span(1), span(2))
    file.write_bytes(change(file.read_bytes()))
    target = new_database("sqlite")
    assert "damaged or was cut off" in db(target, "import", file, code=2)
    assert is_empty(target)


def test_what_stands_behind_the_last_line_is_refused(new_database, db, file):
    export_traces(new_database, db, file, span(1))
    lines = lines_of(file)
    write_lines(file, [*lines, lines[2]])
    target = new_database("sqlite")
    assert "behind the last line" in db(target, "import", file, code=2)
    assert is_empty(target)


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line.update(createdAt=float("inf")),
        lambda line: line.update(updatedAt="soon"),
        lambda line: line.update(trace=line["trace"].upper()),
        lambda line: line.update(tenant="a\0b"),
        lambda line: line.update(tenant="\ud800"),
        lambda line: line.update(tenant=None),
        lambda line: line["spans"][0].update(project=["a"]),
        lambda line: line["spans"][0].update(source=[1]),
        lambda line: line.update(spans=7),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_line_that_was_forged_is_named(new_database, db, file, kind, change):
    export_traces(new_database, db, file, span(1))
    lines = lines_of(file)
    change(lines[2])
    write_lines(file, lines)
    assert "line 3" in db(new_database(kind), "import", file, code=2)


@pytest.mark.parametrize("change", [{"formatVersion": 0}, {"projects": [{"id": 1, "name": "", "tenant": 2}]}])
def test_a_head_that_was_forged_is_refused(new_database, db, file, change):
    export_traces(new_database, db, file, span(1))
    lines = lines_of(file)
    write_lines(file, [{**lines[0], **change}, *lines[1:]])
    assert file.name in db(new_database("sqlite"), "import", file, code=2)


def test_a_line_that_nests_too_deeply_is_refused(new_database, db, file):
    export_traces(new_database, db, file, span(1))
    lines = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
    file.write_bytes(gzip.compress(b"".join([*lines[:2], b"[" * 200_000 + b"\n", *lines[2:]])))
    assert "not a JSON object" in db(new_database("sqlite"), "import", file, code=2)


def test_the_numbers_of_sources_begin_again_before_they_are_too_many(new_database, db, file, monkeypatch):
    monkeypatch.setattr(trace_file, "_MAX_SOURCES", 2)
    source, target = new_database("sqlite"), new_database("sqlite")
    with open_server(source) as api:
        for number in range(1, 8):
            send(api, span(number), host=f"h{number % 4}")
    db(source, "export", "--only-traces", file)
    assert max(line.get("source", 0) for line in lines_of(file)) == 2
    db(target, "import", file)
    with open_server(target) as api:
        for number in range(1, 8):
            [found] = api.get(f"{TRACES_URL}/{trace_id(number)}").json()["spans"]
            assert f"h{number % 4}" in json.dumps(found)


def test_many_log_records_are_read_some_at_a_time(new_database, db, file, monkeypatch):
    monkeypatch.setattr(trace_export, "_LOGS_AT_ONCE", 2)
    source, target = new_database("sqlite"), new_database("sqlite")
    with open_server(source) as api:
        send(api, span(1), span(1, 2))
        for number in range(7):
            logs = log_export(message_log(f"message {number}", trace=1, number=1 + number % 2))
            assert api.post("/v1/logs", json=logs).status_code == 200
    assert "7 log records" in db(source, "export", "--only-traces", file)
    db(target, "import", file)
    columns = (SPAN_LOGS.c.span_id, SPAN_LOGS.c.record, SPAN_LOGS.c.body, SPAN_LOGS.c.expires_at)
    assert sorted(read(target, select(*columns))) == sorted(read(source, select(*columns)))


def test_projects_that_no_span_is_in_are_not_needed(new_database, db, file):
    source, target = new_database("sqlite"), new_database("sqlite")
    with open_server(source) as api:
        make_project(api, "unused")
        send(api, span(1))
    db(source, "export", "--only-traces", file)
    assert "1 span in 1 trace" in db(target, "import", file)


def test_a_project_of_another_tenant_is_not_taken_for_the_one_of_its_id(new_database, db, file):
    source = export_traces(new_database, db, file, span(1), project="chat")
    lines = lines_of(file)
    lines[0]["projects"][0]["tenant"] = "other"
    write_lines(file, lines)
    assert "no project 'chat' of the tenant 'other'" in db(source, "import", file, code=2)


@pytest.mark.parametrize("kind", KINDS)
def test_the_redaction_rules_of_the_target_hold(new_database, db, file, kind):
    source, target = new_database("sqlite"), new_database(kind)
    with open_server(source) as api:
        make_project(api, "chat")
        send(api, span(1, input="write to ada@example.com"), project="chat")
        logs = log_export(message_log("I am ada@example.com", trace=1, number=1), project="chat")
        assert api.post("/v1/logs", json=logs).status_code == 200
    db(source, "export", "--only-traces", file)
    rules = [{"name": "email", "pattern": "ada@[a-z.]+", "replacement": "-"}]
    with open_server(target) as api:
        make_project(api, "chat")
        answer = api.put("/api/v1/projects/chat/redaction-rules", json={"rules": rules})
        assert answer.status_code == 200, answer.text
        # It is shorter than what the file has, which must not take its place.
        send(api, span(1, input="write to ada@example.com"), project="chat")
    for _ in range(2):
        db(target, "import", file)
        for table in (SPANS, SPAN_LOGS):
            [row] = read(target, select(table.c.body))
            assert b"ada@" not in bytes(row.body)
    with open_server(target) as api:
        [rule] = api.get("/api/v1/projects/chat/redaction-rules").json()["rules"]
        assert rule["replacedCount"] > 1
        assert api.get(TRACES_URL, params={"search": "ada"}).json()["content"] == []


@pytest.mark.parametrize("kind", KINDS)
def test_traces_whose_time_is_over_are_not_imported(new_database, db, file, kind):
    export_traces(new_database, db, file, span(1), span(2))
    lines = lines_of(file)
    for line in lines:
        if line.get("traceId") == trace_id(1):
            line["createdAt"] -= 31 * DAY
            line["updatedAt"] -= 31 * DAY
    write_lines(file, lines)
    target = new_database(kind)
    printed = db(target, "import", file)
    assert "1 span in 1 trace" in printed
    assert "not imported, as the time of their traces is over here: 1 span" in printed
    assert [row.trace_id for row in read(target, select(TRACES.c.trace_id))] == [trace_id(2)]


def test_a_trace_expires_by_its_own_last_change_and_not_by_that_of_others(new_database, db, file):
    export_traces(new_database, db, file, span(1), span(2))
    lines = lines_of(file)
    [first, second] = [line for line in lines if "traceId" in line]
    first["createdAt"] = second["createdAt"] = first["createdAt"] - 20 * DAY
    first["updatedAt"] -= 20 * DAY
    write_lines(file, lines)
    target = new_database("sqlite")
    db(target, "import", file)
    found = dict(read(target, select(TRACES.c.trace_id, TRACES.c.expires_at)))
    assert found == {line["traceId"]: line["updatedAt"] + 30 * DAY for line in (first, second)}


def test_logs_do_not_make_a_trace_stay_longer_than_its_project_says(new_database, db, file):
    source, target = new_database("sqlite"), new_database("sqlite")
    for settings in (source, target):
        with open_server(settings) as api:
            make_project(api, "chat")
            answer = api.patch("/api/v1/projects/chat/settings", json={"traceRetentionDays": 7})
            assert answer.status_code < 300, answer.text
            send(api, span(1), project="chat")
            if settings is source:
                logs = log_export(message_log("beside it", trace=1, number=1), project="chat")
                assert api.post("/v1/logs", json=logs).status_code == 200
    db(source, "export", "--only-traces", file)
    db(target, "import", file)
    [row] = read(target, select(TRACES.c.updated_at, TRACES.c.expires_at))
    assert row.expires_at == row.updated_at + 7 * DAY


@pytest.mark.parametrize("kind", KINDS)
def test_dashboards_count_imported_traces_as_those_that_came_in(new_database, db, file, tmp_path, kind):
    source, target = new_database("sqlite"), new_database(kind)
    with open_server(source) as api:
        fill(api)
    db(source, "export", "--only-traces", file)
    db(source, "export", tmp_path / "all.zip")
    db(target, "import", tmp_path / "all.zip")
    db(target, "import", file)
    for table in (TRACE_HOURS, TRACE_LATENCIES, TRACE_MODELS):
        assert count(target, table) == count(source, table), table.name


def count(settings, table):
    """The counts of a table, whichever server counted them."""
    keys = [each.name for each in table.primary_key if each.name != "shard"]
    sums = {}
    for row in read(settings, select(table)):
        numbers = {name: number for name, number in row._mapping.items() if name not in (*keys, "shard")}
        total = sums.setdefault(tuple(str(row._mapping[name]) for name in keys), dict.fromkeys(numbers, 0))
        for name, number in numbers.items():
            total[name] += number
    assert sums
    return sums


def test_a_day_is_not_dropped_while_an_import_begins_traces_on_it(new_database, monkeypatch):
    database = new_database("postgresql")
    settings = ServerSettings(**database)
    with open_server(database):
        pass
    monkeypatch.setattr(day_storage, "_LOCK_WAIT", "50ms")

    def drop():
        return write_traces_once(settings, lambda connection: day_storage.drop_day(connection, 20_000))

    def begin(connection):
        hold_day(connection, 20_000, removes=False)
        with ThreadPoolExecutor() as threads, pytest.raises(DatabaseUnavailable, match="lock timeout"):
            threads.submit(drop).result()

    write_traces_once(settings, begin)
    assert drop()


def test_an_import_beside_a_server_on_sqlite_is_refused(new_database, db, file):
    source = export_traces(new_database, db, file, span(1))
    with hold_database(ServerSettings(**source), "A server"):  # as `dokimos serve` does
        assert "stop the server" in db(source, "import", file, code=2)


def test_a_server_on_postgresql_runs_while_traces_are_imported(new_database, db, file):
    export_traces(new_database, db, file, span(1), span(2, input="found by search"))
    target = new_database("postgresql")
    with open_server(target) as api:
        send(api, span(1, 5))
        db(target, "import", file)
        send(api, span(1, 6), span(2, 7))
        found = {each["traceId"]: each["spanCount"] for each in api.get(TRACES_URL).json()["content"]}
        assert found == {trace_id(1): 3, trace_id(2): 2}
        [match] = api.get(TRACES_URL, params={"search": "found by search"}).json()["content"]
        assert match["traceId"] == trace_id(2)
