from __future__ import annotations

import gzip
import io
import json
import sys
from types import SimpleNamespace

import pytest

from dokimos import Dataset, Example, register_resolver
from dokimos.datasets._dataset import DatasetStream
from dokimos.datasets._resolver import path_of, resolver_for, unregister_resolver
from dokimos.errors import DatasetError

ROWS = '{"input": "a"}\n{"input": "b"}\n'
FORMATS = {
    "d.jsonl": ROWS,
    "d.ndjson": ROWS,
    "d.json": '[{"input": "a"}, {"input": "b"}]',
    "d.csv": "input\na\nb\n",
    "d.tsv": "input\ta\t\na\t1\nb\t2\n",
    "d.unknown": '{"examples": [{"input": "a"}, {"input": "b"}]}',
}


class FakeResolver:
    def __init__(self, prefix: str, answer: str) -> None:
        self.prefix = prefix
        self.answer = answer

    def supports(self, uri: str) -> bool:
        return uri.startswith(self.prefix)

    def load(self, uri: str, columns=None) -> Dataset:
        return Dataset([Example.of(self.answer)], uri)

    def stream(self, uri: str, columns=None) -> DatasetStream:
        return DatasetStream(lambda: [Example.of(self.answer)], uri)


@pytest.fixture
def registered():
    made = []

    def register(*arguments: str) -> FakeResolver:
        resolver = FakeResolver(*arguments)
        register_resolver(resolver)
        made.append(resolver)
        return resolver

    yield register
    for resolver in made:
        unregister_resolver(resolver)


@pytest.fixture
def standard_input(monkeypatch):
    def give(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))

    return give


def texts(examples) -> list[object]:
    return [example.inputs["input"] for example in examples]


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_the_extension_says_the_format(tmp_path, name, zipped):
    content = FORMATS[name].encode()
    path = tmp_path / (name + ".gz" if zipped else name)
    path.write_bytes(gzip.compress(content) if zipped else content)
    for uri in (path, str(path), f"file:{path}", path.as_uri()):
        assert texts(Dataset.load(uri)) == ["a", "b"]
        assert texts(Dataset.stream(uri)) == ["a", "b"]
        assert Dataset.load(uri).name == Dataset.stream(uri).name == "d"


def test_gzip_is_recognised_without_its_extension(tmp_path):
    (tmp_path / "d.jsonl").write_bytes(gzip.compress(ROWS.encode()))
    assert texts(Dataset.load(tmp_path / "d.jsonl")) == ["a", "b"]


def test_columns_reach_every_format(tmp_path):
    for name, content in FORMATS.items():
        (tmp_path / name).write_text(content.replace("input", "question"))
        assert texts(Dataset.load(tmp_path / name, columns={"question": "input"})) == ["a", "b"]
        assert texts(Dataset.stream(str(tmp_path / name), {"question": "input"})) == ["a", "b"]


def test_percent_encoding_is_undone_in_file_uris_only(tmp_path):
    folder = tmp_path / "a b%20c"
    folder.mkdir()
    (folder / "d é.jsonl").write_text(ROWS)
    uri = (folder / "d é.jsonl").as_uri()
    assert "%2520" in uri
    assert len(Dataset.load(uri)) == 2
    assert len(Dataset.load(str(folder / "d é.jsonl"))) == 2


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:data/x.json", "data/x.json"),
        ("file:///data/x.json", "/data/x.json"),
        ("file://localhost/data/x.json", "/data/x.json"),
        ("FILE:/data/x.json", "/data/x.json"),
        ("file:///C:/data/x.json", "C:/data/x.json"),
        ("file:C:\\data\\x.json", "C:\\data\\x.json"),
        ("C:\\data\\x.json", "C:\\data\\x.json"),
        ("c:/data/x.json", "c:/data/x.json"),
        ("data/50%20.json", "data/50%20.json"),
    ],
)
def test_the_path_in_a_uri(uri, path):
    assert path_of(uri) == path
    assert resolver_for(uri).__class__.__name__ == "FileResolver"


def test_a_file_uri_of_another_host_is_refused():
    with pytest.raises(DatasetError, match="on the host 'server'"):
        Dataset.load("file://server/x.json")


def test_a_file_whose_name_has_a_colon_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data:v1.jsonl").write_text(ROWS)
    assert len(Dataset.load("data:v1.jsonl")) == 2


def test_a_missing_file_names_the_nearest(tmp_path):
    (tmp_path / "questions.jsonl").write_text(ROWS)
    with pytest.raises(
        DatasetError, match=r"question\.jsonl: No such file\. Did you mean '.*questions\.jsonl'\?"
    ):
        Dataset.load(tmp_path / "question.jsonl")
    with pytest.raises(DatasetError, match=r"Did you mean '.*questions\.jsonl'\?"):
        Dataset.stream(tmp_path / "questions.csv")
    with pytest.raises(DatasetError, match=r"No such file\.$"):
        Dataset.from_json(tmp_path / "other")
    with pytest.raises(DatasetError, match=r"The folder '.*nowhere' does not exist"):
        Dataset.from_csv(tmp_path / "nowhere" / "x.csv")


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(DatasetError, match="This is a folder"):
        Dataset.load(tmp_path)


@pytest.mark.parametrize("uri", ["s3://bucket/x.json", "hf:name/set", "https://example.org/x.json"])
def test_an_unknown_scheme_has_no_resolver(uri):
    for open_it in (Dataset.load, Dataset.stream):
        with pytest.raises(DatasetError, match=f"^No resolver found for URI '{uri}'"):
            open_it(uri)


def test_classpath_points_to_package():
    with pytest.raises(
        DatasetError, match=r"No resolver found .* Use package: .*'package:some\.pkg/data/x\.json'"
    ):
        Dataset.load("classpath:data/x.json")


def test_a_server_dataset_names_the_variable_to_set():
    with pytest.raises(DatasetError, match="DOKIMOS_SERVER_URL"):
        Dataset.load("dataset://faq@3")


def test_an_empty_uri_is_refused():
    with pytest.raises(DatasetError, match="empty"):
        Dataset.load("")


def test_a_package_file(tmp_path, monkeypatch):
    package = tmp_path / "some_test_package"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "data" / "faq.jsonl").write_text(ROWS)
    monkeypatch.syspath_prepend(tmp_path)
    dataset = Dataset.load("package:some_test_package/data/faq.jsonl")
    assert (texts(dataset), dataset.name) == (["a", "b"], "faq")
    assert texts(Dataset.stream("package:some_test_package/data/faq.jsonl")) == ["a", "b"]
    with pytest.raises(DatasetError, match=r"has no file 'faq\.jsonl'"):
        Dataset.load("package:some_test_package/faq.jsonl")
    with pytest.raises(DatasetError, match="has no file"):
        Dataset.load("package:some_test_package/../secret.json")


@pytest.mark.parametrize("uri", ["package:", "package:json", "package:json/"])
def test_a_package_uri_without_a_file_is_refused(uri):
    with pytest.raises(DatasetError, match="must name a package and a file"):
        Dataset.load(uri)


def test_a_missing_package_is_named():
    with pytest.raises(DatasetError, match=r"no package 'not\.installed'"):
        Dataset.load("package:not.installed/x.json")


def test_registered_resolvers_come_first_the_latest_before_the_others(registered, tmp_path):
    registered("my:", "old")
    newest = registered("my:", "new")
    assert texts(Dataset.load("my:thing")) == ["new"]
    assert texts(Dataset.stream("my:thing")) == ["new"]
    unregister_resolver(newest)
    assert texts(Dataset.load("my:thing")) == ["old"]
    registered("", "everything")
    assert texts(Dataset.load("plain.json")) == ["everything"]


def test_what_is_no_resolver_is_refused():
    with pytest.raises(DatasetError, match="needs the method supports"):
        register_resolver(object())


def test_entry_points_are_asked_and_a_broken_one_is_reported(monkeypatch):
    def broken():
        raise RuntimeError("no network")

    entries = [
        SimpleNamespace(name="mine", load=lambda: FakeResolver("plug:", "plugged")),
        SimpleNamespace(name="bad", load=broken),
    ]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entries)
    monkeypatch.setattr("dokimos.datasets._resolver._plugins", None)
    monkeypatch.setattr("dokimos.datasets._resolver._broken_plugins", [])
    assert texts(Dataset.load("plug:x")) == ["plugged"]
    with pytest.raises(DatasetError, match=r"could not be loaded: bad \(RuntimeError: no network\)"):
        Dataset.load("other:x")


@pytest.mark.parametrize(
    "content",
    [
        ROWS,
        "\n" + ROWS,
        "\ufeff" + ROWS,
        '{"input": "a"}\n{"input": "b"}',
        json.dumps({"examples": [{"input": "a"}, {"input": "b"}]}),
        json.dumps({"examples": [{"input": "a"}, {"input": "b"}]}, indent=2),
        json.dumps([{"input": "a"}, {"input": "b"}], indent=2),
        "input\na\nb\n",
    ],
)
def test_the_format_of_standard_input_is_found(standard_input, content):
    standard_input(content.encode())
    assert texts(Dataset.load("-")) == ["a", "b"]
    standard_input(gzip.compress(content.encode()))
    stream = Dataset.stream("-")
    assert stream.name == "stdin"
    assert texts(stream) == texts(stream) == ["a", "b"]


def test_a_broken_row_on_standard_input_is_reported_as_jsonl(standard_input):
    standard_input(b'{"input": "a",}\n{"input": "b"}\n')
    with pytest.raises(DatasetError, match=r"^<stdin>:1: "):
        Dataset.load("-")
