"""The gate on this machine and that of a server: the same pair of runs gets the same verdict."""

import importlib
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from dokimos import Dataset, Evaluator, Example, Score, evaluate
from dokimos._cli.main import run_command
from dokimos.client import push_result
from dokimos.exporters._json import JsonExporter

DECIDED = ("status", "passed", "reasons", "regressedCount", "addedCount", "removedCount", "warnings")


@dataclass(frozen=True, kw_only=True)
class Stored(Evaluator):
    """Gives the score that is stored for the answer, which is the position of the item."""

    requires = ("actual_output",)
    scores: tuple[object, ...] = ()
    threshold: float | None = 0.5
    prompt: str = ""

    def score(self, case):
        score = self.scores[int(case.actual_output)]
        if isinstance(score, Exception):
            raise score
        return Score(score, "as stored")


@dataclass(frozen=True, kw_only=True)
class Failing(Evaluator):
    """Finds some answers wrong."""

    requires = ("actual_output",)
    failing: frozenset[str] = frozenset()
    threshold: float | None = 0.5

    def score(self, case):
        return Score(float(case.actual_output not in self.failing), "as configured")


@dataclass(frozen=True, kw_only=True)
class Side:
    """A run: the scores of its evaluators, and which items its task fails on."""

    scores: dict[str, list[object]]
    runs: int = 1
    task_errors: tuple[int, ...] = ()
    settings: dict[str, object] = None
    inputs: str = "question"

    def evaluate(self, name):
        count = len(next(iter(self.scores.values())))
        evaluators = [
            Stored(name=name, scores=tuple(scores), **(self.settings or {}))
            for name, scores in self.scores.items()
        ]

        def answer(question):
            number = question.rpartition(" ")[2]
            if int(number) in self.task_errors:
                raise ValueError("no answer")
            return number

        examples = [Example(inputs={"input": f"{self.inputs} {number}"}) for number in range(count)]
        return evaluate(examples, answer, evaluators, name=name, runs=self.runs, quiet=True, journal=False)


def half(first, second, count=20):
    return [first] * (count // 2) + [second] * (count - count // 2)


GOOD = {"accuracy": [1.0] * 20}
BOTH = {"accuracy": [1.0] * 20, "style": [0.8] * 20}
CASES = {
    "the same scores pass": (Side(scores=GOOD), Side(scores=GOOD), ()),
    "worse scores fail": (Side(scores=GOOD), Side(scores={"accuracy": half(1.0, 0.0)}), ()),
    "better scores pass": (Side(scores={"accuracy": half(1.0, 0.0)}), Side(scores=GOOD), ()),
    "one bad item is inconclusive": (
        Side(scores=GOOD),
        Side(scores={"accuracy": [0.0] + [1.0] * 19}),
        (),
    ),
    "one bad item fails where any counts": (
        Side(scores=GOOD),
        Side(scores={"accuracy": [0.0] + [1.0] * 19}),
        ("--severity", "any"),
    ),
    "repeats that part": (
        Side(scores=GOOD, runs=3),
        Side(scores={"accuracy": [0.0, 0.0] + [1.0] * 18}, runs=3),
        (),
    ),
    "few items fail by any drop": (
        Side(scores={"accuracy": [1.0] * 4}),
        Side(scores={"accuracy": [1.0, 1.0, 1.0, 0.6]}),
        (),
    ),
    "too little power": (Side(scores=GOOD), Side(scores=GOOD), ("--require-power", "0.9")),
    "enough power": (
        Side(scores=GOOD),
        Side(scores=GOOD),
        ("--require-power", "0.5", "--detect-drop", "0.9"),
    ),
    "items are missing": (Side(scores=GOOD), Side(scores={"accuracy": [1.0] * 8}), ()),
    "missing items fail": (
        Side(scores=GOOD),
        Side(scores={"accuracy": [1.0] * 8}),
        ("--fail-on-removed-items",),
    ),
    "items were added": (Side(scores={"accuracy": [1.0] * 8}), Side(scores=GOOD), ()),
    "other inputs at the same positions": (Side(scores=GOOD), Side(scores=GOOD, inputs="case"), ()),
    "an evaluator is missing": (Side(scores=BOTH), Side(scores=GOOD), ()),
    "a missing evaluator only warns": (
        Side(scores=BOTH),
        Side(scores=GOOD),
        ("--on-removed-evaluator", "warn"),
    ),
    "an evaluator was added": (Side(scores=GOOD), Side(scores=BOTH), ()),
    "an evaluator is configured differently": (
        Side(scores=GOOD, settings={"prompt": "a"}),
        Side(scores=GOOD, settings={"prompt": "b"}),
        (),
    ),
    "another threshold": (Side(scores=GOOD), Side(scores=GOOD, settings={"threshold": 0.9}), ()),
    "scores are missing": (Side(scores=BOTH), Side(scores={**BOTH, "style": half(0.8, None)}), ()),
    "scores are not numbers": (
        Side(scores=BOTH),
        Side(scores={**BOTH, "style": [math.nan, math.inf] + [0.8] * 18}),
        (),
    ),
    "an evaluator errors": (
        Side(scores=BOTH),
        Side(scores={**BOTH, "style": [ValueError("no reply")] * 3 + [0.8] * 17}),
        (),
    ),
    "most items error": (Side(scores=GOOD), Side(scores=GOOD, task_errors=tuple(range(15))), ()),
    "all items of the baseline errored": (
        Side(scores=GOOD, task_errors=tuple(range(20))),
        Side(scores=GOOD),
        (),
    ),
    "scores without a verdict": (
        Side(scores=BOTH, settings={"threshold": None}),
        Side(scores={**BOTH, "style": [0.3] * 20}, settings={"threshold": None}),
        (),
    ),
    "Holm, at another alpha": (
        Side(scores=BOTH),
        Side(scores={**BOTH, "accuracy": half(1.0, 0.0)}),
        ("--alpha", "0.01", "--correction", "holm"),
    ),
}


@pytest.fixture(scope="module")
def server_url(tmp_path_factory):
    pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
    live = importlib.import_module("tests.conftest").load_server("live")
    with live.serving(data_dir=tmp_path_factory.mktemp("server")) as address:
        yield address


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("RUN_DIR", "SERVER_URL", "PROJECT_NAME", "API_KEY"):
        monkeypatch.delenv(f"DOKIMOS_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


PLACE = re.compile(r" \([^()]*:\d+ in [\w.]+\)")
"""Where in the user's code an error came from, which is not sent."""


ADVICE = re.compile(
    r" Give each example an id to pair by that\.| Items of versions of one dataset .* are paired by it\."
    r"|, or let the gate run such items again \(rerun\)"
)
"""What helps here or there only."""


def comparable(verdict):
    """What both forms say; that a run of the server failed, which its baseline may, is said only there."""
    tree = {name: verdict[name] for name in DECIDED if name in verdict}
    told = [text for text in tree["warnings"] if not text.startswith("The baseline's run failed")]
    tree["warnings"] = [ADVICE.sub("", PLACE.sub("", text)) for text in told]
    tree["reasons"] = [ADVICE.sub("", text) for text in tree["reasons"]]
    tree["regressed"] = [entry["evaluator"] for entry in verdict["regressedEvaluators"]]
    tree["guards"] = [(one["guard"], one["fails"]) for one in verdict["guards"]]
    return tree


@pytest.mark.parametrize("case", CASES, ids=CASES.keys())
def test_the_same_pair_gets_the_same_verdict_and_exit_code(server_url, case, capsys):
    before, now, options = CASES[case]
    ids = []
    for name, side in (("before.json", before), ("now.json", now)):
        result = side.evaluate(case)
        Path(name).write_text(JsonExporter().render(result), encoding="utf-8")
        ids.append(push_result(result, server_url=server_url, project_name="parity"))

    here = run_command(["gate", "now.json", "-b", "before.json", "-o", "here.json", *options])
    printed_here = capsys.readouterr().out
    there = run_command(["gate", ids[1], "--server", server_url, "-b", ids[0], "-o", "there.json", *options])
    printed_there = capsys.readouterr().out

    verdicts = []
    for name in ("here.json", "there.json"):
        with open(name, encoding="utf-8") as file:
            verdicts.append(comparable(json.load(file)))
    assert verdicts[1] == verdicts[0]
    assert there == here
    headlines = [printed.splitlines()[0] for printed in (printed_here, printed_there)]
    if "pass rate" not in headlines[0]:  # then each gate says its own name
        assert "pass rate" not in headlines[1]
        headlines = [headline.partition(":")[0] for headline in headlines]
    assert headlines[1] == headlines[0]


def test_runs_of_two_versions_of_a_data_set_get_the_same_verdict(server_url, monkeypatch):
    monkeypatch.setenv("DOKIMOS_SERVER_URL", server_url)
    first = [Example(inputs={"input": f"question {number}"}, id=f"case {number}") for number in range(20)]
    second = [Example(inputs={"input": "a new question"}, id="new"), *first]
    ids = []
    for version, examples, wrong in ((1, first, 0), (2, second, 8)):
        Dataset(examples, "versions").save("data.json")
        assert run_command(["datasets", "push", "data.json"]) == 0
        failing = {f"question {number}" for number in range(wrong)}
        accuracy = Failing(name="accuracy", failing=frozenset(failing))
        result = evaluate(
            Dataset.load(f"dataset://versions@{version}"), str.strip, [accuracy], name="versions", quiet=True,
            journal=False,
        )  # fmt: skip
        Path(f"{version}.json").write_text(JsonExporter().render(result), encoding="utf-8")
        ids.append(push_result(result, server_url=server_url, project_name="parity"))

    here = run_command(["gate", "2.json", "-b", "1.json", "-o", "here.json"])
    there = run_command(["gate", ids[1], "--server", "-b", ids[0], "-o", "there.json"])

    own, of_server = (json.loads(Path(name).read_text("utf-8")) for name in ("here.json", "there.json"))
    assert (there, here) == (1, 1)
    assert of_server["pairedBy"] == "lineage"
    for name in ("status", "pairing", "reasons", "addedCount", "removedCount", "regressedCount"):
        assert of_server[name] == own[name], name
