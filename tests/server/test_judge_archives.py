"""Backups, exports and removal of runs with judge jobs; runs of which no job is left."""

import json
import threading

import pytest
from sqlalchemy import update
from tests.server.db_command import Command, call, open_server
from tests.server.judge_runs import (
    answered,
    begin,
    exact,
    job_of,
    read_run,
    score,
    scores_of,
    stored_run,
    wait_for_job,
)
from tests.server.server_process import execute, wait_until
from tests.servers.scripted import ScriptedServer

from dokimos.judges import Budget
from dokimos.server._db.clock import DAY, now
from dokimos.server._db.tables import RUNS
from dokimos.server._judge_settings import JudgeSettings
from dokimos.server._services.encryption import secret_vault
from dokimos.server._services.judging.judged_runs import release_idle_runs
from dokimos.server._services.projects.project_settings import ProjectSettings
from dokimos.server._services.runs.maintenance import purge_deleted_rows
from dokimos.server._workers.judge_run import JudgeRun, Stop
from dokimos.server._workers.run_retention import RunRetention

pytest.importorskip("cryptography", reason="the extra 'encryption' is not installed")

KEY = "sk-not-a-real-key-1234567890"
BUDGET = Budget(max_calls=1000)
OTHER = {"sqlite": "postgresql", "postgresql": "sqlite"}
TABLES = ("judge_jobs", "judge_errors", "judge_scores", "judge_calls", "judge_budgets", "llm_connections")


@pytest.fixture(autouse=True)
def _quick_keys(monkeypatch):
    monkeypatch.setattr(secret_vault, "_ITERATIONS", 10)


@pytest.fixture
def db(monkeypatch, capsys):
    return Command(monkeypatch, capsys)


@pytest.fixture
def gate(monkeypatch):
    """Replies about outputs to hold wait for it; it opens when a server notices that their job is paused."""
    gate, stop = threading.Event(), JudgeRun.stop

    def stop_and_open(run, why):
        stop(run, why)
        if why is Stop.PAUSED:  # a job that has just ended may be told that it is lost
            gate.set()

    monkeypatch.setattr(JudgeRun, "stop", stop_and_open)
    return gate


@pytest.fixture
def model(gate):
    def rate(prompt):
        if "hold" in prompt:
            gate.wait(30)
        return "It is nice." if "odd" in prompt else json.dumps({"reason": "So it is.", "score": 4})

    with ScriptedServer(answer=rate, key=KEY) as server:
        yield server


def judging_server(settings):
    judging = JudgeSettings(poll_seconds=0.05, budget_per_day=BUDGET, project_budget_per_day=BUDGET)
    return open_server(settings, encryption_keys=("passphrase",), judging=judging)


def judge(connection):
    return {
        "connectionId": connection,
        "evaluatorName": "helpful",
        "criteria": "The answer helps.",
        "evaluationParams": ["ACTUAL_OUTPUT"],
        "minScore": 1,
        "maxScore": 5,
        "concurrency": 1,
    }


def connect(api, model):
    body = {"name": "judge", "baseUrl": f"{model.url}/v1", "model": "scripted", "apiKey": KEY}
    return call(api, "POST", "/llm-connections", body)["id"]


def fill(api, model):
    """A run that a model has scored, with an error, and one whose job is paused; each with its job."""
    connection = connect(api, model)
    run = stored_run(api, [answered("good"), answered("odd"), answered("good")])
    job = score(api, run, **judge(connection))
    assert (job["status"], job["scoredCount"], job["errorCount"]) == ("SUCCEEDED", 2, 1)
    return run, job, *pause_one(api, connection)


def held_run(api, status="SUCCESS"):
    """A run whose items are scored once the gate is open."""
    return stored_run(api, [answered(f"hold {number}") for number in range(3)], status)


def pause_one(api, connection, run=None):
    """A run whose job is paused, behind the first of its items."""
    run = run or held_run(api)
    job = begin(api, run, **judge(connection))
    wait_for_job(api, job, "CLAIMED")
    paused = api.post(f"/api/v1/runs/{run}/judge-jobs/{job['id']}/pause").json()
    assert paused["status"] == "PAUSED"
    wait_until(lambda: leases(api) == 0, "what was under way is stored")
    assert job_of(api, job)["scoredCount"] < 3
    assert read_run(api, run)["status"] == "EVALUATING"
    return run, job


def leases(api):
    from sqlalchemy import func, select

    from dokimos.server._db.judge_tables import JUDGE_JOBS

    query = select(func.count()).where(JUDGE_JOBS.c.lease.is_not(None))
    return api.portal.call(api.app.state.database.read, lambda c: c.execute(query).scalar_one())


def write(api, function):
    return api.portal.call(api.app.state.database.write, function)


def counts(settings):
    return {table: execute(settings, f"SELECT count(*) FROM {table}")[0][0] for table in TABLES}


@pytest.mark.parametrize("kind", list(OTHER))
def test_a_restored_server_continues_its_jobs_and_budgets(new_database, db, tmp_path, model, kind):
    source, target = new_database(kind), new_database(OTHER[kind])
    with judging_server(source) as api:
        run, job, paused_run, paused = fill(api, model)
        before = [job_of(api, job), job_of(api, paused), read_run(api, run)]
        db.succeed(source, "backup", tmp_path / "backup.zip")
    db.succeed(target, "restore", tmp_path / "backup.zip")
    db.succeed(target, "check")

    assert counts(target) == counts(source)
    sums = "SELECT sum(spent_calls), sum(spent_tokens), sum(reserved_calls) FROM judge_budgets"
    assert execute(target, sums) == execute(source, sums)
    with judging_server(target) as api:
        assert [job_of(api, job), job_of(api, paused), read_run(api, run)] == before
        call(api, "POST", f"/runs/{paused_run}/judge-jobs/{paused['id']}/resume")
        assert wait_for_job(api, paused)["scoredCount"] == 3
        assert read_run(api, paused_run)["status"] == "SUCCESS"
        calls = len(model.received)
        call(api, "POST", f"/runs/{run}/judge-jobs/{job['id']}/retry")
        assert wait_for_job(api, job)["errorCount"] == 1
        assert len(model.received) > calls  # with the key and the address of the restored connection


@pytest.mark.parametrize("kind", list(OTHER))
def test_an_export_has_the_scores_and_no_jobs(new_database, db, tmp_path, model, kind):
    source, target = new_database(kind), new_database(OTHER[kind])
    archive = tmp_path / "export.zip"
    with judging_server(source) as api:
        run, _, paused_run, _ = fill(api, model)
        db.succeed(source, "export", archive)
        found = scores_of(api, run, "helpful")
    db.succeed(target, "import", archive)
    db.succeed(target, "check")

    assert counts(target) == dict.fromkeys(TABLES, 0)
    again = db.succeed(target, "import", archive)
    assert again.splitlines()[0].endswith("nothing")
    with judging_server(target) as api:
        assert scores_of(api, run, "helpful") == found == [4.0, None, 4.0]
        assert read_run(api, paused_run)["status"] == "SUCCESS"
        # What is missing is scored by the same evaluator there, and by no other one.
        short = {"evaluatorName": "helpful", "evaluator": {"type": "length", "params": {"max": 9}}}
        assert api.post(f"/api/v1/runs/{run}/judge-jobs", json=short).status_code == 409
        assert score(api, paused_run, **exact())["scoredCount"] == 3


@pytest.mark.parametrize("kind", list(OTHER))
def test_an_import_leaves_a_run_alone_that_is_being_scored(new_database, db, tmp_path, model, kind):
    source, target = new_database(OTHER[kind]), new_database(kind)
    archive = tmp_path / "export.zip"
    with judging_server(source) as api:
        run = held_run(api)
        db.succeed(source, "export", archive)
    db.succeed(target, "import", archive)
    with judging_server(target) as api:
        _, job = pause_one(api, connect(api, model), run)
        before = [job_of(api, job), read_run(api, run)]
    stored = counts(target)

    code, problem = db(target, "import", archive)
    assert (code != 0, "with another status" in problem) == (True, True), problem
    for _ in range(2):
        db.succeed(target, "import", "--skip-existing", archive)

    db.succeed(target, "check")
    assert counts(target) == stored
    with judging_server(target) as api:
        assert [job_of(api, job), read_run(api, run)] == before
        call(api, "POST", f"/runs/{run}/judge-jobs/{job['id']}/resume")
        assert wait_for_job(api, job)["scoredCount"] == 3
        assert scores_of(api, run, "helpful") == [4.0] * 3  # one of each item
        assert read_run(api, run)["status"] == "SUCCESS"
    asked = [each.prompt for each in model.received]
    assert len(asked) == len(set(asked)) == 3


def test_old_runs_go_with_their_jobs_and_stay_while_one_is_not_over(serve, model, database_settings):
    judging = JudgeSettings(poll_seconds=0.05, budget_per_day=BUDGET)
    api = serve(encryption_keys=("passphrase",), judging=judging)
    connection = connect(api, model)
    scored = stored_run(api, [answered("good"), answered("odd")], "FAILED")
    ended = score(api, scored, **judge(connection))
    run, job = pause_one(api, connection, held_run(api, "FAILED"))
    long_ago = now() - 40 * DAY
    times = dict.fromkeys(("started_at", "completed_at", "last_activity_at"), long_ago)
    write(api, lambda connection: connection.execute(update(RUNS).values(times)).rowcount)
    sums = "SELECT sum(spent_calls) FROM judge_budgets WHERE scope LIKE 'all:%'"
    spent = execute(database_settings, sums)

    assert expire(api) == 1
    assert api.get(f"/api/v1/runs/{scored}/judge-jobs/{ended['id']}").status_code == 404
    while write(api, purge_deleted_rows):
        pass
    left = counts(database_settings)
    assert (left["judge_jobs"], left["judge_errors"]) == (1, 0)
    assert execute(database_settings, sums) == spent  # what was paid for stays paid for

    assert api.post(f"/api/v1/runs/{run}/judge-jobs/{job['id']}/resume").status_code == 200
    assert wait_for_job(api, job)["scoredCount"] == 3
    write(api, lambda connection: connection.execute(update(RUNS).values(times)).rowcount)
    assert expire(api) == 1
    while write(api, purge_deleted_rows):
        pass
    assert counts(database_settings)["judge_jobs"] == counts(database_settings)["judge_calls"] == 0


def expire(api):
    """Remove the runs that are older than 30 days; return how many."""
    keeps = ProjectSettings(run_retention_days=30, keep_latest_runs=0)
    return api.portal.call(RunRetention(api.app.state.database, keeps).sweep)


def test_a_run_that_nothing_scores_has_its_status_again(serve, model):
    api = serve(encryption_keys=("passphrase",), judging=JudgeSettings(poll_seconds=0.05))
    held, unknown = [stored_run(api, [answered("yes")]) for _ in range(2)]
    scored, _ = pause_one(api, connect(api, model))
    for run, own in ((held, "CANCELLED"), (unknown, None)):
        change = update(RUNS).where(RUNS.c.id == run).values(status="EVALUATING", own_status=own)
        write(api, lambda connection, change=change: connection.execute(change).rowcount)

    serve()  # looks for such runs when it starts, and again and again

    wait_until(lambda: read_run(api, held)["status"] != "EVALUATING", "the run has its status again")
    wait_until(lambda: read_run(api, unknown)["status"] != "EVALUATING", "the other run has ended")
    assert read_run(api, held)["status"] == "CANCELLED"
    after = read_run(api, unknown)
    assert (after["status"], "not known" in after["statusReason"]) == ("FAILED", True)
    assert read_run(api, scored)["status"] == "EVALUATING"
    assert write(api, release_idle_runs) == []


def test_the_purge_takes_jobs_along_with_their_run(serve, model, database_settings):
    judging = JudgeSettings(poll_seconds=0.05)
    api = serve(encryption_keys=("passphrase",), judging=judging)
    run, _, paused_run, _ = fill(api, model)
    for each in (run, paused_run):
        assert api.delete(f"/api/v1/runs/{each}").status_code == 204

    while write(api, purge_deleted_rows):
        pass

    left = counts(database_settings)
    assert (left["judge_jobs"], left["judge_errors"], left["judge_calls"]) == (0, 0, 0)
    assert left["llm_connections"] == 1
