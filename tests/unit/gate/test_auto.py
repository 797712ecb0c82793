"""Guard 2 under severity="auto": what counts depends on what repeats showed."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from dokimos.comparison import ComparisonConfig, Snapshot
from dokimos.comparison._detectable_drop import find_smallest_p
from dokimos.comparison._snapshot import EvaluatorFacts, ItemSnapshot
from dokimos.errors import ConfigurationError, InconclusiveWarning, RegressionError
from dokimos.gate import GateConfig, GateStatus, RegressionGate, assert_no_regression
from dokimos.gate._baseline import baseline_of, baseline_text, read_baseline, write_baseline
from dokimos.gate._decision import Guard, decide
from dokimos.gate._gate import build_verdict
from dokimos.gate._gate import decide_and_confirm as decide_with_reruns
from dokimos.gate._item_guards import ItemGuard, repeats_needed
from dokimos.gate._noise_report import noise
from dokimos.gate._severity import RerunScores
from dokimos.gate._variation import NoiseMeasurements

GOOD = [1.0] * 8
BROKEN = [1.0, 0.5, *[1.0] * 6]
REFERENCE = Path(__file__).parents[2] / "data" / "gate" / "reference-baseline.json"


def decide_on(before, now, *, figures=None, **options):
    return decide(Snapshot.of(before), Snapshot.of(now), GateConfig(**options), noise=figures)


def verdict(decision, **options):
    return build_verdict(decision, GateConfig(**options), name="x")


def guard_of(decision, evaluator="A"):
    return decision.guards.of(evaluator)


def varied(repeats, *, low=0.6, high=0.9, items=8, step=0):
    """Repeats of a judge that gives every item each of several scores in turn."""
    levels = [low, (low + high) / 2, high]
    return [
        {"A": [round(levels[(place + run + step) % 3], 3) for place in range(items)]}
        for run in range(repeats)
    ]


class TestQuiet:
    @pytest.mark.parametrize(("before", "now"), [(3, 1), (1, 3), (3, 3)])
    def test_a_drop_counts_where_a_deterministic_evaluator_did_not_vary_in_three_repeats(
        self, runs, before, now
    ):
        decision = decide_on(runs([{"A": GOOD}] * before), runs([{"A": BROKEN}] * now))

        assert guard_of(decision) is ItemGuard.DOCUMENTED
        assert [drop.key for drop in decision.drops] == ["q-1"]
        assert "deterministic and 3 repeats did not vary" in next(decision.guards.sentences)

    def test_two_repeats_are_not_enough_to_call_it_quiet(self, runs):
        decision = decide_on(runs([{"A": GOOD}] * 2), runs([{"A": BROKEN}] * 2))

        assert guard_of(decision) is ItemGuard.UNKNOWN
        assert decision.is_inconclusive
        assert "cannot be told from noise with 2 and 2 repeats; run 3" in decision.findings[0].reason

    def test_any_variation_on_either_side_ends_the_quiet(self, runs):
        wobbling = [{"A": GOOD}, {"A": GOOD}, {"A": [*GOOD[:7], 0.9]}]

        assert guard_of(decide_on(runs([{"A": GOOD}] * 3), runs(wobbling))) is ItemGuard.VARIATION
        assert guard_of(decide_on(runs(wobbling), runs([{"A": GOOD}]))) is ItemGuard.UNKNOWN

    def test_an_evaluator_that_is_not_deterministic_needs_repeats_on_both_sides(self, runs):
        before, now = runs([{"A": GOOD}] * 3, noisy=["A"]), runs([{"A": BROKEN}], noisy=["A"])

        assert guard_of(decide_on(before, now)) is ItemGuard.UNKNOWN
        repeated = decide_on(before, runs([{"A": BROKEN}] * 3, noisy=["A"]))
        assert guard_of(repeated) is ItemGuard.VARIATION
        assert [drop.key for drop in repeated.drops] == ["q-1"]

    def test_stored_figures_of_noise_without_variation_make_a_single_run_quiet(self, runs):
        figures = noise(runs([{"A": GOOD}] * 3)).measurements

        decision = decide_on(runs([{"A": GOOD}]), runs([{"A": BROKEN}]), figures=figures)

        assert guard_of(decision) is ItemGuard.DOCUMENTED
        assert decision.is_failing
        assert "3 runs of dokimos noise did not vary" in next(decision.guards.sentences)


class TestVariation:
    def test_a_drop_within_the_variation_is_listed_and_passes(self, runs):
        before, now = varied(3), varied(3, step=1)
        now = [{"A": [*run["A"][:7], 0.5]} for run in now]

        decision = decide_on(runs(before, noisy=["A"]), runs(now, noisy=["A"]))

        assert guard_of(decision) is ItemGuard.VARIATION
        assert not decision.is_failing
        assert [drop.key for drop in decision.explained] == ["q-7"]
        assert any("without standing out from what repeats vary by" in text for text in decision.warnings)

    def test_a_drop_that_stands_out_from_the_variation_counts(self, runs):
        before = varied(3, low=0.88, high=0.92)
        now = [{"A": [*run["A"][:7], 0.3]} for run in before]

        decision = decide_on(runs(before, noisy=["A"]), runs(now, noisy=["A"]))

        assert [drop.key for drop in decision.drops] == ["q-7"]

    def test_a_drop_that_not_all_repeats_show_does_not_count(self, runs):
        before = [{"A": GOOD}] * 3
        now = [{"A": BROKEN}, {"A": GOOD}, {"A": [1.0, 0.0, *GOOD[2:]]}]

        decision = decide_on(runs(before, noisy=["A"]), runs(now, noisy=["A"]))

        assert not decision.is_failing
        assert [drop.key for drop in decision.explained] == ["q-1"]

    def test_one_item_of_another_evaluator_that_varies_alone_speaks_against_a_lone_drop(self, runs):
        """Which items a judge is unsure of is not known: what was seen of one may be true of another."""
        flaky = [{"A": GOOD, "B": [1.0] * 7 + [flip]} for flip in (1.0, 0.0, 1.0)]
        now = [{"A": [1.0, 0.0, *GOOD[2:]], "B": run["B"]} for run in flaky]

        decision = decide_on(runs(flaky, noisy=["A", "B"]), runs(now, noisy=["A", "B"]))

        assert not decision.is_failing
        assert [drop.evaluator for drop in decision.explained] == ["A"]

    def test_with_repeats_enough_for_all_of_them_evaluators_stand_by_themselves(self, runs):
        flips = (1.0, 0.0, 1.0, 1.0, 0.0)
        flaky = [{"A": GOOD, "B": [1.0] * 7 + [flip]} for flip in flips]
        now = [{"A": [1.0, 0.0, *GOOD[2:]], "B": run["B"]} for run in flaky]

        decision = decide_on(runs(flaky, noisy=["A", "B"]), runs(now, noisy=["A", "B"]))

        assert [drop.evaluator for drop in decision.drops] == ["A"]

    def test_the_direction_of_an_evaluator_is_known(self, runs):
        before = [{"W": [0.1, 0.1, 0.12, 0.1, 0.1, 0.1]}, {"W": [0.1] * 6}, {"W": [0.1] * 6}]
        now = [{"W": [0.9, *[0.1] * 5]}] * 3
        options = {"lower": ["W"], "noisy": ["W"]}

        assert decide_on(runs(before, **options), runs(now, **options)).is_failing
        assert not decide_on(runs(now, **options), runs(before, **options)).is_failing

    def test_an_error_counts_whatever_the_scores_vary_by(self, item, joined, runs):
        before = joined(*(item(i, {"Match": 1}) for i in range(8)))
        now = joined(*(item(i, {"Match": 1}) for i in range(7)), item(7, {}, error="TimeoutError: 30 s"))

        assert [drop.error for drop in decide_on(before, now).drops] == ["TimeoutError: 30 s"]

    def test_five_runs_of_noise_judge_a_single_run(self, runs):
        figures = noise(runs(varied(5, low=0.85, high=0.95), noisy=["A"])).measurements
        base = varied(1, low=0.85, high=0.95)
        far = [{"A": [0.2, *base[0]["A"][1:]]}]
        near = [{"A": [0.75, *base[0]["A"][1:]]}]

        def found(now):
            return decide_on(
                runs(base, noisy=["A"]), runs(now, noisy=["A"]), figures=figures, severity_margin=0.05
            )

        assert [drop.key for drop in found(far).drops] == ["q-0"]
        assert [drop.key for drop in found(near).explained] == ["q-0"]


class TestWords:
    """What a verdict says of drops that it does not count is true of each of them."""

    def test_whose_variation_speaks_against_a_drop_is_named(self, runs):
        flaky = [{"A": [*GOOD[:7], flip]} for flip in (1.0, 0.0, 1.0)]
        now = [{"A": [1.0, 0.0, *run["A"][2:]]} for run in flaky]

        decision = decide_on(runs(flaky, noisy=["A"]), runs(now, noisy=["A"]))

        assert any("q-1: A 1.00 -> 0.00 (q-7 varies by 1.00)" in text for text in decision.warnings)
        assert "| 1 not standing out from the noise |" in verdict(decision).to_markdown()
        assert verdict(decision).tree()["explainedDrops"][0]["cause"] == "q-7 varies by 1.00"

    def test_an_item_with_fewer_scores_than_the_rest_is_told_with_its_own_repeats(self, runs):
        before, now = (Snapshot.of(runs([{"A": GOOD}] * 3, noisy=["A"])) for _ in range(2))
        items = list(now.items)
        items[3] = replace(items[3], scores={"A": (0.0,)}, verdicts=(False,))

        decision = decide(before, replace(now, items=tuple(items)), GateConfig())

        assert "cannot be told from noise with 3 and 1 repeats; run 3 on each" in decision.findings[0].reason
        assert "items with fewer than 3 repeats on each side cannot be told" in next(
            decision.guards.sentences
        )

    def test_an_interval_that_excludes_0_is_told_although_guard_1_does_not_fire(self, result):
        before, now = {"A": [1.0] * 20}, {"A": [0.0] * 5 + [1.0] * 15}

        found = verdict(decide_on(result(before), result(now)))

        assert found.status is GateStatus.INCONCLUSIVE
        assert "excludes 0, but the corrected test of guard 1 does not reach alpha = 0.05" in found.message
        assert "| 5 unclear |" in found.to_markdown()


class TestOneRepeat:
    def test_a_drop_is_listed_and_the_verdict_is_inconclusive_and_passes(self, result):
        found = verdict(decide_on(result({"A": GOOD}), result({"A": BROKEN})))

        assert found.status is GateStatus.INCONCLUSIVE
        assert found.passed
        assert found.reasons == ()
        assert "Eval gate INCONCLUSIVE (passes)" in found.message
        assert "cannot be told from noise with one repeat; run 3 on each side" in found.message
        assert "q-1: A 1.00 -> 0.50" in found.message

    def test_it_does_not_pass_where_power_is_required(self, result):
        options = {"require_power": 0.8, "detect_drop": 0.9}

        found = verdict(decide_on(result({"A": GOOD}), result({"A": BROKEN}), **options), **options)

        assert (found.status, found.passed) == (GateStatus.INCONCLUSIVE, False)
        assert "cannot be told from noise" in found.reasons[0]

    def test_without_failing_on_regressions_it_is_only_reported(self, result):
        found = verdict(decide_on(result({"A": GOOD}), result({"A": BROKEN}), fail_on_regression=False))

        assert found.status is GateStatus.PASS
        assert any("(reported only)" in text for text in found.warnings)

    def test_a_failure_says_what_is_inconclusive_too(self, result):
        now = {"A": [0.5] * 8, "B": BROKEN}

        decision = decide_on(result({"A": GOOD, "B": GOOD}), result(now))

        assert decision.is_failing
        assert not decision.is_inconclusive
        assert decision.unclear

    def test_any_is_the_documented_guard_at_will(self, result):
        decision = decide_on(result({"A": GOOD}), result({"A": BROKEN}), severity="any")

        assert decision.is_failing
        assert decision.guards.choices == ()

    @pytest.mark.parametrize(
        ("again", "status"),
        [
            ([0.5, 0.5, 0.5], GateStatus.FAIL),
            ([0.5, 1.0, 0.5], GateStatus.PASS),
            ([1.0] * 3, GateStatus.PASS),
        ],
    )
    def test_a_gate_that_can_runs_suspicious_items_three_times_again(self, result, again, status):
        pending, asked = list(again), []

        def rerun(examples):
            asked.append([example.id for example in examples])
            return result({"A": [pending.pop(0)]})

        sides = Snapshot.of(result({"A": GOOD})), Snapshot.of(result({"A": BROKEN}))
        decision = decide_with_reruns(*sides, GateConfig(), rerun=rerun)

        assert asked == [["q-1"]] * 3
        assert verdict(decision).status is status
        assert bool(decision.cleared) is (status is GateStatus.PASS)

    def test_items_that_rose_as_far_speak_against_a_confirmed_drop(self, result):
        """With one repeat on each side, a system that varies shows it by what rises."""
        before, now = [1.0, 1.0, 0.0, *GOOD[3:]], [1.0, 0.0, 1.0, *GOOD[3:]]
        sides = Snapshot.of(result({"A": before})), Snapshot.of(result({"A": now}))

        decision = decide_with_reruns(*sides, GateConfig(), rerun=lambda _: result({"A": [0.0]}))

        assert not decision.is_failing
        assert [drop.key for drop in decision.cleared] == ["q-1"]

    def test_errors_when_run_again_confirm_it(self, item, joined, result):
        sides = Snapshot.of(result({"A": GOOD})), Snapshot.of(result({"A": BROKEN}))
        again = joined(item(1, {}, error="503"), evaluators=("A",))

        assert decide_with_reruns(*sides, GateConfig(), rerun=lambda _: again).is_failing


class TestFewItems:
    @pytest.mark.parametrize("items", [1, 2, 3, 4, 5, 6, 7])
    @pytest.mark.parametrize("noisy", [(), ("A",)])
    @pytest.mark.parametrize("repeats", [1, 3])
    def test_a_total_collapse_never_passes(self, runs, items, noisy, repeats):
        before = runs([{"A": [1.0] * items}] * repeats, noisy=noisy)
        now = runs([{"A": [0.0] * items}] * repeats, noisy=noisy)

        assert decide_on(before, now).is_failing

    def test_below_six_items_the_documented_guard_stays(self, result):
        five, six = ({"A": [1.0] * count} for count in (5, 6))
        broken = [1.0, 0.5, 1.0, 1.0, 1.0]

        assert decide_on(result(five), result({"A": broken})).is_failing
        assert decide_on(result(six), result({"A": [*broken, 1.0]})).is_inconclusive

    def test_it_stays_wherever_guard_1_could_not_reach_alpha(self, result):
        strict = decide_on(result({"A": GOOD}), result({"A": BROKEN}), alpha=0.005)
        assert strict.is_failing
        assert "could not see even the collapse of all 8 shared items" in next(strict.guards.sentences)
        assert decide_on(result({"A": GOOD}), result({"A": BROKEN}), alpha=0.01).is_inconclusive

    def test_a_collapse_of_the_few_items_that_could_fall_never_passes(self, result):
        before, now = {"A": [1.0] * 5 + [0.0] * 15}, {"A": [0.0] * 20}

        decision = decide_on(result(before), result(now))

        assert len(decision.drops) == 5
        assert "all items that could fall did" in next(decision.guards.sentences)

    @pytest.mark.parametrize(("items", "found"), [(6, False), (8, False), (9, True)])
    def test_the_more_evaluators_the_more_items_it_takes_to_be_no_chance(self, result, items, found):
        """With 20 of them, noise alone takes all of a few passing items of some evaluator too often."""
        others = {f"B{number}": [1.0] * 20 for number in range(19)}
        before, now = {"A": [1.0] * items + [0.0] * (20 - items)}, {"A": [0.0] * 20}
        decision = decide_on(result(before | others), result(now | others), correction="holm")

        assert decision.is_failing is found
        assert (guard_of(decision) is ItemGuard.DOCUMENTED) is found

    @pytest.mark.parametrize("items", [6, 7, 8])
    @pytest.mark.parametrize("seed", range(6))
    def test_a_collapse_fails_although_twenty_noisy_evaluators_hide_it_from_guard_1(
        self, result, items, seed
    ):
        draw = random.Random(seed)
        before, now = (
            {f"B{number}": [float(draw.random() < 0.6) for _ in range(items)] for number in range(19)}
            for _ in range(2)
        )

        assert decide_on(result(before | {"A": [1.0] * items}), result(now | {"A": [0.0] * items})).is_failing

    def test_it_is_no_collapse_where_an_item_rose_or_stayed(self, result):
        before = {"A": [1.0] * 5 + [0.0] * 15}

        for now in ([0.0] * 19 + [1.0], [1.0] + [0.0] * 19):
            assert decide_on(result(before), result({"A": now})).is_inconclusive

    def test_a_collapse_is_known_where_lower_is_better(self, result):
        before, now = {"W": [0.1] * 5 + [1.0] * 15}, {"W": [1.0] * 20}

        assert decide_on(result(before, lower=["W"]), result(now, lower=["W"])).is_failing

    def test_an_evaluator_of_a_few_items_has_the_documented_guard_for_itself(self, item, joined):
        def side(score):
            few = [item(i, {"A": 1, "B": score if i == 0 else 1}) for i in range(3)]
            return joined(*few, *(item(i, {"A": 1}) for i in range(3, 12)), evaluators=("A", "B"))

        decision = decide_on(side(1), side(0))

        assert guard_of(decision, "B") is ItemGuard.DOCUMENTED
        assert guard_of(decision, "A") is ItemGuard.UNKNOWN
        assert decision.is_failing

    @pytest.mark.parametrize(
        ("items", "tests", "options", "p"),
        [
            (5, 2, {}, 0.0625),
            (6, 2, {}, 0.03125),
            (6, 2, {"correction": "holm"}, 0.0625),
            (30, 2, {"permutation_iterations": 9}, 0.1),
        ],
    )
    def test_the_smallest_p_knows_the_correction_and_the_draws(self, items, tests, options, p):
        assert find_smallest_p(items, tests, ComparisonConfig(**options)) == pytest.approx(p)


class TestForeignBaseline:
    def tree(self, score):
        entry = {"name": "A", "score": 1.0, "threshold": 0.5, "pass": True}
        items = [{"key": f"q-{i}", "evaluators": [entry | {"score": score}]} for i in range(8)]
        return {"formatVersion": 1, "pairing": "dataset_item_id", "runsPerItem": 1, "items": items}

    def test_it_keeps_the_documented_guard_and_warns_of_it(self, result, tmp_path):
        path = tmp_path / "b.json"
        path.write_text(json.dumps(self.tree(1.0)))
        config = GateConfig()

        decision = decide(read_baseline(path).snapshot, Snapshot.of(result({"A": BROKEN})), config)

        assert decision.is_failing
        assert any("neither repeats nor a word on which evaluators are" in text for text in decision.warnings)
        assert not read_baseline(REFERENCE).snapshot.records_repeats

    def test_with_severity_any_there_is_nothing_to_warn_of(self, result, tmp_path):
        path = tmp_path / "b.json"
        path.write_text(json.dumps(self.tree(1.0)))

        decision = decide(
            read_baseline(path).snapshot, Snapshot.of(result({"A": GOOD})), GateConfig(severity="any")
        )

        assert decision.warnings == ()


class TestBaselineFile:
    def test_repeats_and_determinism_are_recorded(self, runs):
        tree = json.loads(baseline_text(baseline_of(runs([{"A": [1], "J": [0.5]}] * 3, noisy=["J"]))))

        assert tree["repeats"] == 3
        assert tree["runsPerItem"] == 1
        assert [(one["name"], one["deterministic"]) for one in tree["evaluators"]] == [
            ("A", True),
            ("J", False),
        ]

    def test_a_baseline_of_three_repeats_is_quiet_when_it_is_read(self, runs, tmp_path):
        write_baseline(baseline_of(runs([{"A": GOOD}] * 3)), tmp_path / "b.json")

        read = read_baseline(tmp_path / "b.json").snapshot

        assert decide(read, Snapshot.of(runs([{"A": BROKEN}])), GateConfig()).is_failing

    def test_our_older_files_are_read_as_they_were_meant(self, runs, tmp_path):
        """They said that an evaluator is not deterministic, and nothing where it is."""
        tree = json.loads(baseline_text(baseline_of(runs([{"A": GOOD}] * 3))))
        del tree["repeats"], tree["evaluators"][0]["deterministic"]
        (tmp_path / "b.json").write_text(json.dumps(tree))

        read = read_baseline(tmp_path / "b.json").snapshot

        assert read.records_repeats
        assert decide(read, Snapshot.of(runs([{"A": BROKEN}])), GateConfig()).is_failing


@pytest.fixture
def project(tmp_path, monkeypatch):
    for name in ("CI", "GITHUB_ACTIONS", "DOKIMOS_UPDATE_BASELINE", "DOKIMOS_BASELINE_DIR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "pyproject.toml").write_text("")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("project")
class TestInconclusiveIsTold:
    @pytest.mark.parametrize("check", [assert_no_regression, lambda result: RegressionGate().verify(result)])
    def test_as_a_warning_at_the_place_of_the_call(self, result, check):
        assert_no_regression(result({"A": GOOD}))

        with pytest.warns(InconclusiveWarning, match="q-1: A 1.00 -> 0.50") as told:
            check(result({"A": BROKEN}))

        assert [warning.filename for warning in told] == [__file__]

    @pytest.mark.filterwarnings("error")
    def test_in_the_log_where_warnings_are_errors_so_that_the_run_is_not_lost(self, result, caplog):
        assert_no_regression(result({"A": GOOD}))

        assert assert_no_regression(result({"A": BROKEN})).status is GateStatus.INCONCLUSIVE
        assert "Eval gate INCONCLUSIVE (passes)" in caplog.text

    @pytest.mark.filterwarnings("error")
    def test_and_a_gate_that_simply_passes_says_nothing(self, result, caplog):
        assert_no_regression(result({"A": GOOD}))
        caplog.clear()

        assert_no_regression(result({"A": GOOD}))

        assert caplog.text == ""


@pytest.mark.usefixtures("project")
class TestNoiseFile:
    def test_figures_that_were_stored_say_the_same(self, runs, tmp_path):
        report = noise(runs(varied(5), noisy=["A"]))
        (tmp_path / "n.json").write_text(json.dumps(report.tree()))

        assert NoiseMeasurements.read(tmp_path / "n.json") == report.measurements

    def test_a_gate_takes_the_file_beside_its_baseline(self, runs, result, tmp_path):
        assert_no_regression(result({"A": GOOD}))
        with pytest.warns(InconclusiveWarning):
            assert assert_no_regression(result({"A": BROKEN})).status is GateStatus.INCONCLUSIVE
        beside = tmp_path / "tests" / "baselines" / "support.noise.json"
        beside.write_text(json.dumps(noise(runs([{"A": GOOD}] * 3)).tree()))

        with pytest.raises(RegressionError, match="1 score of a single item dropped by more than 15 points"):
            assert_no_regression(result({"A": BROKEN}))

    def test_figures_of_an_evaluator_that_was_changed_are_not_used_and_the_verdict_says_so(self, runs):
        figures = noise(runs([{"A": GOOD, "B": GOOD}] * 3)).measurements
        before, now = (Snapshot.of(runs([{"A": side, "B": GOOD}])) for side in (GOOD, BROKEN))
        facts = {**now.evaluators, "A": replace(now.evaluators["A"], fingerprint="another judge")}

        same = decide(before, now, GateConfig(), noise=figures)
        changed = decide(before, replace(now, evaluators=facts), GateConfig(), noise=figures)

        assert (guard_of(same), guard_of(changed)) == (ItemGuard.DOCUMENTED, ItemGuard.UNKNOWN)
        assert guard_of(changed, "B") is ItemGuard.DOCUMENTED
        assert any(
            "measured with other settings or another judge of 'A', so they are not used" in text
            for text in changed.warnings
        )
        assert not any("other settings" in text for text in same.warnings)

    def test_spreads_of_an_evaluator_that_was_changed_speak_against_no_drop(self, runs):
        wobbling = [{"A": [*GOOD[:7], flip]} for flip in (1.0, 0.0, 1.0)]
        figures = noise(runs(wobbling, noisy=["A"])).measurements
        before, now = (Snapshot.of(runs([{"A": side}] * 3, noisy=["A"])) for side in (GOOD, BROKEN))
        stale = replace(figures, fingerprints={"A": "before"})

        assert not decide(before, now, GateConfig(), noise=figures).is_failing
        assert decide(before, now, GateConfig(), noise=stale).is_failing

    def test_figures_of_other_items_are_not_used_and_the_verdict_says_so(self, runs, result):
        figures = noise(runs([{"A": [1.0]}] * 3)).measurements

        decision = decide_on(result({"A": GOOD}), result({"A": BROKEN}), figures=figures)

        assert guard_of(decision) is ItemGuard.UNKNOWN
        noted = [text for text in decision.warnings if "do not cover all items that" in text]
        assert any("Measure the noise" in text for text in noted)

    def test_or_the_one_it_is_given(self, runs, result):
        assert_no_regression(result({"A": GOOD}))
        gate = RegressionGate(noise=noise(runs([{"A": GOOD}] * 3)))

        assert gate.check(result({"A": BROKEN})).status is GateStatus.FAIL

    @pytest.mark.parametrize(
        "text", ["{", "[]", "{}", '{"runs": 5, "evaluators": [{"evaluator": "A"}]}',
                 '{"runs": "x", "evaluators": []}',
                 '{"runs": 5, "evaluators": [{"evaluator": "A", "spreads": {"q": "much"}}]}'],
    )  # fmt: skip
    def test_a_file_of_something_else_is_refused_with_its_name(self, tmp_path, text):
        (tmp_path / "n.json").write_text(text)

        with pytest.raises(ConfigurationError, match=r"n\.json"):
            NoiseMeasurements.read(tmp_path / "n.json")


def test_the_verdict_tells_which_guard_was_used_and_why(runs):
    before, now = (
        runs([{"A": GOOD, "J": GOOD}] * 3, noisy=["J"]),
        runs([{"A": GOOD, "J": BROKEN}], noisy=["J"]),
    )

    found = verdict(decide_on(before, now))
    tree = found.tree()

    assert [(one["evaluator"], one["guard"]) for one in tree["itemGuards"]] == [
        ("A", "documented"),
        ("J", "unknown"),
    ]
    assert tree["unclearDrops"] == [
        {"datasetItemId": "q-1", "evaluator": "J", "baselineMean": 1.0, "candidateMean": 0.5}
    ]
    for text in (found.message, found.to_markdown()):
        assert (
            "A: any drop by more than 15 points counts, since scoring is deterministic and 3 repeats did not "
            "vary." in text
        )
        assert "3 and 1 repeats cannot tell a drop from noise" in text
    assert "passes unless power is required" in found.to_markdown()


@pytest.mark.parametrize(("alpha", "repeats"), [(0.2, 3), (0.05, 3), (0.01, 5)])
def test_a_smaller_alpha_needs_more_repeats(alpha, repeats):
    assert repeats_needed(alpha) == repeats


def test_guard_1_is_untouched_by_the_choice(result):
    before, now = result({"A": [1.0] * 20}), result({"A": [0.0] * 8 + [1.0] * 12})

    assert [one.guard for one in decide_on(before, now).findings if one.fails] == [Guard.REGRESSION] * 2


def test_a_margin_of_zero_still_lets_the_variation_speak(runs):
    before = varied(3, low=0.88, high=0.92)
    near, far = ([{"A": [*run["A"][:7], score]} for run in before] for score in (0.87, 0.3))

    def found(now):
        return decide_on(runs(before, noisy=["A"]), runs(now, noisy=["A"]), severity_margin=0.0)

    assert not found(near).is_failing
    assert found(far).is_failing


def test_items_run_again_although_power_is_lacking_too(result):
    sides = Snapshot.of(result({"A": GOOD})), Snapshot.of(result({"A": BROKEN}))
    config = GateConfig(require_power=0.9)

    assert decide(*sides, config).is_inconclusive
    assert decide_with_reruns(*sides, config, rerun=lambda _: result({"A": [0.5]})).is_failing
    passed = decide_with_reruns(*sides, config, rerun=lambda _: result({"A": [1.0]}))
    assert [one.guard for one in passed.findings] == [Guard.POWER]


@pytest.mark.parametrize("severity", ["any", "confirmed", "calibrated", "off"])
def test_a_severity_that_was_chosen_is_told_as_such(result, severity):
    found = verdict(decide_on(result({"A": GOOD}), result({"A": GOOD}), severity=severity), severity=severity)

    assert f"since severity is set to '{severity}'." in found.message
    assert f"since severity is set to '{severity}'." in found.to_markdown().replace("\\", "")
    assert found.tree()["itemGuards"] == []


class TestRanges:
    """Scores of any range: the margin is a share of it, and so is what counts as a collapse."""

    def side(self, *runs):
        items = tuple(
            ItemSnapshot(index=i, scores={"R": tuple(run[i] for run in runs)}, verdicts=(True,) * len(runs))
            for i in range(len(runs[0]))
        )
        facts = EvaluatorFacts(name="R", deterministic=False, score_range=(1.0, 5.0))
        return Snapshot(items=items, evaluators={"R": facts}, runs=len(runs))

    def test_a_drop_stands_out_in_the_unit_of_its_scores(self):
        before = self.side([5.0] * 8, [5.0] * 7 + [4.9], [5.0] * 8)
        small, large = (self.side(*[[score] + [5.0] * 7] * 3) for score in (4.5, 2.0))

        assert decide(before, small, GateConfig()).drops == ()
        assert [drop.key for drop in decide(before, large, GateConfig()).drops] == ["item-0"]

    def test_a_collapse_ends_at_the_worst_score_of_the_range(self):
        before, now = self.side([5.0] * 5 + [1.0] * 15), self.side([1.0] * 20)

        assert decide(before, now, GateConfig()).is_failing

    def test_running_again_is_held_against_the_margin_in_that_unit(self):
        before, now = self.side([5.0] * 8), self.side([3.0] + [5.0] * 7)

        for again, fails in (((3.0, 3.0, 3.0), True), ((4.6, 4.6, 4.6), False)):
            reruns = {("item-0", "R"): RerunScores(3, again)}
            assert decide(before, now, GateConfig(), reruns=reruns).is_failing is fails
