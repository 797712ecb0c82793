"""Uploads that are cut short: killed servers, full disks, clients that hang up, datasets that are deleted."""

import io
import json
import os
import socket
import sys
import threading
from contextlib import contextmanager, suppress
from functools import partial

import pytest
from tests.server.server_process import execute, wait_until

ROWS = 8_000
"""More than one transaction writes, so that a kill finds some of them stored."""
IS_LONG = "DOKIMOS_LONG_TESTS" in os.environ
PATH = "/datasets/qa/versions"
MOMENTS = ("as the body arrives", "as the rows are stored")
COUNT_ITEMS = "SELECT COUNT(*) FROM dataset_items"
COUNT_VERSIONS = "SELECT COUNT(*) FROM dataset_versions"
AGE = "UPDATE dataset_versions SET created_at = created_at - 3600000000 WHERE version IS NULL"


def rows(count):
    """Rows that each differ, about 300 bytes long."""
    return [{"inputs": {"question": f"{number} " * 50}, "metadata": {"n": number}} for number in range(count)]


def as_json(count):
    return json.dumps({"items": rows(count)}).encode()


def as_jsonl(count):
    return "".join(f"{json.dumps(row)}\n" for row in rows(count)).encode()


def as_csv(count):
    lines = [f"{row['inputs']['question']},{row['metadata']['n']}" for row in rows(count)]
    return "\n".join(["inputs.question,n", *lines]).encode()


def as_parquet(count):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({name: [json.dumps(row[name]) for row in rows(count)] for name in rows(1)[0]})
    file = io.BytesIO()
    parquet.write_table(table, file, compression="none", use_dictionary=False)
    return file.getvalue()


KINDS = {
    "application/json": as_json,
    "application/x-ndjson": as_jsonl,
    "text/csv": as_csv,
    "application/vnd.apache.parquet": as_parquet,
}


@pytest.fixture
def temporary_folder(tmp_path_factory, monkeypatch):
    """The folder of temporary files of the servers that are started."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@contextmanager
def upload_under_way(server, kind, content, *, share=1.0):
    """A connection on which a share of an upload has been sent."""
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        head = f"POST /api/v1{PATH} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: {kind}\r\n"
        connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode())
        connection.sendall(content[: int(len(content) * share)])
        yield connection


def read_answer(connection):
    with connection.makefile("rb") as stream:
        return stream.read().decode()


def open_files(server):
    """The files without a name that a server holds, with their sizes."""
    folder = f"/proc/{server.pid}/fd"
    found = {}
    for name in os.listdir(folder):
        with suppress(OSError):
            if os.readlink(f"{folder}/{name}").endswith("(deleted)"):
                found[name] = os.stat(f"{folder}/{name}").st_size
    return found


def count(settings, statement=COUNT_ITEMS):
    return execute(settings, statement)[0][0]


def has_more_rows(settings, than):
    return count(settings) > than


def has_open_files(server, files):
    return open_files(server) == files


def moments():
    """Each kind of file once, at one moment or the other; in the long form, each at both."""
    for index, kind in enumerate(KINDS):
        for number, moment in enumerate(MOMENTS):
            if IS_LONG or index % 2 == number:
                yield kind, moment


def test_a_server_that_is_killed_in_the_middle_of_an_upload_leaves_nothing(
    process, database_settings, temporary_folder, tmp_path
):
    server = process()
    server.call("POST", "/datasets", {"name": "qa"})
    contents = {kind: make(ROWS) for kind, make in KINDS.items()}
    stored = 0
    for number, (kind, moment) in enumerate(moments()):
        is_arriving = moment == MOMENTS[0]
        with upload_under_way(server, kind, contents[kind], share=0.7 if is_arriving else 1.0):
            if not is_arriving:
                more = partial(has_more_rows, database_settings, stored)
                wait_until(more, "rows of an upload")
            server.kill()
        server = process()

        versions = server.call("GET", "/datasets/qa")[1]["versions"]
        assert [version["version"] for version in versions] == list(range(number, 0, -1))
        assert list(temporary_folder.iterdir()) == []
        assert {path.name.partition(".")[0] for path in tmp_path.iterdir()} <= {"server", "traces"}
        status, answer = server.send("POST", PATH, contents[kind], kind)
        assert (status, answer["version"], answer["itemCount"]) == (201, number + 1, ROWS)
        stored = count(database_settings)

    execute(database_settings, AGE)
    server.kill()
    process()
    wait_until(
        lambda: count(database_settings, COUNT_VERSIONS) == number + 1, "the rows that were left are removed"
    )
    assert count(database_settings) == ROWS * (number + 1)


def test_two_servers_share_a_folder_of_temporary_files(process, database_settings, temporary_folder):
    """The start of one must not take away the file that another one is receiving."""
    if "data_dir" in database_settings:
        pytest.skip("a folder of SQLite has one server")
    first = process()
    first.call("POST", "/datasets", {"name": "qa"})
    content = as_jsonl(ROWS)
    with upload_under_way(first, "application/x-ndjson", content, share=0.7) as connection:
        second = process()
        second.kill()
        connection.sendall(content[int(len(content) * 0.7) :])
        assert " 201 " in read_answer(connection)
    assert first.call("GET", PATH + "/latest")[1]["itemCount"] == ROWS


@pytest.mark.skipif(sys.platform != "linux", reason="reads which files a process holds from /proc")
def test_a_client_that_hangs_up_in_the_middle_of_an_upload_leaves_nothing(
    process, database_settings, temporary_folder
):
    server = process()
    server.call("POST", "/datasets", {"name": "qa"})
    for kind, make in KINDS.items():
        content = make(ROWS)
        known = open_files(server)
        with upload_under_way(server, kind, content, share=0.7):
            if kind != "application/json":
                wait_until(lambda: sum(open_files(server).values()) > 0, "a file of the upload")
        wait_until(partial(has_open_files, server, known), "the file is removed")
        assert server.call("GET", "/datasets/qa")[1]["versions"] == []
    assert count(database_settings, COUNT_VERSIONS) == 0
    _, log = server.stop()
    assert "Traceback" not in log


@pytest.mark.skipif(sys.platform != "linux", reason="limits the files of another process")
def test_a_disk_that_is_full_while_an_upload_arrives_is_answered_with_503(
    process, database_settings, temporary_folder
):
    import resource

    server = process()
    server.call("POST", "/datasets", {"name": "qa"})
    contents = {kind: make(ROWS) for kind, make in KINDS.items() if kind != "application/json"}
    no_limit = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1_000_000, no_limit[1]))
    known = open_files(server)
    for kind, content in [*contents.items()] * 2:
        status, answer = server.send("POST", PATH, content, kind)
        assert status == 503, kind
        assert "nothing of this was stored" in answer["message"]
        assert open_files(server) == known
    assert count(database_settings, COUNT_VERSIONS) == 0

    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, no_limit)
    for kind, content in contents.items():
        assert server.send("POST", PATH, content, kind)[0] == 201


@pytest.mark.skipif(sys.platform != "linux", reason="limits the files of another process")
def test_a_disk_that_is_full_while_a_parquet_file_is_written_is_answered_with_503(process, temporary_folder):
    """The connection was cut, as if the dataset had been deleted."""
    import resource

    pytest.importorskip("pyarrow")
    server = process()
    server.call("POST", "/datasets", {"name": "qa"})
    items = [{"inputs": {"random": os.urandom(500).hex()}} for _ in range(4000)]
    server.call("POST", PATH, {"items": items})
    no_limit = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1_000_000, no_limit[1]))
    known = open_files(server)

    for _ in range(2):
        status, answer = server.call("GET", f"{PATH}/latest/export?format=parquet")
        assert (status, answer["error"]) == (503, "Service Unavailable")
        assert open_files(server) == known


FILL_DISK = """
CREATE FUNCTION fill_disk() RETURNS trigger AS $$
BEGIN
  IF NEW.ordinal > 2500 THEN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END IF;
  RETURN NEW;
END $$ LANGUAGE plpgsql;
"""


def fill_disk(api):
    """Let the database refuse more rows, as on a full disk; return how to undo it."""
    database = api.app.state.database

    def run(*statements):
        def change(connection):
            for statement in statements:
                connection.exec_driver_sql(statement)

        api.portal.call(database.write, change)

    if database.dialect == "sqlite":

        def limit(connection):
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 300}")

        api.portal.call(database.write, limit)
        return lambda: run("PRAGMA max_page_count=1073741823")
    trigger = "CREATE TRIGGER fill BEFORE INSERT ON dataset_items FOR EACH ROW EXECUTE FUNCTION fill_disk()"
    run(FILL_DISK, trigger)
    return lambda: run("DROP TRIGGER fill ON dataset_items")


@pytest.mark.parametrize("kind", ["application/json", "application/x-ndjson"])
def test_a_disk_that_is_full_while_rows_are_stored_is_answered_with_503(api, kind):
    api.post("/api/v1/datasets", json={"name": "qa"})
    content = KINDS[kind](ROWS)
    make_room = fill_disk(api)
    for _ in range(2):
        answer = api.post(f"/api/v1{PATH}", content=content, headers={"Content-Type": kind})
        assert answer.status_code == 503, answer.text
        assert answer.headers["retry-after"] == "5"
        assert "nothing of this was stored" in answer.json()["message"]
        assert api.get("/api/v1/datasets/qa").json()["versions"] == []
    make_room()
    answer = api.post(f"/api/v1{PATH}", content=content, headers={"Content-Type": kind})
    assert (answer.status_code, answer.json()["version"]) == (201, 1)
    items = api.get(f"/api/v1{PATH}/1/items?size=1").json()
    assert items["totalElements"] == ROWS


def test_uploads_of_the_same_name_at_once_are_versions_of_one_dataset(process):
    """Four clients create the dataset, and each sends it whole, as four pipelines do at the same time."""
    server = process()
    answers = []

    def push(number):
        created = server.call("POST", "/datasets", {"name": "qa"})[0]
        answers.append((created, *server.send("POST", PATH, as_jsonl(500 + number), "application/x-ndjson")))

    threads = [threading.Thread(target=push, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(created for created, _, _ in answers) == [201, 409, 409, 409]
    assert [status for _, status, _ in answers] == [201] * 4
    assert sorted(version["version"] for _, _, version in answers) == [1, 2, 3, 4]
    for _, _, version in answers:
        page = server.call("GET", f"{PATH}/{version['version']}/items?size=2000")[1]["content"]
        assert [item["metadata"]["n"] for item in page] == list(range(version["itemCount"]))


def test_an_upload_to_a_dataset_that_is_deleted_ends_at_its_next_rows(process, database_settings):
    """It must not go on for minutes to store rows of which nobody will see any."""
    server = process()
    server.call("POST", "/datasets", {"name": "qa"})
    content = as_jsonl(ROWS * 5)
    with upload_under_way(server, "application/x-ndjson", content) as connection:
        wait_until(lambda: count(database_settings) > 0, "rows of the upload")
        assert server.call("DELETE", "/datasets/qa")[0] == 204
        answer = read_answer(connection)
    assert " 404 " in answer
    assert "was deleted while this version was written" in answer
    assert count(database_settings) < ROWS * 5
    assert server.call("GET", "/datasets/qa")[0] == 404
    server.stop()
    process()
    wait_until(lambda: count(database_settings) == 0, "the rows are removed")
