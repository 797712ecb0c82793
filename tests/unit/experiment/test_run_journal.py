"""What is on disk, and how a run goes on from it."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dokimos._core.agent import ToolCall
from dokimos._core.example import Example
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import EvalResult, ExperimentResult, RunStatus, Score
from dokimos._core.task_result import TaskResult
from dokimos._core.test_case import EvalTestCase
from dokimos.datasets._dataset import Dataset, DatasetStream
from dokimos.errors import JournalError, RunInterrupted, RunLockedError, TooManyErrors
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._function import evaluator
from dokimos.evaluators._text import Contains, ExactMatch
from dokimos.experiment import _run_journal as journal_module
from dokimos.experiment._experiment import Experiment
from dokimos.experiment._run_folders import find_run, list_run_folders
from dokimos.experiment._run_loading import UNFINISHED, list_runs, load_run, prune_runs
from dokimos.experiment._run_lock import RunLock
from dokimos.experiment._run_manifest import read_manifest
from dokimos.exporters._base import export
from dokimos.exporters._json import load_result

Numbers = Callable[..., Dataset]
Comparable = Callable[[ExperimentResult], Any]

ROOT = Path(".dokimos") / "runs"


class Counted:
    """A task that counts its calls and fails for some inputs."""

    def __init__(self, fails: set[str] | None = None) -> None:
        self.calls: list[str] = []
        self.fails = fails or set()

    def __call__(self, example: Example) -> str:
        self.calls.append(example.inputs["input"])
        if example.inputs["input"] in self.fails:
            raise ConnectionError("busy")
        return example.inputs["input"]


def plan(data: Any, task: Any, *evaluators: Evaluator, **settings: Any) -> Experiment:
    return Experiment(data, task, evaluators or (ExactMatch(),), **({"progress": False} | settings))


def cut(folder: Path, lines: int, torn: bytes = b"") -> None:
    """Make the journal what a process that was killed after some lines has left."""
    path = folder / "journal.jsonl"
    kept = path.read_bytes().splitlines(keepends=True)[:lines]
    path.write_bytes(b"".join(kept) + torn)


def lines_of(folder: Path) -> list[str]:
    return (folder / "journal.jsonl").read_text().splitlines()


def folder_of(result: ExperimentResult) -> Path:
    assert result.run_id is not None
    return ROOT / result.run_id


def test_a_run_leaves_a_folder_with_its_journal_and_a_gitignore(numbers: Numbers) -> None:
    result = plan(numbers(2), Counted(), name="first", metadata={"model": "m"}).run()
    assert sorted(f.name for f in folder_of(result).iterdir()) == ["journal.jsonl", "lock", "run.json"]
    assert "*" in Path(".dokimos/.gitignore").read_text().splitlines()
    manifest = read_manifest(folder_of(result))
    assert (manifest["name"], manifest["metadata"]) == ("first", {"model": "m"})
    kinds = [json.loads(line)["t"] for line in lines_of(folder_of(result))]
    assert kinds == ["item", "eval", "item", "eval", "pass", "done"]


def test_without_a_journal_nothing_is_written(numbers: Numbers) -> None:
    plan(numbers(2), Counted(), journal=False).run()
    assert list(Path().iterdir()) == []


def test_the_output_is_on_disk_before_an_evaluator_sees_it(numbers: Numbers) -> None:
    seen: list[bool] = []

    @evaluator
    def looks(case: EvalTestCase) -> bool:
        [folder] = ROOT.iterdir()
        lines = [json.loads(line) for line in lines_of(folder)]
        seen.append(lines[-1]["t"] == "item" and lines[-1]["o"] == case.actual_outputs)
        return True

    plan(numbers(3), Counted(), looks).run()
    assert seen == [True, True, True]


def test_the_output_of_a_sync_task_is_written_in_its_thread_and_never_waits_for_the_loop(
    numbers: Numbers, wait_until: Callable[..., None]
) -> None:
    """Two tasks return together; while the first is scored, the second is on disk already."""
    import threading

    together = threading.Barrier(2)
    written: list[int] = []

    def task(example: Example) -> str:
        together.wait(60)
        return "x"

    def on_disk() -> int:
        [folder] = ROOT.iterdir()
        return sum('"t":"item"' in line for line in lines_of(folder))

    @evaluator
    def looks(case: EvalTestCase) -> bool:
        wait_until(lambda: on_disk() == 2, 5)
        written.append(on_disk())
        return True

    plan(numbers(2), task, looks, parallelism=2).run()
    assert written == [2, 2]


@pytest.mark.parametrize("lines", range(0, 22))
def test_a_run_that_was_cut_anywhere_goes_on_to_the_same_result(
    numbers: Numbers, comparable: Comparable, lines: int
) -> None:
    whole = plan(numbers(5), Counted({"3"}), ExactMatch(), Contains(values=["1"]), runs=2).run()
    expected = comparable(whole)
    folder = folder_of(whole)
    cut(folder, lines, torn=b'{"t":"item","r":0,"i":4,"h":"12')
    kept = [json.loads(line) for line in (folder / "journal.jsonl").read_bytes().splitlines()[:lines]]
    task = Counted({"3"})
    again = plan(numbers(5), task, ExactMatch(), Contains(values=["1"]), runs=2).run(resume=whole.run_id)
    assert comparable(again) == expected
    assert len(task.calls) == 10 - sum(record["t"] == "item" for record in kept)
    assert again.run_id == whole.run_id
    assert again.warnings == whole.warnings
    assert comparable(load_run(folder)) == expected


def test_a_finished_run_is_not_repeated(numbers: Numbers, comparable: Comparable) -> None:
    evaluated: list[str] = []

    @evaluator
    def counts(output: str) -> bool:
        evaluated.append(output)
        return True

    first = plan(numbers(3), Counted(), counts).run()
    task = Counted()
    again = plan(numbers(3), task, counts).run(resume=first.run_id)
    assert task.calls == []
    assert evaluated == ["0", "1", "2"]
    assert comparable(again) == comparable(first)


def test_a_run_is_found_by_the_start_of_its_id_by_its_folder_and_as_the_latest(numbers: Numbers) -> None:
    first = plan(numbers(1), Counted()).run()
    assert first.run_id is not None
    for name in (first.run_id[:-1], folder_of(first), str(folder_of(first)), "latest"):
        assert plan(numbers(1), Counted()).run(resume=name).run_id == first.run_id


def test_a_run_that_is_not_there_is_refused_with_those_that_are(numbers: Numbers) -> None:
    first = plan(numbers(1), Counted()).run()
    with pytest.raises(JournalError, match=f"No run 'nope' in .*{first.run_id}"):
        plan(numbers(1), Counted()).run(resume="nope")


def test_an_ambiguous_start_of_an_id_is_refused(numbers: Numbers) -> None:
    for run_id in ("20250101-a", "20250101-b"):
        folder = ROOT / run_id
        folder.mkdir(parents=True)
        (folder / "run.json").write_text("{}")
    with pytest.raises(JournalError, match=r"Several runs in .* start with '2025'"):
        find_run("2025", ROOT)


def test_a_torn_line_leaves_no_trace(numbers: Numbers) -> None:
    first = plan(numbers(3), Counted()).run()
    cut(folder_of(first), 3, torn=b'{"t":"eval","r":0,')
    task = Counted()
    again = plan(numbers(3), task).run(resume=first.run_id)
    assert task.calls == ["2"]
    assert again.warnings == ()
    for line in (folder_of(first) / "journal.jsonl").read_bytes().splitlines():
        json.loads(line)


@pytest.mark.parametrize("damage", [b"garbage\n", b'{"t":"item"}\n', b"[1]\n", b"\xff\xfe\n", b"null\n"])
def test_a_damaged_line_costs_only_its_item_and_is_named(
    numbers: Numbers, comparable: Comparable, damage: bytes
) -> None:
    first = plan(numbers(4), Counted(), runs=2).run()
    path = folder_of(first) / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = damage
    path.write_bytes(b"".join(lines))
    [loaded] = [load_run(folder_of(first))]
    assert "Lines of the journal that could not be read were ignored: 3." in loaded.warnings
    task = Counted()
    again = plan(numbers(4), task, runs=2).run(resume=first.run_id)
    assert task.calls == ["1"]
    assert again.warnings == ("Lines of the journal that could not be read were ignored: 3.",)
    assert comparable(replace(again, warnings=())) == comparable(first)


def test_a_full_disk_ends_the_journal_and_not_the_run(
    numbers: Numbers, monkeypatch: pytest.MonkeyPatch, comparable: Comparable
) -> None:
    write = os.write

    def full(file: int, data: bytes) -> int:
        if b'{"t":"item","r":0,"i":3,' in data:
            raise OSError(errno.ENOSPC, "No space left on device")
        place = data.find(b'{"t":"item","r":0,"i":2,')
        return write(file, data if place < 0 else data[: place + 10])

    with monkeypatch.context() as patched:
        patched.setattr(journal_module.os, "write", full)
        result = plan(numbers(5), Counted()).run()
    assert result.pass_count == 5
    assert "No space left on device" in result.warnings[-1]
    task = Counted()
    again = plan(numbers(5), task).run(resume=result.run_id)
    assert task.calls == ["3", "4"]
    assert comparable(again) == comparable(replace(result, warnings=()))


def test_results_that_are_computed_at_once_are_written_with_the_next_output(
    numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    writes: list[bytes] = []

    def note(file: int, data: bytes) -> int:
        if data.startswith(b'{"t":'):
            writes.append(data)
        return write(file, data)

    monkeypatch.setattr(journal_module, "SYNC_SECONDS", 60)
    monkeypatch.setattr(journal_module.os, "write", note)
    plan(numbers(3), Counted(), parallelism=1).run()
    kinds = [[json.loads(line)["t"] for line in data.splitlines()] for data in writes]
    assert kinds == [["item"], ["eval", "item"], ["eval", "item"], ["eval", "pass"], ["done"]]


def test_results_that_are_held_are_written_at_the_next_sync(tmp_path: Path) -> None:
    journal = journal_module.Journal(tmp_path, RunLock(tmp_path))
    synced = threading.Event()
    journal._sync = synced.set  # type: ignore[method-assign] # to know when, without a wait
    journal.write_results((0, 0), (EvalResult("A", 1.0, success=True),), is_held=True)
    assert synced.wait(30)
    assert json.loads((tmp_path / "journal.jsonl").read_text())["v"] == [
        {"name": "A", "score": 1.0, "success": True}
    ]
    journal.close(status="completed")


@evaluator
async def paid(case: EvalTestCase) -> float:
    return 1.0


@dataclass(frozen=True, kw_only=True)
class Sampled(Evaluator):
    deterministic = False

    def score(self, case: EvalTestCase) -> Score:
        return Score(1.0)


@pytest.mark.parametrize("unrepeatable", [paid, Sampled()])
def test_results_that_would_not_be_computed_again_are_written_at_once(
    numbers: Numbers, monkeypatch: pytest.MonkeyPatch, unrepeatable: Evaluator
) -> None:
    monkeypatch.setattr(journal_module, "SYNC_SECONDS", 60)
    seen: list[int] = []

    def task(example: Example) -> str:
        [folder] = ROOT.iterdir()
        seen.append((folder / "journal.jsonl").read_text().count('"t":"eval"'))
        return str(example.input)

    plan(numbers(3), task, unrepeatable, parallelism=1).run()
    assert seen == [0, 1, 2]


def test_a_folder_that_cannot_be_written_warns_and_the_run_goes_on(numbers: Numbers) -> None:
    Path(".dokimos").write_text("a file, not a folder")
    result = plan(numbers(2), Counted()).run()
    assert result.pass_count == 2
    [warning] = result.warnings
    assert warning.startswith("The run cannot be resumed: nothing could be written in")


def test_what_cannot_be_written_as_json_is_said_and_kept_in_the_result(numbers: Numbers) -> None:
    class Hostile(dict[str, Any]):
        def items(self) -> Any:
            raise ValueError("no")

    outputs = Hostile(output="0")
    result = plan(numbers(1), lambda example: outputs).run()
    assert result.pass_count == 1
    assert result.warnings[-1].startswith("Item 0 could not be written to the journal (ValueError: no)")


# Locks


def test_a_run_that_is_being_worked_on_is_refused(numbers: Numbers) -> None:
    first = plan(numbers(1), Counted()).run()
    lock = RunLock(folder_of(first))
    with pytest.raises(RunLockedError, match=f"process {os.getpid()}"):
        plan(numbers(1), Counted()).run(resume=first.run_id)
    lock.release()
    assert plan(numbers(1), Counted()).run(resume=first.run_id).pass_count == 1


def test_a_run_is_free_again_after_it_was_refused_for_another_reason(numbers: Numbers) -> None:
    first = plan(numbers(1), Counted()).run()
    with pytest.raises(JournalError):
        plan(numbers(2), Counted(), Contains(values=["x"])).run(resume=first.run_id)
    RunLock(folder_of(first)).release()


# Changes since the start


def changed(data: Dataset, index: int, **values: Any) -> Dataset:
    examples = list(data)
    examples[index] = replace(examples[index], **values)
    return Dataset(examples, data.name)


def test_a_changed_example_is_refused_by_name(numbers: Numbers) -> None:
    first = plan(numbers(3), Counted()).run()
    other = changed(numbers(3), 1, expected_outputs={"output": "other"})
    with pytest.raises(JournalError, match=r"item 1 \(n1\) differs"):
        plan(other, Counted()).run(resume=first.run_id)


def test_a_shorter_data_set_is_refused(numbers: Numbers) -> None:
    first = plan(numbers(3), Counted()).run()
    with pytest.raises(JournalError, match="item 2 is gone"):
        plan(numbers(2), Counted()).run(resume=first.run_id)


def test_a_data_set_that_differs_where_nothing_has_run_is_refused(numbers: Numbers) -> None:
    first = plan(numbers(3), Counted()).run()
    cut(folder_of(first), 2)
    with pytest.raises(JournalError, match="examples that had not run yet differ"):
        plan(numbers(4), Counted()).run(resume=first.run_id)


def test_force_repeats_only_the_examples_that_changed_and_the_run_is_that_of_the_new_data(
    numbers: Numbers, comparable: Comparable
) -> None:
    first = plan(numbers(4), Counted()).run()
    other = changed(numbers(3), 1, inputs={"input": "new"}, expected_outputs={"output": "new"})
    task = Counted()
    again = plan(other, task).run(resume=first.run_id, force=True)
    assert task.calls == ["new"]
    assert comparable(again) == comparable(plan(other, Counted()).run())
    assert comparable(load_run(folder_of(first))) == comparable(again)
    third = Counted()
    plan(other, third).run(resume=first.run_id)
    assert third.calls == []


def test_a_changed_evaluator_is_refused_with_both_configurations(numbers: Numbers) -> None:
    first = plan(numbers(2), Counted(), Contains(values=["1"])).run()
    with pytest.raises(JournalError, match=r"'Contains' was configured as .*\['1'\].*not .*\['0'\]"):
        plan(numbers(2), Counted(), Contains(values=["0"])).run(resume=first.run_id)


def test_a_missing_evaluator_and_another_task_are_refused(numbers: Numbers) -> None:
    first = plan(numbers(2), Counted(), ExactMatch(), Contains(values=["1"])).run()
    with pytest.raises(JournalError, match="evaluator 'Contains' is missing"):
        plan(numbers(2), Counted(), ExactMatch()).run(resume=first.run_id)
    with pytest.raises(JournalError, match=r"the task was .*Counted, not .*other_task"):
        plan(numbers(2), other_task, ExactMatch(), Contains(values=["1"])).run(resume=first.run_id)


def other_task(example: Example) -> str:
    return "x"


def test_force_repeats_only_the_evaluator_that_changed(numbers: Numbers, comparable: Comparable) -> None:
    evaluated: list[str] = []

    @evaluator
    def counts(output: str) -> bool:
        evaluated.append(output)
        return True

    first = plan(numbers(2), Counted(), counts, Contains(values=["1"])).run()
    task = Counted()
    new = Contains(values=["0"])
    again = plan(numbers(2), task, counts, new).run(resume=first.run_id, force=True)
    assert task.calls == []
    assert evaluated == ["0", "1"]
    assert [item.eval_results[1].score for item in again.item_results] == [1.0, 0.0]
    assert comparable(again) == comparable(plan(numbers(2), Counted(), counts, new).run())
    assert comparable(load_run(folder_of(first))) == comparable(again)


def test_after_a_forced_change_the_new_configuration_is_that_of_the_run(numbers: Numbers) -> None:
    first = plan(numbers(2), Counted(), Contains(values=["1"])).run()
    new = Contains(values=["0"])
    plan(numbers(2), Counted(), new).run(resume=first.run_id, force=True)
    again = plan(numbers(2), Counted(), new).run(resume=first.run_id)
    assert [item.eval_results[0].score for item in again.item_results] == [1.0, 0.0]
    with pytest.raises(JournalError, match="was configured as"):
        plan(numbers(2), Counted(), Contains(values=["1"])).run(resume=first.run_id)


def test_a_forced_change_that_was_killed_never_takes_old_results_for_new_ones(numbers: Numbers) -> None:
    first = plan(numbers(2), Counted(), Contains(values=["1"])).run()
    lines = (folder_of(first) / "journal.jsonl").read_bytes().count(b"\n")
    new = Contains(values=["0"])
    plan(numbers(2), Counted(), new).run(resume=first.run_id, force=True)
    cut(folder_of(first), lines + 1)
    again = plan(numbers(2), Counted(), new).run(resume=first.run_id)
    assert [item.eval_results[0].score for item in again.item_results] == [1.0, 0.0]


def test_an_extra_evaluator_runs_over_the_stored_outputs(numbers: Numbers, comparable: Comparable) -> None:
    first = plan(numbers(3), Counted()).run()
    task = Counted()
    both = (Contains(values=["1"]), ExactMatch())
    again = plan(numbers(3), task, *both).run(resume=first.run_id)
    assert task.calls == []
    assert comparable(again) == comparable(plan(numbers(3), Counted(), *both).run())
    assert comparable(load_run(folder_of(first))) == comparable(again)
    with pytest.raises(JournalError, match="'Contains' was configured"):
        plan(numbers(3), task, Contains(values=["2"]), ExactMatch()).run(resume=first.run_id)


def test_changed_source_is_a_warning(numbers: Numbers) -> None:
    @evaluator
    def judge(output: str) -> bool:
        return True

    first = plan(numbers(2), Counted(), judge).run()
    manifest = read_manifest(folder_of(first))
    manifest["sources"] = {"task": "0" * 16, "Judge": "1" * 16}
    (folder_of(first) / "run.json").write_text(json.dumps(manifest))
    again = plan(numbers(2), Counted(), judge).run(resume=first.run_id)
    assert any("source of task has changed" in warning for warning in again.warnings)
    assert any("source of evaluator 'Judge' has changed" in warning for warning in again.warnings)


# Errors, repeats, streams


def test_stored_errors_stay_unless_their_repetition_is_asked_for(numbers: Numbers) -> None:
    first = plan(numbers(4), Counted({"1", "2"})).run()
    task = Counted()
    kept = plan(numbers(4), task).run(resume=first.run_id)
    assert (task.calls, kept.error_count) == ([], 2)
    again = plan(numbers(4), task).run(resume=first.run_id, retry_errors=True)
    assert (task.calls, again.error_count) == (["1", "2"], 0)
    assert load_run(folder_of(first)).pass_count == 4


def test_an_errored_evaluator_is_repeated_without_its_task_and_its_neighbours(numbers: Numbers) -> None:
    down = {"1"}
    evaluated: list[str] = []

    @evaluator
    def judge(output: str) -> bool:
        if output in down:
            raise ConnectionError("down")
        return True

    @evaluator
    def counts(output: str) -> bool:
        evaluated.append(output)
        return True

    first = plan(numbers(3), Counted(), judge, counts).run()
    assert first.error_count == 1
    down.clear()
    task = Counted()
    again = plan(numbers(3), task, judge, counts).run(resume=first.run_id, retry_errors=True)
    assert (task.calls, evaluated) == ([], ["0", "1", "2"])
    assert (again.pass_count, again.error_count) == (3, 0)


def test_a_stopped_run_says_how_it_goes_on_and_does(numbers: Numbers) -> None:
    with pytest.raises(TooManyErrors, match="retry_errors=True") as caught:
        plan(numbers(5), Counted({"1", "2", "3"}), max_errors=1).run()
    task = Counted()
    again = plan(numbers(5), task, max_errors=1).run(resume=caught.value.result.run_id, retry_errors=True)
    assert again.status is RunStatus.COMPLETED
    assert task.calls == ["1", "2", "3", "4"]


def test_a_resumed_run_goes_on_in_the_middle_of_its_second_repeat(
    numbers: Numbers, comparable: Comparable
) -> None:
    whole = plan(numbers(3), Counted(), runs=3).run()
    lines = (folder_of(whole) / "journal.jsonl").read_bytes().splitlines()
    at = next(n for n, line in enumerate(lines) if b'"r":1,"i":1' in line)
    cut(folder_of(whole), at + 1)
    task = Counted()
    again = plan(numbers(3), task, runs=3).run(resume=whole.run_id)
    assert task.calls == ["2", "0", "1", "2"]
    assert comparable(again) == comparable(whole)


def test_a_stream_is_resumed_and_refused_like_a_data_set(comparable: Comparable) -> None:
    def stream(count: int) -> DatasetStream:
        return DatasetStream(lambda: (Example.of(str(i), str(i)) for i in range(count)), "numbers")

    whole = plan(stream(6), Counted()).run()
    cut(folder_of(whole), 5)
    task = Counted()
    again = plan(stream(6), task).run(resume=whole.run_id)
    assert task.calls == ["3", "4", "5"]
    assert comparable(again) == comparable(whole)
    assert again.provenance.dataset_fingerprint == whole.provenance.dataset_fingerprint
    with pytest.raises(JournalError, match="is gone"):
        plan(stream(5), Counted()).run(resume=whole.run_id)


def test_the_shard_of_a_run_is_kept_when_it_goes_on(numbers: Numbers) -> None:
    first = plan(numbers(7), Counted()).run(shard=(2, 3))
    cut(folder_of(first), 2)
    task = Counted()
    again = plan(numbers(7), task).run(resume=first.run_id)
    assert task.calls == ["4"]
    assert [item.index for item in again.item_results] == [1, 4]
    assert again.provenance.shard == "2/3"
    with pytest.raises(JournalError, match=r"shard=\[2, 3\], not \(1, 3\)"):
        plan(numbers(7), Counted()).run(resume=first.run_id, shard=(1, 3))


def test_the_seed_and_the_start_of_a_run_are_kept_when_it_goes_on(numbers: Numbers) -> None:
    first = plan(numbers(1), Counted()).run(seed=11)
    again = plan(numbers(1), Counted()).run(resume=first.run_id)
    assert again.provenance.seed == 11
    assert again.provenance.started_at == first.provenance.started_at


def test_evaluators_chosen_per_example_are_resumed(numbers: Numbers, comparable: Comparable) -> None:
    def choose(example: Example) -> list[Evaluator]:
        if example.inputs["input"] == "2":
            raise KeyError("rubric")
        return [ExactMatch(), Contains(values=["1"])]

    def made(task: Any) -> Experiment:
        return Experiment(numbers(3), task, choose, progress=False)

    whole = made(Counted()).run()
    assert comparable(load_run(folder_of(whole))) == comparable(whole)
    cut(folder_of(whole), 3)
    task = Counted()
    again = made(task).run(resume=whole.run_id)
    assert task.calls == ["2"]
    assert comparable(again) == comparable(whole)


# Values


@dataclass(frozen=True)
class Movie:
    title: str
    year: int


def test_outputs_of_every_type_survive(numbers: Numbers, comparable: Comparable) -> None:
    def task(example: Example) -> TaskResult:
        outputs = {
            "output": Movie("Alien", 1979),
            "toolCalls": [ToolCall("search", {"q": "x"}, result="[]")],
            "nan": float("nan"),
            "bytes": b"\x00",
            "set": {3, 1, 2},
            "huge": 10**5000,
            "text": "lone \ud800, snow ☃",
            "nested": {"camelCase": {"snake_case": None}},
        }
        return TaskResult(outputs, CallMetrics(1, 2, cost_usd=0.1, model="m", cached_tokens_in=1))

    @evaluator
    def typed(case: EvalTestCase) -> bool:
        movie = case.actual_output_as(Movie)
        return movie == Movie("Alien", 1979) and case.tool_calls == (
            ToolCall("search", {"q": "x"}, result="[]"),
        )

    whole = plan(numbers(2), task, typed).run()
    assert whole.pass_rate == 1.0
    assert comparable(load_run(folder_of(whole))) == comparable(whole)
    cut(folder_of(whole), 1)
    again = plan(numbers(2), task, typed).run(resume=whole.run_id)
    assert again.pass_rate == 1.0
    assert comparable(again) == comparable(whole)


def test_every_field_of_a_result_survives(numbers: Numbers, comparable: Comparable) -> None:
    from dokimos._core.results import Score

    @evaluator(threshold=0.5)
    def rich(output: str) -> Score:
        return Score(0.123456789012345678, "because ☃", metadata={"k": [1, None]})

    @evaluator
    def soft(output: str) -> bool:
        raise ValueError("nope")

    whole = plan(numbers(2, tag=["a"]), Counted({"1"}), rich, replace(soft, fail_on_error=False)).run()
    loaded = load_run(folder_of(whole))
    assert comparable(loaded) == comparable(whole)
    assert loaded.provenance == whole.provenance
    assert loaded.item_results[0].metrics == whole.item_results[0].metrics
    assert loaded.summary == whole.summary
    assert isinstance(loaded.item_results[0].eval_results[0], EvalResult)


def test_a_result_read_back_equals_the_one_in_memory(numbers: Numbers) -> None:
    whole = plan(
        numbers(3, topic="t"), Counted({"2"}), runs=2, name="n", description="d", metadata={"a": 1}
    ).run()
    assert load_run(folder_of(whole)) == whole


# Lists of runs


def test_runs_are_listed_with_their_state(numbers: Numbers) -> None:
    done = plan(numbers(1), Counted(), name="done").run()
    killed = plan(numbers(1), Counted(), name="killed").run()
    cut(folder_of(killed), 2)
    (ROOT / "not-a-run").mkdir()
    broken = ROOT / "broken"
    broken.mkdir()
    (broken / "run.json").write_text("{")
    found = {listing.name: listing for listing in list_runs(ROOT)}
    assert found.keys() == {"done", "killed", "unnamed"}
    assert "run.json is damaged" in found["unnamed"].problem
    assert found["done"].status is RunStatus.COMPLETED
    assert found["killed"].status is None
    assert found["done"].run_id == done.run_id
    assert found["done"].size_bytes > 100
    assert list_runs(Path("nowhere")) == []


def test_the_state_is_found_however_long_the_last_line_is(numbers: Numbers) -> None:
    metadata = {"values": ["x" * 100_000]}
    many = Contains(values=["x" * 50_000, "y" * 50_000])
    result = plan(numbers(1), Counted(), many, metadata=metadata).run()
    assert list_runs(ROOT)[0].status is RunStatus.COMPLETED
    assert result.metadata == metadata


def test_a_run_taken_up_again_and_killed_counts_as_unfinished(numbers: Numbers) -> None:
    first = plan(numbers(2), Counted({"1"})).run()
    lines = (folder_of(first) / "journal.jsonl").read_bytes().count(b"\n")
    plan(numbers(2), Counted()).run(resume=first.run_id, retry_errors=True)
    cut(folder_of(first), lines + 1)
    loaded = load_run(folder_of(first))
    assert loaded.status is RunStatus.INTERRUPTED
    assert loaded.warnings == (UNFINISHED,)


def test_pruning_keeps_what_a_process_works_on(numbers: Numbers) -> None:
    one, two = (folder_of(plan(numbers(1), Counted()).run()) for _ in range(2))
    lock = RunLock(two)
    assert prune_runs([one, two]) == [one]
    assert list_run_folders(ROOT) == [two]
    lock.release()


@pytest.mark.parametrize("part", [{"name": 3}, {"description": []}, {"metadata": "x"}, {"dataset": [1]}])
def test_a_manifest_whose_parts_are_of_another_kind_is_damaged(
    numbers: Numbers, part: dict[str, Any]
) -> None:
    folder = folder_of(plan(numbers(1), Counted()).run())
    manifest = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(manifest | part))
    with pytest.raises(JournalError, match=rf"run\.json is damaged: '{next(iter(part))}' is "):
        load_run(folder)


def test_a_folder_that_holds_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match=r"has no run\.json"):
        load_run(tmp_path)
    (tmp_path / "run.json").write_text('{"format": 99}')
    with pytest.raises(JournalError, match="written by a newer dokimos"):
        load_run(tmp_path)


def test_runs_started_in_the_same_second_never_share_a_folder(
    numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dokimos.experiment._run_record.new_run_id", lambda now: "20250101-000000-aaaa")
    ids = [plan(numbers(1), Counted()).run().run_id for _ in range(3)]
    assert ids == ["20250101-000000-aaaa", "20250101-000000-aaaa-2", "20250101-000000-aaaa-3"]


def test_a_journal_that_was_closed_is_never_written_to_again(tmp_path: Path) -> None:
    from dokimos.experiment._run_journal import Journal

    journal = Journal(tmp_path, RunLock(tmp_path))
    journal.close(status="completed")
    other = (tmp_path / "other").open("w")
    journal.write_repeat_end(0, seen=1, fingerprint=None, duplicate_ids=0)
    journal.close(status="completed")  # nor is what has the descriptor now closed
    other.close()
    assert (tmp_path / "other").read_text() == ""
    [line] = (tmp_path / "journal.jsonl").read_text().splitlines()
    assert json.loads(line)["status"] == "completed"


def test_an_interrupted_run_is_a_keyboard_interrupt_that_carries_its_result(numbers: Numbers) -> None:
    class Stop(Counted):
        def __call__(self, example: Example) -> str:
            if example.inputs["input"] == "2":
                raise KeyboardInterrupt
            return super().__call__(example)

    with pytest.raises(
        RunInterrupted, match=r"Interrupted after 2 items\. To continue: experiment.run"
    ) as caught:
        plan(numbers(4), Stop()).run()
    result = caught.value.result
    assert result.status is RunStatus.INTERRUPTED
    assert result.pass_count == 2
    task = Counted()
    with pytest.raises(JournalError, match="the task was"):
        plan(numbers(4), task).run(resume=result.run_id)
    again = plan(numbers(4), task).run(resume=result.run_id, force=True)
    assert (task.calls, again.pass_count) == (["2", "3"], 4)


def test_lone_surrogates_survive_the_journal_and_the_report(tmp_path: Path) -> None:
    half = {"text": "a\ud800b", "\udfff": ["é\udc00"]}
    data = Dataset([Example({"input": "q\ud800"}, metadata={"m": "\udfff"}, id="\ud800")])
    asked = []

    def task(example: Example) -> dict[str, Any]:
        asked.append(example.id)
        return {"output": half}

    @evaluator(name="half")
    def told(output: Any) -> Any:
        return Score(1.0, "because of \ud800")

    result = Experiment(data, task, [told]).run(run_dir=tmp_path / "runs")
    stored = load_run(list_run_folders(tmp_path / "runs")[0])
    report = load_result(export(result, tmp_path / "report.json"))

    for found in (stored, report):
        (item,) = found.item_results
        assert item.actual_outputs == {"output": half}
        assert item.example == data[0]
        assert item.eval_results[0].reason == "because of \ud800"
    assert b"a\\ud800b" in (tmp_path / "report.json").read_bytes()
