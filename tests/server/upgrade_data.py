"""A small store with rows in every table, and what the API answers about it: made by the code of a migration.

`tests/server/data/schema_<migration>.json` holds both, so that tests can upgrade what an earlier version
wrote.
When a migration is released, make its file with the code of that version, and never change it again:

    PYTHONPATH=src:. python -m tests.server.upgrade_data tests/server/data/schema_0008.json
"""

import json
import sys
import tempfile
import time
from pathlib import Path

ADMIN = "admin-key"
PASSPHRASE = "a passphrase of which nothing hangs"
PERSON = "01a20924-0000-7000-8000-000000000007"
SIGNED_IN = 1_795_000_000_000_000
VOLATILE = {"lastUsedAt", "warnings"}
"""Fields that reading changes, or whose sentences are worded anew when runs are compared again."""


def item(number, score=1.0, **fields):
    return {
        "inputs": {"input": f"question {number}"},
        "expectedOutputs": {"output": "yes"},
        "actualOutputs": {"output": "yes" if score else "no", "tokens": [1, 2**70]},
        "metadata": {"n": number, "half": "\ud800"},
        "evalResults": [
            {"name": "exact", "score": score, "threshold": 0.5, "success": score >= 0.5, "reason": "because"},
            {"name": "length", "score": 2.5, "success": True, "metadata": {"of": 3}},
        ],
        **fields,
    }


class Store:
    """A server of this version with its data."""

    def __init__(self, client):
        self.client = client
        self.keys = {"admin": ADMIN}
        self.calls = []

    def call(self, method, path, body=None, *, who="admin", key=None):
        headers = {"Content-Type": "application/json"}
        if who in self.keys:
            headers["Authorization"] = f"Bearer {self.keys[who]}"
        if key is not None:
            headers["Idempotency-Key"] = key
        content = None if body is None else json.dumps(body)  # also half a character
        answer = self.client.request(method, f"/api/v1{path}", content=content, headers=headers)
        assert answer.status_code < 300, (path, answer.text)
        return answer.json() if answer.content else None

    def insert(self, rows):
        """Store rows that come about only together with other systems."""
        from sqlalchemy import insert

        from dokimos.server._db.schema import METADATA

        def write(connection):
            for table, row in rows.items():
                connection.execute(insert(METADATA.tables[table]).values(row))

        self.client.portal.call(self.client.app.state.database.write, write)

    def record(self, method, path, body=None, *, who="admin"):
        """Keep what a call answers, for the tests of later versions."""
        answer = self.call(method, path, body, who=who)
        self.calls.append({"who": who, "method": method, "path": path, "body": body, "answer": answer})
        return answer

    def run(self, project, experiment, items, *, status="SUCCESS", who="admin", **body):
        """A run that has ended, or goes on."""
        body = {"experimentName": experiment, **body}
        run = self.call("POST", f"/projects/{project}/runs", body, who=who, key=f"{project} {len(items)}")
        path = f"/runs/{run['runId']}"
        if items:
            self.call("POST", f"{path}/items", {"items": items}, who=who, key="batch")
        if status != "RUNNING":
            self.call("PATCH", path, {"status": status}, who=who)
            self.wait_for_comparisons()
        return run["runId"]

    def wait_for_comparisons(self):
        """Let no comparison be made any more, so that answers stay what they are."""
        self.client.portal.call(self.client.app.state.comparisons.wait_until_idle)


def fill(store):
    """Put rows into every table."""
    store.call("POST", "/api-keys", {"name": "old", "role": "VIEWER"})
    for tenant in ("red", "blue"):
        made = store.call("POST", "/api-keys", {"name": tenant, "role": "EDITOR", "tenantId": tenant})
        store.keys[tenant] = made["key"]
    (old,) = [key for key in store.call("GET", "/api-keys") if key["name"] == "old"]
    store.call("POST", f"/api-keys/{old['id']}/disable")
    store.client.post("/api/v1/session", json={"key": ADMIN})
    store.client.cookies.clear()

    store.call("POST", "/datasets", {"name": "cases", "description": "of old"})
    items = [
        {"inputs": {"input": f"question {n}"}, "expectedOutputs": {"output": "yes"}, "metadata": {"n": n}}
        for n in range(12)
    ]
    store.call("POST", "/datasets/cases/versions", {"items": items[:10], "description": "first"})
    store.call("POST", "/datasets/cases/versions", {"items": items[2:], "description": "second"})
    store.call("POST", "/datasets", {"name": "own"}, who="red")
    store.call("POST", "/datasets/own/versions", {"items": items[:1]}, who="red")
    linked = store.call("GET", "/datasets/cases/versions/2/items")["content"]

    described = {
        "name": "nightly", "metadata": {"model": "m", "large": 2**70}, "gitSha": "abc", "gitBranch": "main",
        "triggeredBy": "ci", "notes": "careful", "tags": ["nightly", "main"],
        "datasetName": "cases", "datasetVersion": 2,
        "evaluators": [{"name": "exact", "fingerprint": "f", "rangeLow": 0.0, "rangeHigh": 1.0}],
    }  # fmt: skip
    costs = {"tokensIn": 10, "tokensOut": 20, "costUsd": 0.25, "latencyMs": 100}
    good = [item(n, datasetItemId=linked[n]["id"], **costs) for n in range(10)]
    worse = [item(n, float(n > 5), datasetItemId=linked[n]["id"], ordinal=n) for n in range(10)]
    first = store.run("chat", "qa", good, **described)
    second = store.run("chat", "qa", [*worse, item(11, error="boom")], **described)
    store.run("chat", "qa", good[:3], status="RUNNING")
    store.run("chat", "rag", good[:2], status="FAILED")
    store.run("chat", "rag", [], status="CANCELLED", who="red")
    store.run("own", "qa", good[:1], who="red")
    gone = store.run("gone", "qa", good[:4])
    store.call("DELETE", f"/runs/{gone}")
    promote(store, first, second)
    return first, second


def promote(store, first, second):
    """What people say about items, and a version that they make of them."""
    content = store.call("GET", f"/runs/{second}?size=50")["items"]["content"]
    wrong = f"/runs/{second}/items/{content[0]['id']}/annotation"
    correction = {"verdict": "INCORRECT", "overriddenExpectedOutput": {"output": "no"}, "note": "old"}
    store.call("PUT", wrong, correction)
    store.call("PUT", wrong, {"verdict": "CORRECT", "note": "of red"}, who="red")
    store.call("POST", f"/runs/{second}/comments", {"body": "look"})
    store.call("POST", f"/runs/{second}/comments", {"body": "here", "itemId": content[0]["id"]}, who="red")
    promoted = [{"itemResultId": each["id"]} for each in content[:3]]
    store.call("POST", "/datasets/promote", {"datasetName": "cases", "items": promoted})
    experiment = store.call("GET", f"/runs/{second}?size=1")["experimentId"]
    store.call("PUT", f"/experiments/{experiment}/baseline", {"runId": first})


def fill_team(store):
    """What teams need: people and their roles, settings, views, and alerts."""
    people = {
        "users": {
            "id": PERSON, "issuer": "https://login.example.com", "subject": "7", "name": "Zoë",
            "email": "zoe@example.com", "role": "VIEWER", "tenant_id": "red", "enabled": True,
            "created_at": SIGNED_IN, "last_seen_at": SIGNED_IN,
        },
        "used_sign_ins": {"state_hash": "00" * 32, "expires_at": 2 * SIGNED_IN},
    }  # fmt: skip
    store.insert(people)
    member = store.call("POST", "/api-keys", {"name": "member", "role": "NONE"})
    store.keys["member"] = member["key"]
    for name in (member["apiKey"]["id"], PERSON):
        store.call("PUT", f"/projects/chat/members/{name}", {"role": "EDITOR"})
    store.call("PUT", "/projects/chat/datasets/cases")
    kept = {"runRetentionDays": -1, "baselineBranches": ["main"], "alertOn": "passRate"}
    store.call("PATCH", "/projects/chat/settings", kept)
    for who, project in (("admin", "chat"), ("red", None)):
        view = {"kind": "runs", "name": "mine", "query": {"sort": "name"}, "projectName": project}
        store.call("POST", "/views", view, who=who)

    (project,) = [each["id"] for each in store.call("GET", "/projects") if each["name"] == "chat"]
    hook = {"url": "https://hooks.invalid/T1?x=1", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
    made = store.call("POST", f"/projects/{project}/alert-webhooks", hook)
    path = f"/projects/{project}/alert-webhooks/{made['id']}"
    store.call("POST", f"{path}/test")
    store.call("PUT", path, {**hook, "enabled": False})  # so that no later version calls it
    return path


def fill_judging(store, second):
    """What judges and reviewers leave behind."""
    connection = store.call("POST", "/llm-connections", {
        "name": "judge", "baseUrl": "https://models.invalid/v1", "model": "m",
        "apiKey": "sk-not-a-real-key-1", "inputPricePerMillion": 1.0, "outputPricePerMillion": 2.0,
        "maxOutputTokens": 100,
    })["id"]  # fmt: skip
    job = {"evaluatorName": "same", "evaluator": {"type": "exact_match"}, "concurrency": 2}
    job = store.call("POST", f"/runs/{second}/judge-jobs", job)
    path = f"/runs/{second}/judge-jobs/{job['id']}"
    while store.call("GET", path)["status"] in ("PENDING", "CLAIMED"):
        time.sleep(0.05)  # between two looks
    items = store.call("GET", f"/runs/{second}?size=50")["items"]["content"]
    project = next(each["id"] for each in store.call("GET", "/projects") if each["name"] == "chat")
    call = {"job_id": job["id"], "project_id": project, "tenant_id": None}
    rows = {
        "judge_errors": {
            "job_id": job["id"], "item_id": items[0]["id"], "kind": "error", "message": '"boom"',
            "created_at": SIGNED_IN,
        },
        "judge_scores": {"job_id": job["id"], "item_id": items[1]["id"], "score": 1.0, "success": True},
        "judge_calls": {
            **call, "id": PERSON, "key": "k", "identity": "m", "status": "EXPIRED", "calls": 1, "tokens": 9,
            "nano_usd": 5, "lease": "l", "created_at": SIGNED_IN, "answered_at": SIGNED_IN,
        },
        # Of the whole time of a job: the sums of days are removed some time.
        "judge_budgets": {
            "scope": f"job:{job['id']}", "job_id": job["id"], "spent_calls": 1, "spent_tokens": 9,
        },
    }  # fmt: skip
    store.insert(rows)
    schema = {"kind": "choice", "choices": ["a", "b"], "description": "of old"}
    store.call("PUT", "/projects/chat/label-schemas/tone", schema)
    store.call("PUT", f"/runs/{second}/items/{items[1]['id']}/review", {"verdict": "CORRECT"}, who="red")
    store.call("POST", "/review-queue/claim", {"count": 1, "projectName": "chat"})
    return path, connection


def fill_online(store, second):
    """What rules and alerts on traces leave behind; none of it runs on."""
    project = next(each["id"] for each in store.call("GET", "/projects") if each["name"] == "chat")
    rules, alerts = (f"/projects/{project}/trace-{each}" for each in ("eval-rules", "alerts"))
    rule = store.call("POST", rules, {
        "name": "short", "enabled": False, "matchType": "SPAN_NAME", "matchValue": "answer",
        "evaluatorName": "Length", "evaluator": {"type": "length", "params": {"max": 20}},
        "review": {"failedRate": 1, "otherRate": 0.05, "maxPerDay": 50},
    })["id"]  # fmt: skip
    alert = store.call("POST", alerts, {
        "name": "more errors", "enabled": False, "kind": "CHANGE", "metric": "ERROR_RATE",
        "reference": 0.01, "tolerance": 0.01,
    })["id"]  # fmt: skip
    [item] = store.call("GET", f"/runs/{second}?size=1")["items"]["content"]
    of_project = {"project_id": project, "tenant_id": None}
    of_rule = {
        **of_project,
        "id": PERSON,
        "rule_id": rule,
        "created_at": SIGNED_IN,
        "completed_at": SIGNED_IN,
    }
    evidence = {
        "firedAt": SIGNED_IN, "since": SIGNED_IN, "direction": "RISE", "reference": 0.01,
        "before": {"value": 0.01, "low": 0.0, "high": 0.02},
        "after": {"value": 0.2, "low": 0.1, "high": 0.3}, "observations": 100, "sinceObservation": 50,
        "evidence": 200.5, "needed": 100.5, "falseAlarmsPerYear": 1.0,
    }  # fmt: skip
    rows = {
        "trace_eval_batches": {
            **of_rule, "status": "SUCCEEDED", "attempt_count": 1, "lost_count": 0,
            "scheduled_at": SIGNED_IN, "next_attempt_at": SIGNED_IN,
        },
        "trace_eval_calls": {
            **of_project, "id": PERSON, "job_id": PERSON, "key": "k", "identity": "m", "status": "EXPIRED",
            "calls": 1, "tokens": 9, "nano_usd": 5, "lease": "l", "created_at": SIGNED_IN,
            "answered_at": SIGNED_IN,
        },
        "trace_eval_back_fills": {
            **of_rule, "status": "SUCCEEDED", "from_at": SIGNED_IN, "to_at": SIGNED_IN, "trace_count": 2,
            "job_count": 1, "created_by": "system",
        },
        "trace_alert_firings": {
            **of_project, "id": PERSON, "alert_id": alert, "created_at": SIGNED_IN,
            "evidence": json.dumps(evidence),
            "ended_at": SIGNED_IN, "note": "of old",
        },
        "trace_eval_reviews": {
            **of_project, "rule_id": rule, "target": "ab" * 24, "item_id": item["id"], "day": 20_775,
            "failed": True, "probability": 0.25, "observed_at": SIGNED_IN, "created_at": SIGNED_IN,
        },
        "trace_reviews": {
            **of_project, "tenant_id": "", "trace_id": "ab" * 16, "span_id": "", "item_id": item["id"],
            "run_id": second, "created_by": "system", "created_at": SIGNED_IN,
        },
    }  # fmt: skip
    store.insert(rows)
    return f"{rules}/{rule}", f"{alerts}/{alert}"


def record_online(store, rule, alert):
    """Ask for what `fill_online` made."""
    store.record("GET", rule)
    store.record("GET", f"{rule}/back-fills")
    store.record("GET", alert)
    store.record("GET", f"{alert}/firings")
    store.record("GET", f"/traces/{'ab' * 16}/reviews")


def record_judging(store, second, job, connection):
    """Ask for what `fill_judging` made."""
    for who in ("admin", "red"):
        store.record("GET", f"/runs/{second}/judge-jobs", who=who)
        store.record("GET", f"/runs/{second}?size=4", who=who)
    store.record("GET", job)
    store.record("GET", f"{job}/errors")
    store.record("GET", f"/llm-connections/{connection}")
    store.record("GET", "/projects/chat/label-schemas")


def record_team(store, webhook):
    """Ask for what `fill_team` made."""
    for who in ("admin", "red", "member"):
        store.record("GET", "/views", who=who)
        store.record("GET", "/projects/chat/settings", who=who)
        store.record("GET", "/projects", who=who)
    store.record("GET", "/users")
    store.record("GET", "/projects/chat/members")
    store.record("GET", "/projects/chat/datasets")
    store.record("GET", webhook)
    store.record("GET", f"{webhook}/deliveries")
    store.record("GET", "/audit-log?action=project.member.set")


def record_answers(store, first, second):
    """Ask for everything that can be read."""
    for who in ("admin", "red", "blue", "nobody"):
        for project in store.record("GET", "/projects", who=who):
            path = f"/projects/{project['name']}/experiments"
            for experiment in store.record("GET", path, who=who):
                record_experiment(store, experiment["id"], who)
        for dataset in store.record("GET", "/datasets", who=who):
            record_dataset(store, dataset["name"], who)
    store.record("GET", "/api-keys")
    experiment = store.call("GET", f"/runs/{second}?size=1")["experimentId"]
    path = f"/experiments/{experiment}/runs/{second}"
    store.record("GET", f"{path}/baseline")
    for status in ("ALL", "REGRESSED"):
        store.record("GET", f"{path}/diff?baselineRunId={first}&status={status}&size=5")
    store.record("POST", f"/experiments/{experiment}/gate", {"candidateRunId": second})
    store.record("POST", f"/experiments/{experiment}/gate", {"candidateRunId": second, "alpha": 0.01})


def record_experiment(store, experiment, who):
    store.record("GET", f"/experiments/{experiment}/trends", who=who)
    for run in store.record("GET", f"/experiments/{experiment}/runs", who=who):
        path = f"/runs/{run['id']}"
        if who in ("admin", "red"):
            store.record("GET", f"{path}?size=4", who=who)
            store.record("GET", f"{path}/comments", who=who)


def record_dataset(store, name, who):
    for version in store.record("GET", f"/datasets/{name}", who=who)["versions"]:
        if who == "admin":
            store.record("GET", f"/datasets/{name}/versions/{version['version']}/items?size=3")


def dump_tables(client):
    """The rows of all tables, in an order in which they can be inserted."""
    from sqlalchemy import select

    from dokimos.server._db.schema import METADATA

    def read(connection):
        return {
            table.name: [dict(row._mapping) for row in connection.execute(select(table))]
            for table in METADATA.sorted_tables
        }

    return client.portal.call(client.app.state.database.read, read)


def main(path):
    from starlette.testclient import TestClient

    from dokimos.server import ServerSettings, create_app

    with tempfile.TemporaryDirectory() as folder:
        settings = ServerSettings(
            host="127.0.0.1", data_dir=Path(folder), api_key=ADMIN, encryption_keys=(PASSPHRASE,)
        )
        with TestClient(create_app(settings)) as client:
            store = Store(client)
            runs = fill(store)
            webhook = fill_team(store)
            judged = fill_judging(store, runs[1])
            online = fill_online(store, runs[1])
            store.wait_for_comparisons()  # of runs that were judged and edited
            record_answers(store, *runs)
            record_team(store, webhook)
            record_judging(store, runs[1], *judged)
            record_online(store, *online)
            tables = dump_tables(client)
    empty = [name for name, rows in tables.items() if not rows]
    assert not empty, f"no rows in {empty}"
    Path(path).write_text(format_data(store.keys, tables, store.calls), "utf-8")


def format_data(keys, tables, calls):
    """The data as JSON, with a line for each row and each call."""

    def lines(values):
        return ",\n".join(json.dumps(value, separators=(",", ":")) for value in values)

    rows = ",\n".join(f"{json.dumps(name)}:[\n{lines(rows)}\n]" for name, rows in tables.items())
    return f'{{"keys":{json.dumps(keys)},\n"tables":{{\n{rows}\n}},\n"calls":[\n{lines(calls)}\n]}}\n'


if __name__ == "__main__":
    main(sys.argv[1])
