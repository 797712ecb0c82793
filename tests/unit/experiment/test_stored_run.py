"""Reading a run that goes on while it is read."""

from pathlib import Path

from dokimos import Dataset, Example, Experiment
from dokimos.evaluators import ExactMatch
from dokimos.experiment._stored_run import StoredRun, truncate_torn_line


def test_a_line_that_was_half_written_when_it_was_first_read_is_read_anew(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    data = Dataset([Example.of(f"q{n}", f"q{n}") for n in range(2)])
    plan = Experiment(data, lambda example: example.inputs["input"], [ExactMatch()], quiet=True)
    folder = Path("runs", plan.run(run_dir=Path("runs")).run_id)
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
