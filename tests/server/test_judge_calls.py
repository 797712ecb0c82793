"""The ledger of judging, as people read it: calls by filters and pages, their totals, and the budgets."""

import pytest
from sqlalchemy import insert, update
from tests.server.judge_runs import answered, stored_run
from tests.server.test_access import ADMIN, make_key

from dokimos._http.address_policy import AddressPolicy
from dokimos.judges import Budget
from dokimos.server._db.clock import DAY, format_time, now
from dokimos.server._db.ids import new_id
from dokimos.server._db.judge_call_tables import JUDGE_BUDGETS, JUDGE_CALLS
from dokimos.server._db.judge_tables import JUDGE_JOBS
from dokimos.server._db.tables import RUNS
from dokimos.server._judge_settings import JudgeSettings
from dokimos.server._services.judging import judge_spending
from dokimos.server._services.judging.judge_budgets import day_of

CALLS = "/api/v1/projects/chat/judge-calls"
BUDGETS = "/api/v1/projects/chat/judge-budgets"
DOLLAR = 1_000_000_000


@pytest.fixture
def api(serve):
    budget = Budget(max_cost_usd=2.5, max_calls=100)
    return serve(
        api_key="admin-key",
        address_policy=AddressPolicy.parse("127.0.0.1:9"),
        judging=JudgeSettings(project_budget_per_day=budget, poll_seconds=3600),
    )


def write(api, change):
    return api.portal.call(api.app.state.unaudited_database.write, change)


def add_job(api, run, evaluator="polite", *, tenant=None, connection=None):
    """A job that has ended, and the id of its project."""
    job = new_id()

    def change(c):
        project = c.execute(RUNS.select().where(RUNS.c.id == run)).one().project_id
        times = {name: now() for name in ("created_at", "scheduled_at", "next_attempt_at", "completed_at")}
        row = {
            "id": job, "run_id": run, "project_id": project, "tenant_id": tenant, "connection_id": connection,
            "evaluator_name": evaluator, "evaluator": "{}", "replaces": False, "concurrency": 8,
            "status": "SUCCEEDED", "created_by": "test", "budget": '{"maxCalls": 7}',
        }  # fmt: skip
        c.execute(insert(JUDGE_JOBS).values(**row, **times))
        return project

    return job, write(api, change)


def add_calls(api, job, *calls, tenant=None):
    """Calls of a job: how long ago in microseconds, status, tokens and dollars; returns their ids."""
    job, project = job
    moment, ids = now(), [new_id() for _ in calls]
    rows = [
        {
            "id": call_id, "job_id": job, "project_id": project, "tenant_id": tenant, "key": call_id,
            "identity": "scripted judge", "status": status, "calls": 1, "tokens": tokens,
            "nano_usd": None if usd is None else round(usd * DOLLAR), "lease": "secret lease",
            "reply": '{"text": "fine"}' if status == "ANSWERED" else None,
            "problem": "500 from the endpoint" if status == "FAILED" else None,
            "created_at": moment - age, "answered_at": None if status == "RESERVED" else moment - age + 1500,
        }
        for call_id, (age, status, tokens, usd) in zip(ids, calls, strict=True)
    ]  # fmt: skip
    write(api, lambda c: c.execute(insert(JUDGE_CALLS), rows) and None)
    return ids


def add_sum(api, scope, *, calls, usd, day=None, job=None, project=None, **more):
    row = {"scope": scope, "spent_calls": calls, "spent_tokens": 10 * calls, "spent_nano_usd": usd * DOLLAR}
    write(
        api,
        lambda c: (
            c.execute(insert(JUDGE_BUDGETS).values(**row, day=day, job_id=job, project_id=project, **more))
            and None
        ),
    )


def add_connection(api):
    body = {
        "name": "judge",
        "baseUrl": "http://127.0.0.1:9/v1",
        "model": "m",
        "credentialRef": "DOKIMOS_CRED_X",
    }
    answer = api.post("/api/v1/llm-connections", json=body, headers=ADMIN)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def read(api, path, headers=ADMIN, **query):
    answer = api.get(path, params=query, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def ids_of(api, **query):
    return [call["id"] for call in read(api, CALLS, **query)]


def test_calls_are_listed_by_filters_and_pages_and_summed_likewise(api):
    run, other = (stored_run(api, [answered("yes")], headers=ADMIN) for _ in range(2))
    connection = add_connection(api)
    judged = add_job(api, run, connection=connection)
    old, lost, failed, open_, new = add_calls(
        api, judged,
        (3 * DAY, "EXPIRED", 40, 0.5), (2 * DAY, "LOST", 60, 0.25), (9000, "FAILED", 0, 0.0),
        (8000, "RESERVED", 500, 9.0), (7000, "ANSWERED", 30, None),
    )  # fmt: skip
    [elsewhere] = add_calls(api, add_job(api, other, "brief"), (100, "ANSWERED", 10, 0.125))

    assert ids_of(api) == [elsewhere, new, open_, failed, lost, old]
    assert ids_of(api, limit=2, after=new) == [open_, failed]
    assert ids_of(api, state="ANSWERED") == [elsewhere, new, old]
    assert ids_of(api, jobId=judged[0], state="LOST") == [lost]
    assert (ids_of(api, runId=other), ids_of(api, connectionId=new_id())) == ([elsewhere], [])
    assert ids_of(api, connectionId=connection, to=format_time(now() - DAY)) == [lost, old]
    [call] = read(api, CALLS, state="FAILED")
    assert (call["evaluatorName"], call["runId"]) == ("polite", run)
    assert (call["model"], call["connectionName"], call["judge"]) == ("m", "judge", "scripted judge")
    assert (call["durationMs"], call["problem"], call["hasReply"]) == (1.5, "500 from the endpoint", False)
    assert "lease" not in str(call)

    totals = read(api, f"{CALLS}/totals")
    assert (totals["calls"], totals["tokens"], totals["costUsd"]) == (5, 140, 0.875)
    assert {name: count for name, count in totals.items() if count == 1} == {
        "unpricedCalls": 1, "inFlight": 1, "failed": 1, "lost": 1,
    }  # fmt: skip
    assert totals["answered"] == 3
    since = read(api, f"{CALLS}/totals", jobId=judged[0], **{"from": format_time(now() - DAY)})
    assert (since["calls"], since["tokens"], since["costUsd"], since["lost"]) == (2, 30, 0.0, 0)
    assert read(api, f"{CALLS}/totals", state="IN_FLIGHT")["costUsd"] is None
    assert api.get(CALLS, params={"after": new_id()}, headers=ADMIN).status_code == 400
    assert api.get(CALLS, params={"state": "RESERVED"}, headers=ADMIN).status_code == 400
    assert api.get(CALLS.replace("chat", "none"), headers=ADMIN).status_code == 404


@pytest.fixture
def moment(monkeypatch):
    """The time that budgets see, which stands still: a test may begin before midnight and end after it."""
    seen = now()
    monkeypatch.setattr(judge_spending, "now", lambda: seen)
    return seen


def test_budgets_say_what_each_day_and_job_has_spent_and_reserved(api, moment):
    run = stored_run(api, [answered("yes")], headers=ADMIN)
    job, project = add_job(api, run, connection=add_connection(api))
    today, before, long_ago = (day_of(moment - days * DAY) for days in (0, 1, 40))
    for day, usd in ((today, 1), (before, 2), (long_ago, 4)):
        add_sum(api, f"project:{project}:{day}", calls=4, usd=usd, day=day, project=project, reserved_calls=2)
        add_sum(api, f"all:{day}", calls=99, usd=99, day=day)
    add_sum(api, f"job:{job}", calls=3, usd=1, job=job, unpriced_calls=1, lost_calls=1)

    budgets = read(api, BUDGETS)
    assert (budgets["today"], budgets["isComplete"]) == (today, True)
    assert budgets["limitPerDay"] == {"maxCostUsd": 2.5, "maxCalls": 100}
    assert [(day["day"], day["costUsd"]) for day in budgets["days"]] == [(before, 2.0), (today, 1.0)]
    assert (budgets["days"][1]["calls"], budgets["days"][1]["reservedCalls"]) == (4, 2)
    assert [day["day"] for day in read(api, BUDGETS, days=41)["days"]] == [long_ago, before, today]
    [spent] = budgets["jobs"]
    assert (spent["jobId"], spent["budget"], spent["evaluatorName"]) == (job, {"maxCalls": 7}, "polite")
    assert (spent["calls"], spent["costUsd"], spent["unpricedCalls"], spent["lostCalls"]) == (3, 1.0, 1, 1)


def test_a_tenant_sees_the_calls_of_its_own_jobs_and_nothing_of_what_others_spent(api, moment):
    run = stored_run(api, [answered("yes")], headers=ADMIN)
    acme, zeta = (make_key(api, "VIEWER", tenant) for tenant in ("acme", "zeta"))
    shared, own = add_job(api, run), add_job(api, run, "own", tenant="acme")
    [common] = add_calls(api, shared, (50, "ANSWERED", 10, 1.0))
    [theirs] = add_calls(api, own, (10, "LOST", 20, 2.0), tenant="acme")
    today = day_of(moment)
    add_sum(api, f"project:{own[1]}:{today}", calls=50, usd=50, day=today, project=own[1])

    assert [call["id"] for call in read(api, CALLS, acme)] == [theirs, common]
    assert [call["id"] for call in read(api, CALLS, zeta)] == [common]
    assert read(api, CALLS, zeta, jobId=own[0]) == []
    assert read(api, f"{CALLS}/totals", zeta)["costUsd"] == 1.0
    for key, cost, lost in ((acme, 3.0, 1), (zeta, 1.0, 0)):
        budgets = read(api, BUDGETS, key)
        [day] = budgets["days"]
        assert (budgets["isComplete"], day["costUsd"], day["lostCalls"]) == (False, cost, lost)
    assert read(api, BUDGETS)["days"][0]["costUsd"] == 50.0

    write(api, lambda c: c.execute(update(RUNS).where(RUNS.c.id == run).values(deleted_at=now())) and None)
    assert read(api, CALLS) == []
