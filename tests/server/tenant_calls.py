"""A call of each route that changes something, with random aims; a route without one fails the test."""

OTHER_ROUTES = {
    "post /api/v1/session": "signs in, which is about who calls; tests/server/test_access.py does",
    "delete /api/v1/session": "signs out",
}
"""What the walk leaves out, and why."""
ENDLESS_READS = ("/api/v1/events",)
"""Answers that go on for ever; their own tests show who is told what."""
INTO_RUNS = ("post /api/v1/runs/{runId}/items", "patch /api/v1/runs/{runId}/description")
"""What writes into the row of a run, whoever's that is; all others make rows of the caller's tenant."""
KEYS = ("post /api/v1/api-keys/{keyId}/disable", "delete /api/v1/api-keys/{keyId}")


def bodies_of(world, caller):
    """By method and path, what makes the body of a call; all texts in it are the caller's own."""
    pick, part, text = world.random.choice, world.part, caller.marker
    named = {"inputs": {"q": text}, "expectedOutputs": {"a": text}, "metadata": {"m": text}, "id": text}

    def item():
        evaluation = {"name": text, "score": 1.0, "success": pick([True, False]), "reason": text}
        return {
            "inputs": {"q": pick([text, f"{text} again"])},
            "actualOutputs": {"a": text},
            "expectedOutputs": {},
            "evalResults": [evaluation],
        }

    def change():
        return pick(
            [
                {"op": "add", "inputs": {"q": text}},
                {"op": "set", "id": part("lineageId"), "metadata": {"m": text}},
                {"op": "remove", "id": part("datasetItemId")},
            ]
        )

    versions = {"items": [pick([named, {"inputs": {"q": text}}])], "description": text}
    return {
        "post /api/v1/projects/{name}/runs": lambda: {
            "experimentName": pick(["qa", "rag"]), "name": text, "metadata": {"m": text}, "tags": [text],
            **pick([{}, {"datasetName": pick(world.names), "datasetVersion": pick([1, 2])}]),
        },
        "delete /api/v1/projects/{name}": lambda: None,
        "delete /api/v1/experiments/{experimentId}": lambda: None,
        "put /api/v1/experiments/{experimentId}/baseline": lambda: {"runId": pick([part("runId"), None])},
        "post /api/v1/experiments/{experimentId}/gate": lambda: {
            "candidateRunId": part("runId"), **pick([{}, {"baselineRunId": part("runId")}]),
        },
        "delete /api/v1/runs/{runId}": lambda: None,
        "patch /api/v1/runs/{runId}": lambda: {"status": pick(["SUCCESS", "FAILED", "RUNNING"])},
        "patch /api/v1/runs/{runId}/description": lambda: {"notes": text, "tags": [text]},
        "post /api/v1/runs/{runId}/items": lambda: {"items": [item(), {**item(), "ordinal": pick([0, 7])}]},
        "post /api/v1/runs/{runId}/comments": lambda: {
            "body": text, **pick([{}, {"itemId": part("itemId")}]),
        },
        "delete /api/v1/runs/{runId}/comments/{commentId}": lambda: None,
        "put /api/v1/runs/{runId}/items/{itemId}/annotation": lambda: {
            "verdict": pick(["CORRECT", "INCORRECT"]), "note": text,
            "overriddenExpectedOutput": pick([None, {"a": text}]),
        },
        "delete /api/v1/runs/{runId}/items/{itemId}/annotation": lambda: None,
        "post /api/v1/datasets": lambda: {"name": pick(world.names), "description": text},
        "delete /api/v1/datasets/{name}": lambda: None,
        "post /api/v1/datasets/{name}/versions": lambda: versions,
        "put /api/v1/datasets/{name}/versions": lambda: versions,
        "post /api/v1/datasets/{name}/versions/{version}/edits": lambda: {"changes": [change()]},
        "post /api/v1/datasets/promote": lambda: {
            "datasetName": pick(world.names), "description": text, "mode": pick(["append", "replace"]),
            "items": [
                {"itemResultId": part("itemId"), "overriddenExpectedOutput": pick([None, {"a": text}])}
            ],
        },
        "post /api/v1/api-keys": lambda: {
            "name": text, "role": "VIEWER", "tenantId": pick([caller.tenant, "ada", None]),
        },
        **dict.fromkeys(KEYS, lambda: None),
    }  # fmt: skip
