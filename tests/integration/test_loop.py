"""Runs in a loop: only what failed, outputs reused where nothing has changed that made them."""

import json
import os
import re
import sys
from pathlib import Path

import pytest

from dokimos._cli.main import run_command
from dokimos.experiment import _code_record as code_record
from dokimos.suites import _python_references as python_references

APP = """
from pathlib import Path

def answer(question):
    with open("asked.txt", "a") as file:
        print(question, file=file)
    if question == "breaks":
        raise ValueError("no answer to that")
    return Path("prompt.txt").read_text().strip() + question.upper()
"""

EVALS = """
from dokimos import Dataset, Experiment
from dokimos.evaluators import ExactMatch
from app import answer

experiment = Experiment(Dataset.load("rows.jsonl"), answer, [ExactMatch()], name="upper")
"""

JUDGED = """
from dokimos import CallMetrics, Dataset, Experiment, JudgeReply
from dokimos.evaluators import LLMJudge
from app import answer

class Judge:
    IDENTITY

    async def complete(self, prompt, *, schema=None):
        with open("judged.txt", "a") as file:
            print("call", file=file)
        passed = "Q1" in prompt
        return JudgeReply('{"score": %d, "reason": "So."}' % passed, CallMetrics(100, 10, cost_usd=0.01))

evaluator = LLMJudge(criteria="It is right.", judge=Judge())
experiment = Experiment(Dataset.load("rows.jsonl"), answer, [evaluator], name="judged")
"""

SUITE = """
name: desk
agent: app:answer
evaluations:
  metrics:
    - {type: standard, metric: equality}
test_cases:
  - {name: first, input: a, ground_truth: A}
  - {name: second, input: b, ground_truth: no}
  - name: talk
    turns:
      - {input: c, ground_truth: C}
      - {input: d, ground_truth: no}
"""


def rows(**expected):
    lines = [{"id": key, "input": key, "expectedOutput": value} for key, value in expected.items()]
    Path("rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("DOKIMOS_RUN_DIR", "DOKIMOS_CASSETTE", "DOKIMOS_CASSETTE_MODE"):
        monkeypatch.delenv(name, raising=False)
    of_tests, loaded_files = str(Path(__file__).parents[1]), code_record._list_module_files
    monkeypatch.setattr(  # a command has a process of its own, without tests that mention its modules
        code_record,
        "_list_module_files",
        lambda: [file for file in loaded_files() if not file.startswith(of_tests)],
    )
    Path("app.py").write_text(APP)
    Path("evals.py").write_text(EVALS)
    Path("prompt.txt").write_text("\n")
    rows(q1="Q1", q2="no", q3="Q3", breaks="x", q4="never")
    yield tmp_path
    forget()


def forget():
    for name in ("evals", "app"):
        sys.modules.pop(name, None)
    python_references._of_folder.clear()  # a new process knows no module of a suite


def dokimos(*arguments):
    forget()
    return run_command(list(arguments))


def asked():
    """What the application was asked since the last look."""
    path = Path("asked.txt")
    found = path.read_text().split() if path.exists() else []
    path.unlink(missing_ok=True)
    return found


def judged():
    path = Path("judged.txt")
    count = len(path.read_text().split()) if path.exists() else 0
    path.unlink(missing_ok=True)
    return count


def runs():
    return sorted(folder.name for folder in Path(".dokimos/runs").iterdir())


def edit(name, before, after):
    path = Path(name)
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def test_only_what_failed_or_errored_runs_again(capsys):
    assert dokimos("run", "evals.py", "-q") == 1, "an item errored"
    assert len(asked()) == 5
    capsys.readouterr()
    edit("app.py", "question.upper()", "('no' if question == 'q2' else question.upper())")
    assert dokimos("run", "--failed") == 1
    assert asked() == ["q2", "breaks", "q4"]
    printed = capsys.readouterr()
    assert f"3 of 5 items failed in {runs()[0]}; running those." in printed.err
    assert f"Since {runs()[0]}: 1 fixed, 2 still failing" in printed.out
    assert re.search(r"fixed +q2\n", printed.out)
    assert re.search(r"still failing +breaks \(the application\)\n", printed.out)
    assert re.search(r"still failing +q4 \(Exact Match\)\n", printed.out)


def test_a_chain_of_failed_runs_ends_where_nothing_fails(capsys):
    rows(q1="Q1", q2="no", q4="never")
    dokimos("run", "evals.py", "-q")
    edit("app.py", "question.upper()", "('no' if question == 'q2' else question.upper())")
    dokimos("run", "evals.py", "--failed")
    asked()
    edit("app.py", "question.upper()", "('never' if question == 'q4' else question.upper())")
    capsys.readouterr()
    assert dokimos("run", "--failed", "evals.py") == 0
    assert asked() == ["q4"]
    assert "1 of 3 items failed in" in capsys.readouterr().err, "those of the whole run count, too"
    before = runs()
    assert dokimos("run", "--failed") == 0
    assert "None of 3 items failed in" in capsys.readouterr().err
    assert runs() == before
    assert asked() == []


def test_a_run_of_failed_items_that_was_cut_short_forgets_none_of_them(capsys):
    rows(q1="no", q2="no", q3="no")
    dokimos("run", "evals.py", "-q")
    edit("app.py", "question.upper()", "('maybe' if question == 'q2' else 'no')")
    assert dokimos("run", "--failed", "--fail-fast", "-q") == 1
    asked()
    edit("app.py", "'maybe'", "'no'")
    capsys.readouterr()
    assert dokimos("run", "--failed") == 0
    assert asked() == ["q2", "q3"]
    said = capsys.readouterr().err
    assert "2 of 3 items failed in" in said
    assert "ended early" in said


def test_a_run_of_failed_items_that_was_cut_short_is_resumed():
    rows(q1="no", q2="no", q3="no", q4="Q4")
    dokimos("run", "evals.py", "-q")
    edit("app.py", "question.upper()", "('maybe' if question == 'q2' else 'no')")
    assert dokimos("run", "--failed", "--fail-fast", "-q") == 1
    asked()
    assert dokimos("resume", "latest", "-o", "out.json") == 0
    assert asked() == ["q3"]
    assert "3 of 4 items that failed in" in json.loads(Path("out.json").read_text())["provenance"]["partial"]


def test_it_says_what_has_changed_in_the_data_set(capsys):
    rows(q1="no", q2="no", q3="no")
    dokimos("run", "evals.py", "-q")
    rows(q1="no", q2="Q2", q5="Q5")
    assert dokimos("run", "--failed") == 0
    said = capsys.readouterr()
    assert "3 of 3 items failed in" in said.err
    assert "running 2 of them" in said.err
    assert "! 1 failed item is not in the data set any more." in said.err
    assert "! 1 of those rows has changed since." in said.err
    assert re.search(r"! 1 row that \S+ did not have is not run.", said.err)
    assert "1 fixed, 1 still failing" in said.out


def test_filters_and_limits_choose_among_the_failing():
    rows(q1="no", q2="no", q3="Q3")
    dokimos("run", "evals.py", "-q")
    asked()
    dokimos("run", "--failed", "--limit", "1", "-q")
    assert asked() == ["q1"]
    dokimos("run", "--failed", "--filter", "id:q2", "-q")
    assert asked() == ["q2"]


def test_an_item_that_failed_in_one_repeat_runs_in_all():
    Path("app.py").write_text(
        APP.replace(
            "return Path", 'COUNT.append(question)\n    return "x" * (len(COUNT) == 4) + Path'
        ).replace("def answer", "COUNT = []\n\ndef answer")
    )
    rows(q1="Q1", q2="Q2")
    dokimos("run", "evals.py", "--runs", "2", "-q")
    asked()
    dokimos("run", "--failed", "-q")
    assert asked() == ["q2", "q2"]


def test_a_run_that_is_not_known_is_refused(capsys):
    assert dokimos("run", "--failed") == 2
    assert "No run is kept in" in capsys.readouterr().err
    dokimos("run", "evals.py", "-q")
    capsys.readouterr()
    assert dokimos("run", "evals.py", "--failed", "2020") == 2
    assert "No run '2020'" in capsys.readouterr().err
    assert dokimos("run", "evals.py", "--failed", "--resume", "latest") == 2
    assert dokimos("run") == 2
    assert "Missing argument" in capsys.readouterr().err


def test_a_part_of_a_run_is_no_whole_run(capsys):
    dokimos("run", "evals.py", "-q")
    dokimos("run", "--failed", "-q")
    whole, part = runs()
    capsys.readouterr()
    assert dokimos("gate", part, "--baseline", whole) == 2
    assert "A gate compares whole runs" in capsys.readouterr().err
    assert dokimos("gate", whole, "--baseline", part) == 2
    assert dokimos("noise", part) == 2
    assert dokimos("plan", part) == 2
    capsys.readouterr()
    assert dokimos("compare", whole, part) == 0
    assert "The candidate covers only part of its data set (3 of 5 items that failed in" in " ".join(
        capsys.readouterr().out.split()
    )
    assert dokimos("test", "view", "--no-browser", "-o", "view.html") == 0
    page = Path("view.html").read_text()
    assert whole in page
    assert part not in page


def test_suites_run_their_failed_cases_alone(capsys):
    Path("agent.yaml").write_text(SUITE)
    assert dokimos("test", "-q") == 1
    asked()
    edit("app.py", "question.upper()", "('no' if question in 'bd' else question.upper())")
    capsys.readouterr()
    assert dokimos("test", "--failed") == 0
    assert asked() == ["b", "c", "d"], "a conversation runs as a whole"
    printed = capsys.readouterr()
    assert "2 of 3 items failed" in printed.err
    assert "2 fixed, 0 still failing" in printed.out


def test_outputs_are_reused_where_only_the_evaluators_changed(capsys):
    rows(q1="Q1", q2="no")
    dokimos("run", "evals.py", "-q")
    asked()
    assert dokimos("run", "evals.py", "--reuse", "-e", "f1_score") == 0
    assert asked() == []
    said = capsys.readouterr().out
    assert "2 of 2 outputs reused from" in said
    assert dokimos("run", "--failed", "-e", "levenshtein") == 0
    assert asked() == []
    assert "1 of 1 output reused from" in capsys.readouterr().out
    assert dokimos("run", "--failed", "--no-reuse", "-q") == 0
    assert asked() == ["q2"]


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [("app.py", "return", "return 'x' +"), ("prompt.txt", "\n", "Well: \n")],
)
def test_no_output_is_reused_across_a_change_of_the_application(file, before, after, capsys):
    rows(q1="Q1", q2="no")
    dokimos("run", "evals.py", "-q")
    asked()
    edit(file, before, after)
    dokimos("run", "evals.py", "--reuse")
    assert asked() == ["q1", "q2"]
    assert f"changed since: '{file}'" in " ".join(capsys.readouterr().out.split())


def test_no_output_is_reused_across_a_change_of_a_variable_that_the_code_names(monkeypatch):
    edit("app.py", "from pathlib", "import os\nMODEL = os.environ.get('DESK_MODEL')\nfrom pathlib")
    rows(q1="Q1")
    monkeypatch.setenv("DESK_MODEL", "small")
    dokimos("run", "evals.py", "-q")
    asked()
    dokimos("run", "evals.py", "--reuse", "-q")
    assert asked() == []
    monkeypatch.setenv("DESK_MODEL", "large")
    dokimos("run", "evals.py", "--reuse", "-q")
    assert asked() == ["q1"]


def test_an_old_state_of_the_code_is_recognized():
    rows(q1="Q1")
    dokimos("run", "evals.py", "-q")
    edit("app.py", "return", "return 'x' +")
    dokimos("run", "evals.py", "--reuse", "-q")
    edit("app.py", "return 'x' +", "return")
    asked()
    dokimos("run", "evals.py", "--reuse", "-q")
    assert asked() == []


def test_changed_rows_and_errors_are_never_reused():
    rows(q1="Q1", q2="no", breaks="x")
    dokimos("run", "evals.py", "-q")
    asked()
    rows(q1="Q1", q2="Q2", breaks="x")
    dokimos("run", "evals.py", "--reuse", "-q")
    assert asked() == ["q2", "breaks"]


def test_only_editing_the_cases_of_a_suite_keeps_its_outputs():
    Path("agent.yaml").write_text(SUITE)
    dokimos("test", "-q")
    asked()
    edit("agent.yaml", "metric: equality}", "metric: equality}\n    - {type: standard, metric: f1_score}")
    edit("agent.yaml", "input: b, ground_truth: no", "input: b, ground_truth: B")
    dokimos("test", "--reuse", "-q")
    assert asked() == ["b"]
    edit("agent.yaml", "agent: app:answer", "agent: {callable: 'app:answer'}")
    dokimos("test", "--reuse", "-q")
    assert asked() == [], "the same application, written otherwise"


def test_an_agent_elsewhere_is_reused_only_when_asked_for():
    suite = SUITE.replace("agent: app:answer", "agent: {command: [python, bot.py]}")
    Path("bot.py").write_text("open('asked.txt', 'a').write('x ')\nprint(input().upper())\n")
    Path("agent.yaml").write_text(suite)
    dokimos("test", "-q")
    assert len(asked()) == 4
    edit("agent.yaml", "metric: equality", "metric: f1_score")
    dokimos("test", "--failed", "-q")
    assert len(asked()) == 3
    dokimos("test", "--reuse", "-q")
    assert asked() == []


def test_replies_of_judges_are_reused_where_their_prompts_are_the_same(capsys):
    Path("evals.py").write_text(JUDGED.replace("IDENTITY", 'identity = "paid model"'))
    rows(q1="Q1", q2="no")
    dokimos("run", "evals.py", "-q")
    assert judged() == 2
    edit("app.py", "return Path", "question = question.strip()\n    return Path")
    asked()
    assert dokimos("run", "evals.py", "--reuse") == 0
    assert asked() == ["q1", "q2"]
    assert judged() == 0, "the application changed, its answers did not"
    printed = capsys.readouterr().out
    assert "2 replies of models reused from earlier runs, at no cost." in printed


def test_replies_of_a_judge_whose_code_changed_are_asked_for_again():
    Path("evals.py").write_text(JUDGED.replace("IDENTITY", ""))
    rows(q1="Q1", q2="no")
    dokimos("run", "evals.py", "-q")
    judged()
    dokimos("run", "evals.py", "--reuse", "-q")
    assert judged() == 0
    edit("evals.py", "passed = ", "passed = not ")
    dokimos("run", "evals.py", "--reuse", "-q")
    assert judged() == 2


def test_a_recording_asks_for_everything_again():
    Path("evals.py").write_text(JUDGED.replace("IDENTITY", 'identity = "paid model"'))
    rows(q1="Q1", q2="no")
    dokimos("run", "evals.py", "-q")
    judged()
    dokimos("run", "evals.py", "--reuse", "--record", "c.jsonl", "-q")
    assert judged() == 2


def test_nothing_is_reused_unless_it_is_asked_for():
    rows(q1="Q1", q2="no")
    dokimos("run", "evals.py", "-q")
    asked()
    dokimos("run", "evals.py", "-q")
    assert asked() == ["q1", "q2"]
    dokimos("run", "--failed", "-q")
    assert asked() == ["q2"], "nothing changed, so there is nothing to learn from the old output"


def test_a_suite_is_found_among_runs_of_other_targets():
    Path("desk.yaml").write_text(SUITE)
    dokimos("test", "desk.yaml", "-q")
    dokimos("run", "evals.py", "-q")
    asked()
    dokimos("test", "--failed", "-q")
    assert asked() == ["b", "c", "d"]
    assert dokimos("test", "--failed", "desk.yaml", "-q") == 1
    assert asked() == ["b", "c", "d"]


def test_a_data_file_keeps_its_evaluators(capsys):
    Path("answers.csv").write_text("id,input,expected_output,actual_output\na,x,1,1\nb,y,1,2\n")
    dokimos("run", "answers.csv", "-e", "numeric", "-q")
    capsys.readouterr()
    assert dokimos("run", "--failed") == 0
    printed = capsys.readouterr()
    assert "1 of 2 items failed" in printed.err
    assert "still failing  b (Numeric)" in printed.out


def test_a_prompt_beside_the_modules_counts_from_any_working_directory(tmp_path, monkeypatch):
    rows(q1="Q1", q2="no")
    monkeypatch.chdir("/")
    edit(tmp_path / "app.py", '"prompt.txt"', f'"{tmp_path}/prompt.txt"')
    edit(tmp_path / "app.py", '"asked.txt"', f'"{tmp_path}/asked.txt"')
    edit(tmp_path / "evals.py", '"rows.jsonl"', f'"{tmp_path}/rows.jsonl"')
    again = ("run", f"{tmp_path}/evals.py", "--run-dir", f"{tmp_path}/runs", "-q")
    dokimos(*again)
    (tmp_path / "asked.txt").unlink()
    dokimos(*again, "--reuse")
    assert not (tmp_path / "asked.txt").exists()
    (tmp_path / "prompt.txt").write_text("Well: ")
    dokimos(*again, "--reuse")
    assert len((tmp_path / "asked.txt").read_text().split()) == 2


def test_an_application_may_open_what_is_not_there_and_change_its_folder(tmp_path):
    edit(
        "app.py",
        "    return Path",
        """    import os, shutil
    try:
        open("missing.txt")
    except FileNotFoundError:
        pass
    here = os.getcwd()
    os.makedirs("gone", exist_ok=True)
    os.chdir("gone")
    shutil.rmtree(here + "/gone")
    try:
        open("x.txt")
    except FileNotFoundError:
        pass
    os.chdir(here)
    return Path""",
    )
    rows(q1="Q1")
    assert dokimos("run", "evals.py", "-q", "--fail-under", "1.0") == 0
    asked()
    dokimos("run", "evals.py", "--reuse", "-q")
    assert asked() == ["q1"], "what was opened there cannot be told"


ALL_IN_ONE = """
from dokimos import Dataset, Example, Experiment
from dokimos.evaluators import Contains, ExactMatch

PROMPT = "Well: "
rows = [Example.of("a", "A", id="a"), Example.of("b", "B", id="b")]

def answer(question):
    with open("asked.txt", "a") as file:
        print(question, file=file)
    return PROMPT + question.upper()

experiment = Experiment(Dataset(rows), answer, [Contains(values=["Well"])], name="one")
"""


@pytest.mark.parametrize("is_compiled", [True, False])
def test_evaluators_and_rows_beside_the_task_keep_its_outputs(is_compiled, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", not is_compiled)
    Path("evals.py").write_text(ALL_IN_ONE)
    dokimos("run", "evals.py", "-q")
    asked()
    edit("evals.py", "Contains(values", "ExactMatch(), Contains(values")
    edit("evals.py", 'Example.of("b", "B"', 'Example.of("b", "Well: B"')
    dokimos("run", "evals.py", "--reuse", "-q")
    assert asked() == ["b"]
    edit("evals.py", '"Well: "\n', '"So: "\n')
    dokimos("run", "evals.py", "--reuse", "-q")
    assert asked() == ["a", "b"]


def test_rows_that_another_module_imports_count():
    Path("app.py").write_text(APP + "\ndef shots():\n    from evals import rows\n    return rows\n")
    Path("evals.py").write_text(ALL_IN_ONE.replace("PROMPT =", "import app\nPROMPT ="))
    dokimos("run", "evals.py", "-q")
    asked()
    edit("evals.py", 'Example.of("b", "B"', 'Example.of("b", "C"')
    dokimos("run", "evals.py", "--reuse", "-q")
    assert asked() == ["a", "b"]


def test_a_change_of_a_grader_keeps_the_outputs_unless_the_application_uses_it():
    graded = SUITE.replace("{type: standard, metric: equality}", "{type: code, grader: 'grading:right'}")
    Path("agent.yaml").write_text(graded)
    grading = "def right(ctx):\n    return ctx.agent_response == ctx.ground_truth\n"
    Path("grading.py").write_text(grading)
    dokimos("test", "-q")
    asked()
    Path("grading.py").write_text(grading.replace("==", "!="))
    dokimos("test", "--reuse", "-q")
    assert asked() == []
    edit("app.py", "def answer", "import grading\n\ndef answer")
    dokimos("test", "--reuse", "-q")
    assert len(asked()) == 4
    Path("grading.py").write_text(grading)
    dokimos("test", "--reuse", "-q")
    assert len(asked()) == 4


def test_an_earlier_run_that_is_damaged_gives_no_outputs():
    rows(q1="Q1", q2="Q2")
    dokimos("run", "evals.py", "-q")
    dokimos("run", "evals.py", "-q")
    asked()
    first, second = runs()
    journal = Path(".dokimos/runs", second, "journal.jsonl")
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([b"x" + lines[0], *lines[1:]]))
    dokimos("run", "evals.py", "--reuse", "-q")
    assert asked() == [], "the run before has what this one has lost"
    Path(".dokimos/runs", first, "run.json").write_text("{")
    dokimos("run", "evals.py", "--reuse", second, "-q")
    assert asked() == ["q1"]


LISTS = """
    found = sorted(Path("docs").glob("*.md"))
    return "".join(path.read_text() for path in found) + question.upper()
"""
LOOKS = """
    try:
        return Path("own.txt").read_text()
    except FileNotFoundError:
        return question.upper()
"""
STARTS = """
    import subprocess, sys
    return subprocess.run([sys.executable, "agent.txt"], capture_output=True, text=True).stdout
"""
REWRITES = """
    text = Path("state.txt").read_text()
    Path("state.txt").write_text(text)
    return text
"""
OPENS_ROWS = """
    return Path("rows.jsonl").read_text()
"""
LEARNS = """
    from dokimos import Dataset
    return str([each.inputs for each in Dataset.load("shots.jsonl")])
"""


@pytest.mark.parametrize(
    ("body", "file", "content"),
    [
        (LISTS, "docs/b.md", "more"),
        (LOOKS, "own.txt", "mine"),
        (STARTS, "agent.txt", "print(2)"),
        (REWRITES, "state.txt", "edited"),
        (OPENS_ROWS, "rows.jsonl", '{"id": "q1", "input": "q1", "expectedOutput": "Q1"}\n\n'),
        (LEARNS, "shots.jsonl", '{"input": "z"}\n'),
    ],
    ids=["a new file in a folder that it lists", "a file that was not there", "a script that it starts",
         "a file that it rewrites", "the rows that it opens itself", "rows that it learns from"],
)  # fmt: skip
def test_what_an_application_reads_in_other_ways_counts(body, file, content):
    rows(q1="Q1")
    Path("docs").mkdir()
    Path("docs/a.md").write_text("")
    Path("agent.txt").write_text("print(1)")
    Path("state.txt").write_text("first")
    Path("shots.jsonl").write_text('{"input": "x"}\n')
    edit("app.py", '    return Path("prompt.txt").read_text().strip() + question.upper()\n', body)
    dokimos("run", "evals.py", "-q")
    assert asked() == ["q1"]
    for _ in range(2):  # the second time from a run in which nothing was called
        dokimos("run", "evals.py", "--reuse", "-q")
        assert asked() == []
    Path(file).write_text(content)
    dokimos("run", "evals.py", "--reuse", "-q")
    assert asked() == ["q1"]


def test_an_application_that_starts_programs_is_reused_only_when_asked_for(capsys):
    rows(q1="Q1", q2="no")
    edit("app.py", '    return Path("prompt.txt").read_text().strip() + question.upper()\n', STARTS)
    Path("agent.txt").write_text("print('Q1')")
    dokimos("run", "evals.py", "-q")
    asked()
    assert dokimos("run", "--failed", "-q", "-e", "f1_score") == 0
    assert asked() == ["q1", "q2"]
    assert dokimos("run", "--failed", "--reuse", "-q", "-e", "f1_score") == 0
    assert asked() == []
    assert "it started 'python" in " ".join(capsys.readouterr().err.split())


def test_a_variable_of_a_settings_class_counts(monkeypatch):
    edit("app.py", "from pathlib", "import os\nPREFIX = 'DESK_'\nNAMES = ('model',)\nfrom pathlib")
    rows(q1="Q1")
    for model, called in (("small", ["q1"]), ("small", []), ("large", ["q1"])):
        monkeypatch.setenv("DESK_MODEL", model)
        dokimos("run", "evals.py", "--reuse", "-q")
        assert asked() == called


def test_a_large_file_counts_also_where_the_task_was_not_called(monkeypatch):
    monkeypatch.setattr("dokimos.experiment._code_record.WHOLE_BYTES", 10)
    Path("prompt.txt").write_text("a long one: " * 10)
    rows(q1="Q1")
    for _ in range(3):
        dokimos("run", "evals.py", "--reuse", "-q")
    assert asked() == ["q1"]
    Path("prompt.txt").write_text("another one: " * 10)
    dokimos("run", "evals.py", "--reuse", "-q")
    assert asked() == ["q1"]


@pytest.mark.parametrize("is_edited", [True, False])
def test_outputs_of_a_run_that_was_resumed_with_other_code_are_not_reused(is_edited):
    edit("app.py", '    if question == "breaks":', '    if question == "q2" and not Path("go").exists():')
    rows(q1="Q1", q2="Q2")
    assert dokimos("run", "evals.py", "-q", "-j", "1", "--max-errors", "0") != 0
    Path("go").touch()
    if is_edited:
        edit("app.py", "question.upper()", "question")
    dokimos("resume", "latest", "--retry-errors", "-q")
    asked()
    dokimos("run", "evals.py", "--reuse", "-q")
    assert asked() == (["q1", "q2"] if is_edited else [])


def test_outputs_of_another_target_are_not_reused(capsys):
    rows(q1="Q1")
    Path("others.py").write_text("from evals import *\n")
    dokimos("run", "others.py", "-q")
    asked()
    dokimos("run", "evals.py", "--reuse", runs()[-1])
    assert asked() == ["q1"]
    assert "it was a run of" in " ".join(capsys.readouterr().out.split())


def test_an_item_whose_repeats_were_cut_short_is_not_fixed(capsys):
    rows(q1="no", q2="no")
    dokimos("run", "evals.py", "-q", "--runs", "2")
    asked()
    rows(q1="Q1", q2="no")
    dokimos("run", "--failed", "-q", "--no-reuse", "-j", "1", "--fail-fast")
    said = capsys.readouterr().out
    assert "0 fixed, 1 still failing, 1 passing so far, with repeats that were not run" in said
    dokimos("run", "--failed", "-q", "--no-reuse")
    assert "2 of 2 items failed" in capsys.readouterr().err


def test_an_item_whose_repeats_were_cut_short_is_not_fixed_for_a_watch_either(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("DOKIMOS_WATCH_REPORT", str(tmp_path / "files.json"))
    rows(q1="no", q2="no")
    dokimos("run", "evals.py", "-q", "--runs", "2", "--no-reuse")
    rows(q1="Q1", q2="no")
    capsys.readouterr()
    dokimos("run", "evals.py", "-q", "--runs", "2", "--no-reuse", "-j", "1", "--fail-fast")
    said = capsys.readouterr().out
    assert "1 passing so far, with repeats that were not run" in said
    assert "fixed" not in said


def test_a_project_in_a_folder_of_tools_is_seen(tmp_path, monkeypatch):
    rows(q1="Q1")
    place = tmp_path / ".cache" / "project"
    place.mkdir(parents=True)
    for name in ("app.py", "evals.py", "prompt.txt", "rows.jsonl"):
        (tmp_path / name).rename(place / name)
    monkeypatch.chdir(place)
    for called in (["q1"], []):
        dokimos("run", "evals.py", "--reuse", "-q")
        assert asked() == called
    edit("app.py", "return", "return 'x' +")
    dokimos("run", "evals.py", "--reuse", "-q")
    assert asked() == ["q1"]


@pytest.mark.parametrize("listed", [True, False], ids=["with a list of its files", "without one"])
def test_outputs_are_not_reused_across_a_package_that_was_installed_again(listed, tmp_path, monkeypatch):
    rows(q1="Q1")
    package = tmp_path / "site-packages" / ("helper-1.0.dist-info" if listed else "helper-1.0.egg-info")
    package.mkdir(parents=True)
    record = package / ("RECORD" if listed else "PKG-INFO")
    record.write_text("helper.py,sha256=one,10\n")
    monkeypatch.syspath_prepend(str(package.parent))
    for called in (["q1"], []):
        dokimos("run", "evals.py", "--reuse", "-q")
        assert asked() == called
    record.write_text("helper.py,sha256=two,10\n")
    os.utime(package, (1, 1))
    dokimos("run", "evals.py", "--reuse", "-q")
    assert asked() == ["q1"]


def test_the_time_of_an_installation_of_the_same_files_does_not_count(tmp_path, monkeypatch):
    rows(q1="Q1")
    package = tmp_path / "site-packages" / "helper-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "RECORD").write_text("helper.py,sha256=one,10\n")
    monkeypatch.syspath_prepend(str(package.parent))
    dokimos("run", "evals.py", "-q")
    asked()
    os.utime(package / "RECORD", (1, 1))
    os.utime(package, (1, 1))
    dokimos("run", "evals.py", "--reuse", "-q")
    assert asked() == []


def test_what_is_checked_out_for_an_editable_install_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    source = tmp_path / ".venv" / "src" / "helper"
    source.mkdir(parents=True)
    (source / "helping.py").write_text("WORD = 'one'\n")
    code_record._not_of_project.cache_clear()
    monkeypatch.syspath_prepend(str(source))
    rows(q1="Q1")
    edit("app.py", "def answer", "from helping import WORD\n\ndef answer")
    for called in (["q1"], []):
        sys.modules.pop("helping", None)
        dokimos("run", "evals.py", "--reuse", "-q")
        assert asked() == called
    (source / "helping.py").write_text("WORD = 'three'\n")
    sys.modules.pop("helping", None)
    dokimos("run", "evals.py", "--reuse", "-q")
    assert asked() == ["q1"]
    sys.modules.pop("helping", None)
    code_record._not_of_project.cache_clear()


def test_failed_items_of_which_none_is_left_are_no_success(capsys):
    dokimos("run", "evals.py", "-q")
    rows(q1="Q1", q2_renamed="no", q3="Q3")
    asked()

    assert dokimos("run", "evals.py", "--failed") == 2

    assert asked() == []
    said = capsys.readouterr().err
    assert "none of them is chosen now" in said
    assert "leave out --failed" in said
