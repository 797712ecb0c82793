"""The loss, and what a run has shown of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos._core.example import Example
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, RunResult, RunStatus
from dokimos.errors import ConfigurationError
from dokimos.optimizer._objective import Measured, Objective
from dokimos.optimizer._suite_bench import parse_measured, split_cases
from dokimos.suites import load_suite

SUITE = """\
name: s
agent: app:answer
evaluations:
  metrics:
    - {type: standard, metric: numeric}
    - {type: standard, metric: bleu}
    - {type: standard, metric: numeric, name: Loose, relative_tolerance: 0.1}
    - {type: evaluator, name: wer, enabled: true}
test_cases:
  - {name: a, input: "price", ground_truth: 60.94}
"""


@pytest.fixture
def cases(tmp_path, monkeypatch):
    (tmp_path / "app.py").write_text("def answer(question):\n    return '60.94'\n")
    (tmp_path / "agent.yaml").write_text(SUITE)
    return load_suite(tmp_path / "agent.yaml").cases_to_run


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("numeric", ["numeric"]),
        ("BLEU", ["BLEU"]),
        ("bleu", None),
        ("loose", ["Loose"]),
        ("Loose", ["Loose"]),
    ],
)
def test_a_metric_of_the_loss_is_found_by_its_name_or_its_kind(cases, key, names):
    found = list(Objective.of({key: 1}, cases).parts)

    assert found == names or (names is None and len(found) == 1 and "bleu" in found[0].lower())


def test_a_metric_that_no_case_has_is_refused_with_the_nearest(cases):
    with pytest.raises(
        ConfigurationError, match=r"no case has the metric 'numerc'\. Did you mean 'numeric'\?"
    ):
        Objective.of({"numerc": 1}, cases)


OBJECTIVE = Objective(weights={"a": 3.0, "b": 1.0}, parts={}, planned={})


def test_the_loss_is_one_less_the_weighted_mean_of_the_metrics_means():
    scores = {"x": {"a": [1.0], "b": [0.0]}, "y": {"a": [0.5]}}

    assert OBJECTIVE.loss(scores) == pytest.approx(1 - (3 * 0.75 + 1 * 0.0) / 4)


def test_weights_are_those_of_the_metrics_that_have_a_score():
    assert OBJECTIVE.loss({"x": {"b": [0.25]}}) == pytest.approx(0.75)
    assert OBJECTIVE.loss({}) is None


SCORES = st.dictionaries(
    st.sampled_from("pqrst"),
    st.fixed_dictionaries({"a": st.lists(st.floats(0, 1), min_size=2, max_size=2)},
                          optional={"b": st.lists(st.floats(0, 1), min_size=2, max_size=2)}),
    min_size=1,
)  # fmt: skip


@given(SCORES, st.data())
def test_the_mean_of_the_cases_improvements_is_the_difference_of_the_losses(base, data):
    drawn = {
        case: {key: data.draw(st.lists(st.floats(0, 1), min_size=1, max_size=3)) for key in by_metric}
        for case, by_metric in base.items()
    }

    improvements = OBJECTIVE.improvements(base, drawn)

    mean = sum(improvements.values()) / len(improvements)
    assert mean == pytest.approx(OBJECTIVE.loss(base) - OBJECTIVE.loss(drawn), abs=1e-9)


def test_a_metric_counts_for_the_cases_that_have_it_on_both_sides():
    base = {"x": {"a": [0.0]}, "y": {"a": [1.0]}}

    assert OBJECTIVE.improvements(base, {"x": {"a": [1.0]}, "z": {"a": [1.0]}}) == {"x": 1.0}


def item(case, *results, error=None, metrics=None, index=0):
    example = Example(
        {"input": f"question {case}"}, {"output": "truth"}, metadata={"case": case}, id=f"{case} [1/2]"
    )
    outputs = {} if error else {"output": "reply " * 400}
    return ItemResult(
        index, example, actual_outputs=outputs, eval_results=results, error=error, metrics=metrics
    )


def result(*items, **changes):
    return ExperimentResult(runs=(RunResult(item_results=items),), **changes)


def measured(cases, *items, **changes):
    return Objective.of({"numeric": 1, "wer": 1}, cases).measure(result(*items, **changes))


def wer(cases):
    return next(e.name for e in cases[0].evaluators if e.lower_is_better)


def test_scores_to_be_kept_low_are_turned_round_and_repeats_belong_to_their_case(cases):
    one = item("a", EvalResult("numeric", 1.0), EvalResult(wer(cases), 0.25))
    two = item("a", EvalResult("numeric", 0.0), EvalResult("Loose", 0.0), index=1)

    found = measured(cases, one, two)

    assert found.scores == {"a": {"numeric": [1.0, 0.0], "wer": [0.75]}}
    assert found.cases == 1


def test_a_case_without_a_reply_scores_nothing_and_an_evaluator_that_errored_is_left_out(cases):
    failed = item("a", error="ConnectionError: down")
    judged = item("b", EvalResult("numeric", error="JudgeError"), EvalResult(wer(cases), 0.0), index=1)

    found = measured(cases, failed, judged)

    assert found.scores == {
        "a": {"numeric": [0.0], "wer": [0.0]},
        "b": {"wer": [1.0]},
    }
    assert found.errored == 1


def test_a_run_in_which_nothing_replied_shows_nothing(cases):
    found = measured(cases, item("a", error="ConnectionError: down"), status=RunStatus.BROKEN)

    assert found.loss is None
    assert "ConnectionError: down" in found.error


def test_costs_are_what_is_known_of_them(cases):
    priced = item(
        "a", EvalResult("numeric", 1.0), metrics=CallMetrics(tokens_in=10, tokens_out=5, cost_usd=0.2)
    )
    unpriced = item("b", EvalResult("numeric", 1.0), index=1)

    assert measured(cases, priced, unpriced).case_cost_usd == pytest.approx(0.2)
    assert (measured(cases, priced).cost_usd, measured(cases, priced).tokens) == (pytest.approx(0.2), 15)
    assert (measured(cases, unpriced).cost_usd, measured(cases, unpriced).tokens) == (None, None)


def test_the_worst_cases_are_kept_short_for_who_rewrites_the_instructions(cases):
    items = [item(f"c{n}", EvalResult("numeric", n / 10, reason="off"), index=n) for n in range(9)]
    items.append(item("dead", error="TimeoutError", index=9))
    items.append(item("fine", EvalResult("numeric", 1.0), index=10))

    failures = measured(cases, *items).failures

    assert [failure.case for failure in failures] == ["dead", "c0", "c1", "c2", "c3"]
    assert failures[0].reasons == ("no reply: TimeoutError",)
    assert failures[1].reasons == ("numeric 0.00: off",)
    assert len(failures[1].reply) < 650


def test_what_a_run_has_shown_reads_back_from_the_journal(cases):
    from dokimos._core.jsonable import jsonable

    found = measured(cases, item("a", EvalResult("numeric", 0.5, reason="off")))

    assert parse_measured(jsonable(found)) == found
    assert isinstance(found, Measured)


@given(st.integers(0, 40), st.floats(0, 0.99), st.integers(0, 5))
def test_every_case_is_in_one_split_and_the_same_one_each_time(count, share, seed):
    ids = [f"case {n}" for n in range(count)]

    splits = split_cases(ids, share, seed)

    assert sorted(splits["train"] + splits["holdout"]) == sorted(ids)
    assert splits == split_cases(ids, share, seed)
    assert not share or count < 2 or (splits["train"] and splits["holdout"])
    assert share or not splits["holdout"]
