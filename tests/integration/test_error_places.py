"""Where errors of a user's own code are reported: in runs, after a kill, in suites, tests and reports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from dokimos import Dataset, Example, Experiment, load_result
from dokimos._cli.main import run_command
from dokimos._core.wire import to_json
from dokimos.evaluators import ExactMatch

APP = """\
import asyncio
import os
import signal
import threading
import time
from pathlib import Path

from dokimos import Dataset, Example, Experiment, Score
from dokimos._runtime.time_limits import give_extra_time
from dokimos.evaluators import ExactMatch, Jury, LLMJudge
from dokimos.evaluators._function import evaluator
from dokimos.reporting._memory import MemoryReporter

CITIES = {"good": "Oslo"}


def reach_limit():
    give_extra_time(-1e9)  # what the fixture `limits` takes for the end of the limit


def look_up(question):
    return CITIES[question]


def answer(example: Example):
    return look_up(example.inputs["input"])


async def answer_async(example: Example):
    await asyncio.sleep(0)
    return look_up(example.inputs["input"])


def stuck(example: Example):
    threading.Event().wait(reach_limit() or 60)


async def waits(example: Example):
    await pause()


async def pause():
    await asyncio.sleep(reach_limit() or 60)


def killed(example: Example):
    if example.id == "q2":
        os.kill(os.getpid(), signal.SIGKILL)
    if Path("killed").exists():
        raise LookupError("this would be another error than before")
    return look_up(example.inputs["input"])


def ask(prompt):
    raise ConnectionError("no judge here")


@evaluator(threshold=0.5)
def picky(actual_output):
    return {}["score"]


@evaluator
def slow(actual_output):
    threading.Event().wait(reach_limit() or 60)


@evaluator
async def patient(actual_output):
    await pause()


def choose(example):
    return [ExactMatch()][example.index_that_is_not_there]


def prices(model, tokens_in, tokens_out):
    return {}[model]


class Reporter(MemoryReporter):
    def start_run(self, name, metadata):
        raise OSError("no server")


def data(*names):
    return Dataset([Example({"input": name}, {"output": "Oslo"}, id=name) for name in names])


def plan(task, evaluators=(ExactMatch(),), names=("q0", "q1", "q2", "good"), **settings):
    return Experiment(name="cities", dataset=data(*names), task=task, evaluators=evaluators, **settings)


experiment = plan(answer, [ExactMatch(threshold=1.0), picky])
with_async = plan(answer_async)
stuck_one = plan(stuck, names=("q0",))
waiting = plan(waits, names=("q0",))
judged = plan(answer, [LLMJudge(criteria="Is it right?", judge=ask)], names=("good",))
in_jury = plan(answer, [Jury(criteria="Is it right?", judges=[ask, ask])], names=("good",))
chosen = plan(answer, choose, names=("good",))
slow_ones = plan(answer, [slow, patient], names=("good",))
reported = plan(answer, names=("good",), reporters=[Reporter()])
killing = plan(killed, parallelism=1)
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(APP)
    monkeypatch.setattr(sys, "path", list(sys.path))
    sys.modules.pop("app", None)  # that of another test, which a suite imported
    yield tmp_path
    sys.modules.pop("app", None)


def line_of(text, times=1):
    lines = [number for number, line in enumerate(APP.splitlines(), 1) if text in line]
    return lines[times - 1]


LOOK_UP = f"app.py:{line_of('return CITIES')} in look_up"
PICKY = f"app.py:{line_of('return {}[')} in picky"


def run(*arguments):
    return run_command(["run", *arguments])


def latest():
    from dokimos.experiment._run_folders import find_run, runs_root
    from dokimos.experiment._run_loading import load_run

    return load_run(find_run("latest", runs_root(None)))


def places(result):
    return [item.error_detail.place for item in result.item_results if item.error_detail is not None]


def test_the_terminal_says_where_and_all_items_with_one_bug_are_one_line(project, capsys):
    assert run("app.py:experiment") == 3
    shown = capsys.readouterr().out
    assert f"3 items  ! task  KeyError: 'q0' ({LOOK_UP})" in shown
    assert f"good     ! Picky  KeyError: 'score' ({PICKY})" in shown
    assert shown.count("KeyError: 'q0'") == 1
    assert "Traceback" not in shown


def test_debug_shows_the_whole_traceback_of_the_first_of_each_kind_also_later(project, capsys):
    run("app.py:experiment", "--debug")
    first = capsys.readouterr().out
    run_command(["show", "latest", "--debug"])
    for shown in (first, capsys.readouterr().out):
        assert shown.count("Traceback (most recent call last)") == 2
        assert "task: q0 and 2 more" in shown
        assert f'File "app.py", line {line_of("return CITIES")}, in look_up' in shown
        assert "KeyError: 'q0'" in shown
        assert "KeyError: 'q1'" not in shown
        assert "dokimos/experiment" not in shown


def test_an_item_is_shown_with_its_frames_and_as_json_with_everything(project, capsys):
    run("app.py:experiment", "-q")
    capsys.readouterr()
    run_command(["show", "latest", "--item", "q1"])
    shown = capsys.readouterr().out
    assert f"{LOOK_UP}  return CITIES[question]" in shown
    assert " in answer  return look_up" in shown
    run_command(["show", "latest", "--item", "q1", "--json"])
    item = json.loads(capsys.readouterr().out)
    assert item["error"] == "KeyError: 'q1'"
    detail = item["errorDetail"]
    assert (detail["type"], detail["message"]) == ("KeyError", "'q1'")
    assert [frame["function"] for frame in detail["frames"]] == ["answer", "look_up"]
    assert detail["traceback"].startswith("Traceback")
    assert detail["traceback"].endswith("KeyError: 'q1'")


def test_a_narrow_terminal_has_the_place_in_a_line_of_its_own(project, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "44")
    run("app.py:experiment")
    shown = capsys.readouterr().out
    assert any(line.strip() == LOOK_UP for line in shown.splitlines())


@pytest.mark.parametrize("name", ["experiment", "with_async"])
def test_sync_and_async_tasks_have_their_place(project, name):
    run(f"app.py:{name}", "-q")
    assert places(latest()) == [LOOK_UP] * 3


@pytest.mark.parametrize(("name", "where"), [("stuck_one", "in stuck"), ("waiting", "in pause")])
def test_a_call_that_takes_too_long_has_the_place_where_it_was(project, limits, name, where):
    run(f"app.py:{name}", "-q", "--timeout", "0.3")
    (item,) = latest().item_results
    assert item.error.startswith("TimeoutError: no answer within 0.3 s")
    assert item.error_detail.place.endswith(where)
    assert item.error_detail.traceback.endswith("the call was abandoned")


def test_evaluators_that_take_too_long_have_the_place_where_they_were(project, limits):
    run("app.py:slow_ones", "-q", "--evaluator-timeout", "0.3")
    sync, waiting = latest().item_results[0].eval_results
    assert sync.error.startswith("TimeoutError")
    assert (
        sync.error_detail.place
        == f"app.py:{line_of('threading.Event().wait(reach_limit() or 60)', 2)} in slow"
    )
    assert (
        waiting.error_detail.place == f"app.py:{line_of('await asyncio.sleep(reach_limit() or 60)')} in pause"
    )


def test_judges_choices_and_reporters_have_their_place(project, capsys):
    for name in ("judged", "in_jury"):
        run(f"app.py:{name}", "-q")
        (result,) = latest().item_results[0].eval_results
        assert result.error_detail.place == f"app.py:{line_of('no judge here')} in ask"
    run("app.py:chosen", "-q")
    (result,) = latest().item_results[0].eval_results
    assert result.error_detail.type == "AttributeError"
    assert result.error_detail.place.endswith(" in choose")
    run("app.py:reported", "-q")
    assert f"OSError: no server (app.py:{line_of('no server')} in Reporter.start_run)" in latest().warnings[0]


SIMULATED = """\
from dokimos import Experiment
from dokimos.evaluators._function import evaluator
from dokimos.simulation import Scenario, Simulation


@evaluator
def fine(case):
    return True


def application(conversation):
    raise LookupError("no such order")


class User:
    async def __call__(self, conversation):
        raise OSError("the user is gone")


scenarios = [Scenario(description="late", script=("One", "Two")).to_example()]
experiment = Experiment(scenarios, Simulation(application=application), [fine])
other = Experiment(scenarios, Simulation(application=application, user=User()), [fine])
"""


@pytest.mark.parametrize(("name", "where"), [("experiment", "in application"), ("other", "in User.__call__")])
def test_both_sides_of_a_simulated_conversation_have_their_place(project, name, where):
    (project / "simulated.py").write_text(SIMULATED)
    run(f"simulated.py:{name}", "-q")
    (item,) = latest().item_results
    assert item.error_detail.place.startswith("simulated.py:")
    assert item.error_detail.place.endswith(where)


def test_a_killed_run_keeps_the_places_of_what_had_failed(project):
    command = [sys.executable, "-m", "dokimos", "run", "app.py:killing", "-q"]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    (project / "killed").touch()
    before = APP.replace('if example.id == "q2":', 'if example.id == "never":')
    assert places(latest()) == [LOOK_UP] * 2
    (project / "app.py").write_text(f"\n\n{before}")  # the lines have moved since
    run_command(["resume", "latest", "-q"])
    result = latest()
    assert [item.error for item in result.item_results[:2]] == ["KeyError: 'q0'", "KeyError: 'q1'"]
    assert places(result)[:2] == [LOOK_UP] * 2
    assert places(result)[2].endswith(" in killed")


def test_places_survive_rescoring_merging_and_the_json_report(project, capsys):
    run("app.py:experiment", "-q", "--shard", "1/2", "-o", "a.json")
    run("app.py:experiment", "-q", "--shard", "2/2", "-o", "b.json")
    run_command(["merge", "a.json", "b.json", "-o", "whole.json"])
    merged = load_result("whole.json")
    assert places(merged) == [LOOK_UP] * 3
    assert merged.item_results[3].result("Picky").error_detail.place == PICKY
    run_command(["rescore", "whole.json", "-e", "exact_match", "-o", "again.json"])
    assert places(load_result("again.json")) == [LOOK_UP] * 3


def test_reports_tell_the_place(project):
    run("app.py:experiment", "-q", "-o", "r.json", "-o", "r.md", "-o", "r.xml", "-o", "r.html")
    report = json.loads(Path("r.json").read_text())
    assert report["items"][0]["errorDetail"]["frames"][-1]["function"] == "look_up"
    evaluations = {one["evaluator"]: one for one in report["items"][3]["evaluations"]}
    assert evaluations["Picky"]["errorDetail"]["type"] == "KeyError"
    markdown = Path("r.md").read_text()
    assert f"(`{LOOK_UP}`)" in markdown
    assert "3 items have this error, also `q1`, `q2`." in markdown
    error = ElementTree.parse("r.xml").find(".//error")
    assert error.get("message") == f"KeyError: 'q0' ({LOOK_UP})"
    assert 'File "app.py", line' in error.text
    page = Path("r.html").read_text()
    assert LOOK_UP in page


def test_reports_without_details_read_back(project):
    run("app.py:experiment", "-q", "-o", "r.json")
    report = json.loads(Path("r.json").read_text())
    text = json.dumps(report, default=str)

    def stripped(tree):
        if isinstance(tree, dict):
            return {key: stripped(value) for key, value in tree.items() if key != "errorDetail"}
        return [stripped(value) for value in tree] if isinstance(tree, list) else tree

    assert "errorDetail" in text
    Path("old.json").write_text(json.dumps(stripped(report)))
    result = load_result("old.json")
    assert result.item_results[0].error == "KeyError: 'q0'"
    assert places(result) == []
    assert run_command(["show", "old.json"]) == 0


SUITE = """\
name: cities
agent: bot:reply
evaluations:
  metrics:
    - type: standard
      metric: equality
    - type: code
      grader: bot:grade
test_cases:
  - {name: one, input: boom, ground_truth: Oslo}
  - {name: talk, turns: [{input: boom}, {input: fine}]}
  - {name: lost, turns: [{input: boom}, {input: boom}]}
  - {name: fine, input: fine, ground_truth: Oslo}
"""
BOT = """\
def reply(question):
    if question == "boom":
        raise ConnectionError("the model is down")
    return "Oslo"


def grade(context):
    return {}["grade"]
"""


def test_suites_say_where_agents_and_graders_failed(project, capsys):
    (project / "bot.py").write_text(BOT)
    (project / "suite.yaml").write_text(textwrap.dedent(SUITE))
    run_command(["test", "suite.yaml", "-o", "out.json"])
    shown = capsys.readouterr().out
    place = "bot.py:3 in reply"
    assert f"Agent error: ConnectionError: the model is down ({place})" in shown
    assert f"error: ConnectionError: the model is down ({place})" in shown
    assert "KeyError: 'grade' (bot.py:8 in grade)" in shown
    one, talk, lost, fine = load_result("out.json").item_results
    assert one.error_detail.place == lost.error_detail.place == place
    assert talk.actual_outputs["turns"][0]["errorDetail"]["frames"][-1]["function"] == "reply"
    assert place in talk.result("Turns Answered").reason
    graded = [result for result in fine.eval_results if result.error is not None]
    assert [result.error_detail.place for result in graded] == ["bot.py:8 in grade"]
    run_command(["test", "suite.yaml", "--debug"])
    assert 'File "bot.py", line 8, in grade' in capsys.readouterr().out


def test_a_suite_whose_agent_takes_too_long_says_where_it_was(project, limits):
    (project / "slowbot.py").write_text(
        "import asyncio\nimport threading\nfrom dokimos._runtime.time_limits import give_extra_time\n\n"
        "def reply(question):\n    threading.Event().wait(give_extra_time(-1e9) or 60)\n\n"
        "async def patient(question):\n    await asyncio.sleep(give_extra_time(-1e9) or 60)\n"
    )
    for name, line in (("reply", 6), ("patient", 9)):
        (project / "suite.yaml").write_text(
            f"name: s\nagent: slowbot:{name}\nexecution: {{llm_timeout: 1}}\n"
            "evaluations: {metrics: [{type: standard, metric: equality}]}\n"
            "test_cases: [{name: one, input: a, ground_truth: b}]\n"
        )
        run_command(["test", "suite.yaml", "-q"])
        (item,) = latest().item_results
        assert item.error_detail.place == f"slowbot.py:{line} in {name}"


def test_what_is_redacted_is_redacted_in_places_too(project):
    (project / "private.py").write_text(
        "def answer(example):\n    name = 'Ada'; raise ValueError('Ada is not a customer')\n"
    )
    sys.path.insert(0, str(project))
    try:
        from private import answer
    finally:
        del sys.path[0]
    data = Dataset([Example.of("x", "y")])
    plan = Experiment(name="x", dataset=data, task=answer, evaluators=[ExactMatch()])
    result = plan.run(redact=lambda text: text.replace("Ada", "***"), quiet=True)
    for shown in (result.item_results[0], latest().item_results[0]):
        assert shown.error_detail.place == "private.py:2 in answer"
        assert shown.error_detail.frames[-1].source.startswith("name = '***'")
        assert "Ada" not in to_json(shown)


def test_a_module_that_cannot_be_imported_says_where(project, capsys):
    (project / "broken.py").write_text("x = 1\n\ndef f():\n    return 1 / 0\n\nf()\n")
    assert run("broken.py") == 2
    assert "ZeroDivisionError: division by zero (broken.py:4 in f)" in capsys.readouterr().err


def test_a_run_from_another_folder_has_whole_paths(project, monkeypatch):
    (project / "elsewhere").mkdir()
    monkeypatch.chdir(project / "elsewhere")
    monkeypatch.setenv("HOME", str(project / "elsewhere"))
    run(f"{project / 'app.py'}:experiment", "-q")
    assert places(latest())[0] == f"{project.as_posix()}/{LOOK_UP}"


def test_secrets_are_nowhere_on_disk(project, monkeypatch):
    monkeypatch.setenv("CITY_API_KEY", "a-key-of-the-city-service-0815")
    leaking = APP.replace(
        "    return CITIES[question]",
        '    key = "a-key-of-the-city-service-0815"; raise ValueError(key)',
    )
    (project / "app.py").write_text(leaking)
    run("app.py:experiment", "-q", "-o", "r.html", "-o", "r.json", "-o", "r.xml", "-o", "r.md")
    files = [path for path in project.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    assert len(files) > 5
    for path in files:
        assert b"a-key-of-the-city-service-0815" not in path.read_bytes(), path


PYTEST = """\
import pytest
from dokimos import Example
from dokimos.evaluators._function import evaluator
from dokimos.testing import assert_eval

def look_up(question):
    return {}[question]

@evaluator(threshold=0.5)
def picky(actual_output):
    return {}["score"]

@pytest.mark.dokimos(json='[{"id": "one", "input": "a"}]')
def test_app(example):
    look_up(example.input)

@pytest.mark.dokimos(json='[{"id": "two", "input": "a"}]')
def test_eval(example):
    assert_eval(example.to_test_case("x"), picky)
"""


@pytest.mark.parametrize("options", [[], ["-n", "1"]])
def test_the_pytest_plugin_says_where(project, options):
    (project / "test_app.py").write_text(PYTEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--dokimos-report=r.json"]
    environment = {**os.environ, "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        [*command, *options], capture_output=True, text=True, check=False, env=environment, cwd=project
    )
    assert "Evaluation 'Picky' errored: KeyError: 'score' (test_app.py:11 in picky)" in done.stdout
    first, second = sorted(load_result("r.json").item_results, key=lambda item: item.key)
    assert first.error_detail.place == "test_app.py:7 in look_up"
    assert second.result("Picky").error_detail.place == "test_app.py:11 in picky"
