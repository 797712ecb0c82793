"""Data sets on a server: versions, pages, the copy for outages, and what is never masked by it."""

import json
import socket
import subprocess
import sys
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from aiohttp import web

from dokimos import Dataset, Example, Experiment
from dokimos._http import api_client
from dokimos.datasets import DatasetSource
from dokimos.datasets._remote_cache import folder_name
from dokimos.datasets._resolver import ServerResolver
from dokimos.errors import DatasetError
from dokimos.evaluators import ExactMatch
from dokimos.testing.contracts import ResolverContract

KEY = "dk-0123456789abcdef0123456789"


class DatasetServer:
    """Answers as a dokimos server does, for the data sets in `versions`: name to lists of items."""

    def __init__(self, versions, *, key=None):
        self.versions = versions
        self.key = key
        self.failures = []
        """Statuses that are answered instead, one after the other; None cuts the connection."""
        self.always = None
        self.paths = []

    def __call__(self, request):
        parts = urlsplit(request.raw_path)
        self.paths.append(request.raw_path)
        if self.failures:
            status = self.failures.pop(0)
            return None if status is None else web.json_response({}, status=status)
        if self.always is not None:
            return self.always(request)
        if self.key is not None and request.headers.get("Authorization") != f"Bearer {self.key}":
            return web.json_response({"error": "Invalid or missing API key"}, status=401)
        _, api, v1, datasets, name, versions, version, *items = parts.path.split("/")
        assert (api, v1, datasets, versions) == ("api", "v1", "datasets", "versions")
        found = self.versions.get(unquote(name))
        number = len(found or ()) if version == "latest" else int(version)
        if not found or number > len(found):
            message = f"Dataset not found: {unquote(name)}"
            return web.json_response({"error": "Not Found", "message": message, "timestamp": "t"}, status=404)
        content = found[number - 1]
        if not items:
            return {
                "id": "v-uuid", "datasetName": unquote(name), "version": number, "description": None,
                "itemCount": len(content), "createdAt": "2026-01-01T00:00:00Z", "createdBy": "system",
            }  # fmt: skip
        query = parse_qs(parts.query)
        page, size = int(query["page"][0]), int(query["size"][0])
        rows = content[page * size : (page + 1) * size]
        return {"content": rows, "number": page, "size": size, "totalElements": len(content), "last": True}


def items(count, version=1):
    return [
        {
            "id": f"00000000-0000-4000-8000-{version:04}{n:08}",
            "ordinal": n,
            "inputs": {"question": f"q{n}", "naïve": "日本"},
            "expectedOutputs": {"answer": f"a{n}"} if n % 2 else None,
            "metadata": {"n": n} if n % 2 else None,
        }
        for n in range(count)
    ]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    for name in (
        "DOKIMOS_SERVER_URL",
        "DOKIMOS_API_KEY",
        "DOKIMOS_API_VERSION",
        "DOKIMOS_OFFLINE",
        "http_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setattr(api_client, "FIRST_BACKOFF", 0.001)
    return tmp_path / "home"


@pytest.fixture
def datasets(serve, monkeypatch):
    answers = DatasetServer({"faq": [items(3, 1), items(5, 2)]})
    with serve(answers) as server:
        answers.url = server.url
        monkeypatch.setenv("DOKIMOS_SERVER_URL", server.url)
        yield answers


def cached_path(home, name="faq", version=1):
    return home / ".dokimos" / "datasets-cache" / folder_name(name, version) / "items.json"


def fail_for_ever(datasets, status=503):
    datasets.always = lambda request: web.json_response({"error": "down"}, status=status)


# Loading


def test_a_version_is_loaded_with_its_source_and_the_ids_of_its_items(datasets):
    data = Dataset.load("dataset://faq@1")

    assert data.name == "faq"
    assert data.source == DatasetSource(uri="dataset://faq@1", name="faq", version=1)
    assert data[1] == Example(
        {"question": "q1", "naïve": "日本"}, {"answer": "a1"}, metadata={"n": 1}, id=items(3)[1]["id"]
    )
    assert data[0].expected_outputs == {}
    assert data.item_ids == tuple(item["id"] for item in items(3))


def test_latest_is_the_highest_version(datasets):
    data = Dataset.load("dataset://faq@latest")

    assert len(data) == 5
    assert data.source == DatasetSource(uri="dataset://faq@latest", name="faq", version=2)


@pytest.mark.parametrize("count", [0, 1, 199, 200, 201, 400, 1001])
def test_items_come_in_pages_of_200(datasets, count):
    datasets.versions["big"] = [items(count)]

    data = Dataset.load("dataset://big@1")

    assert [example.inputs["question"] for example in data] == [f"q{n}" for n in range(count)]
    assert len(datasets.paths) == 1 + -(-count // 200)
    assert all("size=200" in path for path in datasets.paths[1:])


def test_the_same_row_keeps_its_id_across_versions_where_the_server_knows_its_lineage(datasets, home):
    rows = [{**item, "lineageId": f"row-{n}"} for n, item in enumerate(items(2))]
    datasets.versions["kept"] = [rows, [{**row, "id": f"other-{n}"} for n, row in enumerate(rows)]]

    first, second = Dataset.load("dataset://kept@1"), Dataset.load("dataset://kept@2")
    fail_for_ever(datasets)
    copy = Dataset.load("dataset://kept@2")

    assert [e.id for e in first] == [e.id for e in second] == [e.id for e in copy] == ["row-0", "row-1"]
    assert first.item_ids != second.item_ids == copy.item_ids == ("other-0", "other-1")


@pytest.mark.parametrize(
    "name", ["a/b", "a b", "50%", "ü@home", "a.b", "x#y?z", "con", "..x", "a" * 255, "日" * 255]
)
def test_any_name_is_found_and_cached(datasets, home, name):
    datasets.versions[name] = [items(2)]

    assert len(Dataset.load(f"dataset://{name}@1")) == 2
    fail_for_ever(datasets)
    assert len(Dataset.load(f"dataset://{name}@1")) == 2

    folder = cached_path(home, name).parent
    assert folder.parent == home / ".dokimos" / "datasets-cache"
    assert not set(folder.name) & set('/\\:*?"<>|')
    assert len(folder.name.encode()) < 200


def test_the_key_is_sent_and_never_shown(serve, monkeypatch):
    with serve(DatasetServer({"faq": [items(1)]}, key=KEY)) as server:
        monkeypatch.setenv("DOKIMOS_SERVER_URL", f" {server.url}/ ")
        monkeypatch.setenv("DOKIMOS_API_KEY", f"{KEY}\n")
        assert len(Dataset.load("dataset://faq@1")) == 1

        monkeypatch.setenv("DOKIMOS_API_KEY", "dk-wrong-0123456789abcdef")
        with pytest.raises(
            DatasetError, match=r"401 .*; set DOKIMOS_API_KEY to a key of this server"
        ) as error:
            Dataset.load("dataset://faq@1")

    assert "dk-wrong" not in str(error.value)


def test_columns_are_refused_since_they_would_do_nothing(datasets):
    for read in (Dataset.load, Dataset.stream):
        with pytest.raises(DatasetError, match="columns= names the columns of a file"):
            read("dataset://faq@1", columns={"question": "input"})


# What is refused


@pytest.mark.parametrize(
    "uri",
    ["dataset://faq", "dataset://faq@", "dataset://faq@0", "dataset://faq@-1", "dataset://faq@1.5", "dataset://@1",
     "dataset://faq@newest", "dataset://faq@LATEST", "dataset://faq@٣", "dataset://faq@ 1", "dataset://", "DATASET://x@y"],
)  # fmt: skip
def test_a_uri_without_a_version_is_refused_and_both_forms_are_named(datasets, uri):
    for read in (Dataset.load, Dataset.stream):
        with pytest.raises(DatasetError) as error:
            read(uri)
        assert "@3'" in str(error.value)
        assert "@latest'" in str(error.value)
    assert not datasets.paths


@pytest.mark.parametrize("name", [".", "..", "\ud800"])
def test_a_name_that_no_path_can_hold_is_refused(datasets, name):
    with pytest.raises(DatasetError, match="cannot be"):
        Dataset.load(f"dataset://{name}@1")


@pytest.mark.parametrize("url", [None, "", "  "])
def test_without_a_server_nobody_claims_the_uri(monkeypatch, url):
    if url is not None:
        monkeypatch.setenv("DOKIMOS_SERVER_URL", url)

    assert not ServerResolver().supports("dataset://faq@1")
    with pytest.raises(DatasetError, match="set DOKIMOS_SERVER_URL to the address of that server"):
        Dataset.load("dataset://faq@1")


def test_a_server_that_is_not_a_url_is_named(monkeypatch):
    monkeypatch.setenv("DOKIMOS_SERVER_URL", "localhost:8080")

    with pytest.raises(DatasetError, match=r"DOKIMOS_SERVER_URL: .* must start with http"):
        Dataset.load("dataset://faq@1")


# Outages


@pytest.mark.parametrize("failure", [None, 500, 502, 503, 429])
def test_a_failure_that_passes_is_tried_three_times(datasets, failure):
    datasets.failures = [failure, failure]

    assert len(Dataset.load("dataset://faq@1")) == 3


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_pinned_version_is_taken_from_its_copy_in_an_outage(datasets, caplog, status):
    before = Dataset.load("dataset://faq@1")
    fail_for_ever(datasets, status)

    copy = Dataset.load("dataset://faq@1")
    streamed = Dataset.stream("dataset://faq@1")

    assert copy == before
    assert (copy.item_ids, copy.source) == (before.item_ids, before.source)
    assert list(streamed) == list(before)
    assert streamed.source == before.source
    assert "the copy on this machine was used" in caplog.text


def test_a_version_that_was_latest_is_pinned_in_the_copy(datasets):
    latest = Dataset.load("dataset://faq@latest")
    fail_for_ever(datasets)

    assert Dataset.load("dataset://faq@2").item_ids == latest.item_ids


def test_the_copy_of_another_server_is_not_used(datasets, monkeypatch):
    Dataset.load("dataset://faq@1")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{taken.getsockname()[1]}"

    monkeypatch.setenv("DOKIMOS_SERVER_URL", nowhere)
    with pytest.raises(DatasetError, match=r"cannot connect .* There is no copy of it on this machine"):
        Dataset.load("dataset://faq@1")


def test_a_machine_without_a_network_uses_the_copy_of_any_client(home, monkeypatch):
    path = cached_path(home, version=7)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"name": "faq", "version": 7, "items": items(2)}), "utf-8")
    monkeypatch.setenv("DOKIMOS_SERVER_URL", "https://dokimos.example")
    monkeypatch.setenv("DOKIMOS_OFFLINE", "1")

    assert len(Dataset.load("dataset://faq@7")) == 2
    with pytest.raises(DatasetError, match="DOKIMOS_OFFLINE is set"):
        Dataset.load("dataset://faq@latest")


def test_latest_is_never_taken_from_the_copy(datasets):
    Dataset.load("dataset://faq@latest")
    fail_for_ever(datasets)

    with pytest.raises(DatasetError, match="The latest version is always asked of the server"):
        Dataset.load("dataset://faq@latest")


def version_of(count, content):
    """Answer with a version that says that it has `count` items, and these items."""
    about = {"version": 1, "itemCount": count}
    return lambda request: {"content": content} if "items" in request.raw_path else about


@pytest.mark.parametrize(
    "answer",
    [
        lambda request: web.json_response({"error": "Not Found", "message": "gone"}, status=404),
        lambda request: web.json_response({"error": "no"}, status=403),
        lambda request: web.json_response({"error": "Conflict"}, status=409),
        lambda request: web.Response(status=302, headers={"Location": "https://login.example/"}),
        lambda request: web.Response(text="<html>login</html>"),
        lambda request: web.Response(body=b""),
        lambda request: {"version": 2, "itemCount": 3},
        lambda request: {"version": 1},
        lambda request: {"version": 1, "itemCount": "3"},
        lambda request: [],
        version_of(4, items(3)),
        version_of(2, items(3)),
        version_of(1, [5]),
        version_of(1, [{}]),
        version_of(1, [{"inputs": "x"}]),
        version_of(2, items(1) * 2),
    ],
)  # fmt: skip
def test_what_is_not_an_outage_is_never_masked_by_the_copy(datasets, answer):
    Dataset.load("dataset://faq@1")
    datasets.always = answer

    with pytest.raises(DatasetError, match="dataset://faq@1"):
        Dataset.load("dataset://faq@1")

    fail_for_ever(datasets)
    assert len(Dataset.load("dataset://faq@1")) == 3  # nothing of it has reached the copy


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"[]", b'{"name": "faq", "version": 1, "items": [1]}', b"\xff\xfe", b"[" * 100_000],
)
def test_a_damaged_copy_is_named_in_an_outage_and_replaced_after_it(datasets, home, damage):
    whole = Dataset.load("dataset://faq@1")
    cached_path(home).write_bytes(damage)
    fail_for_ever(datasets)

    with pytest.raises(DatasetError, match="its copy on this machine is damaged; delete") as error:
        Dataset.load("dataset://faq@1")
    assert "503" in str(error.value)

    datasets.always = None
    assert Dataset.load("dataset://faq@1") == whole
    fail_for_ever(datasets)
    assert Dataset.load("dataset://faq@1") == whole


def test_the_copy_has_the_documented_form_and_one_of_another_client_is_read(datasets, home):
    Dataset.load("dataset://faq@1")
    path = cached_path(home)
    content = json.loads(path.read_bytes())
    plain = [
        {name: item[name] for name in ("id", "inputs", "expectedOutputs", "metadata")} for item in items(3)
    ]

    assert path.parent.name == "faq@1"
    assert content == {"name": "faq", "version": 1, "items": plain}

    content["items"] = content["items"][:2]
    path.write_text(json.dumps(content, indent=2), "utf-8")  # by another client
    fail_for_ever(datasets)
    assert len(Dataset.load("dataset://faq@1")) == 2


def test_a_copy_of_a_name_that_differs_in_case_is_not_used(datasets, home):
    Dataset.load("dataset://faq@1")
    path = cached_path(home)
    path.write_text(path.read_text("utf-8").replace('"faq"', '"FAQ"'), "utf-8")
    fail_for_ever(datasets)

    with pytest.raises(DatasetError, match="There is no copy"):
        Dataset.load("dataset://faq@1")


def test_a_home_that_cannot_be_written_is_no_reason_not_to_run(datasets, home, caplog):
    home.mkdir()
    (home / ".dokimos").write_text("a file")

    assert len(Dataset.load("dataset://faq@1")) == 3
    assert "No copy of the data set 'faq' was kept" in caplog.text


LOAD_OFTEN = """
from dokimos import Dataset
print(*(len(Dataset.load("dataset://big@1")) for _ in range(5)))
"""


def test_two_processes_fill_the_copy_at_once(datasets, home):
    datasets.versions["big"] = [items(450)]

    command = [sys.executable, "-c", LOAD_OFTEN]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    printed = [process.communicate(timeout=120)[0].split() for process in processes]

    fail_for_ever(datasets)
    assert printed == [["450"] * 5] * 2
    assert len(Dataset.load("dataset://big@1")) == 450
    assert sorted(path.name for path in cached_path(home, "big").parent.iterdir()) == [
        "about.json",
        "items.json",
    ]


# Streams, runs


def test_a_stream_reads_page_by_page_and_again(datasets):
    datasets.versions["big"] = [items(401)]
    stream = Dataset.stream("dataset://big@latest")

    assert stream.source == DatasetSource(uri="dataset://big@latest", name="big", version=1)
    assert stream.waits
    iterator = iter(stream)
    assert next(iterator).inputs["question"] == "q0"
    assert len(datasets.paths) == 2
    assert [len(list(stream)) for _ in range(2)] == [401, 401]
    assert stream.fingerprint == Dataset.load("dataset://big@1").fingerprint


def test_a_stream_that_breaks_off_is_an_error(datasets):
    datasets.versions["big"] = [items(401)]
    stream = Dataset.stream("dataset://big@1")
    found = iter(stream)
    next(found)
    fail_for_ever(datasets)

    with pytest.raises(DatasetError, match="503"):
        list(found)


def test_a_run_of_a_server_data_set_is_linked_to_its_items(datasets, tmp_path):
    data = Dataset.load("dataset://faq@latest").filter(lambda example: example.metadata)

    result = Experiment(data, lambda question: question, [ExactMatch()]).run(run_dir=tmp_path, quiet=True)

    assert [item.example.dataset_item_id for item in result.item_results] == [
        items(5, 2)[n]["id"] for n in (1, 3)
    ]


def test_a_data_set_is_loaded_where_a_loop_runs(datasets):
    import asyncio

    async def main():
        return len(Dataset.load("dataset://faq@1"))

    assert asyncio.run(main()) == 3


class TestServerResolver(ResolverContract):
    resolver = ServerResolver()
    uri = "dataset://faq@2"
    missing_uri = "dataset://nothing@1"

    @pytest.fixture(autouse=True)
    def _server(self, datasets):
        pass
