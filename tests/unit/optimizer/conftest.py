"""A folder with a suite whose application has parameters."""

import textwrap

import pytest

from dokimos.optimizer._optimization import optimize_suite

APP = """
import json, os
from pathlib import Path

CALLS = Path(__file__).with_name("calls.txt")

def answer(question, k=1, prompt="Be brief.", mood="odd"):
    with CALLS.open("a") as calls:
        calls.write(f"{question} {k} {mood}\\n")
    number = int(question.split()[-1])
    if mood == "broken":
        raise ConnectionError("the model is down")
    good = number % 10 < k or "exact" in prompt
    reply = {"output": str(number) if good else "?"}
    return {**reply, "metrics": {"cost_usd": 0.001 * k, "tokens_in": 1, "tokens_out": 1}}

def writer(prompt):
    if '"advice"' in prompt:
        return json.dumps({"diagnosis": "It guesses.", "advice": "Ask for exact numbers."})
    return json.dumps({"text": "Be exact.", "summary": "asks for exact numbers"})
"""

HEAD = """\
# The suite of the sums.
name: sums   # short
agent:
  callable: app:answer
  params:
    k: 2   # how many it knows
    prompt: Be brief.
    mood: odd
evaluations:
  metrics:
    - type: standard
      metric: numeric
  optimizer:
    loss: {numeric: 1}
"""
CASES = "test_cases:\n" + "".join(f'  - {{input: "number {n}", ground_truth: {n}}}\n' for n in range(40))
NUMERIC = "{numeric: [{path: agent.params.k, type: int, range: [1, 10]}]}"
TEXTUAL = "{textual: [{path: agent.params.prompt}]}"


class Workshop:
    """Writes suites with an optimizer block and carries searches out."""

    head = HEAD

    def __init__(self, path):
        self.path = path
        self.events = []
        (path / "app.py").write_text(APP)

    def write(self, axes=NUMERIC, *, head=HEAD, cases=CASES, **settings):
        lines = [f"    axes: {axes}", *(f"    {key}: {value}" for key, value in settings.items())]
        (self.path / "agent.yaml").write_text(head + "\n".join(lines) + "\n" + textwrap.dedent(cases))
        return self.path / "agent.yaml"

    def optimize(self, axes=NUMERIC, *, head=HEAD, cases=CASES, resume=None, **settings):
        path = self.write(axes, head=head, cases=cases, **settings)
        return self.search(path, resume=resume)

    def search(self, path, *, resume=None, settings=None, listener=None):
        self.events.clear()
        return optimize_suite(
            path,
            settings=settings,
            output_dir=self.path / "out",
            resume=resume,
            run_dir=self.path / "runs",
            listener=listener or self.events.append,
        )

    @property
    def calls(self):
        place = self.path / "calls.txt"
        return place.read_text().splitlines() if place.exists() else []


@pytest.fixture
def workshop(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return Workshop(tmp_path)
