"""What errors do to a suite: the table of the documentation, row by row through the real command."""

import re
import shlex
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from dokimos._cli.main import run_command

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "suites.md"
GRADERS = """
from dokimos.errors import JudgeReplyError
from dokimos.suites._graders import GraderContext


def on(number, ctx):
    return int(ctx.test_case_name) <= number


def passes(ctx):
    return True


def fails(number):
    return lambda ctx: not on(number, ctx)


def raises(number):
    def grade(ctx):
        if on(number, ctx):
            raise RuntimeError("the grader broke")
        return True

    return grade


def contested(number):
    def grade(ctx):
        if on(number, ctx):
            raise JudgeReplyError("two verdicts", kind="contested")
        return True

    return grade


def informs_raises(number):
    def score(inputs):
        if int(inputs["input"]) <= number:
            raise RuntimeError("the metric broke")
        return 0.5

    return score


for number in (1, 2, 4):
    for kind in (fails, raises, contested, informs_raises):
        globals()[f"{kind.__name__}_{number}"] = kind(number)
"""


def rows():
    section = PAGE.read_text(encoding="utf-8").partition("## What errors do")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def metric_of(text):
    kind, _, number = text.partition(" ")
    if kind == "informs":
        return "{type: standard, metric: f1_score}"
    if kind == "numeric":
        return "{type: standard, metric: numeric}"
    if kind == "passes":
        return "{type: code, grader: 'marks:passes'}"
    if kind == "informs-raises":
        return (
            "{type: evaluator, name: function, display_name: informs-raises, "
            f"params: {{function: 'marks:informs_raises_{number}'}}}}"
        )
    name = kind.rstrip("!")
    return (
        f"{{type: code, name: {name}, grader: 'marks:{name}_{number}', "
        f"fail_on_error: {str(kind.endswith('!')).lower()}}}"
    )


def suite_of(metrics):
    """Return a suite of four cases; what f1_score compares with is given only where it is asked for."""
    truth = ", ground_truth: a" if "informs 4" in metrics else ""
    cases = "\n".join(f"  - {{name: '{n}', input: '{n}'{truth}}}" for n in range(1, 5))
    listed = "\n".join(f"    - {metric_of(metric)}" for metric in metrics)
    return f"name: s\nagent: app:answer\nevaluations:\n  metrics:\n{listed}\ntest_cases:\n{cases}\n"


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "app.py").write_text("def answer(question):\n    return 'a'\n")
    (tmp_path / "marks.py").write_text(GRADERS)
    return tmp_path


def junit_counts(path):
    cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    kinds = {"error": "error", "failure": "failure", "skipped": "skipped"}
    found = [next((kinds[child.tag] for child in case if child.tag in kinds), "passed") for case in cases]
    worst = next((kind for kind in ("error", "failure", "skipped") if kind in found), "passed")
    plural = "s" if worst in ("error", "failure") and found.count(worst) > 1 else ""
    return f"{found.count(worst)} {worst}{plural}"


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row[0]} {row[1]}".replace("`", ""))
def test_the_page_says_what_the_command_does(row, workplace, capsys):
    metrics, options, printed, junit, status = row
    (workplace / "agent.yaml").write_text(suite_of(re.findall("`([^`]+)`", metrics)))

    found = run_command(["test", "-q", "--no-journal", "-o", "r.junit.xml", *shlex.split(options.strip("`"))])

    summary = next(line for line in capsys.readouterr().out.splitlines() if " passed, " in line)
    assert (f"`{summary}`", junit_counts("r.junit.xml"), str(found)) == (printed, junit, status)


def test_the_table_is_not_short():
    assert len(rows()) >= 30
