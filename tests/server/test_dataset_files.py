"""Files of datasets: uploaded row by row, downloaded row by row."""

import asyncio
import gzip
import json
import os
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select, update

from dokimos import Dataset
from dokimos.server import ServerSettings
from dokimos.server._api.datasets import dataset_exports
from dokimos.server._db.database import open_database
from dokimos.server._db.tables import DATASET_ITEMS, DATASET_VERSIONS
from dokimos.server._services.accounts.principal import SYSTEM
from dokimos.server._services.datasets.dataset_items import item_of_texts
from dokimos.server._services.datasets.dataset_versions import NewVersion, write_version
from dokimos.server._services.datasets.datasets import create_dataset, delete_dataset, describe_dataset
from dokimos.server._services.errors import NotFoundError, UnavailableError
from dokimos.server._services.runs import maintenance
from dokimos.server._workers.maintenance import purge

JSONL = "application/x-ndjson"
PATH = "/api/v1/datasets/qa/versions"


@pytest.fixture
def qa(api):
    assert api.post("/api/v1/datasets", json={"name": "qa"}).status_code == 201
    return api


@pytest.fixture
async def database(database_settings):
    database = open_database(ServerSettings(**database_settings))
    await database.open()
    await database.write(lambda c: create_dataset(c, SYSTEM, "qa", None))
    yield database
    await database.close()


def upload(api, content, kind=JSONL, headers=None, **query):
    headers = {"Content-Type": kind, **(headers or {})}
    return api.post(PATH, content=content, headers=headers, params=query)


def items_of(api, version="latest"):
    return api.get(f"{PATH}/{version}/items", params={"size": 2000}).json()["content"]


def lines(count, start=0):
    for number in range(start, start + count):
        yield f'{{"inputs": {{"n": {number}}}, "metadata": {{"half": {number // 2}}}}}\n'.encode()


def test_rows_of_jsonl_become_items(qa):
    text = (
        '{"input": "1 + 1", "expectedOutput": "2", "id": "sum", "topic": "sums"}\n\n{"inputs": {"a": "ä"}}\n'
    )

    answer = upload(qa, text.encode(), description="From a file")

    assert answer.status_code == 201, answer.text
    assert (answer.json()["itemCount"], answer.json()["description"]) == (2, "From a file")
    first, second = items_of(qa)
    assert (first["inputs"], first["expectedOutputs"]) == ({"input": "1 + 1"}, {"output": "2"})
    assert (first["metadata"], first["externalId"]) == ({"topic": "sums"}, "sum")
    assert (second["inputs"], second["expectedOutputs"], second["metadata"]) == ({"a": "ä"}, None, None)
    assert qa.put(PATH, content=text.encode(), headers={"Content-Type": JSONL}).json()["version"] == 2


def test_columns_of_csv_become_keys(qa):
    text = 'id,inputs.question,expectedOutputs.answer,topic\nq1,Why?,\nq2,"How, then?",So,x\n'

    answer = upload(qa, text, "text/csv; charset=utf-8")

    assert answer.status_code == 201, answer.text
    first, second = items_of(qa)
    assert (first["inputs"], first["expectedOutputs"], first["metadata"]) == (
        {"question": "Why?"},
        None,
        None,
    )
    assert second["inputs"] == {"question": "How, then?"}
    assert (second["expectedOutputs"], second["metadata"]) == ({"answer": "So"}, {"topic": "x"})
    assert upload(
        qa, text.replace(",", "\t").replace("How\t", "How,"), "text/tab-separated-values"
    ).is_success


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"inputs": {}}\n{"inputs": \n', "line 2: "),
        ('{"expectedOutput": 3}\n', "line 1: This row has no 'input'"),
        ('{"inputs": {"a": NaN}}\n', "NaN"),
        ("\n\n", "There are no examples"),
        ("", "There are no examples"),
        ('{"inputs": {"\\u0000": 1}}\n', "example 1.inputs: the key"),
        ('{"inputs": {}, "id": "a"}\n{"inputs": {"b": 1}, "id": "a"}\n', "items[1].id: 'a' is given twice"),
        ('{"inputs": {}, "actualOutput": "x"}\n', "example 1: has recorded outputs"),
        ('{"inputs": {"a": ' + "[" * 300 + "]" * 300 + "}}\n", "nested deeper than 200"),
        ('{"inputs": {"a": ' + "[" * 100_000 + "]" * 100_000 + "}}\n", "nested too deeply"),
        (b'{"inputs": {"a": "\xff"}}\n', "Not valid UTF-8"),
        (b"\x1f\x8b123", "Content-Encoding: gzip"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_and_leaves_nothing(qa, text, message):
    answer = upload(qa, text)

    assert answer.status_code == 400, answer.text
    assert message in answer.json()["message"]
    assert qa.get("/api/v1/datasets/qa").json()["versions"] == []


@pytest.mark.parametrize(
    ("kind", "text", "advice"),
    [
        ("text/csv", "id,question\n1,a\n", "'question'. Name the column of the input 'input', or those of"),
        (
            "application/jsonl",
            '{"q": 1}\n',
            "'q'. Name the input 'input', or its parts in an object 'inputs'.",
        ),
    ],
)
def test_a_file_without_inputs_is_refused_with_what_helps_in_a_request(qa, kind, text, advice):
    answer = qa.post("/api/v1/datasets/qa/versions", content=text, headers={"Content-Type": kind})
    assert answer.status_code == 400
    assert advice in answer.json()["message"]
    assert "columns=" not in answer.json()["message"]


@pytest.mark.parametrize(
    "headers", [{}, {"Content-Type": "text/plain"}, {"Content-Type": "multipart/form-data"}]
)
def test_a_file_of_no_known_type_is_refused_with_the_types_that_are_read(qa, headers):
    answer = qa.post(PATH, content=b"id,input\na,b\n", headers=headers)

    assert answer.status_code == 415
    assert "application/json, application/x-ndjson, text/csv" in answer.json()["message"]


def test_ids_that_are_given_later_make_a_version_also_where_only_a_change_may(qa):
    upload(qa, '{"inputs": {"a": 1}}\n{"inputs": {"a": 2}}\n', ifChanged=True)
    named = '{"inputs": {"a": 1}}\n{"inputs": {"a": 2}, "id": "two"}\n'

    first, second = (upload(qa, named, ifChanged=True) for _ in range(2))

    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["version"] == second.json()["version"] == 2
    assert [item["externalId"] for item in items_of(qa)] == [None, "two"]
    assert items_of(qa)[1]["lineageId"] == items_of(qa, 1)[1]["lineageId"]
    unnamed = upload(qa, '{"inputs": {"a": 1}}\n{"inputs": {"a": 2}}\n', ifChanged=True)
    assert (unnamed.status_code, unnamed.json()["version"]) == (200, 2)


def test_a_file_may_be_packed(qa):
    packed = gzip.compress(b"".join(lines(100)))
    headers = {"Content-Encoding": "gzip"}

    assert upload(qa, packed, headers=headers).json()["itemCount"] == 100
    assert "cut off" in upload(qa, packed[:-20], headers=headers).json()["message"]
    # A second member, of which nothing would be stored.
    assert upload(qa, packed + packed, headers=headers).status_code == 400
    assert len(qa.get("/api/v1/datasets/qa").json()["versions"]) == 1


def test_a_file_over_the_limit_is_refused(serve):
    api = serve(max_upload_bytes=1000, max_body_bytes=500)
    api.post("/api/v1/datasets", json={"name": "qa"})

    assert upload(api, iter([b" " * 600, b" " * 600])).status_code == 413
    bomb = gzip.compress(b" " * 10_000_000)
    assert upload(api, bomb[:900], headers={"Content-Encoding": "gzip"}).status_code == 413
    large = json.dumps({"inputs": {"a": "x" * 600}})
    assert upload(api, large).status_code == 413
    assert api.get("/api/v1/datasets/qa").json()["versions"] == []


def test_parquet_without_its_package_is_refused_and_says_what_to_install(qa, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    upload(qa, b"".join(lines(1)))

    sent = upload(qa, b"PAR1", "application/vnd.apache.parquet")
    asked = qa.get(f"{PATH}/1/export", params={"format": "parquet"})

    for answer in (sent, asked):
        assert answer.status_code == 415
        assert "dokimos[parquet]" in answer.json()["message"]


TYPES = {
    "json": "application/json",
    "jsonl": JSONL,
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "parquet": "application/vnd.apache.parquet",
}


@pytest.mark.parametrize("format", TYPES)
def test_what_is_downloaded_can_be_loaded_and_sent_back(qa, format, tmp_path):
    if format == "parquet":
        pytest.importorskip("pyarrow")
    rows = [
        {"inputs": {"question": 'Was, "wie"\nund ä?'}, "expectedOutputs": {"answer": " x "}},
        {"inputs": {"question": "b", "other": "c"}, "metadata": {"topic": "t"}, "id": "named"},
    ]
    qa.post(PATH, json={"items": rows})
    before = items_of(qa)

    answer = qa.get(f"{PATH}/latest/export", params={"format": format})

    assert answer.status_code == 200
    assert "filename*=UTF-8''qa-1." in answer.headers["content-disposition"]
    path = Path(tmp_path / f"file.{format}")
    path.write_bytes(answer.content)
    examples = Dataset.load(path)
    assert [example.id for example in examples] == [before[0]["lineageId"], "named"]
    assert examples[0].inputs["question"] == rows[0]["inputs"]["question"]
    assert upload(qa, answer.content, TYPES[format]).status_code == 201
    after = items_of(qa)
    for name in ("inputs", "expectedOutputs", "metadata", "lineageId", "externalId", "contentHash"):
        assert [item[name] for item in after] == [item[name] for item in before], name
    versions = qa.get("/api/v1/datasets/qa").json()["versions"]
    assert versions[0]["contentHash"] == versions[1]["contentHash"]


HOSTILE_KEYS = st.sampled_from((
    "", " ", " a", "a ", "a.b", ".", "a.", ".a", "[0]", "a[0].b", "id", "input", "inputs", "inputs.",
    "inputs.a", "output", "expected", "expectedOutput", "metadata", "metadata.id", "a,b", "a\tb", 'a"b',
    "a\nb", "a\rb", "=1+1", "\ufeffa", "A", "a", "ä", "\u200f", "\x85", "NaN", "null",
)) | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)  # fmt: skip
HOSTILE_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        ["", " ", " x ", "1", "null", "true", "{}", '{"a": 1}', "\0", "\ud800", "a\r\nb", '"', "=1"]
    )
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(HOSTILE_KEYS, inner, max_size=2),
    max_leaves=4,
)
HOSTILE_MAPS = st.dictionaries(HOSTILE_KEYS, HOSTILE_VALUES, max_size=4)
HOSTILE_ITEMS = st.fixed_dictionaries(
    {"inputs": HOSTILE_MAPS},
    optional={
        "expectedOutputs": st.none() | HOSTILE_MAPS,
        "metadata": st.none() | HOSTILE_MAPS,
        "id": st.text(
            st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=6
        ),
    },
)


@settings(
    max_examples=200 if "DOKIMOS_LONG_TESTS" in os.environ else 15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(items=st.lists(HOSTILE_ITEMS, min_size=1, max_size=5, unique_by=lambda item: item.get("id", id(item))))
def test_what_is_exported_in_any_format_comes_back_as_it_was(qa, items):
    """Odd keys, and what is empty, null or missing, also where tables have no word for it."""
    answer = qa.post(PATH, content=json.dumps({"items": items}), headers={"Content-Type": "application/json"})
    assert answer.status_code == 201, answer.text
    version = answer.json()
    before = items_of(qa, version["version"])
    for format, kind in TYPES.items():
        exported = qa.get(f"{PATH}/{version['version']}/export", params={"format": format})
        assert exported.status_code == 200, exported.text
        sent = upload(qa, exported.content, kind)
        assert sent.status_code == 201, (format, sent.text, exported.text)
        assert sent.json()["contentHash"] == version["contentHash"], (format, exported.text)
        after = items_of(qa, sent.json()["version"])
        for name in ("inputs", "expectedOutputs", "metadata"):
            assert [item[name] or {} for item in after] == [item[name] or {} for item in before], format


def test_a_parquet_export_is_written_where_uploads_are(qa, tmp_path, monkeypatch):
    """Beside a database of SQLite, since the folder of the system may be small; else there, or refused."""
    pytest.importorskip("pyarrow")
    upload(qa, b"".join(lines(1)))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))

    answer = qa.get(f"{PATH}/latest/export", params={"format": "parquet"})

    if qa.app.state.settings.database_url is None:
        assert (answer.status_code, answer.content[:4]) == (200, b"PAR1")
    else:
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


def test_a_dataset_that_is_deleted_before_its_parquet_file_is_whole_is_404(qa, monkeypatch):
    pytest.importorskip("pyarrow")
    upload(qa, b"".join(lines(1)))

    async def no_batches(database, version_id):
        for rows in ():
            yield rows

    monkeypatch.setattr(dataset_exports, "read_batches", no_batches)

    assert qa.get(f"{PATH}/latest/export", params={"format": "parquet"}).status_code == 404


def test_many_rows_go_in_and_come_out_in_order(qa):
    count = 20_000

    answer = upload(qa, lines(count))

    assert answer.json()["itemCount"] == count
    exported = qa.get(f"{PATH}/latest/export").text.splitlines()
    assert [json.loads(line)["inputs"]["n"] for line in exported] == list(range(count))
    page = qa.get(f"{PATH}/1/items", params={"page": 399, "size": 50}).json()
    assert [item["ordinal"] for item in page["content"]] == list(range(count - 50, count))


def batch(*numbers):
    return [item_of_texts(json.dumps({"n": number}), None, None) for number in numbers]


async def count(database, table):
    return await database.read(lambda c: c.execute(select(func.count()).select_from(table)).scalar_one())


async def versions_of(database):
    return (await database.read(lambda c: describe_dataset(c, SYSTEM, "qa")))[1]


async def test_nobody_sees_a_version_before_it_is_complete(database):
    async def batches():
        for number in range(3):
            yield batch(number)
            assert await versions_of(database) == []
        assert await count(database, DATASET_ITEMS) == 3

    written = await write_version(database, SYSTEM, NewVersion(dataset="qa"), batches())

    assert [row.version for row in await versions_of(database)] == [written.row.version] == [1]


async def test_two_uploads_at_once_get_two_versions(database):
    started = [asyncio.Event(), asyncio.Event()]

    async def batches(own, other):
        yield batch(own)
        started[own].set()
        await started[other].wait()
        yield batch(own + 10)

    written = await asyncio.gather(
        *(
            write_version(database, SYSTEM, NewVersion(dataset="qa"), batches(own, 1 - own))
            for own in range(2)
        )
    )

    assert {each.row.version for each in written} == {1, 2}
    assert [row.item_count for row in await versions_of(database)] == [2, 2]


async def test_an_upload_that_fails_leaves_nothing_after_the_next_sweep(database):
    async def batches():
        yield batch(1, 2)
        raise OSError("the file has gone")

    with pytest.raises(OSError, match="has gone"):
        await write_version(database, SYSTEM, NewVersion(dataset="qa"), batches())

    assert await versions_of(database) == []
    await purge(database)
    assert await count(database, DATASET_ITEMS) == await count(database, DATASET_VERSIONS) == 0


async def test_what_a_killed_server_has_left_is_removed_when_it_is_old(database):
    class Killed(BaseException):
        pass

    async def batches():
        yield batch(1, 2)
        database_write, database.write = database.write, None  # as a killed server: it tidies up nothing
        try:
            raise Killed
        finally:
            asyncio.get_running_loop().call_soon(setattr, database, "write", database_write)

    with pytest.raises(Killed):
        await write_version(database, SYSTEM, NewVersion(dataset="qa"), batches())
    await asyncio.sleep(0)

    await purge(database)  # it may still be going on, on another server
    assert await count(database, DATASET_ITEMS) == 2
    an_hour_ago = update(DATASET_VERSIONS).values(created_at=DATASET_VERSIONS.c.created_at - 3_600_000_000)
    await database.write(lambda c: c.execute(an_hour_ago).rowcount)
    await purge(database)
    assert await count(database, DATASET_ITEMS) == await count(database, DATASET_VERSIONS) == 0


@pytest.mark.parametrize("is_complete", [True, False])
async def test_a_version_of_which_the_purge_took_items_is_not_published(database, monkeypatch, is_complete):
    """Where the clock is set forward, or the machine slept, an upload that goes on looks like one left."""
    monkeypatch.setattr(maintenance, "PURGE_ROWS", 3)

    async def batches():
        yield batch(1, 2, 3, 4)
        later = update(DATASET_VERSIONS).values(created_at=DATASET_VERSIONS.c.created_at - 3_600_000_000)
        await database.write(lambda c: c.execute(later).rowcount)
        assert await database.write(maintenance.purge_deleted_rows) == 3
        if not is_complete:
            yield batch(5, 6)

    with pytest.raises(UnavailableError, match="given up"):
        await write_version(database, SYSTEM, NewVersion(dataset="qa"), batches())

    assert await versions_of(database) == []
    await purge(database)
    assert await count(database, DATASET_ITEMS) == await count(database, DATASET_VERSIONS) == 0


async def test_a_dataset_that_is_deleted_meanwhile_gets_no_version(database):
    async def batches():
        yield batch(1)
        await database.write(lambda c: delete_dataset(c, SYSTEM, "qa"))
        yield batch(2)

    with pytest.raises(NotFoundError, match="was deleted"):
        await write_version(database, SYSTEM, NewVersion(dataset="qa"), batches())
    await purge(database)
    assert await count(database, DATASET_ITEMS) == 0
