"""Reading a run that goes on while it is read."""

from pathlib import Path

from dokimos import Dataset, Example, Experiment
from dokimos.evaluators import ExactMatch
from dokimos.experiment import _stored_run
from dokimos.experiment._stored_run import StoredRun, truncate_torn_line


def make_run(count):
    data = Dataset([Example.of(f"q{n}", f"q{n}") for n in range(count)])
    plan = Experiment(data, lambda example: example.inputs["input"], [ExactMatch()], quiet=True)
    return Path("runs", plan.run(run_dir=Path("runs")).run_id)


def test_a_line_that_was_half_written_when_it_was_first_read_is_read_anew(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    folder = make_run(2)
    journal = folder / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:2]) + lines[2][:-20].replace(b"q1", b"q9"))
    stored = StoredRun(folder)
    assert stored.item((0, 0)).outputs == {"output": "q0"}

    # What a resumed run does: the half of a line goes, and the item that it was about runs again.
    truncate_torn_line(folder, stored.intact_size)
    with journal.open("ab") as file:
        file.writelines(lines[2:])
    stored.read_on()

    assert stored.item((0, 1)).outputs == {"output": "q1"}
    stored.close()


def test_a_line_that_is_finished_while_those_before_it_are_read_is_read_whole(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    folder = make_run(4)
    journal = folder / "journal.jsonl"
    content = journal.read_bytes()
    half = content.index(b'"i":2')
    journal.write_bytes(content[:half])
    read_heads = _stored_run.read_heads

    def read_heads_while_the_run_goes_on(lines):
        journal.write_bytes(content)
        return read_heads(lines)

    monkeypatch.setattr(_stored_run, "read_heads", read_heads_while_the_run_goes_on)
    stored = StoredRun(folder)
    assert list(stored.positions) == [(0, 0), (0, 1)]
    stored.read_on()

    assert list(stored.positions) == [(0, n) for n in range(4)]
    assert [stored.item((0, n)).outputs["output"] for n in range(4)] == ["q0", "q1", "q2", "q3"]
    assert not stored.unreadable_lines
    assert stored.intact_size == len(content)
    stored.close()
