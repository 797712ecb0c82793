"""Runs for tests of judge jobs, and waiting until a job is where a test expects it."""

import time

from tests.server.gate_runs import end, send, start

PATIENCE = 60.0
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")


def answered(output, expected="yes", **fields):
    """An item that nobody has scored."""
    return {
        "inputs": {"question": "Is it so?"},
        "actualOutputs": {"output": output},
        "expectedOutputs": {"output": expected},
        **fields,
    }


def stored_run(api, items, status="SUCCESS", headers=None):
    run = start(api, headers=headers)
    send(api, run, items, headers=headers)
    if status != "RUNNING":
        end(api, run, status, headers=headers)
    return run


def exact(name="exact", **fields):
    return {"evaluatorName": name, "evaluator": {"type": "exact_match"}, **fields}


def begin(api, run, headers=None, **body):
    answer = api.post(f"/api/v1/runs/{run}/judge-jobs", json=body, headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()


def job_of(api, job):
    return api.get(f"/api/v1/runs/{job['runId']}/judge-jobs/{job['id']}").json()


def wait_for_job(api, job, *statuses):
    """The job, once it has one of these statuses; by default, once it has ended."""
    limit = time.monotonic() + PATIENCE
    while True:
        now = job_of(api, job)
        if now["status"] in (statuses or ENDED):
            return now
        assert time.monotonic() < limit, f"the job is still {now}"
        time.sleep(0.02)  # between two looks


def score(api, run, **body):
    return wait_for_job(api, begin(api, run, **body))


def read_run(api, run):
    return api.get(f"/api/v1/runs/{run}?size=2000").json()


def scores_of(api, run, name):
    """The score of each item, None for one that has none."""
    found = []
    for item in read_run(api, run)["items"]["content"]:
        (score,) = [each["score"] for each in item["evalResults"] if each["evaluatorName"] == name] or [None]
        found.append(score)
    return found
