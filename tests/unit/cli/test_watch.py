"""What counts as a change of a watched file, and when a watch runs again."""

import os

import pytest

from dokimos._cli.watch import FilesReport, FileStates, Watch


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "app.py"
    path.write_text("one")
    return path


def watched(*paths, clock=None):
    states = FileStates() if clock is None else FileStates(clock=clock)
    states.watch([str(path) for path in paths])
    return states


def test_a_file_replaced_by_another_has_changed(file):
    states = watched(file)
    assert states.changes() == []
    (file.parent / "new").write_text("two")
    os.replace(file.parent / "new", file)
    assert states.changes() == [str(file)]
    assert states.changes() == []


def test_a_young_file_that_keeps_its_size_and_time_has_changed(file):
    states = watched(file)
    status = file.stat()
    file.write_text("two")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))  # a coarse clock
    assert states.changes() == [str(file)]


def test_a_new_time_alone_is_no_change(file):
    states = watched(file)
    os.utime(file, (1, 1))
    assert states.changes() == []


def test_a_file_that_is_gone_has_changed_and_one_that_comes_too(file):
    missing = file.parent / "later.txt"
    states = watched(file, missing)
    file.unlink()
    missing.write_text("x")
    assert set(states.changes()) >= {str(file), str(missing)}


def test_a_new_source_beside_a_watched_file_is_a_change_and_a_report_is_none(file):
    states = watched(file)
    (file.parent / "report.html").write_text("x")
    assert states.changes() == []
    (file.parent / "other.py").write_text("x")
    assert states.changes() == [str(file.parent)]


def test_an_old_file_is_not_read_again(file, monkeypatch):
    later = file.stat().st_mtime + 60
    states = watched(file, clock=lambda: later)
    monkeypatch.setattr("dokimos._cli.watch._content", lambda path: pytest.fail("it was read"))
    assert states.changes() == []


def test_a_mode_is_a_change_as_a_file_that_is_started_needs_it(file):
    states = watched(file)
    file.chmod(0o755)
    assert states.changes() == [str(file)]
    file.chmod(0o744)
    assert states.changes() == []
    file.chmod(0o644)
    assert states.changes() == [str(file)]


def test_every_name_in_a_folder_that_was_listed_is_watched(file):
    folder = file.parent
    states = watched(file, folder)
    (folder / "note.txt").write_text("x")
    assert states.changes() == [str(folder)]
    (folder / "note.txt").write_text("y")
    assert states.changes() == []
    (folder / ".hidden").write_text("x")
    assert states.changes() == []
    (folder / "note.txt").unlink()
    assert states.changes() == [str(folder)]


def test_a_folder_that_was_looked_for_is_watched_when_it_comes(file):
    folder = file.parent / "prompts"
    states = watched(file, folder)
    folder.mkdir()
    (folder / "note.txt").write_text("x")
    assert str(folder) in states.changes()
    (folder / "other.txt").write_text("x")
    assert states.changes() == [str(folder)]


def test_names_that_runs_write_are_no_change_of_a_folder_that_they_list(file):
    folder = file.parent
    (folder / "old.txt").write_text("x")
    states = watched(file, folder)
    (folder / "report.txt").write_text("x")
    states.ignore_names([str(folder / "report.txt"), str(folder / "old.txt")])
    assert states.changes() == []
    (folder / "report.txt").unlink()
    assert states.changes() == []


MOST_PAUSES = 10


class Stopped(Exception):
    pass


def run_watch(steps, files, edits, runs, written=()):
    """Let a watch run so often; each run and each pause does what comes next in its list."""
    seen = []

    def run_once():
        if seen.count("run") == runs:
            raise Stopped
        seen.append("run")
        if steps:
            steps.pop(0)()
        return FilesReport(files, written)

    def pause(seconds):
        if seen.count("pause") == MOST_PAUSES:
            raise Stopped
        seen.append("pause")
        if edits:
            edits.pop(0)()

    watch = Watch(run_once, pause=pause)
    with pytest.raises(Stopped):
        watch.forever()
    return seen


def test_several_files_saved_one_after_the_other_are_one_change(file):
    other = file.parent / "b.txt"
    other.write_text("x")
    edits = [lambda: file.write_text("two"), lambda: other.write_text("y"), lambda: None]
    seen = run_watch([], [str(file), str(other)], edits, runs=1)
    assert seen == ["run", "pause", "pause", "pause"]


def test_what_changes_during_a_run_runs_again_at_once(file):
    steps = [lambda: None, lambda: file.write_text("during")]
    edits = [lambda: file.write_text("two")]
    seen = run_watch(steps, [str(file)], edits, runs=3)
    assert seen[:5] == ["run", "pause", "pause", "run", "run"]


def test_a_file_that_each_run_writes_does_not_run_it_forever(file):
    turn = iter(range(100))
    steps = [lambda: file.write_text(f"{next(turn)}") for _ in range(20)]
    other = file.parent / "b.txt"
    other.write_text("x")
    seen = run_watch(steps, [str(file), str(other)], [lambda: other.write_text("y")], runs=4)
    assert "pause" in seen


def test_a_file_that_each_run_writes_is_known_after_the_next_change(file):
    turn = iter(range(100))
    steps = [lambda: file.write_text(f"{next(turn)}") for _ in range(20)]
    other = file.parent / "b.txt"
    other.write_text("x")
    edits = [lambda: other.write_text("y"), lambda: None, lambda: other.write_text("z"), lambda: None]
    seen = run_watch(steps, [str(file), str(other)], edits, runs=6)
    first_pause = seen.index("pause")
    between = "".join(step[0] for step in seen[first_pause:])
    assert "rr" not in between, "one run for each change"


def test_a_file_that_each_run_adds_to_a_folder_that_it_lists_runs_nothing(file):
    turn, written = iter(range(100)), []

    def write():
        path = file.parent / f"{next(turn)}.txt"
        path.write_text("x")
        written.append(str(path))

    edits = [lambda: file.write_text("two")]
    seen = run_watch([write] * 20, [str(file), str(file.parent)], edits, runs=3, written=written)
    assert seen.count("run") == 2


def test_a_file_that_somebody_adds_during_a_run_to_a_folder_that_it_lists_runs_again(file):
    steps = [lambda: None, lambda: (file.parent / "new.txt").write_text("x")]
    edits = [lambda: file.write_text("two")]
    seen = run_watch(steps, [str(file), str(file.parent)], edits, runs=3)
    assert seen[:5] == ["run", "pause", "pause", "run", "run"]
