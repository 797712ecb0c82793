"""Runs over several worker processes: what the single process finds, whatever ends, and no call more."""

import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from dokimos import Budget, CallMetrics, Dataset, Experiment, recorded_task
from dokimos._cli.main import run_command
from dokimos._http.throttle import Throttle
from dokimos.errors import ConfigurationError, RunInterrupted, TooManyErrors
from dokimos.evaluators import ExactMatch, LLMJudge
from dokimos.experiment._run_loading import load_run
from dokimos.judges import judge

APP = '''
import asyncio, os, signal, sys, threading, time
from dataclasses import dataclass
from pathlib import Path

from dokimos import CallMetrics, Example, Experiment, JudgeReply, Score, TaskResult
from dokimos.evaluators import Contains, Evaluator, ExactMatch, LLMJudge
from dokimos.errors import BudgetExceededError
from dokimos.judges import ask

def note(what, text):
    with open(what, "a") as file:
        file.write(f"{text}\\n")

def once(name):
    """Whether nobody has asked this before."""
    try:
        os.close(os.open(f"once-{name}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True

def answer(question):
    note("asked", question)
    if question.endswith("3"):
        raise ValueError("no three")
    return {"output": question.upper(), "length": len(question)}

def answer_with_prompt(question):
    note("asked", question)
    return Path("prompt.txt").read_text() + question.upper()

def answer_for_money(question):
    note("asked", question)
    return TaskResult({"output": question.upper()}, CallMetrics(10, 5, cost_usd=0.01))

def answer_once_killed(question):
    note("asked", question)
    if question == "q5" and once(question):
        os.kill(os.getpid(), signal.SIGKILL)
    return question.upper()

def answer_always_killed(question):
    if question == "q5":
        os.kill(os.getpid(), signal.SIGKILL)
    return question.upper()

def answer_without_end(question):
    note("asked", question)
    if question == "q5" and once(question):
        Path("pid").write_text(str(os.getpid()))
        Path("stuck").touch()
        threading.Event().wait()
    return question.upper()

def answer_never_to_five(question):
    if question == "q5":
        threading.Event().wait()
    return question.upper()

def answer_from_a_process_that_outlives_it(question):
    if question == "q5" and once(question):
        if os.fork():
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(3)  # with the pipe of the worker open, which is dead by then
        os._exit(0)
    return question.upper()

def answer_within_a_budget(question):
    if question == "q5":
        raise BudgetExceededError("spent elsewhere")
    return question.upper()

def answer_or_give_up(question):
    if question == "q5":
        raise KeyboardInterrupt
    return question.upper()

def answer_always_killed_at_five_to_nine(question):
    if question in ("q5", "q6", "q7", "q8", "q9"):
        os.kill(os.getpid(), signal.SIGKILL)
    return question.upper()

class Picky:
    def __init__(self, text):
        self.text = text

    def __str__(self):
        return self.text

    def __reduce__(self):
        if os.getpid() == PARENT:
            raise TypeError("not again")
        return Picky, (self.text,)

PARENT = int(os.environ["PARENT"])

def answer_that_is_sent_only_once(question):
    return {"output": question.upper(), "picky": Picky(question)}

class ExitsWhenRead:
    def __reduce__(self):
        return sys.exit, ("read",)

def answer_that_exits_when_it_is_read(question):
    return {"output": question.upper(), "other": ExitsWhenRead() if question == "q5" else None}

async def answer_one_at_a_time(question):
    assert once("here"), "there is another one"
    await asyncio.sleep(0)
    os.remove("once-here")
    return question.upper()

def answer_with_a_lock(question):
    return {"output": question.upper(), "lock": threading.Lock() if question == "q5" else None}

class Judge:
    identity = "a judge"

    async def complete(self, prompt, *, schema=None):
        note("judged", os.getpid())
        return JudgeReply('{"score": 1, "reason": "So."}', CallMetrics(100, 10, cost_usd=0.01))

@dataclass
class Verdict:
    score: float
    reason: str

def answer_by_model(question):
    verdict = asyncio.run(ask(Judge(), f"What is {question}?", Verdict))
    return f"{question.upper()} {verdict.reason}"

@dataclass(frozen=True, kw_only=True)
class Lengths(Evaluator):
    def score(self, case):
        return {"short": len(case.actual_output) < 4, "text": Score(0.5, f"It is {case.actual_output}.")}

@dataclass(frozen=True, kw_only=True)
class OnceKilled(Evaluator):
    def score(self, case):
        if case.input == "q5" and once("scoring"):
            os.kill(os.getpid(), signal.SIGKILL)
        return True

@dataclass(frozen=True, kw_only=True)
class AsksInside(Evaluator):
    def score(self, case):
        try:
            return asyncio.run(ask(Judge(), f"How good is {case.actual_output}?", Verdict)).score
        except Exception:
            return 0.25  # which must not become the score because a worker may not ask

@dataclass(frozen=True, kw_only=True)
class Pid(Evaluator):
    def score(self, case):
        return Score(1.0, str(os.getpid()))

JUDGED = LLMJudge(criteria="It is right.", judge=Judge(), threshold=0.5)
QUESTIONS = [Example.of(f"q{number}", f"Q{number}") for number in range(12)]
experiment = Experiment(QUESTIONS, answer, [ExactMatch(), Lengths(threshold=0.5), JUDGED], name="shout")
stuck = Experiment(QUESTIONS, answer_without_end, [ExactMatch()], name="stuck")
prompted = Experiment(QUESTIONS, answer_with_prompt, [ExactMatch()], name="prompted")
'''


@pytest.fixture
def app(tmp_path, monkeypatch):
    """The module of an application, in a folder of its own."""
    (tmp_path / "app.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PARENT", str(os.getpid()))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "app", raising=False)  # of another test
    import app

    return app


def plan(app, task, evaluators=(), **settings):
    return Experiment(app.QUESTIONS, task, [ExactMatch(), *evaluators], quiet=True, processes=2, **settings)


def lines(name):
    return sorted(Path(name).read_text().split()) if Path(name).exists() else []


def contents(result):
    """What a result says, without times."""
    return [
        (item.index, item.key, item.actual_outputs, item.error, item.eval_results)
        for run in result.runs
        for item in run.item_results
    ]


def load_stored(result):
    return load_run(Path(".dokimos/runs", result.run_id))


def failing(result):
    return [item.key for item in result.item_results if item.error is not None]


def test_a_run_over_processes_equals_the_single_one(app):
    alone = app.experiment.run(quiet=True, seed=1)
    calls, judged = lines("asked"), len(lines("judged"))
    for name in ("asked", "judged"):
        Path(name).unlink()
    shared = Experiment(
        app.QUESTIONS, app.answer, app.experiment.evaluators, name="shout", processes=2, parallelism=3
    ).run(quiet=True, seed=1)
    assert contents(shared) == contents(alone)
    assert (shared.status, shared.pass_rate, shared.warnings) == (alone.status, alone.pass_rate, ())
    assert (lines("asked"), len(lines("judged"))) == (calls, judged)
    assert set(lines("judged")) == {str(os.getpid())}, "one process asks the judge"
    assert contents(load_stored(shared)) == contents(shared)


def test_recorded_answers_are_scored_over_processes_as_in_one(app):
    answers = [
        replace(app.QUESTIONS[0], actual_outputs={"output": "Q0"}, metrics=CallMetrics(1, 2, cost_usd=0.5)),
        replace(app.QUESTIONS[1], actual_error="TimeoutError: too slow"),
        replace(app.QUESTIONS[2], actual_outputs={"output": "two", "lock": threading.Lock()}),
        *app.QUESTIONS[3:],
    ]
    evaluators = [ExactMatch(), app.Lengths(threshold=0.5)]
    alone, shared = (
        Experiment(answers, recorded_task(), evaluators).run(quiet=True, processes=count) for count in (1, 2)
    )
    assert contents(shared) == contents(alone)
    assert shared.summary.metrics.cost_usd == 0.5
    assert failing(shared) == [f"item-{number}" for number in (1, *range(3, 12))]


def test_repeats_and_evaluators_that_a_function_chooses(app):
    def choose(example):
        return [ExactMatch()] if example.input < "q2" else [ExactMatch(), app.Lengths()]

    alone = Experiment(app.QUESTIONS, app.answer, choose, runs=2).run(quiet=True, journal=False)
    shared = Experiment(app.QUESTIONS, app.answer, choose, runs=2).run(quiet=True, journal=False, processes=2)
    assert contents(shared) == contents(alone)


def test_scoring_again_over_processes_equals_that_in_one(app):
    stored = app.experiment.run(quiet=True)
    evaluators = [app.Lengths(), app.JUDGED, ExactMatch(), app.AsksInside(), app.OnceKilled(threshold=0.5)]
    alone = Experiment.rescore(stored, evaluators[:-1], parallelism=3)
    shared = Experiment.rescore(stored, evaluators, parallelism=3, processes=2)
    killed = [[one for one in item.eval_results if one.name != "Once Killed"] for item in shared.item_results]
    assert killed == [list(item.eval_results) for item in alone.item_results]
    assert all(item.eval_results[-1].success for item in shared.item_results if item.error is None)
    assert set(lines("judged")) == {str(os.getpid())}


def test_a_stored_run_is_scored_again_over_processes_by_the_command(app, capsys):
    app.experiment.run(quiet=True)
    assert run_command(["rescore", "latest", "-e", "exact_match", "--processes", "2", "-q"]) == 1
    assert "(11/12)" in capsys.readouterr().out
    assert run_command(["rescore", "latest", "-e", "exact_match", "--processes", "2", "--on", "ray"]) == 2
    assert "both say where" in capsys.readouterr().err


def test_workers_share_the_items_and_end_with_the_run(app):
    before = set(threading.enumerate())
    result = plan(app, app.answer, [app.Pid()]).run()
    pids = {int(one.reason) for item in result.item_results for one in item.eval_results if one.name == "Pid"}
    assert os.getpid() not in pids
    assert pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("dokimos-worker"):
            thread.join(30)  # it hears at any moment that its worker has ended
            assert not thread.is_alive()


def test_an_item_whose_worker_is_killed_is_worked_on_once_more(app):
    result = plan(app, app.answer_once_killed).run()
    assert result.pass_rate == 1.0
    assert set(lines("asked")) == {example.input for example in app.QUESTIONS}
    assert lines("asked").count("q5") == 2


def test_an_item_that_ends_each_worker_is_an_error(app):
    result = plan(app, app.answer_always_killed).run()
    [item] = [item for item in result.item_results if item.error is not None]
    assert item.key == "item-5"
    assert item.error == "2 workers ended while working on it: killed by SIGKILL"
    assert result.summary.passed == 11
    assert failing(load_stored(result)) == ["item-5"]


@pytest.mark.parametrize("parallelism", [1, 8])
def test_only_the_items_that_end_workers_are_errors(app, parallelism):
    result = plan(app, app.answer_always_killed_at_five_to_nine, parallelism=parallelism).run()
    assert failing(result) == [f"item-{number}" for number in range(5, 10)]
    assert result.status.value == "completed"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_worker_whose_own_process_outlives_it_is_replaced(app):
    result = plan(app, app.answer_from_a_process_that_outlives_it).run()
    assert result.pass_rate == 1.0


def test_what_ends_an_item_without_an_error_does_so_in_a_worker(app):
    result = plan(app, app.answer_within_a_budget).run()
    assert [item.key for item in result.item_results if item.key == "item-5"] == []
    with pytest.raises(RunInterrupted):
        plan(app, app.answer_or_give_up).run()


def test_outputs_that_misbehave_when_they_are_sent(app):
    result = plan(app, app.answer_that_exits_when_it_is_read).run()
    assert failing(result) == ["item-5"]
    assert "what its process sent cannot be read" in result.item_results[5].error
    result = plan(app, app.answer_that_is_sent_only_once, [app.OnceKilled()]).run()
    [item] = [item for item in result.item_results if item.success is not True]
    assert str(item.actual_outputs["picky"]) == "q5"
    assert "no other can be sent its output" in item.eval_results[0].error


def test_what_stays_in_the_process_keeps_to_the_parallelism(app):
    result = plan(app, app.answer_one_at_a_time).run()
    assert result.pass_rate == 1.0


def test_what_a_task_returned_before_its_worker_was_killed_is_not_asked_for_again(app):
    result = plan(app, app.answer_for_money, [app.OnceKilled()]).run()
    assert result.pass_rate == 1.0
    assert lines("asked") == sorted(example.input for example in app.QUESTIONS)


def test_a_task_that_cannot_be_sent_is_refused_before_the_run(app):
    with pytest.raises(ConfigurationError, match=r"The task cannot be sent to worker processes: .*lambda"):
        plan(app, lambda question: question).run()
    assert not Path(".dokimos").exists()


def test_an_output_that_cannot_be_sent_is_an_error_of_its_item(app):
    result = plan(app, app.answer_with_a_lock).run()
    assert failing(result) == ["item-5"]
    assert "what the task returned cannot be sent from its process: TypeError" in result.item_results[5].error


def test_a_task_that_asks_a_model_asks_in_the_process_of_the_run(app):
    result = plan(app, app.answer_by_model).run(budget=Budget(max_calls=100))
    assert [item.actual_outputs["output"] for item in result.item_results[:2]] == ["Q0 So.", "Q1 So."]
    assert lines("judged") == [str(os.getpid())] * len(app.QUESTIONS)


def test_an_evaluator_that_asks_a_model_asks_in_the_process_of_the_run(app):
    result = plan(app, app.answer_for_money, [app.AsksInside()]).run()
    assert {one.score for item in result.item_results for one in item.eval_results} == {1.0}
    assert lines("judged") == [str(os.getpid())] * len(app.QUESTIONS)


class SpiedThrottle(Throttle):
    """Counts what goes through a throttle of this process; those of workers are not counted here."""

    made: ClassVar = []

    def __init__(self):
        super().__init__()
        self.calls, self.refusals = 0, 0
        self.made.append(self)

    async def acquire(self, tokens):
        self.calls += 1
        return await super().acquire(tokens)

    def on_overload(self, round_sent, *, retry_after, rate_limited):
        self.refusals += rate_limited
        super().on_overload(round_sent, retry_after=retry_after, rate_limited=rate_limited)


def test_a_rate_limit_slows_the_calls_of_the_whole_run(app, scripted, monkeypatch):
    monkeypatch.setattr("dokimos._http.client.Throttle", SpiedThrottle)

    def run(**settings):
        SpiedThrottle.made.clear()
        with scripted.ScriptedServer('{"score": 1, "reason": "So."}') as server:
            server.then(scripted.Misbehaviour(), times=6)
            server.then(scripted.too_many(retry_after=0), times=2)
            asked = judge("openai-chat:tiny", base_url=f"{server.url}/v1", api_key="k")
            judged = LLMJudge(criteria="It is right.", judge=asked, threshold=0.5)
            # At most two calls at once, so that some were accepted before the first was refused: a pace is
            # drawn from those.
            result = Experiment(
                app.QUESTIONS,
                app.answer_for_money,
                [judged, app.Pid()],
                quiet=True,
                parallelism=2,
                **settings,
            ).run()
        [throttle] = SpiedThrottle.made
        assert len(server.received) == throttle.calls == len(app.QUESTIONS) + 2, "one process asks"
        assert throttle.refusals == 2
        assert throttle.pace.rate is not None
        pids = {item.eval_results[1].reason for item in result.item_results}
        verdicts = [replace(item.eval_results[0], metrics=None) for item in result.item_results]
        return [item.actual_outputs for item in result.item_results], verdicts, pids

    alone, shared = run(), run(processes=2)
    assert shared[:2] == alone[:2]
    assert str(os.getpid()) not in shared[2], "workers score what asks no model"


def test_a_budget_holds_over_all_processes_and_a_resumed_run_goes_on(app):
    result = plan(app, app.answer_for_money).run(budget=Budget(max_cost_usd=0.055))
    assert result.status.value == "budget_spent"
    assert len(lines("asked")) == 5
    resumed = plan(app, app.answer_for_money).run(resume=result.run_id)
    assert resumed.summary.passed == len(app.QUESTIONS)
    assert lines("asked") == sorted(example.input for example in app.QUESTIONS)


def test_stopping_at_a_failure_and_at_too_many_errors(app):
    many = replace(plan(app, app.answer), dataset=Dataset([*app.QUESTIONS] * 100))
    stopped = many.run(fail_fast=True)
    assert stopped.status.value == "stopped"
    assert len(lines("asked")) < 1200
    assert "item-3" in failing(stopped)
    with pytest.raises(TooManyErrors, match="no three"):
        plan(app, app.answer).run(max_errors=0)


def test_a_call_that_takes_too_long_is_abandoned(app):
    result = plan(app, app.answer_never_to_five).run(timeout=2.0)
    assert "item-5" in failing(result)  # and others on a machine that stands still
    assert "no answer within 2 s" in result.item_results[5].error
    assert re.search(r"Abandoned \d+ calls? of the task that took longer than 2 s\.", str(result.warnings))


def test_files_that_the_task_reads_in_a_worker_decide_whether_outputs_are_reused(app):
    run = ["run", "app.py:prompted", "-q", "--processes", "2"]
    Path("prompt.txt").write_text("")
    assert run_command(run) == 0
    Path("asked").unlink()
    run_command([*run, "--reuse"])
    assert lines("asked") == []
    Path("prompt.txt").write_text("Well: ")
    run_command([*run, "--reuse"])
    assert len(lines("asked")) == len(app.QUESTIONS)


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_run_that_is_ended_leaves_no_worker_and_is_resumed(app, wait_until, number, status):
    def count_kept_items():
        journals = Path(".dokimos/runs").glob("*/journal.jsonl")
        return sum('"t":"item"' in line for path in journals for line in path.read_text().splitlines())

    process = start("-m", "dokimos", "run", "app.py:stuck", "--processes", "2")
    wait_until(lambda: Path("stuck").exists() and count_kept_items() == len(app.QUESTIONS) - 1)
    worker = int(Path("pid").read_text())
    os.killpg(process.pid, number) if number == signal.SIGINT else os.kill(process.pid, number)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == status, printed
    assert "Traceback" not in printed
    wait_until(lambda: not is_alive(worker))
    assert count_kept_items() == len(app.QUESTIONS) - 1
    resumed = start("-m", "dokimos", "resume", "latest")
    printed, _ = resumed.communicate(timeout=60)
    assert "100.0 % passed (12/12)" in printed
    assert len(lines("asked")) == len(app.QUESTIONS) + 1


def test_ctrl_c_while_workers_start_leaves_none(app, wait_until):
    Path("slow.py").write_text(
        "import pathlib, threading\nfrom app import *\npathlib.Path(f'pid-{os.getpid()}').touch()\n"
        "if len(list(pathlib.Path().glob('pid-*'))) > 1:\n    threading.Event().wait()\n"
        "def task(question):\n    return question\n"
        "late = Experiment(QUESTIONS, task, [ExactMatch()])\n"
    )
    process = start("-m", "dokimos", "run", "slow.py:late", "--processes", "2")
    wait_until(lambda: len(list(Path().glob("pid-*"))) == 3)
    os.killpg(process.pid, signal.SIGINT)
    printed, _ = process.communicate(timeout=60)
    assert (process.returncode, printed.strip()) == (130, "Interrupted.")
    pids = [int(path.name.partition("-")[2]) for path in Path().glob("pid-*")]
    wait_until(lambda: not any(map(is_alive, pids)))
    assert not Path(".dokimos/runs").exists()


def is_alive(pid):
    """Whether a process goes on; one that has ended and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_an_interrupted_run_in_python_has_what_was_done(app, wait_until):
    over = threading.Event()

    def interrupt():
        stuck = Path("stuck").resolve()  # wherever the test after this one is
        wait_until(lambda: stuck.exists() or over.is_set())
        if not over.is_set():
            signal.raise_signal(signal.SIGINT)

    interrupting = threading.Thread(target=interrupt, daemon=True)
    interrupting.start()
    try:
        with pytest.raises(RunInterrupted) as caught:
            plan(app, app.answer_without_end).run()
    finally:
        over.set()  # Ctrl-C must not come to another test
        interrupting.join()
    assert "item-5" not in [item.key for item in caught.value.result.item_results]


def test_a_script_without_a_main_guard_is_told_so(app):
    Path("script.py").write_text(
        "from app import *\nprint(experiment.run(processes=2, quiet=True).pass_rate)\n"
    )
    process = start("script.py")
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "if __name__ == '__main__':" in printed.splitlines()[-1]
    assert not Path("asked").exists()
