"""Reading results from lines of a journal: what is remembered, and for whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from dokimos._core.eval_result import EvalResult
from dokimos._core.outcome import Outcome
from dokimos._core.wire import to_json
from dokimos.experiment import _remembered_results
from dokimos.experiment._journal_lines import cut_results, with_checksum
from dokimos.experiment._remembered_results import MOST_REMEMBERED, RememberedResults


def line_of(*results: EvalResult) -> bytes:
    return with_checksum(f'{{"t":"eval","r":0,"i":0,"v":[{",".join(map(to_json, results))}]'.encode())


def in_order(results: Mapping[str, EvalResult]) -> tuple[EvalResult, ...]:
    return tuple(results.values())


@pytest.fixture
def parsed_texts(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The texts that are parsed_texts."""
    texts: list[Any] = []
    parse = _remembered_results.parse_json
    monkeypatch.setattr(_remembered_results, "parse_json", lambda text: texts.append(text) or parse(text))
    return texts


def test_each_item_gets_results_of_its_own_and_a_text_is_parsed_once(parsed_texts: list[Any]) -> None:
    results = EvalResult("a", 1.0, success=True, metadata={"tries": 2}), EvalResult("b", 0.5, label="c")
    memory = RememberedResults(in_order)
    first, second = memory.load([line_of(*results)]), memory.load([line_of(*results)])
    assert first is not None
    assert second is not None
    assert first[0].outcome == second[0].outcome == Outcome.PASSED
    assert first[1] == second[1] == results
    assert all(a.metadata is not b.metadata for a, b in zip(first[1], second[1], strict=True))
    assert len(parsed_texts) == 1


def test_results_with_anything_inside_that_could_be_changed_are_parsed_for_each_item(
    parsed_texts: list[Any],
) -> None:
    result = EvalResult("a", 1.0, metadata={"claims": ["x"]})
    memory = RememberedResults(in_order)
    first, second = memory.load([line_of(result)]), memory.load([line_of(result)])
    assert first == second
    assert first is not None
    assert second is not None
    assert first[1][0].metadata["claims"] is not second[1][0].metadata["claims"]
    assert len(parsed_texts) == 2


def test_no_line_is_taken_for_one_that_is_not_as_the_journal_writes_it() -> None:
    memory = RememberedResults(in_order)
    assert nothing_was_found(memory)
    foreign = b'{"t": "eval", "r": 0, "i": 0, "v": [{"name": "a", "score": 1.0}]}\n'
    assert memory.load([foreign]) is None
    assert memory.read([foreign]) is None
    assert nothing_was_found(memory)


def nothing_was_found(memory: RememberedResults) -> bool:
    loaded = memory.load([])
    return loaded is not None and (loaded[0].outcome, loaded[1]) == (Outcome.NOT_JUDGED, ())


def test_several_texts_are_read_up_to_one_that_is_not_json(parsed_texts: list[Any]) -> None:
    memory = RememberedResults(in_order)
    known = [cut_results(line_of(EvalResult(name, 1.0))) for name in "ab"]
    scores = memory.read_texts([known[0], known[0], b"[", known[1]])
    assert [each.results[0].name for each in scores] == ["a", "a"]
    assert [each.results[0].name for each in memory.read_texts([known[0], known[1]])] == ["a", "b"]
    again = memory.read_texts([known[1], known[0], known[1]])
    assert [each.results[0].name for each in again] == ["b", "a", "b"]
    assert parsed_texts.count(known[0]) == parsed_texts.count(known[1]) == 1


def test_texts_that_do_not_repeat_are_not_remembered_for_long(parsed_texts: list[Any]) -> None:
    memory = RememberedResults(in_order)
    for number in range(MOST_REMEMBERED + 2):
        memory.load([line_of(EvalResult("judge", 0.5, reason=f"reason {number}"))])
    last = memory.load([line_of(EvalResult("judge", 0.5, reason=f"reason {MOST_REMEMBERED + 1}"))])
    assert last is not None
    assert last[1][0].reason == f"reason {MOST_REMEMBERED + 1}"
    assert len(parsed_texts) == MOST_REMEMBERED + 3
