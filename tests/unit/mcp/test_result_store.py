"""The file of results: the reference's format, damaged files, several writers."""

import json
import os
import subprocess
import sys

import pytest

from dokimos import Example, evaluate
from dokimos._mcp.local_runs import LocalRuns
from dokimos._mcp.result_store import ResultStore, default_file, make_record, result_of
from dokimos.evaluators import ExactMatch

# As the reference's server writes it.
REFERENCE = [
    {
        "id": "abc12345",
        "timestamp": "2026-05-01T09:30:00.123456789Z",
        "experimentName": "mcp-evaluation",
        "datasetName": "qa-pairs",
        "datasetPath": "/data/qa-pairs.json",
        "modelConfig": {"model": "gpt-5.5", "temperature": None},
        "passRate": 0.5,
        "totalCount": 2,
        "passCount": 1,
        "failCount": 1,
        "averageScores": {"LLM Judge": 0.6},
        "items": [
            {
                "input": "Capital of France?",
                "expectedOutput": "Paris",
                "actualOutput": "Paris",
                "success": True,
                "evaluations": [
                    {"evaluator": "LLM Judge", "score": 1.0, "success": True, "reason": "Right."}
                ],
            },
            {
                "input": "Capital of Peru?",
                "expectedOutput": "Lima",
                "actualOutput": "Cusco",
                "success": False,
                "evaluations": [],
            },
        ],
    }
]


@pytest.fixture
def store(tmp_path):
    return ResultStore(tmp_path / "home" / "mcp-results.json")


@pytest.fixture(scope="module")
def result():
    def task(text):
        if text == "c":
            raise ConnectionError("the line is dead")
        return text.upper()

    examples = [Example.of("a", "A"), Example.of("b", "?"), Example.of("c", "C")]
    return evaluate(examples, task, [ExactMatch()], name="shout", quiet=True, journal=False)


def record_of(result, run_id="11112222"):
    return make_record(result, run_id=run_id, dataset_path="/data/x.json", model="gpt-5.5", temperature=None)


def test_it_is_where_the_reference_keeps_it(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_file() == tmp_path / ".dokimos" / "mcp-results.json"


def test_a_file_of_the_reference_is_read(store, tmp_path):
    store.file.parent.mkdir()
    store.file.write_text(json.dumps(REFERENCE))
    run = LocalRuns(store, tmp_path / "runs").find("abc12345")
    read = run.load()
    assert (read.name, read.pass_rate, read.total_count, run.dataset) == (
        "mcp-evaluation",
        0.5,
        2,
        "qa-pairs",
    )
    # Items without evaluations have the verdict that is recorded of the whole.
    assert [item.eval_results[0].name for item in read.item_results] == ["LLM Judge", "overall"]


def test_a_record_has_the_fields_of_the_reference_and_no_others(store, result):
    store.add(record_of(result))
    (written,) = json.loads(store.file.read_text())
    assert list(written) == list(REFERENCE[0])
    assert list(written["items"][0]) == list(REFERENCE[0]["items"][0])
    assert list(written["items"][0]["evaluations"][0]) == list(REFERENCE[0]["items"][0]["evaluations"][0])
    assert (written["totalCount"], written["passCount"], written["failCount"]) == (3, 1, 2)


def test_an_errored_item_is_still_an_error_when_its_record_is_read(store, result):
    store.add(record_of(result))
    read = result_of(store.find("11112222"))
    assert (read.pass_count, read.fail_count, read.error_count) == (1, 2, 1)
    assert "the line is dead" in read.item_results[2].error
    assert read.average_score("Exact Match") == 0.5


def test_records_of_others_stay_as_they_are(store, result):
    store.file.parent.mkdir()
    store.file.write_text(json.dumps([{**REFERENCE[0], "ofLaterVersions": [1]}]))
    store.add(record_of(result))
    kept, added = json.loads(store.file.read_text())
    assert (kept["ofLaterVersions"], added["id"]) == ([1], "11112222")


@pytest.mark.parametrize(
    "content",
    [
        b'[{"id": "a"',
        b"{}",
        b"[1]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'[{"timestamp": "x"}]',
        b'[{"id": "a", "items": [{"evaluations": [{"score": "high"}]}]}]',
        *(
            b'[{"id": "a", "items": [{"evaluations": [{"score": ' + number + b"}]}]}]"
            for number in (b"NaN", b"-Infinity", b"1e999", b"1" + b"0" * 400)
        ),
        b'[{"id": "a", "passRate": 1e999}]',
    ],
)
def test_a_damaged_file_is_set_aside_and_said(store, result, content, capsys):
    store.file.parent.mkdir()
    store.file.write_bytes(content)
    assert store.records() == []
    (aside,) = store.file.parent.glob("mcp-results.json.damaged-*")
    assert aside.read_bytes() == content
    assert "is damaged (" in capsys.readouterr().err
    store.add(record_of(result))
    assert len(store.records()) == 1


def test_what_is_readable_of_a_damaged_file_that_must_stay_is_returned(store, monkeypatch, capsys):
    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("dokimos._mcp.result_store.hold_lock", refuse)
    store.file.parent.mkdir()
    store.file.write_text(json.dumps([*REFERENCE, {"no": "run"}]))
    assert [record["id"] for record in store.records()] == ["abc12345"]
    assert "cannot be set aside: Permission denied" in capsys.readouterr().err


def test_an_empty_file_is_not_damaged(store):
    store.file.parent.mkdir()
    store.file.write_bytes(b"\n")
    assert store.records() == []
    assert len(list(store.file.parent.iterdir())) == 1


def test_a_link_to_the_file_stays_one(store, result, tmp_path):
    store.file.parent.mkdir()
    store.file.symlink_to(tmp_path / "elsewhere.json")
    store.add(record_of(result))
    assert store.file.is_symlink()
    assert len(json.loads((tmp_path / "elsewhere.json").read_text())) == 1


def test_a_damaged_file_behind_a_link_is_kept_too(store, result, tmp_path):
    store.file.parent.mkdir()
    target = tmp_path / "elsewhere.json"
    target.write_text("half of it")
    store.file.symlink_to(target)
    store.add(record_of(result))
    (aside,) = tmp_path.glob("elsewhere.json.damaged-*")
    assert aside.read_text() == "half of it"
    assert store.file.is_symlink()
    assert len(json.loads(target.read_text())) == 1


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
@pytest.mark.parametrize("mode", [None, 0o600, 0o640])
def test_adding_a_run_lets_nobody_else_read_the_file(store, result, mode):
    if mode is not None:
        store.file.parent.mkdir()
        store.file.write_text("[]")
        store.file.chmod(mode)
    store.add(record_of(result))
    assert store.file.stat().st_mode & 0o777 == (mode or 0o600)


WRITER = """
import pathlib, sys
from dokimos._mcp.result_store import ResultStore
store = ResultStore(pathlib.Path(sys.argv[1]))
for number in range(15):
    store.add({"id": f"{sys.argv[2]}-{number}", "timestamp": "2026", "items": []})
"""


def test_two_clients_that_write_at_once_lose_nothing(store):
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, store.file, name], env=os.environ) for name in "ab"
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    names = {record["id"] for record in store.records()}
    assert names == {f"{name}-{number}" for name in "ab" for number in range(15)}
    assert [path.name for path in store.file.parent.iterdir()] == ["mcp-results.json"]
