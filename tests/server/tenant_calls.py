"""A call of each route that changes something, with random aims; a route without one fails the test."""

from tests.server.trace_requests import export, span

OTHER_ROUTES = {
    "post /api/v1/session": "signs in, which is about who calls; tests/server/test_access.py does",
    "delete /api/v1/session": "signs out",
    "post /api/v1/session/oidc/sign-out": "signs out; tests/server/test_oidc.py does",
    "delete /api/v1/sessions": "ends the caller's sessions; tests/server/test_sessions.py does",
    "delete /api/v1/sessions/{sessionId}": "ends a session; tests/server/test_sessions.py does",
    **{
        call: "is about traces, which are in a database of their own; tests/server/test_trace_*.py do"
        for call in (
            "post /v1/logs",
            "delete /api/v1/traces/{traceId}",
        )
    },
    **{
        call: "would change what the callers of the walk may; tests/server/test_keys.py does"
        for call in (
            "patch /api/v1/api-keys/{keyId}",
            "post /api/v1/api-keys/{keyId}/rotate",
            "post /api/v1/api-keys/{keyId}/enable",
            "delete /api/v1/api-keys/{keyId}/sessions",
        )
    },
    **{
        f"{call} /api/v1/users/{{userId}}{rest}": "is about people; tests/server/test_users.py does"
        for call, rest in (("patch", ""), ("post", "/disable"), ("post", "/enable"), ("delete", "/sessions"))
    },
}
"""What the walk leaves out, and why."""
ENDLESS_READS = ("/api/v1/events", "/api/v1/session/oidc/start", "/api/v1/session/oidc/callback")
"""Answers that go on for ever, or at an identity provider; their own tests show who is told what."""
FIXED_KEYS = ("post /api/v1/api-keys/{keyId}/disable", "delete /api/v1/api-keys/{keyId}")
"""What would take their keys from the callers of the walk."""

ITEM = "/api/v1/runs/{runId}/items/{itemId}"
JOBS = "/api/v1/runs/{runId}/judge-jobs"
WEBHOOKS = "/api/v1/projects/{projectId}/alert-webhooks"
CONNECTIONS = "/api/v1/llm-connections"
RULES = "/api/v1/projects/{projectId}/trace-eval-rules"
ALERTS = "/api/v1/projects/{projectId}/trace-alerts"


def bodies_of(world, caller):
    """By method and path, what makes the body of a call; all texts in it are those of this call."""
    pick, text = world.random.choice, caller.marker

    def part(name):
        return world.part(name, caller)

    role = ["VIEWER", "EDITOR", "ADMIN"]
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

    def webhook():
        # Nobody listens there: each call fails at once.
        return {"url": f"http://127.0.0.1:9/{text}", "secret": pick([text, None]), "format": "slack"}

    def connection():
        return {
            "name": text, "baseUrl": f"http://127.0.0.1:9/{text}", "model": text, "apiKey": f"sk-{text}",
            "maxOutputTokens": pick([None, 7]),
        }  # fmt: skip

    def rule():
        evaluator = {"evaluator": {"type": "contains", "params": {"values": [text]}}}
        judge = {"connectionId": part("connectionId"), "criteria": text, "maxScore": 1}
        return {
            "name": pick([text, "name-a"]), "matchType": "SPAN_NAME", "matchValue": text,
            "evaluatorName": text, **pick([evaluator, judge]),
        }  # fmt: skip

    def alert():
        of_rule = {"kind": "CHANGE", "metric": "SCORE", "ruleId": part("ruleId"), "reference": 0.5}
        of_traces = {"kind": "CHANGE", "metric": "LATENCY", "filter": {"rootName": text}}
        threshold = {"kind": "THRESHOLD", "metric": "ERROR_RATE", "limit": 0.5, "filter": {"model": text}}
        return {"name": pick([text, "name-a"]), **pick([of_rule, of_traces, threshold])}

    def traces():
        body = span(text, name=text, input=text, output=text, session__id=text)
        return export(body, project=pick([None, *world.names]))

    versions = {"items": [pick([named, {"inputs": {"q": text}}])], "description": text}
    return {
        "post /api/v1/projects/{name}/runs": lambda: {
            "experimentName": pick(["qa", "rag"]), "name": text, "metadata": {"m": text}, "tags": [text],
            **pick([{}, {"datasetName": pick(world.names), "datasetVersion": pick([1, 2])}]),
        },
        "delete /api/v1/projects/{name}": lambda: None,
        "put /api/v1/projects/{name}/redaction-rules": lambda: {"rules": [{"name": text, "keys": [text]}]},
        "post /api/v1/projects/{name}/redaction-rules/test": lambda: {"text": text},
        "patch /api/v1/projects/{name}/settings": lambda: pick(
            [{"alertOn": "passRate"}, {"runRetentionDays": 0.0}, {"baselineBranches": [text]}]
        ),
        "put /api/v1/projects/{name}/review-instructions": lambda: {"text": text},
        "post /api/v1/views": lambda: {
            "kind": pick(["runs", "items"]), "name": text, "query": {"search": text},
            "shared": pick([True, False]), "projectName": pick([None, *world.names]),
        },
        "patch /api/v1/views/{viewId}": lambda: {"query": {"search": text}, "shared": pick([True, False])},
        "delete /api/v1/views/{viewId}": lambda: None,
        f"post {WEBHOOKS}": webhook,
        f"put {WEBHOOKS}/{{webhookId}}": webhook,
        f"delete {WEBHOOKS}/{{webhookId}}": lambda: None,
        f"post {WEBHOOKS}/{{webhookId}}/test": lambda: {},
        f"post {WEBHOOKS}/{{webhookId}}/deliveries/{{deliveryId}}/redeliver": lambda: {},
        f"post {RULES}": rule,
        f"put {RULES}/{{ruleId}}": rule,
        f"delete {RULES}/{{ruleId}}": lambda: None,
        f"post {RULES}/dry-run": rule,
        f"post {RULES}/{{ruleId}}/back-fill": lambda: {"from": "2020-01-01T00:00:00Z"},
        f"post {ALERTS}": alert,
        f"put {ALERTS}/{{alertId}}": alert,
        f"delete {ALERTS}/{{alertId}}": lambda: None,
        f"post {ALERTS}/{{alertId}}/acknowledge": lambda: {"note": text},
        f"post {ALERTS}/back-test": alert,
        f"post {CONNECTIONS}": connection,
        f"put {CONNECTIONS}/{{connectionId}}": connection,
        f"delete {CONNECTIONS}/{{connectionId}}": lambda: None,
        f"post {CONNECTIONS}/test": connection,
        f"post {CONNECTIONS}/{{connectionId}}/test": lambda: pick([{}, {"model": text}]),
        "delete /api/v1/experiments/{experimentId}": lambda: None,
        "put /api/v1/experiments/{experimentId}/baseline": lambda: {"runId": pick([part("runId"), None])},
        "post /api/v1/experiments/{experimentId}/gate": lambda: {
            "candidateRunId": part("runId"), **pick([{}, {"baselineRunId": part("runId")}]),
        },
        "delete /api/v1/runs/{runId}": lambda: None,
        "patch /api/v1/runs/{runId}": lambda: {"status": pick(["SUCCESS", "FAILED", "RUNNING"])},
        # Most have no evaluator, and are refused: nobody works on the others, so their runs stay EVALUATING.
        f"post {JOBS}": lambda: {
            "evaluatorName": text, "replace": pick([True, False, False]),
            **pick([{"evaluator": {"type": "contains", "params": {"values": [text]}}}, {}, {}, {}, {}]),
        },
        **dict.fromkeys(
            (
                *(f"post {JOBS}/{{jobId}}/{verb}" for verb in ("pause", "resume", "cancel", "retry")),
            ),
            lambda: {},
        ),
        f"delete {JOBS}/{{jobId}}": lambda: None,
        "patch /api/v1/runs/{runId}/description": lambda: {"notes": text, "tags": [text]},
        "post /api/v1/runs/{runId}/items": lambda: {"items": [item(), {**item(), "ordinal": pick([0, 7])}]},
        "post /api/v1/runs/{runId}/comments": lambda: {
            "body": text, **pick([{}, {"itemId": part("itemId")}]),
        },
        "patch /api/v1/runs/{runId}/comments/{commentId}": lambda: {"body": text},
        "delete /api/v1/runs/{runId}/comments/{commentId}": lambda: None,
        "put /api/v1/runs/{runId}/items/{itemId}/annotation": lambda: {
            "verdict": pick(["CORRECT", "INCORRECT"]), "note": text,
            "overriddenExpectedOutput": pick([None, {"a": text}]),
        },
        "delete /api/v1/runs/{runId}/items/{itemId}/annotation": lambda: None,
        f"put {ITEM}/review": lambda: {
            "verdict": pick(["CORRECT", "INCORRECT", "UNSURE"]), "note": text,
        },
        f"delete {ITEM}/review": lambda: None,
        "put /api/v1/projects/{name}/label-schemas/{label}": lambda: {
            "kind": "choice", "choices": ["a", "b"], "description": text,
        },
        "delete /api/v1/projects/{name}/label-schemas/{label}": lambda: None,
        f"post {ITEM}/review/undo": lambda: None,
        "post /api/v1/review-queue/claim": lambda: {
            "count": pick([1, 3]), "order": pick(["createdAt", "informative"]),
            "projectName": pick([None, *world.names]),
        },
        "post /api/v1/review-queue/heartbeat": lambda: {"itemIds": pick([None, [part("itemId")]])},
        "post /api/v1/review-queue/release": lambda: {"itemIds": pick([None, [part("itemId")]])},
        "post /api/v1/review-queue/assign": lambda: {
            "itemIds": [part("itemId")], "reviewer": pick([None, "system", caller.id]),
        },
        "post /api/v1/review-queue/traces": lambda: {"items": [{"traceId": part("traceId")}]},
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
        "post /api/v1/traces": traces,
        "post /v1/traces": traces,
        "post /api/v1/datasets/{name}/versions/from-traces": lambda: {
            "items": [{"traceId": part("traceId")}], "description": text,
        },
        "put /api/v1/projects/{name}/members/{memberId}": lambda: {"role": pick(role)},
        "delete /api/v1/projects/{name}/members/{memberId}": lambda: None,
        "put /api/v1/projects/{name}/datasets/{datasetName}": lambda: None,
        "delete /api/v1/projects/{name}/datasets/{datasetName}": lambda: None,
        "post /api/v1/api-keys": lambda: {
            "name": text, "role": pick(["NONE", *role]), "tenantId": pick([caller.tenant, *world.tenants]),
            "projects": pick([None, [{"project": pick(world.names), "role": pick(role)}]]),
        },
        **dict.fromkeys(FIXED_KEYS, lambda: None),
    }  # fmt: skip
