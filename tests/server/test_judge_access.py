"""Who may do what with judge jobs, and what the audit log says of it."""

import pytest
from tests.server.judge_runs import answered, begin, exact, score, stored_run, wait_for_job
from tests.server.test_access import ADMIN
from tests.server.test_audit_log import read_log
from tests.server.test_members import make_key, set_role

from dokimos.server._judge_settings import JudgeSettings

ACTIONS = ("retry", "pause", "resume", "cancel")
COST = {"type": "cost", "params": {"maxUsd": 1.0}}


@pytest.fixture
def api(serve):
    return serve(api_key="admin-key", require_auth_for_reads=True, judging=JudgeSettings(poll_seconds=0.05))


def wait(api, run, job, headers):
    path = f"/api/v1/runs/{run}/judge-jobs/{job['id']}"

    class Reader:
        def get(self, _):
            return api.get(path, headers=headers)

    return wait_for_job(Reader(), job)


def failed_job(api):
    run = stored_run(api, [answered("yes")] * 2, headers=ADMIN)
    job = begin(api, run, headers=ADMIN, evaluatorName="cost", evaluator=COST)
    assert wait(api, run, job, ADMIN)["status"] == "FAILED"
    return run, job


def answers(api, run, job, headers):
    """The status of a read, of each change, and of the removal of a job that has failed."""
    jobs = f"/api/v1/runs/{run}/judge-jobs"
    one = f"{jobs}/{job['id']}"
    reads = [api.get(path, headers=headers).status_code for path in (jobs, one, f"{one}/errors")]
    # Not what is refused for the state of the job: who may not is told so before that.
    changes = [api.post(f"{one}/{action}", headers=headers).status_code for action in ACTIONS[1:]]
    changes.append(api.post(jobs, json=exact("other", evaluator={"type": "no"}), headers=headers).status_code)
    return reads, changes


@pytest.mark.parametrize(
    ("role", "reads", "changes"),
    [
        ("NONE", [404] * 3, [403] * 4),
        ("VIEWER", [200] * 3, [403] * 4),
        ("EDITOR", [200] * 3, [409, 409, 409, 400]),
        ("ADMIN", [200] * 3, [409, 409, 409, 400]),
    ],
)
@pytest.mark.parametrize("is_member", [False, True], ids=["of the server", "of the project"])
def test_a_job_takes_the_role_that_its_project_asks_for(api, role, reads, changes, is_member):
    run, job = failed_job(api)
    if is_member:
        key, headers = make_key(api)
        if role != "NONE":
            assert set_role(api, "chat", key, role).status_code < 300
    else:
        _, headers = make_key(api, role)

    assert answers(api, run, job, headers) == (reads, changes)


def test_a_member_of_another_project_sees_no_job(api):
    run, job = failed_job(api)
    stored_run_of_other = api.post(
        "/api/v1/projects/other/runs", json={"experimentName": "qa"}, headers=ADMIN
    )
    assert stored_run_of_other.status_code == 201
    key, headers = make_key(api)
    assert set_role(api, "other", key, "ADMIN").status_code < 300

    assert answers(api, run, job, headers) == ([404] * 3, [404] * 4)


def test_each_action_is_in_the_audit_log(api):
    run, job = failed_job(api)
    one = f"/api/v1/runs/{run}/judge-jobs/{job['id']}"
    assert api.post(f"{one}/retry", headers=ADMIN).status_code == 200
    wait(api, run, job, ADMIN)
    for action in ("pause", "resume", "cancel"):
        assert api.post(f"{one}/{action}", headers=ADMIN).status_code == 409  # it has ended
    assert api.delete(one, headers=ADMIN).status_code == 204

    rows = [row for row in read_log(api) if row["action"].startswith("run.judge-job")]

    found = {row["action"].removeprefix("run.judge-job."): row for row in rows}
    assert set(found) == {"create", *ACTIONS, "delete"}
    assert {row["target"]["id"] for row in rows} == {job["id"]}
    assert {row["target"]["kind"] for row in rows} == {"judge-job"}
    outcomes = {action: row["status"] for action, row in found.items()}
    assert outcomes == {
        "create": 201,
        "retry": 200,
        "pause": 409,
        "resume": 409,
        "cancel": 409,
        "delete": 204,
    }


def test_how_far_a_job_is_has_no_row_in_the_audit_log(serve):
    api = serve(judging=JudgeSettings(poll_seconds=0.05, page_size=1))
    run = stored_run(api, [answered("yes")] * 6)
    assert score(api, run, **exact())["status"] == "SUCCEEDED"

    rows = read_log(api, headers=None, action="judge-job.updated")

    assert len(rows) == 2  # it began and it ended
