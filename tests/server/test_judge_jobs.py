"""Judge jobs with evaluators that ask no model: what becomes of runs, items and counts."""

import pytest
from tests.server.gate_runs import item, run_of
from tests.server.judge_runs import (
    answered,
    begin,
    exact,
    read_run,
    score,
    scores_of,
    stored_run,
    wait_for_job,
)

from dokimos.server._judge_settings import JudgeSettings


@pytest.fixture
def api(serve):
    return serve(judging=JudgeSettings(poll_seconds=0.05))


def test_a_run_is_scored_and_has_its_status_again(api):
    run = stored_run(api, [answered("yes"), answered("no"), answered("yes")])

    job = score(api, run, **exact())

    assert (job["status"], job["attemptCount"], job["lastError"]) == ("SUCCEEDED", 1, None)
    assert (job["itemCount"], job["scoredCount"], job["errorCount"]) == (3, 3, 0)
    assert scores_of(api, run, "exact") == [1.0, 0.0, 1.0]
    after = read_run(api, run)
    assert (after["status"], after["totalItems"], after["passedItems"]) == ("SUCCESS", 3, 2)


@pytest.mark.parametrize("status", ["SUCCESS", "FAILED", "CANCELLED", "RUNNING"])
def test_a_run_keeps_the_status_that_it_had(api, status):
    run = stored_run(api, [answered("yes")], status=status)

    assert score(api, run, **exact())["status"] == "SUCCEEDED"

    assert read_run(api, run)["status"] == status


def test_counts_are_those_of_all_scores(api, database_settings):
    run = run_of(api, [item({"a": 1.0}, **answered("yes")), item({"a": 0.0}, **answered("yes"))])

    score(api, run, **exact())
    score(api, run, evaluatorName="length", evaluator={"type": "length", "params": {"max": 2}})

    assert read_run(api, run)["passedItems"] == 0
    assert api.get("/api/v1/runs/" + run).json()["totalItems"] == 2
    check_counts(database_settings)


def check_counts(database_settings):
    """Count what is kept of all rows again."""
    import asyncio

    from dokimos.server import ServerSettings
    from dokimos.server._db.database import open_database
    from dokimos.server._services.kept_counts import find_differences

    async def check():
        database = open_database(ServerSettings(**database_settings))
        await database.open()
        try:
            assert await database.read(lambda connection: list(find_differences(connection))) == []
        finally:
            await database.close()

    if "database_url" in database_settings:
        asyncio.run(check())


def test_an_item_that_cannot_be_scored_is_an_error_and_no_score(api):
    run = stored_run(api, [answered("yes"), answered("yes"), {**answered("x"), "expectedOutputs": {}}])

    job = score(api, run, **exact())

    assert (job["status"], job["scoredCount"], job["errorCount"]) == ("SUCCEEDED", 2, 1)
    assert scores_of(api, run, "exact") == [1.0, 1.0, None]
    (error,) = api.get(f"/api/v1/runs/{run}/judge-jobs/{job['id']}/errors").json()
    assert (error["ordinal"], error["kind"]) == (2, "missing")
    assert "expected_output" in error["message"]


def test_an_evaluator_that_errors_on_each_item_fails_the_job_and_the_run(api):
    run = stored_run(api, [answered("yes")] * 3)

    job = score(api, run, evaluatorName="cost", evaluator={"type": "cost", "params": {"maxUsd": 1.0}})

    assert (job["status"], job["errorCount"]) == ("FAILED", 3)
    assert "None of 3 items" in job["lastError"]
    after = read_run(api, run)
    assert after["status"] == "FAILED"
    assert "cost" in after["statusReason"]

    answer = api.delete(f"/api/v1/runs/{run}/judge-jobs/{job['id']}")

    assert answer.status_code == 204
    after = read_run(api, run)
    assert (after["status"], after["statusReason"]) == ("SUCCESS", None)


def test_a_later_job_of_the_same_name_makes_a_failed_one_good(api):
    run = stored_run(api, [answered("yes")] * 3)
    score(api, run, evaluatorName="size", evaluator={"type": "cost", "params": {"maxUsd": 1.0}})
    assert read_run(api, run)["status"] == "FAILED"

    job = score(api, run, evaluatorName="size", evaluator={"type": "length", "params": {"max": 9}})

    assert job["status"] == "SUCCEEDED"
    assert read_run(api, run)["status"] == "SUCCESS"


def test_a_name_is_taken_until_its_job_has_failed(api):
    run = stored_run(api, [answered("yes")])
    score(api, run, **exact())

    answer = api.post(f"/api/v1/runs/{run}/judge-jobs", json=exact())

    assert answer.status_code == 409
    assert "replace" in answer.json()["message"]


SHORT = {"type": "length", "params": {"max": 9}}
LOOSE = {"type": "equality", "params": {"ignoreCase": True}}


def refuse(api, path, json=None):
    """What a conflict says."""
    answer = api.post(f"/api/v1/runs/{path}", json=json)
    assert answer.status_code == 409, answer.text
    return answer.json()["message"]


def partly_scored(api, end="FAILED"):
    """A run of which a job has scored one item of three, and that job."""
    run = stored_run(api, [answered("yes"), *[{**answered("x"), "expectedOutputs": {}}] * 2])
    job = score(api, run, **exact())
    assert (job["status"], job["scoredCount"]) == (end, 1)
    return run, job


def test_scores_of_another_evaluator_are_not_mixed_under_one_name(api):
    run, job = partly_scored(api)

    assert '"replace": true' in refuse(
        api, f"{run}/judge-jobs", {"evaluatorName": "exact", "evaluator": LOOSE}
    )
    assert read_run(api, run)["status"] == "FAILED"
    assert score(api, run, **exact())["scoredCount"] == 1  # the same evaluator continues
    job = score(api, run, evaluatorName="exact", evaluator=SHORT, replace=True)

    assert (job["status"], scores_of(api, run, "exact")) == ("SUCCEEDED", [1.0, 1.0, 1.0])


def test_whose_scores_they_are_is_known_after_the_job_is_deleted(api):
    run, job = partly_scored(api)
    assert api.delete(f"/api/v1/runs/{run}/judge-jobs/{job['id']}").status_code == 204

    refuse(api, f"{run}/judge-jobs", {"evaluatorName": "exact", "evaluator": SHORT})

    assert score(api, run, evaluatorName="exact", evaluator=SHORT, replace=True)["scoredCount"] == 3
    refuse(api, f"{run}/judge-jobs", exact() | {"replace": False})


def test_a_failed_replacement_does_not_decide_whose_scores_they_are(api):
    run, _ = partly_scored(api)
    cost = {"type": "cost", "params": {"maxUsd": 1.0}}
    assert score(api, run, evaluatorName="exact", evaluator=cost, replace=True)["status"] == "FAILED"

    refuse(api, f"{run}/judge-jobs", {"evaluatorName": "exact", "evaluator": cost})

    assert score(api, run, **exact())["scoredCount"] == 1


def test_retry_mixes_no_scores_of_two_evaluators(api):
    run = stored_run(api, [answered("yes")] * 2)
    cost = {"type": "cost", "params": {"maxUsd": 1.0}}
    first = score(api, run, evaluatorName="size", evaluator=cost)
    assert first["status"] == "FAILED"
    second = score(api, run, evaluatorName="size", evaluator=SHORT)
    assert second["status"] == "SUCCEEDED"

    assert "taken its place" in refuse(api, f"{run}/judge-jobs/{first['id']}/retry")
    assert api.delete(f"/api/v1/runs/{run}/judge-jobs/{second['id']}").status_code == 204
    assert "another evaluator by now" in refuse(api, f"{run}/judge-jobs/{first['id']}/retry")
    assert read_run(api, run)["status"] == "SUCCESS"


def test_a_replacement_that_failed_can_be_retried(api):
    run = stored_run(api, [answered("yes")] * 2)
    score(api, run, **exact())
    cost = {"type": "cost", "params": {"maxUsd": 1.0}}
    job = score(api, run, evaluatorName="exact", evaluator=cost, replace=True)
    assert job["status"] == "FAILED"

    assert api.post(f"/api/v1/runs/{run}/judge-jobs/{job['id']}/retry").status_code == 200

    assert wait_for_job(api, job)["status"] == "FAILED"
    assert scores_of(api, run, "exact") == [1.0, 1.0]


def test_scores_that_a_client_sent_stay(api):
    run = run_of(api, [item({"exact": 0.25}, **answered("yes")), answered("yes")])

    job = score(api, run, **exact())

    assert job["scoredCount"] == 2
    assert scores_of(api, run, "exact") == [0.25, 1.0]


def test_a_changed_evaluator_replaces_all_scores_at_once(api):
    run = stored_run(api, [answered("YES"), answered("yes"), answered("no")])
    score(api, run, **exact())
    assert read_run(api, run)["passedItems"] == 1

    job = score(api, run, evaluatorName="exact", evaluator=LOOSE, replace=True)

    assert job["status"] == "SUCCEEDED"
    assert scores_of(api, run, "exact") == [1.0, 1.0, 0.0]
    after = read_run(api, run)
    assert (after["passedItems"], after["status"]) == (2, "SUCCESS")


def test_items_that_a_replacement_could_not_score_are_scored_by_a_retry(api):
    outputs = [answered("YES"), answered("yes"), {**answered("no"), "expectedOutputs": {}}]
    run = stored_run(api, outputs)
    score(api, run, evaluatorName="exact", evaluator=SHORT)
    assert scores_of(api, run, "exact") == [1.0, 1.0, 1.0]
    job = score(api, run, evaluatorName="exact", evaluator=LOOSE, replace=True)
    assert (job["errorCount"], scores_of(api, run, "exact")) == (1, [1.0, 1.0, None])

    answer = api.post(f"/api/v1/runs/{run}/judge-jobs/{job['id']}/retry")

    assert answer.status_code == 200, answer.text
    job = wait_for_job(api, job)
    assert (job["status"], job["scoredCount"], job["errorCount"]) == ("SUCCEEDED", 2, 1)
    assert scores_of(api, run, "exact") == [1.0, 1.0, None]  # those of the replacement stay


def test_a_replacement_that_fails_leaves_the_scores_as_they_are(api):
    run = stored_run(api, [answered("yes")] * 2)
    score(api, run, **exact())

    job = score(
        api, run, evaluatorName="exact", replace=True, evaluator={"type": "cost", "params": {"maxUsd": 1.0}}
    )

    assert job["status"] == "FAILED"
    assert scores_of(api, run, "exact") == [1.0, 1.0]


def test_retry_scores_only_what_has_no_score(api):
    run = stored_run(api, [answered("yes"), {**answered("x"), "expectedOutputs": {}}, answered("no")])
    job = score(api, run, **exact())
    assert job["errorCount"] == 1

    answer = api.post(f"/api/v1/runs/{run}/judge-jobs/{job['id']}/retry")

    assert answer.status_code == 200, answer.text
    job = wait_for_job(api, job)
    assert (job["status"], job["scoredCount"], job["errorCount"]) == ("SUCCEEDED", 2, 1)
    assert len(api.get(f"/api/v1/runs/{run}/judge-jobs/{job['id']}/errors").json()) == 1


def test_several_jobs_score_one_run_at_once(api):
    run = stored_run(api, [answered("yes")] * 30)

    jobs = [begin(api, run, **exact(f"exact {number}")) for number in range(5)]

    assert [wait_for_job(api, job)["status"] for job in jobs] == ["SUCCEEDED"] * 5
    after = read_run(api, run)
    assert (after["status"], after["passedItems"]) == ("SUCCESS", 30)
    assert all(len(each["evalResults"]) == 5 for each in after["items"]["content"])
    listed = api.get(f"/api/v1/runs/{run}/judge-jobs").json()
    assert [job["id"] for job in listed] == [job["id"] for job in jobs]


def test_an_item_without_an_output_is_left_out(api):
    run = stored_run(api, [answered("yes"), {**answered("no"), "error": "it broke"}])

    job = score(api, run, **exact())

    assert (job["status"], job["scoredCount"], job["skippedCount"]) == ("SUCCEEDED", 1, 1)


def test_a_job_that_finds_no_output_fails_and_replaces_nothing(api):
    run = stored_run(api, [{**answered("no"), "error": "it broke"}] * 2)

    job = score(api, run, **exact())

    assert (job["status"], job["scoredCount"], job["skippedCount"]) == ("FAILED", 0, 2)
    assert "None of 2 items could be scored: the application gave no output" in job["lastError"]
    assert score(api, run, **exact(), replace=True)["status"] == "FAILED"


def test_a_run_that_goes_on_after_a_failed_job_has_no_end(api):
    run = stored_run(api, [answered("yes")], status="RUNNING")
    score(api, run, evaluatorName="size", evaluator={"type": "cost", "params": {"maxUsd": 1.0}})
    assert read_run(api, run)["completedAt"] is not None

    score(api, run, evaluatorName="size", evaluator={"type": "length", "params": {"max": 9}})

    after = read_run(api, run)
    assert (after["status"], after["completedAt"]) == ("RUNNING", None)


def test_an_empty_run_has_nothing_to_score(api):
    run = stored_run(api, [])

    assert score(api, run, **exact())["status"] == "SUCCEEDED"


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"evaluatorName": "x"}, 400, "connectionId"),
        ({"evaluatorName": " ", **{"evaluator": {"type": "exact_match"}}}, 400, "evaluatorName"),
        ({"evaluatorName": "x", "evaluator": {"type": "exact_mach"}}, 400, "exact_match"),
        ({"evaluatorName": "x", "evaluator": {"type": "function"}}, 400, "runs code"),
        ({"evaluatorName": "x", "evaluator": {"type": "faithfulness"}}, 400, "connectionId"),
        ({"evaluatorName": "x", "evaluator": {"type": "length", "params": {"most": 3}}}, 400, "most"),
        ({"evaluatorName": "x", "evaluator": {"type": "length", "params": {"max": "3"}}}, 400, "max"),
        (
            {"evaluatorName": "x", "connectionId": "no", "evaluator": {"type": "exact_match"}},
            400,
            "connectionId",
        ),
        (
            {
                "evaluatorName": "x",
                "connectionId": "019ab0d5-0000-7000-8000-000000000000",
                "criteria": "good",
                "evaluationParams": ["INPUT"],
                "minScore": 1,
                "maxScore": 1,
            },
            400,
            "minScore",
        ),
        (
            {
                "evaluatorName": "x",
                "connectionId": "019ab0d5-0000-7000-8000-000000000000",
                "criteria": "good",
                "evaluationParams": [],
                "minScore": 0,
                "maxScore": 1,
            },
            400,
            "evaluationParams",
        ),
        (
            {
                "evaluatorName": "x",
                "connectionId": "019ab0d5-0000-7000-8000-000000000000",
                "criteria": "good",
                "evaluationParams": ["INPUT", "ACTUAL_OUTPUT"],
                "minScore": 0,
                "maxScore": 1,
            },
            404,
            "LLM connection not found",
        ),
    ],
)
def test_a_job_that_cannot_be_done_is_refused_at_once(api, body, status, words):
    run = stored_run(api, [answered("yes")])

    answer = api.post(f"/api/v1/runs/{run}/judge-jobs", json=body)

    assert answer.status_code == status, answer.text
    assert words in answer.json()["message"]
    assert read_run(api, run)["status"] == "SUCCESS"


def test_a_run_that_does_not_exist_is_404(api):
    answer = api.post("/api/v1/runs/019ab0d5-0000-7000-8000-000000000000/judge-jobs", json=exact())

    assert answer.status_code == 404


def test_deleting_the_run_ends_its_job(api):
    run = stored_run(api, [answered("yes")])
    score(api, run, **exact())

    assert api.delete(f"/api/v1/runs/{run}").status_code == 204
    assert api.get(f"/api/v1/runs/{run}/judge-jobs").status_code == 404


def test_what_fails_for_a_job_is_in_the_queue_of_failed_items_whatever_was_reviewed_before(api):
    run = stored_run(api, [answered("yes")] * 4 + [answered("no")] * 2)  # without a score, none passes
    ids = [each["id"] for each in read_run(api, run)["items"]["content"]]
    for each in ids[:4]:
        path = f"/api/v1/runs/{run}/items/{each}/annotation"
        assert api.put(path, json={"verdict": "CORRECT"}).status_code == 200

    def failed():
        answer = api.get(f"/api/v1/review-queue?runId={run}&outcome=failed")
        return [row["itemId"] for row in answer.json()["content"]]

    assert failed() == []
    score(api, run, **exact())
    assert failed() == ids[4:]
    score(api, run, **exact(replace=True))
    assert failed() == ids[4:]
