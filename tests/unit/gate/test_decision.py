"""Which guards fire, and which do not."""

from dataclasses import replace
from itertools import combinations

import pytest

from dokimos._core.provenance import EvaluatorInfo
from dokimos._core.results import EvalResult, ExperimentResult, RunResult, RunStatus
from dokimos.comparison import Pairing, Snapshot
from dokimos.errors import ConfigurationError
from dokimos.gate import GateConfig
from dokimos.gate._decision import Guard, decide
from dokimos.gate._gate import build_verdict
from dokimos.gate._severity import RerunScores


def decide_on(before, now, **options):
    return decide(Snapshot.of(before), Snapshot.of(now), GateConfig(**options))


def guards(decision):
    return [one.guard for one in decision.findings if one.fails]


def test_an_unchanged_result_passes(result):
    same = result({"Match": [1, 0, 1, 1]})

    decision = decide_on(same, same)

    assert not decision.is_failing
    assert decision.findings == ()


def test_guard_1_fires_on_a_broad_drop_and_says_how_certain_it_is(result):
    decision = decide_on(result({"Match": [1] * 20}), result({"Match": [0] * 6 + [1] * 14}), severity="off")

    assert guards(decision) == [Guard.REGRESSION, Guard.REGRESSION]
    reason = decision.findings[0].reason
    assert reason.startswith("The pass rate fell from 100.0 % to 70.0 % (-30 pts, 95 % interval")
    assert "p = 0.0312" in reason or "p = 0.0313" in reason
    assert "n = 20, 6 worse and 0 better" in reason


def test_guard_2_fires_on_one_item_that_fell_by_more_than_the_margin(result):
    before, now = {"Judge": [0.9, 0.8, 0.9]}, {"Judge": [0.9, 0.6, 0.9]}

    assert guards(decide_on(result(before), result(now))) == [Guard.SEVERITY]
    assert guards(decide_on(result(before), result(now), severity_margin=0.25)) == []


def test_a_drop_of_exactly_the_margin_is_let_through(result):
    decision = decide_on(result({"Judge": [0.95, 0.9]}), result({"Judge": [0.8, 0.9]}))

    assert not decision.is_failing


def test_guard_2_looks_up_where_lower_is_better(result):
    low, high = (result({"WER": [0.1, score]}, lower=["WER"]) for score in (0.1, 0.4))

    assert guards(decide_on(low, high)) == [Guard.SEVERITY]
    assert guards(decide_on(high, low)) == []


def test_an_error_where_the_baseline_has_a_score_trips_guard_2_as_an_error(item, joined):
    before = joined(item(0, {"Match": 1}), item(1, {"Match": 1}), item(2, {"Match": 1}))
    now = joined(
        item(0, {"Match": 1}), item(1, {}, errors={"Match": "JudgeReplyError: prose"}), item(2, {"Match": 1})
    )

    decision = decide_on(before, now)

    assert guards(decision) == [Guard.SEVERITY]
    assert decision.drops[0].candidate_mean is None
    assert decision.drops[0].error == "JudgeReplyError: prose"
    assert "q-1: Match 1.00 -> error (JudgeReplyError: prose)" in decision.findings[0].reason


def test_a_failed_task_trips_guard_2_too(item, joined):
    before = joined(*(item(i, {"Match": 1}) for i in range(3)))
    now = joined(item(0, {"Match": 1}), item(1, {"Match": 1}), item(2, {}, error="TimeoutError: 30 s"))

    assert decide_on(before, now).drops[0].error == "TimeoutError: 30 s"


def test_an_error_that_the_baseline_had_too_is_no_drop(item, joined):
    same = joined(item(0, {"Match": 1}), item(1, {}, error="ConnectionError: down"))

    assert not decide_on(same, same).is_failing


def repeated(item, *repeats, noisy=False):
    """Runs of three items, of which the second one's score is given for each run; None for an error."""
    runs = tuple(
        RunResult(
            index=place,
            item_results=tuple(
                item(index, {"Judge": 0.9})
                if index != 1
                else item(
                    1, {} if score is None else {"Judge": score}, error="503" if score is None else None
                )
                for index in range(3)
            ),
        )
        for place, score in enumerate(repeats)
    )
    facts = EvaluatorInfo(name="Judge", threshold=0.5, deterministic=not noisy)
    return ExperimentResult(name="support", runs=runs, evaluators=(facts,))


def test_an_error_in_one_of_several_repeats_is_a_drop_and_says_of_how_many(item):
    decision = decide_on(repeated(item, 0.9, 0.9, 0.9), repeated(item, 0.9, None, 0.9))

    assert guards(decision) == [Guard.SEVERITY]
    assert decision.drops[0].sentence == "q-1: Judge 0.90 -> 0.90 and error (1 of 3 runs: 503)"
    assert decision.drops[0].size == pytest.approx(1 / 3)


def test_as_many_errors_as_in_the_baseline_are_no_drop_and_more_are_one(item):
    before = repeated(item, 0.9, None, 0.9)

    assert not decide_on(before, repeated(item, None, 0.9, 0.9)).is_failing
    assert decide_on(before, repeated(item, None, None, 0.9)).is_failing


@pytest.mark.parametrize(
    ("now", "fails"),
    [
        ((None, 0.5), True),
        ((None, None, 0.5), True),
        ((None, 0.9, 0.9), False),
        ((None, None, None), True),
        ((None, 0.5, 0.85), False),
    ],
)
def test_an_error_confirms_what_the_other_repeats_of_a_noisy_score_show(item, now, fails):
    before = repeated(item, 0.9, 0.9, noisy=True)

    assert decide_on(before, repeated(item, *now, noisy=True), severity="confirmed").is_failing is fails


@pytest.mark.parametrize(
    ("now", "fails"), [((None,) * 6, True), ((None,) * 3 + (0.5,) * 3, True), ((None,) + (0.9,) * 5, False)]
)
def test_a_calibrated_gate_counts_an_error_as_worse_than_any_score(item, now, fails):
    decision = decide_on(repeated(item, *[0.9] * 6), repeated(item, *now), severity="calibrated")

    assert (Guard.SEVERITY in guards(decision)) is fails


def test_errors_of_the_baseline_cost_a_calibrated_gate_its_certainty(item):
    now = repeated(item, *[0.5] * 6)

    assert decide_on(repeated(item, *[0.9] * 6), now, severity="calibrated").is_failing
    assert not decide_on(repeated(item, None, *[0.9] * 5), now, severity="calibrated").is_failing


def test_the_worst_drops_come_first(result):
    decision = decide_on(result({"A": [1.0, 1.0, 1.0]}), result({"A": [0.8, 0.1, 0.5]}))

    assert [drop.key for drop in decision.drops] == ["q-1", "q-2", "q-0"]


def test_without_failing_on_regressions_they_are_only_reported(result):
    decision = decide_on(result({"A": [1] * 20}), result({"A": [0] * 20}), fail_on_regression=False)

    assert not decision.is_failing
    assert {one.guard for one in decision.findings} == {Guard.REGRESSION, Guard.SEVERITY}


def test_a_removed_evaluator_fails_unless_told_otherwise(result):
    before, now = result({"A": [1, 1], "B": [1, 1]}), result({"A": [1, 1]})

    assert guards(decide_on(before, now)) == [Guard.REMOVED_EVALUATOR]
    allowed = decide_on(before, now, on_removed_evaluator="warn")
    assert not allowed.is_failing
    for decision in (allowed, decide_on(before, now)):
        assert any("lacks 'B'" in text for text in decision.warnings)
    assert guards(decide_on(before, now, fail_on_regression=False)) == [Guard.REMOVED_EVALUATOR]


def test_removed_items_are_told_and_fail_where_asked(result):
    before, now = result({"A": [1, 1, 1]}), result({"A": [1, 1]})

    assert any("lacks 1 item of the baseline" in text for text in decide_on(before, now).warnings)
    assert guards(decide_on(before, now, fail_on_removed_items=True)) == [Guard.REMOVED_ITEMS]


def test_an_empty_candidate_fails(result):
    before = result({"A": [1, 1, 1]})

    decision = decide_on(before, replace(before, runs=()), on_removed_evaluator="warn")

    assert guards(decision) == [Guard.ERRORS]
    assert "no items" in decision.findings[0].reason


def test_a_candidate_that_mostly_errored_fails_even_with_regressions_let_through(item, joined):
    before = joined(*(item(i, {"Match": 1}) for i in range(5)))
    now = joined(
        item(0, {"Match": 1}), item(1, {"Match": 1}), *(item(i, {}, error="503") for i in range(2, 5))
    )

    decision = decide_on(before, now, fail_on_regression=False)

    assert guards(decision) == [Guard.ERRORS]
    assert (
        "3 of 5 items of the candidate errored" in next(one for one in decision.findings if one.fails).reason
    )


def test_an_evaluator_that_had_nothing_to_score_was_not_removed(item, joined):
    before = joined(*(item(i, {"Match": 1}) for i in range(5)))
    now = joined(*(item(i, {}, error="503") for i in range(5)), evaluators=("Match",))

    decision = decide_on(before, now)

    assert decision.is_failing
    assert Guard.REMOVED_EVALUATOR not in guards(decision)


@pytest.mark.parametrize("severity", ["off", "calibrated", "any"])
def test_an_evaluator_that_mostly_only_warned_fails_under_any_severity(item, joined, severity):
    def judged(index, error=None):
        made = item(index, {"Match": 1})
        found = (
            EvalResult("Judge", error=error, fail_on_error=False) if error else EvalResult.of("Judge", 0.9)
        )
        return replace(made, eval_results=(*made.eval_results, found))

    before = joined(*(judged(i) for i in range(4)), evaluators=("Match", "Judge"))
    now = joined(judged(0), *(judged(i, "503") for i in range(1, 4)), evaluators=("Match", "Judge"))

    decision = decide_on(before, now, severity=severity)

    assert Guard.ERRORS in guards(decision)
    assert any("Judge gave no score for 3 of the 4 items" in one.reason for one in decision.findings)


@pytest.mark.parametrize(
    ("lost", "gained", "fires"), [(9, 0, True), (8, 0, False), (10, 4, False), (20, 0, True)]
)
def test_scores_that_go_missing_without_an_error_fail_where_chance_does_not_explain_it(
    item, joined, lost, gained, fires
):
    def side(missing):
        scored = [item(i, {"Match": 1} if i in missing else {"Match": 1, "Key": 0.9}) for i in range(40)]
        return joined(*scored, evaluators=("Match", "Key"))

    before, now = side(range(30, 30 + gained)), side(range(lost))
    decision = decide_on(before, now)

    assert (Guard.ERRORS in guards(decision)) is fires
    assert any(f"gave no score for {lost} item" in warning for warning in decision.warnings)
    if fires:
        assert f"Key gave no score for {lost} of the 40 items" in decision.findings[0].reason
        allowed = decide_on(before, now, on_removed_evaluator="warn")
        assert (Guard.ERRORS in guards(allowed)) is (lost >= 20)


def test_a_candidate_of_other_items_fails(item, joined):
    decision = decide_on(joined(item(0, {"Match": 1})), joined(item(7, {"Match": 1})))

    assert Guard.ERRORS in guards(decision)


def test_a_candidate_whose_run_did_not_end_fails(result):
    before = result({"A": [1, 1]})

    decision = decide_on(before, replace(before, status=RunStatus.BUDGET_SPENT))

    assert guards(decision) == [Guard.INCOMPLETE]
    assert "budget spent" in decision.findings[0].reason


def test_added_easy_items_do_not_make_up_for_a_drop(result):
    decision = decide_on(
        result({"A": [1] * 10}), result({"A": [0] * 7 + [1] * 3 + [1] * 200}), severity="off"
    )

    assert Guard.REGRESSION in guards(decision)


def test_too_few_items_are_inconclusive_where_power_is_required(result):
    same = result({"A": [1] * 20})

    decision = decide_on(same, same, require_power=0.8, detect_drop=0.05)

    assert decision.is_inconclusive
    assert not decision.is_failing
    assert "A drop of 5 points must be seen with 80 % power" in decision.findings[0].reason
    assert "items would be enough" in decision.findings[0].reason


def test_enough_items_are_conclusive(result):
    same = result({"A": [1] * 200})

    assert not decide_on(same, same, require_power=0.8, detect_drop=0.10).is_inconclusive


def test_a_failure_is_no_less_of_one_for_lack_of_power(result):
    decision = decide_on(result({"A": [1] * 10}), result({"A": [0] * 10}), require_power=0.99)

    assert decision.is_failing
    assert not decision.is_inconclusive


def test_confirmed_lets_a_single_noisy_drop_pass(result):
    before = result({"Judge": [0.9, 0.9]}, noisy=["Judge"])
    now = result({"Judge": [0.9, 0.5]}, noisy=["Judge"])

    assert decide_on(before, now).is_failing
    assert not decide_on(before, now, severity="confirmed").is_failing


def test_confirmed_counts_every_drop_of_a_deterministic_evaluator(result):
    decision = decide_on(result({"Match": [1, 1]}), result({"Match": [1, 0]}), severity="confirmed")

    assert guards(decision) == [Guard.SEVERITY]


@pytest.mark.parametrize(("third", "fails"), [(0.5, True), (0.85, False)])
def test_confirmed_counts_a_noisy_drop_that_all_repeats_show(runs, result, third, fails):
    before = result({"Judge": [0.9, 0.9]}, noisy=["Judge"])
    now = runs([{"Judge": [0.9, low]} for low in (0.5, 0.4, third)], noisy=["Judge"])

    assert decide_on(before, now, severity="confirmed").is_failing is fails


def test_confirmed_says_that_a_single_run_confirms_nothing_of_a_noisy_evaluator(result):
    single = result({"Judge": [0.9, 0.9]}, noisy=["Judge"])

    assert any(
        "a single run cannot confirm a drop" in text
        for text in decide_on(single, single, severity="confirmed").warnings
    )
    certain = result({"Match": [0.9, 0.9]})
    assert decide_on(certain, certain, severity="confirmed").warnings == ()


@pytest.mark.parametrize(("before", "now"), [(1, 2), (1, 3), (2, 2), (3, 2), (3, 3)])
def test_confirmed_states_how_often_noise_alone_looks_like_a_drop(runs, before, now):
    """All ways to deal one item's repeats out to the two sides: as likely, if nothing changed."""
    scores = [round(0.9 - 0.2 * place, 1) for place in range(5)][: before + now] + [0.0] * (before + now - 5)
    deals = list(combinations(range(before + now), now))

    fired = [
        decide_on(
            runs([{"Judge": [scores[i]]} for i in range(before + now) if i not in dealt], noisy=["Judge"]),
            runs([{"Judge": [scores[i]]} for i in dealt], noisy=["Judge"]),
            severity="confirmed",
        ).findings
        for dealt in deals
    ]

    found = [one for decision in fired for one in decision if one.guard is Guard.SEVERITY]
    assert len(found) <= 1
    assert all(f"up to 1 score in {len(deals)})" in one.reason for one in found)
    assert found or before + now > 5


def test_a_calibrated_gate_says_when_guard_2_cannot_fire(result):
    decision = decide(
        Snapshot.of(result({"A": [1, 1]})), Snapshot.of(result({"A": [1, 0]})), GateConfig.calibrated()
    )

    assert not decision.is_failing
    assert decision.comparison.config.alpha == 0.05
    assert any(text.startswith("Guard 2 cannot fire") for text in decision.warnings)


def test_a_calibrated_gate_with_enough_repeats_splits_alpha_and_finds_a_broken_item(runs):
    before = runs([{"A": [1, 1, 0]}] * 5)
    now = runs([{"A": [1, 0, 0]}] * 5)

    decision = decide(Snapshot.of(before), Snapshot.of(now), GateConfig.calibrated())

    assert guards(decision) == [Guard.SEVERITY]
    assert decision.drops[0].key == "q-1"
    assert decision.comparison.config.alpha == 0.025


def test_what_running_again_did_not_confirm_is_set_aside(result):
    before, now = Snapshot.of(result({"A": [1, 1]})), Snapshot.of(result({"A": [1, 0]}))

    decision = decide(before, now, GateConfig(), reruns={("q-1", "A"): RerunScores(3, (1.0, 0.0, 1.0))})

    assert not decision.is_failing
    assert [drop.key for drop in decision.cleared] == ["q-1"]


def test_a_verdict_without_any_judged_item_still_says_what_it_rests_on(result):
    same = result({"A": [0.5, 0.7]}, threshold=None)
    config = GateConfig()

    verdict = build_verdict(decide(Snapshot.of(same), Snapshot.of(same), config), config, name="x")

    assert "on n = 2 items, 0 worse and 0 better: A +0.00" in verdict.message


def test_the_pairing_of_the_baseline_wins_over_auto(result):
    before, now = Snapshot.of(result({"A": [1, 1]})), Snapshot.of(result({"A": [1, 1]}))

    decision = decide(before, now, GateConfig(), pairing=Pairing.POSITIONAL)

    assert decision.comparison.pairing is Pairing.POSITIONAL


@pytest.mark.parametrize(
    "wrong",
    [
        {"alpha": 0},
        {"severity_margin": -0.1},
        {"severity": "some"},
        {"confirm": -1},
        {"require_power": 1.0},
        {"on_removed_evaluator": "ignore"},
        {"bootstrap_passes": "yes"},
        {"correction": "x"},
    ],
)
def test_wrong_options_are_refused_by_name(wrong):
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        GateConfig(**wrong)


@pytest.mark.parametrize("config", [GateConfig.calibrated(), GateConfig(severity="off")])
def test_a_collapse_that_no_guard_could_see_is_inconclusive(result, config):
    before = Snapshot.of(result({"A": [1.0] * 5}))
    now = Snapshot.of(result({"A": [0.0] * 5}))

    decision = decide(before, now, config)

    assert decision.is_inconclusive
    assert decision.is_passing
    assert "No guard could have fired. Too few items to tell: 5 of 5" in decision.findings[0].reason
    assert not decide(before, now, replace(config, require_power=0.8)).is_passing
    assert not decide(before, before, config).findings
