"""What the page of runs says of a run, and when it marks a fall."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos._core.example import Example
from dokimos._core.metrics import CallMetrics
from dokimos._core.provenance import EvaluatorInfo, Provenance
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, RunResult
from dokimos._dashboard.overview import build_overview, collect_verdicts, drop_since, kind_of
from dokimos.exporters._item_runs import items_of
from dokimos.stats._mcnemar import mcnemar_p


def item(index, score=1.0, *, metrics=None, tags=(), **result):
    example = Example.of(f"q{index}", id=f"case-{index}", tags=list(tags))
    found = EvalResult("numeric", score, success=score >= 0.5, **result)
    return ItemResult(index, example, actual_outputs={"output": "a"}, eval_results=(found,), metrics=metrics)


def overview(*items, **settings):
    result = ExperimentResult(name="desk", runs=(RunResult(item_results=items),), **settings)
    return build_overview(result, items_of(result))


def test_counts_interval_and_tags_are_told():
    told = overview(item(0, tags=["smoke"]), item(1, 0.0, tags=["smoke", "slow"]), item(2))

    assert (told["total"], told["passed"], told["failed"], told["errored"]) == (3, 2, 1, 0)
    assert told["rate"] == pytest.approx(2 / 3, abs=1e-6)
    low, high = told["interval"]
    assert low < told["rate"] < high
    assert told["tags"] == {"smoke": [1, 2], "slow": [0, 1]}


def test_a_cost_that_nobody_knows_stays_unknown():
    told = overview(item(0, metrics=CallMetrics(10, 5)), item(1, metrics=CallMetrics(10, 5, cost_usd=0.5)))

    assert (told["cost"], told["priced"], told["tokenized"]) == (0.5, 1, 2)
    assert overview(item(0, metrics=CallMetrics(10, 5)))["cost"] is None
    assert overview(item(0))["tokens"] is None


def test_version_model_and_times_come_from_the_run():
    source = Provenance(
        run_id="r1", started_at="2026-01-01T10:00:00+00:00", ended_at="2026-01-01T10:00:02.5+00:00"
    )
    told = overview(item(0), metadata={"promptVersion": "1.2", "model": "m"}, provenance=source)

    assert (told["id"], told["version"], told["model"], told["seconds"]) == ("r1", "1.2", "m", 2.5)
    assert told["facts"]["metadata: promptVersion"] == "1.2"
    assert overview(item(0))["version"] == ""


@pytest.mark.parametrize(
    ("name", "registered", "kind"),
    [
        ("Expected Tools", None, "tools"),
        ("Turns Answered", None, "conversation"),
        ("mine", None, "code"),
        ("x", "numeric", "standard"),
        ("x", "rouge", "standard"),
        ("x", "g_eval", "geval"),
        ("x", "faithfulness", "rag"),
        ("x", "correctness", "judge"),
        ("x", "task_completion", "agent"),
        ("x", "from_elsewhere", "standard"),
    ],
)
def test_metrics_are_grouped_by_their_kind(name, registered, kind):
    assert kind_of(name, EvaluatorInfo(name=name, registry_name=registered)) == kind


def test_a_fall_on_the_same_cases_is_marked_with_what_chance_would_do():
    before = {f"c{n}": True for n in range(20)}
    now = {**before, **{f"c{n}": False for n in range(6)}}

    assert drop_since(before, now) == {"drop": 0.3, "worse": 6, "better": 0, "p": 0.03125}
    assert drop_since(now, before) is None
    assert drop_since(before, {"other": False}) is None
    assert drop_since({**before, "c0": None}, {**before, "c0": False}) is None


@given(st.lists(st.tuples(st.sampled_from([True, False, None]), st.sampled_from([True, False, None]))))
def test_a_marked_fall_agrees_with_its_pairs(pairs):
    before = {str(n): old for n, (old, _) in enumerate(pairs)}
    now = {str(n): new for n, (_, new) in enumerate(pairs)}
    judged = [(old, new) for old, new in pairs if None not in (old, new)]
    worse, better = judged.count((True, False)), judged.count((False, True))

    found = drop_since(before, now)

    assert (found is not None) is (bool(judged) and worse - better > 0.04 * len(judged))
    if found is not None:
        assert (found["worse"], found["better"]) == (worse, better)
        assert found["p"] == pytest.approx(mcnemar_p(worse, better), abs=1e-6)


def test_verdicts_are_those_of_all_repeats():
    runs = tuple(RunResult(index=n, item_results=(item(0, float(n)), item(1))) for n in range(2))

    assert collect_verdicts(items_of(ExperimentResult(runs=runs))) == {"case-0": False, "case-1": True}
