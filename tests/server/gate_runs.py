"""Runs for tests of comparisons: made by scores."""


def item(scores=None, **fields):
    """An item whose evaluators gave these scores, out of 1, and pass from 0.5 on."""
    return {
        "inputs": {"input": "question"},
        "expectedOutputs": {},
        "actualOutputs": {},
        "evalResults": [
            {"name": name, "score": score, "threshold": 0.5, "success": score >= 0.5}
            for name, score in (scores or {}).items()
        ],
        "success": True,
        **fields,
    }


def items_of(scores, name="accuracy"):
    """An item for each score of one evaluator."""
    return [item({name: score}, inputs={"input": f"question {n}"}) for n, score in enumerate(scores)]


def start(api, experiment=None, project="chat", headers=None, **body):
    experiment = experiment or getattr(api, "experiment", "qa")
    answer = api.post(
        f"/api/v1/projects/{project}/runs", json={"experimentName": experiment, **body}, headers=headers
    )
    assert answer.status_code == 201, answer.text
    return answer.json()["runId"]


def send(api, run, items, headers=None):
    if items:
        answer = api.post(f"/api/v1/runs/{run}/items", json={"items": items}, headers=headers)
        assert answer.status_code == 201, answer.text


def end(api, run, status="SUCCESS", headers=None):
    answer = api.patch(f"/api/v1/runs/{run}", json={"status": status}, headers=headers)
    assert answer.status_code == 200, answer.text


def run_of(api, items, status="SUCCESS", headers=None, **body):
    """A run that has ended."""
    run = start(api, headers=headers, **body)
    send(api, run, items, headers=headers)
    end(api, run, status, headers=headers)
    return run


def experiment_of(api, run):
    return api.get(f"/api/v1/runs/{run}").json()["experimentId"]


def gate(api, candidate, headers=None, **options):
    experiment = experiment_of(api, candidate)
    body = {"candidateRunId": candidate, **options}
    return api.post(f"/api/v1/experiments/{experiment}/gate", json=body, headers=headers)


def verdict(api, candidate, **options):
    answer = gate(api, candidate, **options)
    assert answer.status_code == 200, answer.text
    return answer.json()


def diff(api, baseline, candidate, **query):
    experiment = experiment_of(api, candidate)
    return api.get(
        f"/api/v1/experiments/{experiment}/runs/{candidate}/diff",
        params={"baselineRunId": baseline, **query},
    )
