"""The recipes for CI systems, whose commands run in a shell as these systems would run them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

RECIPES = Path(__file__).parents[2] / "examples" / "ci"
EVALS = """
import os
from dokimos import Dataset, Example, Experiment
from dokimos.evaluators import ExactMatch

data = Dataset([Example.of(f"q{i}", f"Q{i}", id=f"id{i}") for i in range(20)], name="faq")
task = str.lower if os.environ.get("BROKEN") else str.upper
experiment = Experiment(data, task, [ExactMatch()], name="faq")
"""
TEST = """
from dokimos.gate import assert_no_regression
from experiment import experiment

def test_faq():
    assert_no_regression(experiment.run(quiet=True), "faq")
"""


def read_github(tree):
    jobs = {}
    for name, job in tree["jobs"].items():
        steps = [step for step in job["steps"] if "run" in step]
        jobs[name] = (
            [step["run"] for step in steps if "always()" not in step.get("if", "")],
            [step["run"] for step in steps if "always()" in step.get("if", "")],
        )
    return jobs


def read_gitlab(tree):
    before = tree[".evals"]["before_script"]
    return {name: (before + tree[name]["script"], tree[name]["after_script"]) for name in ("gate", "nightly")}


def read_azure(tree):
    jobs = {}
    for job in tree["jobs"]:
        steps = [step for step in job["steps"] if "script" in step]
        jobs[job["job"]] = (
            [step["script"] for step in steps if "condition" not in step],
            [step["script"] for step in steps if step.get("condition") == "succeededOrFailed()"],
        )
    return jobs


def read_bitbucket(tree):
    pipelines = tree["pipelines"]
    steps = {
        "gate": pipelines["pull-requests"]["**"][0]["step"],
        "nightly": pipelines["custom"]["nightly"][0]["step"],
    }
    return {name: (step["script"], step["after-script"]) for name, step in steps.items()}


def read_jenkins(text):
    """Return what `sh` runs in each stage."""
    found = re.findall(r"""stage\('(\w+)'\)|(post) \{|sh ('''.*?'''|'[^']*')""", text, re.DOTALL)
    stages, current = {}, []
    for stage, post, command in found:
        if command:
            current.append(command.strip("'"))
        else:
            current = stages.setdefault((stage or post).lower(), [])
    install, after = stages["install"], stages["post"]
    return {name: (install + stages[name], after) for name in ("gate", "nightly")}


READERS = {
    "github.yml": read_github,
    "gitlab-ci.yml": read_gitlab,
    "azure-pipelines.yml": read_azure,
    "bitbucket-pipelines.yml": read_bitbucket,
    "Jenkinsfile": read_jenkins,
}


def read_recipe(name):
    text = (RECIPES / name).read_text(encoding="utf-8")
    accept = re.search(r"^(?:#|//) .*?(dokimos gate .*--update-baseline)$", text, re.MULTILINE)[1]
    return READERS[name](text if name == "Jenkinsfile" else yaml.safe_load(text)), accept


@pytest.fixture
def shell(tmp_path):
    """A project with an evaluation, and a function that runs commands in it as a job of a CI system."""
    project, bin = tmp_path / "project", tmp_path / "bin"
    evals = project / "tests" / "evals"
    for folder in (evals, bin, project / ".venv" / "bin"):
        folder.mkdir(parents=True)
    (evals / "experiment.py").write_text(EVALS)
    (evals / "test_faq.py").write_text(TEST)
    (project / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["tests/evals"]\n')
    for folder in (bin, project / ".venv" / "bin"):
        for command in ("dokimos", "pytest"):
            write_command(folder / command, f'exec "{sys.executable}" -m {command} "$@"')
        write_command(folder / "pip", "exit 0")  # what it would install is here
    write_command(bin / "python", "exit 0")  # nor is a virtual environment made

    def run(command, **variables):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "PYTEST", "CI"))}
        environment |= {"PATH": f"{bin}{os.pathsep}{os.environ['PATH']}", **variables}
        environment["GITHUB_STEP_SUMMARY"] = str(project / "summary.md")
        return subprocess.run(
            [shutil.which("bash"), "-e", "-o", "pipefail", "-c", command],
            cwd=project, env=environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    run.project = project
    return run


def write_command(path, script):
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("name", sorted(READERS))
def test_a_recipe_gates_pull_requests_and_reports_also_what_failed(name, shell):
    commands, always = read_recipe(name)[0]["gate"]
    assert shell("pytest -q tests/evals").returncode == 0  # on the machine of a developer: the baseline

    for command in commands[:-1]:
        assert shell(command, CI="true").returncode == 0, command
    failed = shell(commands[-1], CI="true", BROKEN="1")
    assert failed.returncode == 1, failed.stderr
    assert "Eval gate FAILED" in failed.stdout
    for command in always:
        done = shell(command, CI="true")
        assert done.returncode == 0, (command, done.stderr)

    project = shell.project
    assert list(project.glob("*/pytest.junit.xml"))
    assert (project / "out" / "evals.html").is_file()
    if name != "github.yml":  # whose action of this repository reports
        assert "Eval gate failed: faq" in (project / "out" / "verdicts.md").read_text()
    if name == "azure-pipelines.yml":
        assert f"##vso[task.uploadsummary]{project}/out/verdicts.md" in done.stdout


@pytest.mark.parametrize("name", sorted(READERS))
def test_a_recipe_compares_the_full_set_with_a_baseline_of_its_own_every_night(name, shell):
    jobs, accept = read_recipe(name)
    commands, always = jobs["nightly"]
    *run, gate = commands
    for command in [*run, accept]:
        done = shell(command)
        assert done.returncode == 0, (command, done.stderr)
    project = shell.project
    assert (project / "tests" / "baselines" / "nightly.json").is_file()
    assert list(project.glob("*/nightly.junit.xml"))

    done = shell(gate)  # with so few items, it could not see the drop that it has to see
    assert (done.returncode, "INCONCLUSIVE" in done.stdout) == (4, True)
    for command in always:
        assert shell(command).returncode == 0, command
    reports = ["summary.md"] if name == "github.yml" else ["out/verdicts.md"]
    assert all("inconclusive" in (project / path).read_text() for path in reports)


def test_jenkins_gates_what_a_change_does_to_its_target_whatever_was_pushed_last(shell):
    text = (RECIPES / "Jenkinsfile").read_text(encoding="utf-8")
    [question] = re.findall(r"returnStatus: true, script:\s*'([^']*)'", text)
    project = shell.project

    def ask():
        return shell(question, CHANGE_TARGET="main").returncode

    def commit(path):
        (project / path).parent.mkdir(exist_ok=True)
        (project / path).write_text("changed")
        author = "-c user.name=a -c user.email=a@example.com"
        assert shell(f"git add {path} && git {author} commit -qm change").returncode == 0

    assert shell("git init -q -b topic").returncode == 0
    commit("README.md")
    assert ask() == 128, "a target that is not there is gated"
    assert shell("git update-ref refs/remotes/origin/main HEAD").returncode == 0
    commit("CHANGELOG.md")
    assert ask() == 0
    commit("prompts/answer.txt")
    assert ask() == 1
    commit("NOTES.md")
    assert ask() == 1, "the next push changes nothing of it"


def test_jenkins_reports_no_verdict_of_an_earlier_build(shell):
    commands, _ = read_recipe("Jenkinsfile")[0]["gate"]
    for path in ("out/verdicts.md", ".dokimos/verdicts/old.json"):
        (shell.project / path).parent.mkdir(parents=True, exist_ok=True)
        (shell.project / path).write_text("old")

    assert shell(commands[0]).returncode == 0
    assert not (shell.project / "out").exists()
    assert not (shell.project / ".dokimos" / "verdicts").exists()
