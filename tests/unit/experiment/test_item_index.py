"""The index of a journal: where the lines of each item are, in few bytes."""

from __future__ import annotations

import random
import tracemalloc
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest

from dokimos._core.json_parsing import parse_json
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import EvalResult
from dokimos.experiment import _item_loading as item_loading
from dokimos.experiment import _remembered_results as remembered_results
from dokimos.experiment import _stored_run as stored_run
from dokimos.experiment._item_index import ItemIndex, Position
from dokimos.experiment._journal_lines import cut_results, read_head, read_record
from dokimos.experiment._run_journal import Journal
from dokimos.experiment._run_loading import load_run
from dokimos.experiment._run_lock import RunLock
from dokimos.experiment._run_manifest import write_manifest
from dokimos.experiment._stored_run import StoredRun

MOST_BYTES_PER_ITEM = 100


@pytest.fixture
def write_run(tmp_path: Path) -> Callable[[int], Path]:
    def write(count: int) -> Path:
        write_manifest(tmp_path, {"name": "a"})
        journal = Journal(tmp_path, RunLock(tmp_path))
        for index in range(count):
            journal.write_item(
                (0, index),
                example_hash=f"{index:016x}",
                example_json='{"inputs":{"input":"\\ud800 é"}}',
                outputs={"output": index},
                metrics=CallMetrics(1, 2),
            )
            journal.write_results((0, index), (EvalResult("A", 1.0, success=True),))
        journal.close(status="completed")
        return tmp_path

    return write


def test_the_index_knows_what_dictionaries_would() -> None:
    draw = random.Random(3)
    index = ItemIndex()
    items: dict[Position, tuple[int, str]] = {}
    results: dict[Position, list[int]] = {}
    for offset in range(3000):
        position = (draw.choice([0, 1, 7]), draw.choice([draw.randrange(700), 2**53 - draw.randrange(3)]))
        if draw.random() < 0.4:
            mark = draw.choice([f"{draw.getrandbits(64):016x}", "of another kind", "ABCDEF0123456789"])
            items[position] = (offset, mark)
            results.pop(position, None)
            index.add_item(position, offset, mark)
        else:
            results.setdefault(position, []).append(offset)
            index.add_results(position, offset)

    assert list(index) == sorted(items)
    assert list(index.item_offsets()) == sorted(offset for offset, _ in items.values())
    assert (0, 699_999) not in index
    for position, (offset, mark) in items.items():
        assert index.item_offset(position) == offset
        assert index.hash_of(position) == mark
        assert index.result_offsets(position) == results.get(position, [])
        assert index.last_offset(position) == results.get(position, [offset])[-1]


def test_a_long_journal_is_indexed_in_few_bytes(write_run: Callable[[int], Path]) -> None:
    count = 3000
    folder = write_run(count)
    StoredRun(folder).close()
    tracemalloc.start()
    stored = StoredRun(folder)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    stored.close()

    assert len(list(stored.positions)) == count
    assert size < count * MOST_BYTES_PER_ITEM


def test_each_line_is_parsed_once_and_equal_results_only_once_for_all(
    write_run: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_run(5)
    parsed: list[bytes] = []
    for module in (stored_run, item_loading, remembered_results):
        monkeypatch.setattr(module, "parse_json", lambda text: parsed.append(text) or parse_json(text))
    monkeypatch.setattr(stored_run, "read_record", lambda line: parsed.append(line) or read_record(line))
    result = load_run(folder)

    assert [item.actual_outputs for item in result.item_results] == [{"output": i} for i in range(5)]
    assert result.item_results[0].example.input == "\ud800 é"
    lines = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    of_results = [line for line in lines if line.startswith(b'{"t":"eval"')]
    others = [line for line in lines if line not in of_results]
    assert len(of_results) == 5
    assert sorted(parsed) == sorted([*others, *{cut_results(line) for line in of_results}])
    assert len(parsed) == len(others) + 1


def test_the_head_of_a_line_says_what_the_line_says(write_run: Callable[[int], Path]) -> None:
    lines = (write_run(2) / "journal.jsonl").read_bytes().splitlines(keepends=True)
    draw = random.Random(5)
    for line in lines:
        for _ in range(200):
            damaged = bytearray(line)
            for _ in range(draw.randrange(3)):
                damaged[draw.randrange(len(damaged))] = draw.randrange(256)
            head, record = read_head(bytes(damaged)), read_record(bytes(damaged))
            if head is not None:
                assert record is not None
                run_index, index, example_hash = head
                assert (run_index, index) == (record["r"], record["i"])
                assert record.get("h") == (None if example_hash is None else f"{example_hash:016x}")
            else:
                assert record is None or record["t"] == "done"


def test_the_hash_to_resume_with_is_that_of_the_first_repeat_that_counts(tmp_path: Path) -> None:
    write_manifest(tmp_path, {"name": "a", "runs": 2, "dataset": {"size": 3}})
    journal = Journal(tmp_path, RunLock(tmp_path))
    for position in ((1, 0), (0, 1), (1, 1), (2, 2), (0, 3)):
        mark = f"{position[0]:08x}{position[1]:08x}"
        journal.write_item(position, example_hash=mark, example_json=None, outputs={})
    journal.close(status="completed")
    stored = StoredRun(tmp_path)
    stored.close()
    hashes = stored.first_hashes()

    assert list(stored.positions) == [(0, 1), (1, 0), (1, 1)]
    assert [hashes.find(index) for index in range(4)] == [1 << 32, 1, None, None]
    assert hashes.find_changes(0, array("Q", [1 << 32, 1, 5, 5])) == []
    assert hashes.find_changes(0, array("Q", [0, 1, 5])) == [0]
    assert hashes.find_changes(1, array("Q", [2])) == [1]
    assert hashes.find_changes(1, array("Q", [1])) == []


@pytest.mark.parametrize("example_hash", ["", "not hexadecimal!", "ABCDEF0123456789", "12", "0" * 16])
def test_hashes_of_other_tools_come_back(example_hash: str) -> None:
    index = ItemIndex()
    index.add_item((0, 3), 17, example_hash)
    assert index.hash_of((0, 3)) == example_hash


def test_what_is_read_of_an_item_is_read_anew_each_time(write_run: Callable[[int], Path]) -> None:
    run = StoredRun(write_run(2))
    first = run.item((0, 1))
    assert first is not None
    assert first.outputs is not None
    again = run.item((0, 1))
    assert again is not None
    assert again.outputs is not first.outputs
    assert run.example((0, 1)) is not run.example((0, 1))
    run.close()
