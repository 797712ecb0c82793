"""Comparing, gating, planning and measuring noise on the command line."""

import json
import re
import sys

import pytest

from dokimos._cli.main import run_command

EXPERIMENT = """
import os
from dokimos import Dataset, Example, Experiment
from dokimos.evaluators import ExactMatch

examples = [Example.of(f"q{i}", f"Q{i}", id=f"id{i}") for i in range(20)]
calls = []

def task(example):
    calls.append(example.id)
    broken = int(os.environ.get("BROKEN", "0"))
    return "?" if int(example.id[2:]) < broken else example.input.upper()

experiment = Experiment(Dataset(examples, name="letters"), task, [ExactMatch()], name="upper")
"""


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    for name in ("CI", "GITHUB_ACTIONS", "DOKIMOS_UPDATE_BASELINE", "DOKIMOS_RUN_DIR", "DOKIMOS_BASELINE_DIR",
                 "DOKIMOS_VERDICT_DIR", "PYTEST_CURRENT_TEST", "BROKEN"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["dokimos"])
    (tmp_path / "evals.py").write_text(EXPERIMENT)
    (tmp_path / "pyproject.toml").write_text("")
    yield tmp_path
    sys.modules.pop("evals", None)


@pytest.fixture
def run(monkeypatch):
    """A function that runs the experiment with so many broken answers and returns its report."""

    def do(name, broken=0, *options):
        monkeypatch.setenv("BROKEN", str(broken))
        assert run_command(["run", "evals.py", "-q", "-o", f"{name}.json", *options]) == 0
        return f"{name}.json"

    return do


def unwrapped(printed):
    """Return what was printed without the line breaks of the terminal."""
    return " ".join(printed.split())


def dokimos(*arguments):
    sys.argv = ["dokimos", *arguments]
    return run_command(list(arguments))


def test_comparing_prints_and_writes_and_never_fails(run, project, capsys):
    run("a")
    run("b", 8)
    capsys.readouterr()

    assert dokimos("compare", "a.json", "b.json", "-o", "c.html", "-o", "c.md", "-o", "c.json") == 0

    printed = capsys.readouterr().out
    assert "Worse: pass rate, Exact Match" in printed
    assert "8 regressed, 12 unchanged" in printed
    assert json.loads((project / "c.json").read_text())["summary"]["regressedCount"] == 8
    assert "<del>Q0</del>" in (project / "c.html").read_text()


def test_runs_are_compared_by_their_ids_and_quietly(run, project, capsys):
    run("a")
    run("b", 1)
    first, second = sorted(path.name for path in (project / ".dokimos" / "runs").iterdir())
    capsys.readouterr()

    assert dokimos("compare", first, second, "-q") == 0
    assert capsys.readouterr().out == "No significant change\n"


def test_an_unknown_kind_of_report_is_refused_before_anything_is_read(capsys):
    assert dokimos("compare", "a.json", "b.json", "-o", "c.csv") == 2
    assert "c.csv" in capsys.readouterr().err


def test_the_life_of_a_gate(run, project, capsys):
    run("a")
    run("b", 8)

    assert dokimos("gate", "a.json") == 0
    assert "Created the baseline" in capsys.readouterr().out
    assert dokimos("gate", "a.json", "-q") == 0
    assert dokimos("gate", "b.json") == 1
    printed = capsys.readouterr().out
    assert "Eval gate FAILED: pass rate 100.0 % -> 60.0 % (-40 pts)." in printed
    assert "To accept the change: dokimos gate b.json --update-baseline, then commit" in printed
    assert dokimos("gate", "b.json", "--update-baseline") == 0
    assert dokimos("gate", "b.json") == 0
    assert (project / ".dokimos" / "verdicts" / "upper.json").is_file()


def test_a_gate_writes_its_verdict_in_several_formats(run, project, capsys):
    run("a")
    run("b", 8)

    files = ["-o", "out/v.html", "-o", "out/v.json", "-o", "out/v.md"]
    assert dokimos("gate", "b.json", "-b", "a.json", *files) == 1
    assert "  reports  out/v.html out/v.json out/v.md" in capsys.readouterr().out
    assert "The gate failed" in (project / "out" / "v.html").read_text()
    assert json.loads((project / "out" / "v.json").read_text())["status"] == "FAIL"
    assert "Eval gate failed" in (project / "out" / "v.md").read_text()
    capsys.readouterr()
    assert dokimos("gate", "b.json", "-b", "a.json", "-o", "v.csv") == 2
    assert "-o v.csv: a verdict is written as .html, .json or .md." in capsys.readouterr().err


def test_a_gate_against_a_run_needs_no_file(run, project):
    run("a")
    run("b", 8)

    assert dokimos("gate", "b.json", "--baseline", "a.json") == 1
    assert dokimos("gate", "a.json", "--baseline", "b.json") == 0
    assert dokimos("gate", "a.json", "--baseline", "latest", "-o", "out/v.json") == 0
    assert not (project / "tests").exists()
    assert json.loads((project / "out" / "v.json").read_text())["status"] == "PASS"
    assert dokimos("gate", "a.json", "--baseline", "b.json", "--update-baseline") == 2
    verdicts = [path.name for path in (project / ".dokimos" / "verdicts").iterdir()]
    assert verdicts == ["upper-against-another-run.json"]


def test_a_damaged_baseline_is_named_as_such_and_can_be_written_anew(run, project, capsys):
    run("a")
    (project / "base.json").write_text('{"formatVersion": 1, "items": [')

    assert dokimos("gate", "a.json", "-b", "base.json") == 2
    assert "The baseline base.json is not JSON" in capsys.readouterr().err
    assert dokimos("gate", "a.json", "-b", "base.json", "--update-baseline") == 0
    assert dokimos("gate", "a.json", "-b", "base.json") == 0


def test_a_gate_that_cannot_see_enough_is_inconclusive(run, capsys):
    run("a")

    assert dokimos("gate", "a.json", "-b", "a.json", "--require-power", "0.8") == 4
    printed = unwrapped(capsys.readouterr().out)
    assert "INCONCLUSIVE" in printed
    assert "items would be enough" in printed


def test_suspicious_items_are_run_again(run, capsys, monkeypatch):
    run("a")
    run("b", 1)
    monkeypatch.setenv("BROKEN", "0")

    assert dokimos("gate", "b.json", "-b", "a.json", "--severity", "any") == 1
    assert dokimos("gate", "b.json", "-b", "a.json", "--rerun", "evals.py") == 0
    assert "did not confirm id0 (Exact Match)" in capsys.readouterr().out
    monkeypatch.setenv("BROKEN", "1")
    assert dokimos("gate", "b.json", "-b", "a.json", "--rerun", "evals.py") == 1
    assert dokimos("gate", "b.json", "-b", "a.json", "--confirm", "3", "--rerun", "evals.py") == 1
    assert dokimos("gate", "b.json", "-b", "a.json", "--confirm", "3") == 2


def test_a_lone_drop_of_single_runs_is_inconclusive_until_the_noise_is_known(
    run, project, capsys, monkeypatch
):
    run("a")
    run("b", 1)

    assert dokimos("gate", "b.json", "-b", "a.json") == 0
    assert "Eval gate INCONCLUSIVE (passes)" in capsys.readouterr().out
    power = ("--require-power", "0.1", "--detect-drop", "0.9")
    assert dokimos("gate", "b.json", "-b", "a.json", *power) == 4
    monkeypatch.setenv("BROKEN", "0")
    assert dokimos("noise", "evals.py", "-k", "3", "-o", "noise.json") == 0
    assert dokimos("gate", "b.json", "-b", "a.json", "--noise", "noise.json") == 1
    printed = unwrapped(capsys.readouterr().out)
    assert "scoring is deterministic and 3 runs of dokimos noise did not vary" in printed
    (project / "broken.json").write_text("{}")
    assert dokimos("gate", "b.json", "-b", "a.json", "--noise", "broken.json") == 2


def test_a_missing_baseline_in_ci(run, monkeypatch, project):
    run("a")
    monkeypatch.setenv("CI", "true")

    assert dokimos("gate", "a.json") == 0
    assert dokimos("gate", "a.json", "--on-no-baseline", "fail") == 1
    assert not (project / "tests").exists()


def test_wrong_usage_has_its_own_status(capsys):
    assert dokimos("gate", "nothing.json") == 2
    assert dokimos("gate", "x", "-o", "verdict.txt") == 2
    assert "written as .html, .json or .md" in capsys.readouterr().err


def test_noise_runs_the_system_several_times(run, project, capsys):
    assert dokimos("noise", "evals.py", "-k", "3", "-o", "noise.json") == 0

    assert "20 items x 3 runs of the same system" in capsys.readouterr().out
    tree = json.loads((project / "noise.json").read_text())
    assert tree["guard2"][0]["fireRate"] == 0.0
    assert dokimos("noise", "latest") == 0
    assert dokimos("noise", "latest", "-e", "exact_match") == 2


def test_noise_tells_what_errors_do_to_the_gate(run, project, capsys):
    head, called = "def task(example):", "calls.append(example.id)"
    once = f"    if example.id == 'id3' and 'id3' not in calls:\n        {called}\n        raise OSError"
    (project / "evals.py").write_text(EXPERIMENT.replace(head, f"{head}\n{once}"))

    assert dokimos("noise", "evals.py", "-k", "2") == 0

    printed = unwrapped(capsys.readouterr().out)
    assert "! 1 of 20 items errored in some run: to guard 2 that is a drop" in printed
    assert " for an error; scores alone need a margin of 0.00 for 5" in printed
    assert "No margin helps against errors" in printed
    assert "The margin in use is enough for the scores." in printed


def test_a_plan_is_one_table_that_fits_its_terminal(run, capsys, monkeypatch):
    run("a", 4)
    capsys.readouterr()
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "70")

    assert dokimos("plan", "a.json", "--repeats", "1", "--affected", "0.2") == 0

    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= 70
    assert sum(line.strip().startswith("metric ") for line in lines) == 1
    assert sum(line.strip().startswith(("pass rate ", "Exact")) for line in lines) == 2
    assert dokimos("plan", "--affected", "0") == 2


def test_a_plan_from_a_past_run_and_from_assumptions(run, project, capsys):
    run("a", 4)

    assert dokimos("plan", "a.json", "--drop", "0.1", "--repeats", "1", "-o", "plan.json") == 0
    printed = capsys.readouterr().out
    assert "20 items at hand. To see a drop of 10 points" in printed
    assert "an assumption" in printed
    assert "20 items do not show the drop in every metric with 1 run: take " in printed
    written = json.loads((project / "plan.json").read_text())
    assert written["rows"][0]["itemsNeeded"] > 20
    assert written["rows"][0]["evenItemsNeeded"] <= written["rows"][0]["itemsNeeded"]
    assert written["assumptions"][0]["affected"] == 0.1
    assert "take " in written["advice"]
    assert dokimos("plan", "--pass-rate", "0.9", "--items", "500", "--repeats", "1") == 0
    assert dokimos("plan", "a.json", "--pass-rate", "0.9") == 2


def test_a_comparison_shows_what_the_items_answered(run, capsys):
    run("a")
    run("b", 2)
    capsys.readouterr()
    assert dokimos("compare", "a.json", "b.json") == 0
    lines = capsys.readouterr().out.splitlines()
    place = next(number for number, line in enumerate(lines) if line.strip().startswith("id0"))
    assert lines[place + 1].split() == ["was", "Q0"]
    assert lines[place + 2].split() == ["now", "?"]


def test_answers_are_one_line_each_however_long_they_are(run, capsys, project, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    (project / "evals.py").write_text(EXPERIMENT.replace('return "?"', r'return "long\n" * 5000'))
    run("a")
    run("b", 1)
    capsys.readouterr()
    assert dokimos("compare", "a.json", "b.json") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if "long long" in line]) == 1
    assert max(map(len, lines)) <= 60 or not any("long" in line for line in lines if len(line) > 60)
