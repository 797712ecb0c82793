"""What a search keeps of its steps."""

import os

import pytest

from dokimos.errors import JournalError
from dokimos.optimizer._search_journal import JOURNAL_FILE, SearchJournal


async def test_a_step_is_done_once(tmp_path):
    done = []

    async def work():
        done.append(1)
        return {"loss": 0.5}

    for _ in range(2):
        journal = SearchJournal(tmp_path)
        assert await journal.once("train-1", work, dict) == {"loss": 0.5}
        journal.close()

    assert done == [1]


async def test_a_step_that_failed_is_done_again(tmp_path):
    journal = SearchJournal(tmp_path)

    async def fails():
        raise ConnectionError("down")

    with pytest.raises(ConnectionError):
        await journal.once("train-1", fails, dict)
    assert journal.get("train-1") is None
    journal.close()


@pytest.mark.parametrize("cut", range(1, 30, 3))
def test_a_line_that_was_cut_off_is_dropped_and_the_file_goes_on_whole(tmp_path, cut):
    journal = SearchJournal(tmp_path)
    journal.put("one", {"text": "é \u2028"})
    journal.put("two", 2)
    journal.close()
    path = tmp_path / JOURNAL_FILE
    os.truncate(path, path.stat().st_size - cut)

    journal = SearchJournal(tmp_path)
    assert journal.get("one") == {"text": "é \u2028"}
    journal.put("three", 3)
    journal.close()

    again = SearchJournal(tmp_path)
    assert (again.get("three"), len(again.outcomes("t"))) == (3, 1)
    again.close()


def test_a_damaged_line_in_the_middle_is_named(tmp_path):
    (tmp_path / JOURNAL_FILE).write_text('{"step": "one", "outcome": 1}\nnonsense\n')

    with pytest.raises(JournalError, match=r"journal\.jsonl:2 is damaged"):
        SearchJournal(tmp_path)


def test_outcomes_are_found_by_how_their_step_begins():
    journal = SearchJournal(None)
    for step in ("train-1", "train-2", "text-1"):
        journal.put(step, step)

    assert journal.outcomes("train-") == ["train-1", "train-2"]
    assert "text-1" in journal
