"""What must not end a run badly: forks, exits, failing data sets, odd terminals, odd scores."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest

from dokimos._cli.main import run_command
from dokimos._core.example import Example
from dokimos._core.results import RunStatus, Score
from dokimos._core.test_case import EvalTestCase
from dokimos.datasets._dataset import Dataset, DatasetStream
from dokimos.errors import DatasetError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._text import ExactMatch
from dokimos.experiment._experiment import Experiment
from dokimos.experiment._run_folders import list_run_folders, runs_root
from dokimos.experiment._run_loading import list_runs, load_run


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def letters(count=4):
    return [Example.of(f"q{i}", f"q{i}", id=f"id{i}") for i in range(count)]


def echo(example):
    return example.inputs["input"]


FORKED = """
import multiprocessing, warnings
from dokimos import Dataset, Example, Experiment
from dokimos.evaluators import ExactMatch

def task(example):
    return example.input

def run():
    return Experiment(Dataset([Example.of("a", "a")]), task, [ExactMatch()], journal=False).run().pass_rate

run()
warnings.simplefilter("ignore")
child = multiprocessing.get_context("fork").Process(target=run)
child.start()
child.join(60)
print("ended" if child.exitcode == 0 else f"hangs or failed: {child.exitcode}")
child.kill()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_threads_of_its_own():
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.strip() == "ended", done.stderr


def test_a_target_that_exits_while_it_is_imported_is_a_configuration_error(workplace, capsys):
    (workplace / "leaving.py").write_text("import sys\nsys.exit(0)\n")
    assert run_command(["run", "leaving.py"]) == 2
    assert "SystemExit: 0" in capsys.readouterr().err


@dataclass(frozen=True, kw_only=True)
class OddReason(Evaluator):
    reason: object = None
    metadata: object = None

    def score(self, case: EvalTestCase) -> Score:
        return Score(0.3, self.reason, metadata=self.metadata)


@pytest.mark.parametrize(("reason", "metadata"), [(None, {}), (42, {}), ("", None), ("", [1])])
def test_an_explanation_that_could_not_be_read_back_is_an_error_and_the_run_stays_readable(reason, metadata):
    odd = OddReason(reason=reason, metadata=metadata)
    result = Experiment(Dataset(letters(1)), echo, [ExactMatch(), odd]).run()
    assert "not" in result.item_results[0].result("Odd Reason").error
    loaded = load_run(list_run_folders(runs_root())[0])
    assert loaded.item_results == result.item_results


class Failed(BaseException):
    """Like the failure of a test framework."""


@dataclass(frozen=True, kw_only=True)
class Fails(Evaluator):
    def score(self, case: EvalTestCase) -> float:
        raise Failed("no")


def test_an_evaluator_may_raise_what_is_no_exception():
    result = Experiment(Dataset(letters(2)), echo, [Fails(), ExactMatch()], journal=False).run()
    assert [r.error for r in result.item_results[0].eval_results] == ["Failed: no", None]


def failing_stream():
    def read():
        yield from letters(3)
        raise OSError("the disk is gone")

    return DatasetStream(read, name="letters")


def test_a_data_set_that_fails_on_the_way_leaves_what_was_finished():
    with pytest.raises(DatasetError, match="failed after") as failure:
        Experiment(failing_stream(), echo, [ExactMatch()], journal=False).run()
    result = failure.value.result
    assert result is None or result.status is RunStatus.BROKEN


BROKEN_OFF = """
from dokimos import Dataset, DatasetStream, Example, Experiment
from dokimos.evaluators import ExactMatch

def read():
    for i in range(200):
        if i == 150:
            raise OSError("the disk is gone")
        yield Example.of(str(i), str(i))

experiment = Experiment(DatasetStream(read, name="numbers"), lambda text: text, [ExactMatch()], name="n")
"""


def test_a_run_that_breaks_off_is_presented_and_exits_with_3(workplace, capsys):
    (workplace / "off.py").write_text(BROKEN_OFF)
    assert run_command(["run", "off.py", "-o", "off.json"]) == 3
    captured = capsys.readouterr()
    assert "the disk is gone" in captured.err
    assert "broken" in captured.out
    assert "dokimos show 2" in captured.out
    assert json.loads((workplace / "off.json").read_text())["summary"]["passCount"] >= 100


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "latin-1"])
def test_an_output_that_cannot_show_the_text_does_not_break_the_run(workplace, encoding):
    row = {"input": "東京", "expectedOutput": "東京", "actualOutput": "京都 – ‘é’"}
    (workplace / "uni.jsonl").write_text(json.dumps(row) + "\n")
    done = subprocess.run(
        [sys.executable, "-m", "dokimos", "run", "uni.jsonl", "-e", "exact_match"],
        capture_output=True, env=os.environ | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert b"0.0 % passed (0/1)" in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
def test_nobody_reading_the_output_does_not_change_the_status(workplace):
    row = json.dumps({"input": "1", "expectedOutput": "x", "actualOutput": "x"})
    (workplace / "a.jsonl").write_text(f"{row}\n" * 9)
    command = f"{sys.executable} -m dokimos run a.jsonl -e exact_match | true; exit ${{PIPESTATUS[0]}}"
    assert subprocess.run(["bash", "-c", command], timeout=60, check=False).returncode == 0


def test_runs_are_listed_in_the_order_in_which_they_were_started():
    experiment = Experiment(Dataset(letters(1)), echo, [ExactMatch()])
    started = [experiment.run().run_id for _ in range(12)]
    assert [listing.run_id for listing in list_runs(runs_root())] == started


@pytest.mark.parametrize("content", ["[1]", '{"format": "x"}', "{", '{"format": 1}'])
def test_a_damaged_run_folder_hides_none_of_the_others(content):
    whole = Experiment(Dataset(letters(1)), echo, [ExactMatch()]).run()
    damaged = runs_root() / "20200101-000000-damaged"
    damaged.mkdir()
    (damaged / "run.json").write_text(content)
    (damaged / "journal.jsonl").write_text('{"t":"done","status":"no such status"}\n')
    first, second = list_runs(runs_root())
    assert (first.run_id, first.status) == (damaged.name, None)
    assert "damaged" in first.problem or "no such status" in first.problem
    assert (second.run_id, second.problem) == (whole.run_id, "")


def test_records_of_the_wrong_shape_are_named_and_ignored():
    result = Experiment(Dataset(letters(2)), echo, [ExactMatch()]).run()
    folder = list_run_folders(runs_root())[0]
    with (folder / "journal.jsonl").open("a") as journal:
        journal.write(
            '{"t":"item","r":0}\n{"t":"void"}\n{"t":"item","r":"a","i":1,"h":"x"}\n{"t":"new"}\n[]\n'
        )
    loaded = load_run(folder)
    assert loaded.item_results == result.item_results
    assert any("could not be read" in warning for warning in loaded.warnings)


def test_each_repeat_of_a_stream_keeps_its_own_examples():
    order = random.Random(1)

    def read():
        examples = letters(6)
        order.shuffle(examples)
        return iter(examples)

    result = Experiment(DatasetStream(read), echo, [ExactMatch()], runs=3).run()
    loaded = load_run(list_run_folders(runs_root())[0])
    for run, stored in zip(result.runs, loaded.runs, strict=True):
        assert [i.example.id for i in stored.item_results] == [i.example.id for i in run.item_results]
        assert all(item.example.input == item.actual_output for item in stored.item_results)


def test_a_wrong_evaluator_name_is_refused_before_anything_runs(workplace, capsys):
    (workplace / "a.jsonl").write_text('{"input": "1", "expectedOutput": "1", "actualOutput": "1"}\n')
    assert run_command(["run", "a.jsonl", "-e", "exact_match", "--fail-under", "Nope=0.5"]) == 2
    assert "there are: Exact Match" in capsys.readouterr().err
    assert not runs_root().exists()


def test_a_report_that_cannot_be_written_does_not_hide_the_result(workplace, capsys):
    (workplace / "a.jsonl").write_text('{"input": "1", "expectedOutput": "1", "actualOutput": "1"}\n')
    report = f"{'x' * 300}.html"
    assert run_command(["run", "a.jsonl", "-e", "exact_match", "-o", report]) == 2
    captured = capsys.readouterr()
    assert "100.0 % passed (1/1)" in captured.out
    assert "Cannot write the report xxx" in captured.err


LOCKED_IN_A_FORK = """
import os, pathlib, signal
from dokimos.errors import RunLockedError
from dokimos.experiment._run_lock import RunLock

folder = pathlib.Path()
lock = RunLock(folder)
child = os.fork()
if child == 0:
    signal.pause()
try:
    try:
        RunLock(folder)
    except RunLockedError:
        print("locked")
    lock.release()
    RunLock(folder).release()
    print("free")
finally:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_released_lock_is_free_although_a_child_still_holds_the_file():
    done = subprocess.run(
        [sys.executable, "-c", LOCKED_IN_A_FORK], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout.split(), done.stderr) == (["locked", "free"], "")


BUSY = """
import sys, time
from dataclasses import dataclass
from dokimos import Dataset, Example, Experiment
from dokimos.errors import RunInterrupted
from dokimos.evaluators._base import Evaluator

@dataclass(frozen=True, kw_only=True)
class Slow(Evaluator):
    def score(self, case):
        print("busy", flush=True)
        time.sleep(300)  # blocks the event loop
        return 1.0

try:
    Experiment(Dataset([Example.of("a", "a")]), lambda e: "a", [Slow()]).run()
except RunInterrupted as interrupted:
    print("interrupted", interrupted.result.status, flush=True)
"""


def test_ctrl_c_ends_a_busy_event_loop():
    process = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "busy\n"
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert time.monotonic() - start < 60
    assert "interrupted interrupted" in rest


def test_a_broken_result_that_is_scored_anew_is_no_longer_broken():
    broken = Experiment(Dataset(letters(2)), echo, [Fails()], journal=False).run()
    assert broken.status is RunStatus.BROKEN
    rescored = Experiment.rescore(broken, [ExactMatch()])
    assert (rescored.status, rescored.pass_rate, rescored.warnings) == (RunStatus.COMPLETED, 1.0, ())
