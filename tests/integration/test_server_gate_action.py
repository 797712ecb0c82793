"""The composite action that asks the gate of a server, run as a runner would; and the script for other CI."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from aiohttp import web

ROOT = Path(__file__).parents[2]
ACTION = ROOT / ".github" / "actions" / "eval-gate" / "action.yml"
SCRIPT = ROOT / "examples" / "ci" / "server-gate.sh"
CANDIDATE = "0199f3a2-0000-7000-8000-000000000001"
VERDICT = {
    "status": "FAIL", "passed": False, "candidateRunId": CANDIDATE, "baselineRunId": CANDIDATE,
    "pairing": "positional", "baselinePassRate": 0.9, "candidatePassRate": 0.5, "passRateDelta": -0.4,
    "significant": True, "improvedCount": 0, "regressedCount": 4, "unchangedCount": 6, "addedCount": 0,
    "removedCount": 0, "regressedEvaluators": [], "cases": [], "casesTruncated": False,
}  # fmt: skip


class Gate:
    """The routes that the action calls."""

    def __init__(self):
        self.verdict, self.requests, self.items, self.keys = VERDICT, [], [], set()

    def __call__(self, request):
        self.keys.add(request.headers.get("Authorization"))
        if request.method == "PATCH":
            return {"status": "updated"}
        if request.method == "GET":
            return {
                "status": "SUCCESS",
                "experimentId": "e-1",
                "experimentName": "<b>faq</b>",
                "projectName": "demo",
            }
        if request.raw_path.endswith("/runs"):
            return {"runId": CANDIDATE}
        if request.raw_path.endswith("/items"):
            self.items += json.loads(request.body)["items"]
            return {"status": "ok"}
        self.requests.append((request.raw_path, json.loads(request.body)))
        return self.verdict


@pytest.fixture
def gate(serve):
    fake = Gate()
    with serve(fake) as server:
        fake.url = server.url
        yield fake


def bash(script, environment, folder):
    return subprocess.run(
        [shutil.which("bash"), "-e", "-o", "pipefail", "-c", script], cwd=folder, env=environment,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def clean_environment():
    hidden = ("GITHUB_", "DOKIMOS_")
    return {name: value for name, value in os.environ.items() if not name.startswith(hidden)}


@pytest.fixture
def act(tmp_path, gate):
    """A function that runs the script of the action with some inputs."""
    action = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    step = action["runs"]["steps"][0]

    def run(event=None, github="", **inputs):
        given = {name: entry.get("default", "") for name, entry in action["inputs"].items()}
        given |= {"server-url": gate.url, "candidate-run-id": CANDIDATE, "python": sys.executable}
        given |= {"token": "t", **inputs}
        variables = {
            name: given[value.removeprefix("${{ inputs.").removesuffix(" }}")]
            for name, value in step["env"].items()
        }
        if event is not None:
            (tmp_path / "event.json").write_text(json.dumps(event))
            variables |= {"GITHUB_EVENT_PATH": str(tmp_path / "event.json"), "GITHUB_REPOSITORY": "acme/bot"}
            variables |= {"GITHUB_API_URL": github}
        paths = {
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
            "GITHUB_OUTPUT": str(tmp_path / "output"),
            "RUNNER_TEMP": str(tmp_path),
            "GITHUB_ACTION_PATH": str(ACTION.parent),
        }
        return bash(step["run"], {**clean_environment(), **paths, **variables}, tmp_path)

    return run


def pull_request(fork=False):
    base = {"repo": {"full_name": "acme/bot"}}
    head = {"repo": {"full_name": "mallory/bot" if fork else "acme/bot"}}
    return {"pull_request": {"number": 7, "head": head, "base": base}}


def test_failed_verdict_fails_the_step(act, gate, tmp_path):
    done = act(**{"api-key": "secret", "baseline-branch": "main", "experiment-id": "e-2"})
    assert done.returncode == 1, done.stderr
    ((path, body),) = gate.requests
    assert path == "/api/v1/experiments/e-2/gate"
    assert (body["candidateRunId"], body["baselineBranch"]) == (CANDIDATE, "main")
    assert (body["severity"], body["onRemovedEvaluator"]) == ("off", "warn")
    assert gate.keys == {"Bearer secret"}
    assert (tmp_path / "output").read_text() == "status=FAIL\npassed=false\n"
    summary = (tmp_path / "summary.md").read_text()
    assert "❌ Eval gate failed" in summary
    assert "<b>" not in summary
    assert "secret" not in done.stdout + done.stderr + summary


def test_failing_can_be_switched_off(act, tmp_path):
    assert act(**{"fail-on-regression": "false"}).returncode == 0
    assert "passed=false" in (tmp_path / "output").read_text()


def test_passing_verdict_passes(act, gate, tmp_path):
    gate.verdict = {**VERDICT, "status": "PASS", "passed": True}
    assert act().returncode == 0
    assert (tmp_path / "output").read_text() == "status=PASS\npassed=true\n"


def test_server_that_refuses_fails_the_step(act, gate, tmp_path):
    gate.verdict = web.json_response({"message": "The run is RUNNING"}, status=409)
    done = act(**{"fail-on-regression": "false"})
    assert done.returncode == 1
    assert "The run is RUNNING" in done.stderr
    assert not (tmp_path / "output").exists()


def test_inputs_are_never_run(act, tmp_path):
    act(name="x'; touch oops; '", **{"baseline-branch": "$(touch oops)"})
    assert not (tmp_path / "oops").exists()


def test_several_gates_have_a_comment_each_and_keep_it(act, tmp_path):
    spec = importlib.util.spec_from_file_location("github_api", ROOT / "tests" / "servers" / "github_api.py")
    module = sys.modules["github_api"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.GitHubApi() as github:
        for name in ("small model", "large model", "small model"):
            act(pull_request(), github.url, name=name)
        bodies = [comment["body"] for comment in github.comments]
    assert len(bodies) == 2
    assert len({body.partition("\n")[0] for body in bodies}) == 2


def test_fork_gets_no_comment_and_no_failure_by_it(act, gate):
    gate.verdict = {**VERDICT, "status": "PASS", "passed": True}
    done = act(pull_request(fork=True), "http://127.0.0.1:9")
    assert done.returncode == 0, done.stderr
    assert "comes from a fork" in done.stderr


@pytest.mark.parametrize(("passed", "status"), [(True, 0), (False, 1)])
def test_script_for_other_systems_reports_and_gates(tmp_path, gate, passed, status):
    gate.verdict = {**VERDICT, "status": "PASS" if passed else "FAIL", "passed": passed}
    (tmp_path / "evals.py").write_text(
        "from dokimos import Example, Experiment\nfrom dokimos.evaluators import ExactMatch\n"
        "experiment = Experiment([Example.of('a', 'A')], str.upper, [ExactMatch()], name='shout')\n"
    )
    command = tmp_path / "bin" / "dokimos"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dokimos "$@"\n')
    command.chmod(0o755)
    environment = clean_environment() | {
        "DOKIMOS_SERVER_URL": gate.url, "DOKIMOS_PROJECT_NAME": "demo", "TARGET": "evals.py",
        "PATH": f"{command.parent}:{os.environ['PATH']}",
    }  # fmt: skip
    done = bash(SCRIPT.read_text(), environment, tmp_path)
    assert done.returncode == status, done.stderr
    assert len(gate.items) == 2  # reported, and completed
    body = gate.requests[0][1]
    assert (body["candidateRunId"], body["baselineBranch"]) == (CANDIDATE, "main")
    assert (tmp_path / "out" / "verdict.md").is_file()
