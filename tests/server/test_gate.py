"""The gate over HTTP: a run against its baseline."""

from uuid import uuid4

import pytest
from tests.server.gate_runs import (
    diff,
    end,
    experiment_of,
    gate,
    item,
    items_of,
    run_of,
    send,
    start,
    verdict,
)

from dokimos.server._api.comparisons.gate_schemas import ComparisonSummary, GateAnswer


@pytest.fixture
def api(shared_server):
    """A client whose runs belong to an experiment of this test alone."""
    shared_server.experiment = str(uuid4())
    return shared_server


DOCUMENTED = {
    "status",
    "passed",
    "candidateRunId",
    "baselineRunId",
    "pairing",
    "baselinePassRate",
    "candidatePassRate",
    "passRateDelta",
    "significant",
    "improvedCount",
    "regressedCount",
    "unchangedCount",
    "addedCount",
    "removedCount",
    "regressedEvaluators",
    "cases",
    "casesTruncated",
}


def test_a_first_run_has_no_baseline_and_passes(api):
    run = run_of(api, items_of([1.0, 0.0]))

    answer = verdict(api, run)

    assert {name: answer[name] for name in DOCUMENTED} == {
        "status": "NO_BASELINE",
        "passed": True,
        "candidateRunId": run,
        "baselineRunId": None,
        "pairing": "none",
        "baselinePassRate": None,
        "candidatePassRate": 0.5,
        "passRateDelta": None,
        "significant": False,
        "improvedCount": 0,
        "regressedCount": 0,
        "unchangedCount": 0,
        "addedCount": 0,
        "removedCount": 0,
        "regressedEvaluators": [],
        "cases": [],
        "casesTruncated": False,
    }


def test_every_answer_has_the_fields_that_are_described_and_no_others(api):
    baseline, candidate = run_of(api, items_of([1.0, 0.0])), run_of(api, items_of([0.0, 0.0]))
    described = {field.alias for field in GateAnswer.model_fields.values()}

    compared = verdict(api, candidate, baselineRunId=baseline)
    difference = diff(api, baseline, candidate).json()

    assert verdict(api, baseline).keys() == described
    assert compared.keys() == described
    assert all("input" in case for case in compared["cases"])
    assert difference["summary"].keys() == {field.alias for field in ComparisonSummary.model_fields.values()}


def test_a_missing_baseline_can_be_made_to_fail(api):
    answer = verdict(api, run_of(api, items_of([1.0])), onNoBaseline="fail")

    assert (answer["status"], answer["passed"]) == ("FAIL", False)
    assert answer["reasons"][0].startswith("No run of this experiment")


@pytest.mark.parametrize(("flips", "status"), [(6, "FAIL"), (5, "PASS")])
def test_six_of_twenty_items_that_flip_fail_and_five_pass(api, flips, status):
    before = run_of(api, items_of([1.0] * 20))
    now = run_of(api, items_of([0.0] * flips + [1.0] * (20 - flips)))

    answer = verdict(api, now)

    assert (answer["status"], answer["passed"]) == (status, status == "PASS")
    assert answer["baselineRunId"] == before
    assert answer["pairing"] == "positional"
    assert (answer["baselinePassRate"], answer["candidatePassRate"]) == (1.0, 1 - flips / 20)
    assert answer["passRateDelta"] == -flips / 20
    assert answer["significant"] is (status == "FAIL")
    assert (answer["pValue"] < 0.05) is (status == "FAIL")


def test_a_failed_gate_names_the_evaluators_and_the_worst_items(api):
    run_of(api, items_of([1.0] * 60))
    now = run_of(api, items_of([0.4 - n / 1000 for n in range(55)] + [1.0] * 5))

    answer = verdict(api, now)

    assert set(answer) >= DOCUMENTED
    (evaluator,) = answer["regressedEvaluators"]
    assert evaluator["evaluator"] == "accuracy"
    assert (evaluator["baselineMean"], evaluator["candidateMean"]) == (1.0, 0.42525)
    assert evaluator["delta"] == -0.57475
    assert evaluator["pValue"] < 0.05
    assert evaluator["rawPValue"] <= evaluator["pValue"]
    assert (answer["regressedCount"], answer["unchangedCount"]) == (55, 5)
    assert (len(answer["cases"]), answer["casesTruncated"]) == (50, True)
    assert answer["cases"][0]["index"] == "item-54"
    assert answer["cases"][0]["datasetItemId"] is None
    assert answer["cases"][0]["evaluatorDrops"] == [
        {"evaluator": "accuracy", "baselineMean": 1.0, "candidateMean": 0.346, "delta": -0.654}
    ]
    assert "pass rate" in answer["reasons"][0]


def test_a_case_has_the_ends_of_its_input(api):
    items = items_of([1.0] * 8)
    items[1]["inputs"] = {"input": "long " * 1000}
    run_of(api, items)
    answer = verdict(
        api,
        run_of(
            api,
            [{**new, "inputs": old["inputs"]} for old, new in zip(items, items_of([0.0] * 8), strict=True)],
        ),
    )

    inputs = [case["input"] for case in answer["cases"]]
    assert inputs[0] == "question 0"
    assert inputs[1].startswith("long long")
    assert len(inputs[1]) < 250


def test_the_documented_request_with_empty_fields_means_the_automatic_baseline(api):
    before = run_of(api, items_of([1.0] * 3))
    now = run_of(api, items_of([1.0] * 3))

    answer = verdict(api, now, baselineRunId="", baselineBranch="")

    assert (answer["status"], answer["baselineRunId"]) == ("PASS", before)
    assert answer["baselineSource"] == "AUTOMATIC"


def test_the_baseline_is_older_than_the_candidate(api):
    first, second, _ = (run_of(api, items_of([1.0])) for _ in range(3))

    assert verdict(api, second)["baselineRunId"] == first
    assert verdict(api, first)["status"] == "NO_BASELINE"


def test_the_baseline_is_a_run_that_succeeded_and_has_items(api):
    good = run_of(api, items_of([1.0]))
    run_of(api, items_of([1.0]), "FAILED")
    run_of(api, items_of([1.0]), "CANCELLED")
    run_of(api, [])
    start(api)

    assert verdict(api, run_of(api, items_of([1.0])))["baselineRunId"] == good


def test_a_branch_limits_the_search(api):
    main = run_of(api, items_of([1.0]), gitBranch="main")
    run_of(api, items_of([1.0]), gitBranch="topic")
    now = run_of(api, items_of([1.0]), gitBranch="topic")

    assert verdict(api, now, baselineBranch="main")["baselineRunId"] == main
    assert verdict(api, now, baselineBranch="other")["status"] == "NO_BASELINE"


def matrix_run(api, prompt, model, **more):
    metadata = {"matrix": ["prompt", "model"], "prompt": prompt, "model": model, **more}
    return run_of(api, items_of([1.0]), metadata=metadata)


def test_the_baseline_of_a_run_of_a_matrix_has_the_same_parameters(api):
    before = matrix_run(api, "short", "a", suite="one.yaml")
    matrix_run(api, "long", "a")
    matrix_run(api, "short", "b")
    run_of(api, items_of([1.0]), metadata={"prompt": "short", "model": "a"})
    now = matrix_run(api, "short", "a", suite="two.yaml")

    answer = verdict(api, now)

    assert answer["baselineRunId"] == before
    assert answer["baselineReason"] == (
        "It is the latest run with the same prompt and model that succeeded before the candidate started."
    )
    first = verdict(api, matrix_run(api, "long", "b"))
    assert first["status"] == "NO_BASELINE"
    assert "No run of this experiment with the same prompt and model succeeded" in first["baselineReason"]


@pytest.mark.parametrize("metadata", [None, {"matrix": {"k": 1}}, {"matrix": ["gone", 3]}, {"prompt": "new"}])
def test_a_run_of_no_matrix_has_any_run_as_baseline(api, metadata):
    before = matrix_run(api, "short", "a")
    fields = {} if metadata is None else {"metadata": metadata}

    assert verdict(api, run_of(api, items_of([1.0]), **fields))["baselineRunId"] == before


def test_a_pinned_run_is_the_baseline_unless_another_is_named(api):
    pinned, latest, now = (run_of(api, items_of([1.0])) for _ in range(3))
    experiment = experiment_of(api, now)
    api.put(f"/api/v1/experiments/{experiment}/baseline", json={"runId": pinned})

    assert verdict(api, now)["baselineRunId"] == pinned
    assert verdict(api, now)["baselineSource"] == "PINNED"
    assert verdict(api, now, baselineRunId=latest)["baselineRunId"] == latest
    assert verdict(api, pinned)["status"] == "NO_BASELINE"
    answer = api.get(f"/api/v1/experiments/{experiment}/runs/{now}/baseline").json()
    assert (answer["baselineRunId"], answer["source"]) == (pinned, "PINNED")


def test_which_baseline_the_gate_would_take_is_told_before_the_run_ends(api):
    before = run_of(api, items_of([1.0]))
    now = start(api)
    experiment = experiment_of(api, now)

    answer = api.get(f"/api/v1/experiments/{experiment}/runs/{now}/baseline")

    assert answer.json() == {
        "candidateRunId": now,
        "baselineRunId": before,
        "source": "AUTOMATIC",
        "reason": "It is the latest run that succeeded before the candidate started.",
    }


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "candidateRunId: is required"),
        ({"candidateRunId": "x"}, "candidateRunId: must be a UUID"),
        ({"candidateRunId": ""}, "candidateRunId: must be a UUID"),
        ({"baselineRunId": "x"}, "baselineRunId: must be a UUID"),
        ({"alpha": 1.5}, "alpha: must be less than 1"),
        ({"alpha": "x"}, "alpha: must be a number"),
        ({"severity": "harsh"}, "severity: must be"),
        ({"permutationIterations": 10**9}, "permutationIterations: must be at most 100000"),
        ({"pairing": "dataset_item_id"}, "pairing: the runs cannot be paired by dataset item"),
    ],
)
def test_what_cannot_be_asked_is_400_and_named(api, body, message):
    run_of(api, items_of([1.0]))
    run = run_of(api, items_of([1.0]))
    body = body if "candidateRunId" in body or not body else {"candidateRunId": run, **body}

    answer = api.post(f"/api/v1/experiments/{experiment_of(api, run)}/gate", json=body)

    assert answer.status_code == 400, answer.text
    assert answer.json()["message"].startswith(message)


def test_runs_of_other_experiments_are_404(api):
    run, foreign = run_of(api, items_of([1.0])), run_of(api, items_of([1.0]), experiment="other")

    assert gate(api, run, baselineRunId=foreign).status_code == 404
    assert gate(api, run, baselineRunId=str(uuid4())).status_code == 404
    wrong = api.post(f"/api/v1/experiments/{uuid4()}/gate", json={"candidateRunId": run})
    assert wrong.status_code == 404
    assert diff(api, foreign, run).status_code == 404


@pytest.mark.parametrize("status", [None, "CANCELLED"])
def test_runs_that_have_not_ended_are_409(api, status):
    ended, other = run_of(api, items_of([1.0])), start(api)
    if status:
        end(api, other, status)

    assert gate(api, other).status_code == 409
    assert gate(api, ended, baselineRunId=other).status_code == 409
    assert diff(api, ended, other).status_code == 409
    assert diff(api, other, ended).status_code == 409


def test_a_run_is_not_its_own_baseline(api):
    run = run_of(api, items_of([1.0]))

    assert gate(api, run, baselineRunId=run).status_code == 400


def test_a_candidate_without_items_fails(api):
    run_of(api, items_of([1.0] * 3))

    answer = verdict(api, run_of(api, []))

    assert answer["status"] == "FAIL"
    assert answer["reasons"] == ["The candidate has no items: nothing was measured."]
    assert (answer["candidatePassRate"], answer["removedCount"]) == (0.0, 3)


def test_a_failed_candidate_fails_also_without_a_baseline(api):
    first = run_of(api, items_of([1.0] * 3), "FAILED")
    run_of(api, items_of([1.0] * 3))

    assert verdict(api, first)["status"] == "FAIL"
    answer = verdict(api, run_of(api, items_of([1.0] * 3), "FAILED"))
    assert answer["status"] == "FAIL"
    assert answer["reasons"] == ["The candidate's run failed, so what it measured is not whole."]


def test_added_easy_items_do_not_mask_a_drop(api):
    run_of(api, items_of([1.0] * 20))
    now = run_of(api, items_of([0.0] * 10 + [1.0] * 10 + [1.0] * 400))

    answer = verdict(api, now)

    assert answer["status"] == "FAIL"
    assert answer["pairedDelta"] == -0.5
    assert answer["passRateDelta"] == round(410 / 420 - 1, 6)
    assert answer["addedCount"] == 400


def test_items_that_were_not_judged_are_left_out_and_counted(api):
    run_of(api, [*items_of([1.0] * 10), item(), item({"accuracy": 1.0})])
    now = run_of(api, [*items_of([1.0] * 10), item({"accuracy": 1.0}), item()])

    answer = verdict(api, now)

    assert answer["notJudgedCount"] == 2
    assert (answer["baselinePassRate"], answer["candidatePassRate"]) == (1.0, 1.0)
    assert answer["status"] == "PASS"


def test_errored_items_count_as_not_passed(api):
    run_of(api, items_of([1.0] * 20))
    now = run_of(api, [*items_of([1.0] * 10), *(item(error="TimeoutError: 30s") for _ in range(10))])

    answer = verdict(api, now)

    assert answer["status"] == "FAIL"
    assert answer["notJudgedCount"] == 0
    assert any("TimeoutError" in warning for warning in answer["warnings"])


def test_required_power_fails_what_could_not_have_seen_a_drop(api):
    run_of(api, items_of([1.0] * 10))
    now = run_of(api, items_of([1.0] * 10))

    lenient, strict = verdict(api, now), verdict(api, now, requirePower=True)

    assert (lenient["status"], lenient["powered"]) == ("PASS", False)
    assert lenient["minimumDetectableDrop"] > 0.05
    assert (strict["status"], strict["passed"]) == ("FAIL", False)
    assert strict["inconclusive"] is True
    assert "power" in strict["reasons"][0]


def test_the_other_guards_of_the_library_are_asked_for(api):
    run_of(api, [item({"accuracy": 1.0, "style": 1.0}) for _ in range(10)])
    now = run_of(api, [item({"accuracy": 0.0}), *(item({"accuracy": 1.0}) for _ in range(8))])

    assert verdict(api, now)["status"] == "PASS"
    assert verdict(api, now, severity="any")["status"] == "FAIL"
    assert verdict(api, now, onRemovedEvaluator="fail")["status"] == "FAIL"
    assert verdict(api, now, failOnRemovedItems=True)["status"] == "FAIL"
    named = verdict(api, now, severity="any")
    assert named["guards"][0]["guard"] == "severity"
    assert named["cases"][0]["evaluatorDrops"][0]["delta"] == -1.0
    assert verdict(api, now, severity="any", failOnRegression=False)["status"] == "PASS"


def test_a_candidate_that_shares_no_item_is_warned_about_and_fails_where_asked(api):
    run_of(api, [item({"accuracy": 1.0}, ordinal=n) for n in range(5)])
    now = run_of(api, [item({"accuracy": 1.0}, ordinal=n + 100) for n in range(5)])

    answer = verdict(api, now)

    assert (answer["status"], answer["addedCount"], answer["removedCount"]) == ("PASS", 5, 5)
    assert any("No item of the candidate is in the baseline" in text for text in answer["warnings"])
    assert verdict(api, now, failOnErrors=True)["status"] == "FAIL"


def test_repetitions_are_compared_by_the_test_of_several_runs(api):
    def repeated(passing):
        return [
            item({"accuracy": float(n % 3 < passing)}, ordinal=n // 3, repetition=n % 3) for n in range(60)
        ]

    run_of(api, repeated(3))
    now = run_of(api, repeated(2))

    answer = verdict(api, now)

    assert answer["method"] == "permutation"
    assert answer["pairedCount"] == 20
    assert answer["candidatePassRate"] == pytest.approx(2 / 3, abs=1e-6)
    assert answer["status"] == "FAIL"


def test_a_lower_score_can_be_better_and_ranges_are_those_of_the_evaluator(api):
    evaluators = [
        {"name": "latency", "direction": "LOWER_IS_BETTER", "rangeLow": 0.0, "rangeHigh": 1000.0},
        {"name": "stars", "rangeLow": 1.0, "rangeHigh": 5.0},
    ]

    def items_with(latency, stars):
        results = [{"name": "latency", "score": latency + n, "success": True} for n in range(1)] + [
            {"name": "stars", "score": stars, "success": True}
        ]
        return [item(evalResults=results) for _ in range(20)]

    run_of(api, items_with(900.0, 3.0), evaluators=evaluators)
    now = run_of(api, items_with(300.0, 3.0), evaluators=evaluators)

    answer = verdict(api, now)

    assert answer["status"] == "PASS"
    latency = next(metric for metric in answer["metrics"] if metric["evaluator"] == "latency")
    assert (latency["status"], latency["delta"], latency["direction"]) == (
        "IMPROVED",
        -600.0,
        "lower_is_better",
    )


def test_an_evaluator_that_changed_is_named_and_refused_where_asked(api):
    def evaluator_of(fingerprint):
        return [{"name": "accuracy", "fingerprint": fingerprint}]

    run_of(api, items_of([1.0] * 5), evaluators=evaluator_of("a"))
    now = run_of(api, items_of([1.0] * 5), evaluators=evaluator_of("b"))

    answer = verdict(api, now)
    refused = gate(api, now, refuseChangedEvaluators=True)

    assert answer["status"] == "PASS"
    assert answer["evaluatorChanges"] == [
        {"evaluator": "accuracy", "baselineFingerprint": "a", "candidateFingerprint": "b"}
    ]
    assert any("accuracy is configured differently" in warning for warning in answer["warnings"])
    assert refused.status_code == 409
    assert "dokimos rescore" in refused.json()["message"]
    same = run_of(api, items_of([1.0] * 5), evaluators=evaluator_of("b"))
    assert verdict(api, same, refuseChangedEvaluators=True)["status"] == "PASS"


def test_a_run_that_was_opened_again_is_compared_anew(api):
    before = run_of(api, items_of([1.0] * 20))
    now = run_of(api, [{**one, "ordinal": n} for n, one in enumerate(items_of([1.0] * 20))])
    assert verdict(api, now)["status"] == "PASS"

    end(api, now, "RUNNING")
    assert gate(api, now).status_code == 409
    send(api, now, [{**one, "ordinal": n} for n, one in enumerate(items_of([0.0] * 20))])
    end(api, now)

    assert verdict(api, now)["status"] == "FAIL"
    assert diff(api, before, now).json()["summary"]["regressedCount"] == 20


def test_a_deleted_baseline_is_not_compared_with(api):
    before, now = (run_of(api, items_of([1.0])) for _ in range(2))
    assert verdict(api, now)["baselineRunId"] == before

    api.delete(f"/api/v1/runs/{before}")

    assert verdict(api, now)["status"] == "NO_BASELINE"
    assert diff(api, before, now).status_code == 404


def pin(api, run):
    experiment = experiment_of(api, run)
    return api.put(f"/api/v1/experiments/{experiment}/baseline", json={"runId": run})


def test_the_automatic_baseline_is_the_latest_run_and_says_that_it_failed_the_gate(api):
    run_of(api, items_of([1.0] * 20))
    bad = run_of(api, items_of([0.0] * 20))
    api.portal.call(api.app.state.comparisons.wait_until_idle)

    answer = verdict(api, run_of(api, items_of([0.0] * 20)))

    assert (answer["status"], answer["baselineRunId"]) == ("PASS", bad)
    assert answer["baselineReason"] == (
        "It is the latest run that succeeded before the candidate started; it failed the gate itself, so "
        "what was lost before it goes unseen (pin a run that is known to be good, or set "
        "skipFailedBaselines)."
    )


def test_runs_that_failed_the_gate_are_skipped_where_asked(api):
    good = run_of(api, items_of([1.0] * 20))
    # Compared with the one before, only the first of them failed.
    bad, later = (run_of(api, items_of([0.0] * 20)) for _ in range(2))
    api.portal.call(api.app.state.comparisons.wait_until_idle)
    now = start(api)
    send(api, now, items_of([0.0] * 20))
    end(api, now)

    assert verdict(api, later, skipFailedBaselines=True)["baselineRunId"] == good
    answer = verdict(api, later, skipFailedBaselines=True)
    assert (answer["status"], answer["baselineSource"]) == ("FAIL", "AUTOMATIC")
    assert answer["baselineReason"] == (
        "It is the latest run that succeeded before the candidate started; 1 later run failed the gate and "
        "is skipped (pin one as the baseline to compare with that)."
    )
    experiment = experiment_of(api, later)
    path = f"/api/v1/experiments/{experiment}/runs/{later}/baseline"
    assert api.get(path).json()["baselineRunId"] == bad
    assert api.get(path, params={"skipFailedBaselines": "true"}).json()["baselineRunId"] == good
    assert pin(api, bad).status_code == 200
    assert verdict(api, now, skipFailedBaselines=True)["baselineRunId"] == bad


def test_where_all_earlier_runs_failed_the_gate_the_latest_is_the_baseline(api):
    good = run_of(api, items_of([1.0] * 20))
    bad = run_of(api, items_of([0.0] * 20))
    assert verdict(api, bad)["status"] == "FAIL"
    api.portal.call(api.app.state.comparisons.wait_until_idle)
    api.delete(f"/api/v1/runs/{good}")

    answer = verdict(api, run_of(api, items_of([0.0] * 20)), skipFailedBaselines=True)

    assert answer["baselineRunId"] == bad
    assert "it failed the gate itself, as all runs before it" in answer["baselineReason"]


def test_a_run_whose_items_all_errored_is_no_automatic_baseline_and_a_warning_where_it_is_named(api):
    good = run_of(api, items_of([1.0] * 5))
    errored = run_of(api, [item({}, error="ValueError: no answer") for _ in range(5)])
    empty = run_of(api, [])
    now = run_of(api, items_of([1.0] * 5))

    assert verdict(api, now)["baselineRunId"] == good
    named = verdict(api, now, baselineRunId=errored)
    assert (named["status"], named["baselinePassRate"]) == ("PASS", 0.0)
    assert any("Every item of the baseline errored" in text for text in named["warnings"])
    named = verdict(api, now, baselineRunId=empty)
    assert (named["status"], named["addedCount"]) == ("PASS", 5)
    assert "The baseline has no items, so nothing was compared." in named["warnings"]
    assert verdict(api, now, baselineRunId=empty, failOnErrors=True)["status"] == "FAIL"


def test_a_run_of_part_of_its_data_set_is_neither_gated_nor_a_baseline(api):
    whole = run_of(api, items_of([1.0] * 5), provenance={"partial": None, "gitDirty": True})
    part = run_of(api, items_of([1.0] * 2), provenance={"partial": "items that failed"})
    now = run_of(api, items_of([1.0] * 5), provenance={"note": 'a text with "partial":"yes" in it'})

    answer = gate(api, part)

    assert answer.status_code == 409
    assert answer.json()["message"].startswith(
        f"A gate compares whole runs, and the candidate {part} covers only part of its data set (items that "
    )
    assert gate(api, now, baselineRunId=part).status_code == 409
    assert verdict(api, now)["baselineRunId"] == whole
    assert verdict(api, run_of(api, items_of([1.0] * 5)))["baselineRunId"] == now
    refused = pin(api, part)
    assert refused.status_code == 409
    assert "A run of part of its data set (items that failed) cannot" in refused.json()["message"]
    warnings = diff(api, whole, part).json()["summary"]["warnings"]
    assert any("covers only part of its data set (items that failed)" in text for text in warnings)
    api.portal.call(api.app.state.comparisons.wait_until_idle)
    assert part not in {one["runId"] for one in api.get("/api/v1/projects").json()[0]["verdicts"]}


def test_a_baseline_that_failed_the_gate_is_warned_of_unless_somebody_chose_it(api):
    run_of(api, items_of([1.0] * 20))
    bad = run_of(api, items_of([0.0] * 20))
    api.portal.call(api.app.state.comparisons.wait_until_idle)
    now = run_of(api, items_of([0.0] * 20))

    automatic = verdict(api, now)
    assert (automatic["status"], automatic["baselineRunId"]) == ("PASS", bad)
    [warning] = automatic["baselineWarnings"]
    assert warning in automatic["warnings"]
    assert warning.startswith("The baseline failed the gate itself, so what was lost before it goes unseen")
    assert verdict(api, now, baselineRunId=bad)["baselineWarnings"] == []
    assert pin(api, bad).status_code == 200
    assert verdict(api, now)["baselineWarnings"] == []


def test_a_baseline_whose_run_failed_is_warned_of_even_where_it_was_chosen(api):
    failed = run_of(api, items_of([1.0] * 20), status="FAILED")
    now = run_of(api, items_of([1.0] * 20))

    answer = verdict(api, now, baselineRunId=failed)

    assert answer["status"] == "PASS"
    assert answer["baselineWarnings"] == ["The baseline's run failed, so what it measured may not be whole."]
    assert answer["baselineWarnings"][0] in answer["warnings"]


def test_a_baseline_of_which_all_errored_is_warned_of(api):
    errored = [item(error="down") for _ in range(5)]
    before = run_of(api, errored)
    now = run_of(api, items_of([0.0] * 5))

    [warning] = verdict(api, now, baselineRunId=before)["baselineWarnings"]

    assert "Every item of the baseline errored" in warning


def test_nothing_that_a_server_cannot_do_is_advised(api):
    """Items are run again where the application is, and baselines are files there."""
    judge = {"name": "accuracy", "deterministic": False}
    before = run_of(api, items_of([1.0] * 40), evaluators=[{**judge, "fingerprint": "a"}])
    now = run_of(api, items_of([0.0] * 2 + [1.0] * 38), evaluators=[{**judge, "fingerprint": "b"}])

    answer = verdict(api, now, baselineRunId=before, severity="auto", requirePower=True, failOnErrors=True)

    said = " ".join([*answer["reasons"], *answer["warnings"], *answer["itemGuardsInWords"]])
    assert "cannot be told from noise with one repeat; run 3 on each side: " in said
    assert "counts only with more repeats" in said
    assert "compare with a baseline that was scored by the new one" in said
    assert not [
        word for word in ("rerun", "again", "Accept", "accept", "dokimos noise", "--") if word in said
    ]


def test_items_that_moved_are_paired_by_what_a_server_has(api):
    before = run_of(api, items_of([1.0] * 8))
    now = run_of(api, items_of([1.0] * 8)[::-1])

    [warning] = [
        text for text in verdict(api, now, baselineRunId=before)["warnings"] if "by position" in text
    ]

    assert warning.endswith("Items of versions of one dataset (dataset://NAME@VERSION) are paired by it.")
