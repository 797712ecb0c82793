"""Scripts that start a run, as worker processes import them, and how many of those there are."""

import multiprocessing
import threading

import pytest

from dokimos import Dataset, DatasetStream, Example, Experiment, LocalExecutor, RayExecutor, RunOptions
from dokimos.evaluators import ExactMatch
from dokimos.experiment import _worker_script
from dokimos.experiment._example_source import count_examples
from dokimos.experiment._executor import ProcessExecutor
from dokimos.experiment._run_options import executor_for
from dokimos.experiment._worker_script import end_second_start, note_script_imported

PLAN = Experiment([Example.of("a", "A")], str.upper, [ExactMatch()], quiet=True, journal=False)


@pytest.fixture
def worker(monkeypatch):
    """A process with the name of a worker, that has not imported the script of the run yet."""
    monkeypatch.setattr(multiprocessing.current_process(), "name", "dokimos-worker-1")
    monkeypatch.setattr(_worker_script, "_script_imported", threading.Event())


def test_a_run_that_an_import_by_a_worker_starts_ends_the_worker(worker):
    result = None
    with pytest.raises(SystemExit):
        result = PLAN.run()
    assert result is None
    note_script_imported()
    assert PLAN.run().pass_rate == 1.0, "a task may run an experiment"


@pytest.mark.usefixtures("worker")
async def test_the_same_holds_on_an_event_loop():
    with pytest.raises(SystemExit):
        await PLAN.run_async()


def test_the_same_holds_for_scoring_again(monkeypatch):
    result = PLAN.run()
    monkeypatch.setattr(multiprocessing.current_process(), "name", "dokimos-worker-1")
    monkeypatch.setattr(_worker_script, "_script_imported", threading.Event())
    with pytest.raises(SystemExit):
        Experiment.rescore(result, [ExactMatch()])


def test_other_processes_start_runs():
    end_second_start()
    assert PLAN.run().pass_rate == 1.0


def test_no_process_is_started_that_would_have_nothing_to_do():
    many = RunOptions(processes=1000)
    assert executor_for(3, many) == ProcessExecutor(3)
    assert executor_for(0, many) == ProcessExecutor(1)
    assert executor_for(5000, many) == executor_for(None, many) == ProcessExecutor(1000)
    assert executor_for(3, RunOptions(executor=ProcessExecutor(4))) == ProcessExecutor(3)
    assert executor_for(3, RunOptions()) == LocalExecutor()
    on_ray = RayExecutor(num_workers=4)
    assert executor_for(3, RunOptions(executor=on_ray)) is on_ray, "one may be taken away with its node"


@pytest.mark.parametrize(("shard", "count"), [(None, 7), ((1, 3), 3), ((3, 3), 2), ((7, 8), 1), ((8, 8), 0)])
def test_how_many_examples_a_shard_has(shard, count):
    examples = [Example.of(f"q{number}", "") for number in range(7)]
    assert count_examples(Dataset(examples), shard) == count
    assert count_examples(DatasetStream(lambda: iter(examples)), shard) is None
