"""Verdicts as JSON and Markdown, against files that a person has read."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from dokimos.comparison import Snapshot
from dokimos.errors import ConfigurationError
from dokimos.gate import GateConfig, GateStatus
from dokimos.gate._decision import Guard, GuardFinding, decide
from dokimos.gate._gate import build_verdict, write_verdict
from dokimos.gate._verdict import GateVerdict
from dokimos.gate._verdict_markdown import overall, read_verdicts, render_markdown

GOLDEN = Path(__file__).parents[2] / "data" / "gate"


def verdict(before, now, name="support", **options):
    config = GateConfig(**options)
    decision = decide(Snapshot.of(before), Snapshot.of(now), config)
    return build_verdict(
        decision,
        config,
        name=name,
        baseline="tests/baselines/support.json",
        accept_command="DOKIMOS_UPDATE_BASELINE=true pytest tests/test_support.py::test_gate",
    )


@pytest.fixture
def failed(result, item, joined):
    before = result({"Match": [1] * 20, "Judge": [0.9] * 20, "WER": [0.1] * 20}, lower=["WER"])
    now = result(
        {
            "Match": [0] * 7 + [1] * 13,
            "Judge": [0.5] * 8 + [0.9] * 12,
            "WER": [0.1] * 18 + [0.45, 0.2],
        },
        lower=["WER"],
    )
    errored = item(19, {"Match": 1, "Judge": 0.9}, errors={"WER": "ValueError: <b>|no words|</b>"})
    return before, replace(
        now,
        runs=(replace(now.runs[0], item_results=(*now.runs[0].item_results[:19], errored), summary=None),),
    )


@pytest.fixture
def cases(failed, result):
    before, now = failed
    small = result({"Match": [1, 1, 1, 1]})
    return {
        "fail": verdict(before, now),
        "pass": verdict(before, before),
        "inconclusive": verdict(small, small, require_power=0.8),
        "no-baseline": GateVerdict(
            status=GateStatus.NO_BASELINE,
            name="support",
            config=GateConfig(),
            candidate_pass_rate=0.75,
            no_baseline=GuardFinding(Guard.NO_BASELINE, "There is no baseline at x.json.", fails=False),
            baseline="x.json",
        ),
    }


@pytest.mark.parametrize("case", ["fail", "pass", "inconclusive", "no-baseline"])
def test_a_verdict_reads_as_it_was_approved(cases, case):
    found = cases[case]

    assert found.to_markdown() == (GOLDEN / f"{case}.md").read_text(encoding="utf-8")
    assert found.tree() == json.loads((GOLDEN / f"{case}.json").read_text(encoding="utf-8"))
    assert found.message + "\n" == (GOLDEN / f"{case}.txt").read_text(encoding="utf-8")


def test_the_documented_members_are_there(cases):
    documented = {
        "status", "passed", "pairing", "candidatePassRate", "significant", "improvedCount", "regressedCount",
        "totalRegressedCases", "unchangedCount", "addedCount", "removedCount", "regressedEvaluators", "cases",
        "casesTruncated", "comparedPass", "warnings",
    }  # fmt: skip
    compared = documented | {"baselinePassRate", "passRateDelta"}

    for name, found in cases.items():
        assert found.tree().keys() >= (documented if name == "no-baseline" else compared)


def test_an_item_with_a_drop_in_doubt_is_not_among_the_unchanged(runs):
    flaky = [{"A": [*[1.0] * 7, flip]} for flip in (1.0, 0.0, 1.0)]
    now = [{"A": [0.0, *run["A"][1:]]} for run in flaky]
    sides = (Snapshot.of(runs(side, noisy=["A"])) for side in (flaky, now))

    found = build_verdict(decide(*sides, GateConfig()), GateConfig(), name="x")

    assert (found.tree()["explainedCount"], found.tree()["unchangedCount"]) == (1, 8)
    assert "| Unchanged items | 7 |" in found.to_markdown()


def test_the_p_value_in_the_file_is_the_marginal_one(cases):
    tree = cases["fail"].tree()
    by_name = {entry["evaluator"]: entry for entry in tree["regressedEvaluators"]}

    assert by_name["Match"]["pValue"] == 0.015625
    assert by_name["Match"]["adjustedPValue"] >= 0.015625
    assert by_name["Match"]["method"] == "permutation"


def test_cases_are_capped_and_say_so(result):
    tree = verdict(result({"A": [1] * 60}), result({"A": [0] * 60})).tree()

    assert len(tree["cases"]) == 50
    assert (tree["totalRegressedCases"], tree["casesTruncated"]) == (60, True)
    assert "_Showing 50 of 60._" in render_markdown(tree)


def test_an_error_is_no_score_in_the_file(cases):
    drops = [
        drop
        for case in cases["fail"].tree()["cases"]
        for drop in case["evaluatorDrops"]
        if drop.get("error") is not None
    ]

    assert len(drops) == 1
    assert "candidateMean" not in drops[0]


def test_foreign_text_is_never_markup(result):
    before = result({"</details> **A** | @team <img src=x>": [1, 1]}, name="n")
    now = result({"</details> **A** | @team <img src=x>": [1, 0]}, name="n")

    text = verdict(before, now, name="x --> <script>").to_markdown()

    outside_code = re.sub(r"(`+).*?\1", "", text)
    assert text.splitlines()[0] == "<!-- dokimos-eval-gate:x------script- -->"
    assert not re.search(r"(?<!\\)<(script|img)|(?<!\\)\*\*|@team", outside_code)
    assert text.count("</details>") - outside_code.count("</details>") >= 2


def test_a_verdict_of_another_implementation_is_rendered():
    tree = {
        "status": "FAIL", "passed": False, "pairing": "positional", "baselinePassRate": 0.9,
        "candidatePassRate": 0.6, "passRateDelta": -0.3, "significant": True, "improvedCount": 0,
        "regressedCount": 3, "totalRegressedCases": 3, "unchangedCount": 7, "addedCount": 0,
        "removedCount": 0, "casesTruncated": False, "comparedPass": True, "warnings": [],
        "regressedEvaluators": [{"evaluator": "Faithfulness", "baselineMean": 0.91, "candidateMean": 0.7,
                                 "delta": -0.21, "pValue": 0.011}],
        "cases": [{"index": "item-4", "evaluatorDrops": [
            {"evaluator": "Faithfulness", "baselineMean": 1.0, "candidateMean": 0.0, "delta": -1.0}]}],
    }  # fmt: skip

    text = render_markdown(tree, "rag")

    assert "| Pass rate | 90.0 % → 60.0 % (-30 pts) |" in text
    assert "| Faithfulness | 0.91 | 0.70 | -0.21 | 0.011 | – |" in text
    assert "- row `item-4`: Faithfulness 1.00 → 0.00" in text


def test_a_long_report_is_cut_below_what_a_comment_holds(result):
    names = {f"Evaluator {'x' * 100} {i}": [1] * 60 for i in range(12)}
    text = verdict(result(names), result({name: [0] * 60 for name in names})).to_markdown()

    assert len(text) <= 60_100


def test_a_folder_of_verdicts_is_read_by_name_and_the_worst_decides(cases, tmp_path):
    write_verdict(replace(cases["pass"], name="b"), tmp_path / "b.json")
    write_verdict(replace(cases["no-baseline"], name="c"), tmp_path / "c.json")
    assert overall(read_verdicts(tmp_path)) == "PASS"
    write_verdict(replace(cases["inconclusive"], name="d"), tmp_path / "d.json")
    assert overall(read_verdicts(tmp_path)) == "INCONCLUSIVE"
    write_verdict(replace(cases["fail"], name="a"), tmp_path / "a.json")

    found = read_verdicts(tmp_path)

    assert [one.name for one in found] == ["a", "b", "c", "d"]
    assert overall(found) == "FAIL"
    assert len({one.marker for one in found}) == 4


@pytest.mark.parametrize(("passed", "passes"), [("true", True), ("false", False), ('"false"', False)])
def test_only_a_plain_true_passes(tmp_path, passed, passes):
    (tmp_path / "x.json").write_text(f'{{"status": "PASS", "passed": {passed}}}')

    assert read_verdicts(tmp_path)[0].passed is passes


def test_errors_of_some_repeats_are_shown_beside_the_score():
    drop = {"evaluator": "Judge", "baselineMean": 0.9, "candidateMean": 0.5, "error": "1 of 3 runs: <503>"}
    tree = {
        "status": "FAIL",
        "pairing": "positional",
        "cases": [{"index": "item-4", "evaluatorDrops": [drop]}],
    }

    assert r"- row `item-4`: Judge 0.90 → 0.50 and error: 1 of 3 runs: \<503\>" in render_markdown(
        tree, "rag"
    )


def test_a_folder_without_verdicts_is_an_error(tmp_path):
    with pytest.raises(ConfigurationError, match="did it run"):
        read_verdicts(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"status": "MAYBE"}',
        '{"status": ["PASS"]}',
        '{"status": "PASS", "pairing": "positional", "addedCount": "some"}',
        '{"status": "FAIL", "reasons": 3}',
    ],
)
def test_a_file_that_is_no_verdict_is_an_error(text, tmp_path):
    (tmp_path / "x.json").write_text(text)

    with pytest.raises(ConfigurationError, match=r"x\.json"):
        read_verdicts(tmp_path)
