"""What a comparison finds: changes, their certainty, and which items they are on."""

from dataclasses import replace

import pytest
from scipy import stats

from dokimos._core.results import RunStatus
from dokimos.comparison import Change, ComparisonConfig, Pairing, Snapshot, compare_runs
from dokimos.comparison._diff import Method
from dokimos.comparison._markdown import verdict_text
from dokimos.comparison._tree import metric_tree
from dokimos.comparison._wording import change_sentence, evidence_sentence, interval, interval_with_note
from dokimos.errors import ConfigurationError
from dokimos.stats._paired_estimates import mean_estimate


def test_the_same_result_is_unchanged(result):
    same = result({"Match": [1, 0, 1, 1], "F1": [0.5, 0.7, 0.2, 0.9]})

    found = compare_runs(same, same)

    assert not found.has_regressions
    assert [metric.p_value for metric in found.metrics] == [1.0, 1.0, 1.0]
    assert found.count(Change.UNCHANGED) == 4
    assert found.pass_rate.delta == 0.0


def test_changes_that_are_all_the_same_are_not_certain(result):
    found = compare_runs(result({"F1": [0.9] * 10}), result({"F1": [0.8] * 10})).evaluators[0]

    assert found.delta == pytest.approx(-0.1)
    assert found.interval.low < -0.3
    assert -0.1 < found.interval.high < 0.3


def test_six_items_that_fail_of_twenty_are_a_regression_and_five_are_not(result):
    before = result({"Match": [1] * 20})

    five = compare_runs(before, result({"Match": [0] * 5 + [1] * 15}))
    six = compare_runs(before, result({"Match": [0] * 6 + [1] * 14}))

    assert five.pass_rate.p_value == 0.0625
    assert not five.has_regressions
    assert six.pass_rate.p_value == six.pass_rate.adjusted_p_value == 0.03125
    assert six.pass_rate_regressed
    assert [one.name for one in six.regressed_evaluators] == ["Match"]
    assert (six.pass_rate.worse, six.pass_rate.better) == (6, 0)
    assert six.pass_rate.delta == pytest.approx(-0.3)


def test_verdicts_of_one_run_are_tested_by_mcnemar_exactly(result):
    before = result({"Match": [1] * 30 + [0] * 10})
    now = result({"Match": [0] * 12 + [1] * 18 + [1] * 2 + [0] * 8})

    rate = compare_runs(before, now).pass_rate

    assert rate.method is Method.MCNEMAR
    assert rate.p_value == pytest.approx(stats.binomtest(2, 14, 0.5).pvalue)


def test_repeats_are_tested_by_permutation_of_their_means(runs):
    before = runs([{"Match": [1] * 10}, {"Match": [1] * 10}])
    now = runs([{"Match": [0] * 6 + [1] * 4}, {"Match": [1] * 10}])

    rate = compare_runs(before, now).pass_rate

    assert rate.method is Method.PERMUTATION
    assert rate.p_value == 0.03125
    assert rate.candidate_mean == pytest.approx(0.7)


def test_several_results_of_a_side_are_repeats_of_each_other(result, runs):
    one, two = {"Match": [1, 1, 0]}, {"Match": [1, 0, 0]}

    together = compare_runs([result(one), result(two)], result(one))

    assert (
        together.pass_rate.baseline_mean
        == compare_runs(runs([one, two]), result(one)).pass_rate.baseline_mean
    )
    assert together.pass_rate.baseline_mean == pytest.approx(0.5)


def test_one_noisy_item_is_no_regression(result):
    found = compare_runs(
        result({"Judge": [0.9, 0.8, 0.7, 0.9, 0.8]}), result({"Judge": [0.9, 0.8, 0.7, 0.9, 0.1]})
    )

    assert not found.has_regressions
    assert found.evaluator("Judge").delta == pytest.approx(-0.14)
    assert found.count(Change.REGRESSED) == 0


def test_an_evaluator_can_regress_while_the_pass_rate_does_not(result):
    found = compare_runs(result({"Judge": [0.9] * 10}), result({"Judge": [0.8] * 8 + [0.9] * 2}))

    assert not found.pass_rate_regressed
    assert found.evaluator("Judge").change is Change.REGRESSED
    assert found.count(Change.REGRESSED) == 8


def test_a_score_to_be_kept_low_regresses_when_it_rises(result):
    low = result({"Hallucination": [0.1] * 10}, lower=["Hallucination"])
    high = result({"Hallucination": [0.4] * 10}, lower=["Hallucination"])

    worse, better = compare_runs(low, high), compare_runs(high, low)

    assert worse.evaluator("Hallucination").change is Change.REGRESSED
    assert worse.evaluator("Hallucination").worse == 10
    assert worse.count(Change.REGRESSED) == 10
    assert better.evaluator("Hallucination").change is Change.IMPROVED


def test_an_evaluator_alone_has_the_same_p_value_among_others(result):
    before = {"A": [0.9, 0.8, 0.7, 0.6, 0.9, 0.8] * 4, "B": [0.5, 0.6] * 12, "C": [0.1, 0.9] * 12}
    now = {"A": [0.8, 0.9, 0.5, 0.5, 0.7, 0.8] * 4, "B": [0.6, 0.5] * 12, "C": [0.9, 0.1] * 12}

    all_of_them = compare_runs(result(before), result(now))
    alone = compare_runs(result({"A": before["A"]}), result({"A": now["A"]}))

    assert all_of_them.evaluator("A").p_value == alone.evaluator("A").p_value
    assert all_of_them.evaluator("A").adjusted_p_value >= all_of_them.evaluator("A").p_value


def test_no_correction_leaves_p_values_and_holm_multiplies_them(result):
    before = result({name: [1] * 12 for name in "ABC"})
    now = result({"A": [0] * 6 + [1] * 6, "B": [1] * 12, "C": [1] * 12})

    def p_of(correction):
        found = compare_runs(before, now, config=ComparisonConfig(correction=correction)).evaluator("A")
        return found.p_value, found.adjusted_p_value

    assert p_of("none") == (0.03125, 0.03125)
    assert p_of("holm") == (0.03125, 0.125)
    assert p_of("bh") == (0.03125, 0.0625)
    assert p_of("westfall-young") == (0.03125, 0.03125)


def test_metrics_that_move_together_cost_nothing(result):
    before = result({name: [1] * 20 for name in "ABCDEFGHIJ"})
    now = result({name: [0] * 6 + [1] * 14 for name in "ABCDEFGHIJ"})

    assert all(metric.adjusted_p_value == 0.03125 for metric in compare_runs(before, now).metrics)


def test_added_easy_items_do_not_mask_a_drop(result):
    before = result({"Match": [1] * 10})
    now = result({"Match": [0] * 7 + [1] * 3 + [1] * 100})

    found = compare_runs(before, now)

    assert found.pass_rate_regressed
    assert found.pass_rate.delta == pytest.approx(-0.7)
    assert found.candidate_pass_rate == pytest.approx(103 / 110)
    assert found.count(Change.ADDED) == 100


def test_removed_hard_items_make_no_improvement(result):
    before = result({"Match": [1] * 10 + [0] * 10})

    found = compare_runs(before, result({"Match": [1] * 10}))

    assert found.pass_rate.delta == 0.0
    assert found.count(Change.REMOVED) == 10
    assert found.composition_changed


def test_items_are_paired_by_id_wherever_they_stand(item, joined):
    before = joined(*(item(i, {"Match": i % 2}) for i in range(6)))
    moved = tuple(replace(one, index=5 - one.index) for one in reversed(before.item_results))

    found = compare_runs(before, joined(*moved))

    assert found.pairing is Pairing.DATASET_ITEM_ID
    assert found.pass_rate.worse == found.pass_rate.better == 0


def test_without_ids_items_are_paired_by_position_and_moved_ones_are_noticed(item, joined):
    before = joined(*(item(i, {"Match": 1}, ids=False) for i in range(3)))
    moved = joined(*(item(i + 1, {"Match": 1}, ids=False) for i in range(2)))
    now = joined(*(replace(one, index=place) for place, one in enumerate(moved.item_results)))

    found = compare_runs(before, now)

    assert found.pairing is Pairing.POSITIONAL
    assert any("2 items of 2 paired by position have a different input" in text for text in found.warnings)


def test_pairing_by_ids_that_are_missing_is_refused(item, joined):
    config = ComparisonConfig(pairing="dataset_item_id")
    with pytest.raises(ConfigurationError, match="1 of 2 items has no id"):
        compare_runs(
            joined(item(0, {"Match": 1}), item(1, {"Match": 1}, ids=False)),
            joined(item(0, {"Match": 1})),
            config=config,
        )


def test_an_id_that_two_items_share_is_refused(item, joined):
    twice = joined(item(0, {"Match": 1}), replace(item(0, {"Match": 1}), index=1))

    with pytest.raises(ConfigurationError, match="two items have the id 'q-0'"):
        compare_runs(twice, twice)


def test_an_id_that_two_items_of_one_repeat_share_is_refused(item, joined):
    twice = joined(item(0, {"Match": 1}), replace(item(0, {"Match": 1}), index=1), item(2, {"Match": 1}))

    with pytest.raises(ConfigurationError, match="There are 4 results of 'q-0' in 2 runs"):
        compare_runs([twice, twice], twice)


def test_an_id_that_looks_like_a_position_stays_an_id(item, joined):
    one = item(0, {"Match": 1})
    named = replace(one, example=replace(one.example, id="item-7"))

    found = compare_runs(joined(named), joined(named))

    assert found.pairing is Pairing.DATASET_ITEM_ID
    assert found.items[0].dataset_item_id == "item-7"


def test_an_errored_item_did_not_pass_and_has_no_scores(item, joined):
    before = joined(*(item(i, {"Match": 1}) for i in range(8)))
    now = joined(
        *(item(i, {"Match": 1}) for i in range(2)),
        *(item(i, {}, error="TimeoutError: 30 s") for i in range(2, 8)),
    )

    found = compare_runs(before, now)

    assert found.pass_rate.candidate_mean == 0.25
    assert found.evaluator("Match").n == 2
    assert any("6 of 8 items in the candidate have errors" in text for text in found.warnings)


def test_a_score_that_went_missing_without_an_error_is_told(item, joined):
    before = joined(
        item(0, {"Match": 1, "F1": 0.5}), item(1, {"Match": 1, "F1": 0.5}), evaluators=("Match", "F1")
    )
    now = joined(item(0, {"Match": 1, "F1": 0.5}), item(1, {"Match": 1}), evaluators=("Match", "F1"))

    found = compare_runs(before, now)

    assert "F1 gave no score for 1 item that it scored in the baseline; they are excluded." in found.warnings


def test_evaluators_of_one_side_only_are_named(result):
    found = compare_runs(result({"A": [1, 1], "B": [1, 1]}), result({"A": [1, 1], "C": [1, 1]}))

    assert (found.removed_evaluators, found.added_evaluators) == (("B",), ("C",))
    assert found.evaluator("B").delta is None
    assert found.evaluator("B").p_value == 1.0


def test_another_threshold_or_configuration_is_told(result):
    before, now = result({"A": [1, 1]}, threshold=0.5), result({"A": [1, 1]}, threshold=0.8)
    other = replace(before, evaluators=(replace(before.evaluators[0], fingerprint="other"),))

    assert any("threshold of A was 0.5" in text for text in compare_runs(before, now).warnings)
    assert any("A is configured differently" in text for text in compare_runs(before, other).warnings)


def test_unequal_numbers_of_runs_are_told(result, runs):
    found = compare_runs(runs([{"A": [1, 1]}] * 3), result({"A": [1, 1]}))

    assert any("The baseline has 3 runs and the candidate 1" in text for text in found.warnings)


def test_a_test_uses_as_many_repeats_of_either_side(result, runs):
    before = [{"A": [0.9, 0.8, 0.7, 0.9]}, {"A": [0.1, 0.1, 0.2, 0.1]}, {"A": [0.1, 0.2, 0.1, 0.3]}]
    now = {"A": [0.6, 0.7, 0.6, 0.8]}

    found = compare_runs(runs(before), result(now)).evaluator("A")
    first = compare_runs(result(before[0]), result(now)).evaluator("A")

    assert found.p_value == first.p_value
    assert found.detectable_drop == first.detectable_drop
    assert found.baseline_mean == pytest.approx(4.5 / 12)


def test_a_change_that_only_the_repeats_that_were_not_tested_show_is_none(result, runs):
    low, high = {"A": [0.1] * 8}, {"A": [0.9] * 8}

    found = compare_runs(result({"A": [0.5] * 8}), runs([low, high, high])).evaluator("A")

    assert found.significant
    assert found.delta > 0
    assert found.change is Change.UNCHANGED


def test_fewer_than_two_shared_items_decide_nothing(result):
    found = compare_runs(result({"A": [1]}), result({"A": [0]}))

    assert found.pass_rate.method is Method.NONE
    assert found.pass_rate.p_value == 1.0
    assert found.items[0].pass_flip


def test_an_item_that_nothing_judged_has_no_verdict(result):
    found = compare_runs(result({"A": [1, 0]}, threshold=None), result({"A": [0, 0]}, threshold=None))

    assert found.pass_rate.n == 0
    assert found.pass_rate.baseline_mean is None
    assert found.evaluator("A").n == 2


def test_where_nothing_was_judged_an_evaluator_leads(result):
    before = result({"A": [0.5] * 8, "B": [0.5] * 8}, threshold=None)
    now = result({"A": [0.5] * 8, "B": [0.4] * 8}, threshold=None)

    assert compare_runs(before, now).leading.name == "B"
    assert compare_runs(before, replace(now, runs=())).leading is None


def test_changes_up_to_epsilon_are_none(result):
    before, now = result({"A": [0.9] * 20}), result({"A": [0.899] * 20})

    assert compare_runs(before, now).evaluator("A").change is Change.UNCHANGED
    sharper = compare_runs(before, now, config=ComparisonConfig(epsilon=0.0005))
    assert sharper.evaluator("A").change is Change.REGRESSED


def test_regressed_items_come_first_and_the_worst_of_them_before_the_others(result):
    before = {"A": [1.0] * 12}
    now = {"A": [0.9, 0.2, 0.6, 0.8, 0.7, 0.9, 0.8, 1.0, 1.0, 1.0, 1.0, 1.0]}

    found = compare_runs(result(before, threshold=0.1), result(now, threshold=0.1))

    assert [item.key for item in found.cases()][:7] == [f"q-{i}" for i in range(7)]
    assert [item.key for item in found.most_moved(Change.REGRESSED)][:3] == ["q-1", "q-2", "q-4"]


BEFORE = [0.9, 0.8, 0.7, 0.6, 0.9, 0.8, 0.4, 0.5]
NOW = [0.8, 0.7, 0.7, 0.5, 0.6, 0.8, 0.5, 0.4]


def test_an_interval_is_a_bootstraps(result):
    metric = compare_runs(result({"A": BEFORE * 5}), result({"A": NOW * 5})).evaluator("A")
    deltas = [b - a for a, b in zip(BEFORE * 5, NOW * 5, strict=True)]

    oracle = stats.bootstrap((deltas,), lambda x, axis: x.mean(axis), method="percentile", rng=1)

    assert metric.interval.low == pytest.approx(oracle.confidence_interval.low, abs=0.01)
    assert metric.interval.high == pytest.approx(oracle.confidence_interval.high, abs=0.01)


def test_an_interval_of_few_items_is_never_narrower_than_students(result):
    metric = compare_runs(result({"A": BEFORE}), result({"A": NOW})).evaluator("A")
    deltas = [b - a for a, b in zip(BEFORE, NOW, strict=True)]

    oracle = stats.ttest_1samp(deltas, 0).confidence_interval()
    estimate = mean_estimate(deltas, within=(-1.0, 1.0))

    assert metric.interval.low < oracle.low - 0.01  # the differences are skewed to the left
    assert metric.interval.high >= oracle.high - 1e-12
    assert metric.interval.low == pytest.approx(estimate.interval.low)


def test_what_a_test_could_see_of_scores_depends_on_how_many_items_fall(result):
    before = [0.5 + 0.01 * (i * 7 % 11) for i in range(40)]
    now = [0.5 + 0.01 * (i * 5 % 11) for i in range(40)]
    judge = compare_runs(result({"A": before}), result({"A": now})).evaluator("A")
    verdicts = compare_runs(result({"A": [1.0] * 40}), result({"A": [1.0] * 40})).evaluator("A")

    said = evidence_sentence(judge, 2)

    assert judge.detectable_drop < 0.04 < 2 * judge.detectable_drop < judge.uneven_detectable_drop
    assert "points on where all items fall alike, and from" in said
    assert said.endswith("on where a tenth of them fall.")
    assert verdicts.uneven_detectable_drop == verdicts.detectable_drop
    assert "alike" not in evidence_sentence(verdicts, 2)


def test_an_interval_of_few_items_says_how_often_it_covers(result):
    few, more, verdicts = (
        compare_runs(result({"A": before}), result({"A": now})).evaluator("A")
        for before, now in ((BEFORE, NOW), (BEFORE * 2, NOW * 2), ([1.0] * 8, [0.0] * 3 + [1.0] * 5))
    )

    assert few.interval_coverage == 0.9
    assert interval_with_note(few).endswith("(n = 8: covers about 90 %)")
    assert "(n = 8: covers about 90 %)" in change_sentence(few)
    assert metric_tree(few)["intervalCoverage"] == 0.9
    assert more.interval_coverage is verdicts.interval_coverage is None
    assert interval_with_note(more) == interval(more)
    assert "intervalCoverage" not in metric_tree(more)


def test_an_interval_never_leaves_what_scores_can_differ_by(result):
    metric = compare_runs(result({"A": [1.0, 1.0, 1.0]}), result({"A": [0.1, 0.1, 1.0]})).evaluator("A")

    assert (metric.interval.low, metric.interval.high) == (-1.0, pytest.approx(0.79, abs=0.01))


@pytest.mark.parametrize("repeats", [1, 3])
def test_verdicts_that_never_change_have_an_interval_with_a_width(runs, repeats):
    several = runs([{"A": [1] * 40}] * repeats)
    found = compare_runs(several, several)

    for metric in (found.pass_rate, found.evaluator("A")):
        assert (metric.interval.low, metric.interval.high) == pytest.approx((-0.0876, 0.0876), abs=1e-4)


def test_the_interval_of_scores_that_fell_by_all_is_that_of_verdicts(runs):
    before, after = (
        runs([{"A": [0] * 10}] * 2, lower=["A"]),
        runs([{"A": [1] * 3 + [0] * 7}] * 2, lower=["A"]),
    )
    found = compare_runs(before, after)

    rate, score = found.pass_rate.interval, found.evaluator("A").interval
    assert (score.low, score.high) == pytest.approx((-rate.high, -rate.low))
    assert score.low < 0.3 < score.high


def test_the_detectable_drop_shrinks_with_more_items(result):
    few, many = (compare_runs(r, r).pass_rate for r in (result({"A": [1] * 20}), result({"A": [1] * 200})))

    assert 0 < many.detectable_drop < few.detectable_drop < 1
    assert many.items_needed(0.05) == few.items_needed(0.05) > 100


def test_a_comparison_of_too_few_items_sees_nothing_at_all(result):
    assert compare_runs(result({"A": [1] * 4}), result({"A": [1] * 4})).pass_rate.detectable_drop is None


def test_the_numbers_do_not_depend_on_the_order_of_the_items(result):
    before = {"A": [0.9, 0.1, 0.5, 0.7, 0.3, 0.8] * 5}
    now = {"A": [0.7, 0.2, 0.4, 0.7, 0.1, 0.9] * 5}
    shuffled = replace(
        result(now), runs=(replace(result(now).runs[0], item_results=result(now).item_results[::-1]),)
    )

    assert [m.p_value for m in compare_runs(result(before), result(now)).metrics] == [
        m.p_value for m in compare_runs(result(before), shuffled).metrics
    ]


def test_a_result_that_kept_no_items_is_refused(result):
    whole = result({"A": [1, 1]})
    emptied = replace(whole, runs=(replace(whole.runs[0], item_results=()),))

    with pytest.raises(ConfigurationError, match="were not kept"):
        compare_runs(whole, emptied)


def test_an_empty_candidate_leaves_every_item_removed(result):
    whole = result({"A": [1, 1]})

    found = compare_runs(whole, replace(whole, runs=(), status=RunStatus.COMPLETED))

    assert found.count(Change.REMOVED) == 2
    assert found.candidate_pass_rate is None


@pytest.mark.parametrize(
    "wrong",
    [{"alpha": 0}, {"alpha": 1.5}, {"correction": "fdr"}, {"pairing": "id"}, {"permutation_iterations": 0}],
)
def test_wrong_options_are_refused(wrong):
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        ComparisonConfig(**wrong)


def test_a_snapshot_of_something_else_is_refused():
    with pytest.raises(ConfigurationError, match="ExperimentResult"):
        Snapshot.of([])


def test_sides_without_a_common_item_are_not_called_unchanged(result):
    before, now = Snapshot.of(result({"F1": [0.9] * 4})), Snapshot.of(result({"F1": [0.1] * 4}))

    def with_ids(side: Snapshot, prefix: str) -> Snapshot:
        items = [replace(item, id=f"{prefix}{item.index}") for item in side.items]
        return replace(side, items=tuple(items))

    found = compare_runs(with_ids(before, "a"), with_ids(now, "b"))

    assert verdict_text(found) == "Nothing was compared"
    assert any("no item in common, so nothing was compared" in text for text in found.warnings)


def test_a_candidate_that_lacks_many_items_or_an_evaluator_says_so(result):
    before = result({"F1": [0.9] * 10, "Match": [1] * 10})

    found = compare_runs(before, result({"F1": [0.9] * 7}))

    assert any("The candidate lacks 3 of the 10 items of the baseline" in text for text in found.warnings)
    assert "The candidate has no 'Match': not compared." in found.warnings
    assert not any("lacks" in text for text in compare_runs(before, result({"F1": [0.9] * 8})).warnings)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("base.json", r"not 'base.json'\. load_result\(path\) reads one"),
        (None, "not None"),
        ([], r"not \[\]"),
        ([1], "not 1"),
    ],
)
def test_what_is_not_a_result_is_named(given, says):
    with pytest.raises(ConfigurationError, match=says):
        compare_runs(given, given)
