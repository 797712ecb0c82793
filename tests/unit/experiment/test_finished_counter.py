"""Counting the finished items of a resumed run: what is not taken for one, and that it comes to an end."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from dokimos import Dataset, Example, Experiment
from dokimos.evaluators import ExactMatch
from dokimos.experiment import _repeat
from dokimos.experiment._finished_counter import FinishedItemCounter
from dokimos.experiment._journal_lines import read_cost, with_checksum

COUNT = 4


def echo(example):
    return example.inputs["input"]


def run(**options):
    data = Dataset([Example.of(f"q{n}", f"q{n}") for n in range(COUNT)])
    return Experiment(data, echo, [ExactMatch()], quiet=True).run(run_dir=Path("runs"), **options)


def test_an_item_that_takes_long_to_look_at_is_looked_at_once_and_then_runs(monkeypatch, tmp_path):
    """Its line may have many megabytes; the time for counting is over with it, but it was seen."""
    monkeypatch.chdir(tmp_path)
    first = run()
    journal = Path("runs", first.run_id, "journal.jsonl")
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[: 2 * (COUNT - 1)]))
    now, looks = 0.0, []
    count = FinishedItemCounter.count

    def count_slowly(counter, position, *arguments):
        nonlocal now
        now += 10 * _repeat.YIELD_SECONDS
        looks.append(position[1])
        assert len(looks) <= 2 * COUNT, "the same item is looked at for ever"
        return count(counter, position, *arguments)

    monkeypatch.setattr(_repeat, "time", SimpleNamespace(perf_counter=lambda: now))
    monkeypatch.setattr(FinishedItemCounter, "count", count_slowly)
    monkeypatch.setattr(FinishedItemCounter, "count_next", lambda *_: 0)

    again = run(resume=first.run_id, keep_results=False)

    assert looks == [0, 1, 2, 3]
    assert (again.total_count, again.pass_count) == (COUNT, COUNT)


@pytest.mark.parametrize("error", ['"e":"It broke."', '"e": "It broke."', ' "e" : "It broke."'])
def test_an_item_with_an_error_is_not_counted_however_its_line_is_spaced(error):
    line = with_checksum(f'{{"t":"item","r":0,"i":1,"h":"0123456789abcdef",{error}'.encode())
    with pytest.raises(ValueError, match="may have an error"):
        read_cost(line)
