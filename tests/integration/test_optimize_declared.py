"""A declared agent that is optimized: its temperature, and its instructions by the same model."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from dokimos.experiment._run_loading import list_runs, load_run
from dokimos.optimizer._optimization import optimize_suite

SERVERS = Path(__file__).parents[1] / "servers"
KEY = "sk-test-0123456789abcdef"
SYSTEM = "---\nversion: 3\nauthor: me\n---\nAnswer briefly.\n"
SUITE = """\
# prices
name: declared
model:
  provider: openai
  name: gpt-4o-mini   # cheap
  base_url: URL
  api_key: ${TEST_KEY}
instructions:
  file: prompts/system.md
evaluations:
  metrics: [{type: standard, metric: equality}]
  optimizer:
    loss: {equality: 1}
    axes:
      numeric: [{path: model.temperature, type: float, range: [0, 1]}]
      textual: [{path: instructions}]
    numeric_phase: {max_trials: 2, patience: 2}
    max_cycles: 1
test_cases:
"""


@pytest.fixture(scope="module")
def tool_calling():
    spec = importlib.util.spec_from_file_location("tool_calling", SERVERS / "tool_calling.py")
    module = sys.modules["tool_calling"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def model(tool_calling):
    def answer(body):
        said = [str(message["content"]) for message in body["messages"]]
        if '"advice"' in said[-1]:
            text = json.dumps({"diagnosis": "It is short.", "advice": "Ask for exact answers."})
        elif '"summary"' in said[-1]:
            text = json.dumps({"text": "Answer exactly.", "summary": "asks for exact answers"})
        else:
            text = said[-1] if "exactly" in said[0] else "so so"
        return tool_calling.Turn(text)

    with tool_calling.ToolCallingServer() as server:
        server.turn_for = answer
        yield server


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("work")
    cases = "".join(f"  - {{input: question {n}, ground_truth: question {n}}}\n" for n in range(16))
    (path / "agent.yaml").write_text(SUITE.replace("URL", model.base_url) + cases)
    (path / "prompts").mkdir()
    (path / "prompts" / "system.md").write_text(SYSTEM)
    return path


@pytest.fixture(scope="module")
def optimized(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("HOME", str(folder / "home"))
        patch.setenv("TEST_KEY", KEY)
        return optimize_suite("agent.yaml", output_dir=folder / "out", run_dir=folder / "runs")


def test_instructions_in_a_file_are_written_anew_beside_the_best_suite(folder, optimized):
    assert optimized.state.best.summary == "asks for exact answers"
    assert optimized.state.best.loss == 0.0
    written = optimized.folder / "prompts" / "system.md"
    assert written.read_text() == "---\nauthor: me\n---\nAnswer exactly.\n"
    assert optimized.best_file.read_text() == (folder / "agent.yaml").read_text()
    assert (folder / "prompts" / "system.md").read_text() == SYSTEM
    assert "`prompts/system.md`" in (optimized.folder / "report.md").read_text()


def test_the_temperature_reaches_the_model(model, optimized):
    tried = {trial.candidate.numbers["model.temperature"] for trial in optimized.state.trials}

    sent = {received.body.get("temperature") for received in model.received}
    assert len(tried) > 2
    assert {value for value in tried if value is not None} <= sent


def test_each_run_knows_the_version_of_its_prompt(folder, optimized):
    runs = [load_run(entry.folder).metadata for entry in list_runs(folder / "runs")]

    versions = {run["optimizer"]["trial"]: run["promptVersion"] for run in runs}
    assert versions[0] == "3"
    assert versions[optimized.state.best.id] != "3"


def test_the_key_is_in_none_of_the_files(folder, optimized):
    files = [path for path in folder.rglob("*") if path.is_file()]

    assert len(files) > 10
    assert [path for path in files if KEY in path.read_text(errors="replace")] == []
    assert "api_key: ${TEST_KEY}" in optimized.best_file.read_text()


def test_calls_of_agent_critic_and_applier_count_towards_the_budget(folder, model, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TEST_KEY", KEY)
    before = len(model.received)

    found = optimize_suite(
        "agent.yaml",
        settings={"budget": {"max_calls": 27}, "numeric_phase": {"max_trials": 1}},
        output_dir=folder / "short",
        run_dir=folder / "runs",
    ).state

    assert "budget" in found.stopped
    assert 26 <= len(model.received) - before <= 27  # 3 trials of 8 cases, and 2 to write a text
