"""The composite action for GitHub, run as a runner would, and the examples for CI."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.conftest import load_server

ROOT = Path(__file__).parents[2]
ACTION = ROOT / ".github" / "actions" / "eval-gate-report" / "action.yml"


@pytest.fixture(scope="module")
def action():
    return yaml.safe_load(ACTION.read_text(encoding="utf-8"))


@pytest.fixture
def report(action, tmp_path):
    """A function that runs the script of the action on some verdicts."""

    def run(*statuses, event=None, github="", **inputs):
        folder = tmp_path / "verdicts; touch oops"
        folder.mkdir(exist_ok=True)
        for status in statuses:
            tree = {"status": status, "passed": status == "PASS", "name": status.lower(), "pairing": "none"}
            (folder / f"{status}.json").write_text(json.dumps(tree))
        given = {name: entry["default"] for name, entry in action["inputs"].items()}
        given |= {"verdict-dir": str(folder), "python": sys.executable, "token": "t", **inputs}
        step = action["runs"]["steps"][0]
        variables = {
            name: given[value.removeprefix("${{ inputs.").removesuffix(" }}")]
            for name, value in step["env"].items()
        }
        paths = {
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
            "GITHUB_OUTPUT": str(tmp_path / "output"),
            "RUNNER_TEMP": str(tmp_path),
            "GITHUB_ACTION_PATH": str(ACTION.parent),
        }
        if event is not None:
            (tmp_path / "event.json").write_text(json.dumps(event))
            paths |= {"GITHUB_EVENT_PATH": str(tmp_path / "event.json"), "GITHUB_API_URL": github}
            paths |= {"GITHUB_REPOSITORY": "acme/bot", "GITHUB_ACTIONS": "true"}
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GITHUB_")}
        return subprocess.run(
            [shutil.which("bash"), "-e", "-o", "pipefail", "-c", step["run"]],
            cwd=tmp_path, env={**environment, **paths, **variables}, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip

    return run


def test_a_failed_gate_fails_the_step_and_is_in_the_summary(report, tmp_path):
    done = report("FAIL", "PASS")

    assert done.returncode == 1, done.stderr
    assert "Eval gate failed: fail" in (tmp_path / "summary.md").read_text()
    assert (tmp_path / "output").read_text() == "status=FAIL\npassed=false\n"
    assert "No comment was written: this job does not run for a pull request" in done.stderr


def test_failing_can_be_switched_off(report):
    assert report("FAIL", **{"fail-on-regression": "false", "comment": "false"}).returncode == 0


def pull_request(head="acme/bot"):
    base = {"repo": {"full_name": "acme/bot"}}
    return {"pull_request": {"number": 7, "head": {"repo": {"full_name": head}}, "base": base}}


@pytest.mark.parametrize("token", ["", "t"])
def test_a_fork_gets_no_comment_and_no_failure_by_it(report, tmp_path, token):
    done = report("PASS", event=pull_request("mallory/bot"), github="http://127.0.0.1:9", token=token)

    assert done.returncode == 0, done.stderr
    assert "comes from a fork" in done.stderr
    assert "Eval gate passed: pass" in (tmp_path / "summary.md").read_text()


def test_a_job_without_a_token_gets_no_comment_and_no_failure_by_it(report):
    done = report("PASS", event=pull_request(), github="http://127.0.0.1:9", token="")

    assert done.returncode == 0, done.stderr
    assert "No comment was written" in done.stderr


def test_each_gate_has_a_comment_of_its_own_and_keeps_it(report):
    with load_server("github_api").GitHubApi() as github:
        for _ in range(2):
            report("FAIL", "PASS", event=pull_request(), github=github.url)
        bodies = [comment["body"] for comment in github.comments]

    assert len(bodies) == 2
    assert len({body.partition("\n")[0] for body in bodies}) == 2


def test_what_inputs_say_is_never_run(report, tmp_path):
    assert report("PASS").returncode == 0
    assert not (tmp_path / "oops").exists()


def test_the_outputs_are_those_that_the_report_writes(action):
    assert set(action["outputs"]) == {"status", "passed"}
    assert all("steps.report.outputs." in entry["value"] for entry in action["outputs"].values())
    assert "${{" not in action["runs"]["steps"][0]["run"]


@pytest.mark.parametrize(
    "name", ["azure-pipelines.yml", "bitbucket-pipelines.yml", "github.yml", "gitlab-ci.yml"]
)
def test_the_examples_report_even_on_failure_and_run_on_paths_and_nightly(name):
    text = (ROOT / "examples" / "ci" / name).read_text(encoding="utf-8")

    assert yaml.safe_load(text)
    assert re.search(r"- \W?prompts\b", text)  # a filter of paths
    assert "schedule" in text
    assert "always" in text or "succeededOrFailed" in text
    assert "gate report .dokimos/verdicts" in text
