"""Comparisons: computed once, in a process of their own, and when a run ends."""

import asyncio
import errno
import logging
import os
import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from uuid import uuid4

import pytest
from sqlalchemy import func, select
from tests.server import shapes
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

from dokimos import Evaluator, Example, Score, evaluate
from dokimos.comparison._snapshot import Snapshot
from dokimos.gate import GateConfig, RegressionGate
from dokimos.server._db.tables import COMPARISON_CASES, COMPARISONS
from dokimos.server._services.comparisons.comparison_jobs import ComparisonJob, ComparisonOutcome
from dokimos.server._services.errors import NotFoundError
from dokimos.server._workers import comparison_process
from dokimos.server._workers.comparison_process import write_frame

KEY = {"Authorization": "Bearer admin-key"}


def engine_of(api):
    return api.app.state.comparisons


def process_of(api):
    return engine_of(api)._comparer


def wait_for_verdicts(api):
    api.portal.call(engine_of(api).wait_until_idle)


def count(api, table):
    query = select(func.count()).select_from(table)
    return api.portal.call(api.app.state.database.read, lambda c: c.execute(query).scalar_one())


class CountingComparer:
    """Passes jobs on, and counts them; the first one waits until it is let go."""

    def __init__(self, comparer):
        self.comparer = comparer
        self.jobs = []
        self.go = threading.Event()

    async def compare(self, job):
        self.jobs.append(job)
        await asyncio.to_thread(self.go.wait)
        return await self.comparer.compare(job)

    async def close(self):
        self.go.set()
        await self.comparer.close()


class BrokenComparer:
    """Fails each job."""

    def __init__(self, error):
        self.error = error

    async def compare(self, job):
        raise self.error


def use(api, comparer):
    """Put a comparer in the place of the process, which still ends with the server."""
    if not hasattr(comparer, "close"):
        comparer.close = engine_of(api)._comparer.close
    engine_of(api)._comparer = comparer
    return comparer


def test_equal_requests_at_once_are_one_computation(api):
    before, now = run_of(api, items_of([1.0] * 10)), start(api)
    send(api, now, items_of([0.0] * 10))
    comparer = use(api, CountingComparer(engine_of(api)._comparer))
    end(api, now)
    experiment = experiment_of(api, now)
    body = {"candidateRunId": now, "baselineRunId": before}

    def ask(number):
        if number == 49:
            comparer.go.set()
        return api.post(f"/api/v1/experiments/{experiment}/gate", json=body)

    with ThreadPoolExecutor(50) as threads:
        answers = list(threads.map(ask, range(50)))

    assert {answer.json()["status"] for answer in answers} == {"FAIL"}
    assert len(comparer.jobs) == 1
    assert count(api, COMPARISONS) == 1


def test_other_options_are_another_computation_and_old_ones_are_dropped(api):
    run_of(api, items_of([1.0] * 10))
    now = run_of(api, items_of([1.0] * 10))
    wait_for_verdicts(api)

    for alpha in range(1, 15):
        verdict(api, now, alpha=alpha / 100)

    assert count(api, COMPARISONS) == 10
    assert count(api, COMPARISON_CASES) == 10


def test_what_a_run_was_before_is_not_kept(api):
    run_of(api, items_of([1.0] * 5))
    now = run_of(api, items_of([1.0] * 5))
    for _ in range(3):
        wait_for_verdicts(api)
        end(api, now, "RUNNING")
        send(api, now, items_of([1.0]))
        end(api, now)
        wait_for_verdicts(api)

    assert count(api, COMPARISONS) == 1


def kill_while_comparing(api, monkeypatch, run, times):
    """The answer of the gate, where the process that compares is killed so many times once it has the job."""
    killed = []

    def send_and_kill(stream, value):
        process = process_of(api)._process
        kills = isinstance(value, ComparisonJob) and len(killed) < times
        if (
            kills
        ):  # stopped before it has the job, which it may otherwise have answered by the time it is killed
            process.send_signal(signal.SIGSTOP)
        write_frame(stream, value)
        if kills:
            process.kill()
            killed.append(process.pid)

    monkeypatch.setattr(comparison_process, "write_frame", send_and_kill)
    return gate(api, run, alpha=0.01), killed


def test_a_process_that_is_killed_is_started_again_for_the_same_pair(api, monkeypatch, caplog):
    run_of(api, items_of([1.0] * 10))
    now = run_of(api, items_of([1.0] * 10))
    wait_for_verdicts(api)

    answer, killed = kill_while_comparing(api, monkeypatch, now, times=1)

    assert answer.json()["status"] == "PASS"
    assert len(killed) == 1
    assert process_of(api).pid not in killed
    assert sum("process that compares runs ended (-9)" in text for text in caplog.messages) == 1


def test_a_pair_whose_process_is_killed_twice_is_an_error_and_the_next_request_is_answered(api, monkeypatch):
    run_of(api, items_of([1.0] * 10))
    now = run_of(api, items_of([1.0] * 10))
    wait_for_verdicts(api)

    answer, killed = kill_while_comparing(api, monkeypatch, now, times=2)

    assert len(killed) == 2
    assert answer.status_code == 503
    assert "was killed; ask for it again" in answer.json()["message"]
    assert int(answer.headers["Retry-After"]) > 0
    assert verdict(api, now, alpha=0.01)["status"] == "PASS"


def test_a_process_that_cannot_be_started_is_503_and_the_next_request_is_answered(api, monkeypatch, caplog):
    run_of(api, items_of([1.0] * 10))
    now = run_of(api, items_of([1.0] * 10))
    wait_for_verdicts(api)
    process_of(api)._forget()

    def refuse(*arguments, **more):
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(comparison_process.subprocess, "Popen", refuse)
    answer = gate(api, now, alpha=0.01)
    monkeypatch.undo()

    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "5"
    assert shapes.problems(answer.json(), shapes.ERROR) == []
    assert "could not be started" in answer.json()["message"]
    assert sum("could not be started" in text for text in caplog.messages) == 1
    assert verdict(api, now, alpha=0.01)["status"] == "PASS"


def test_a_process_that_ends_before_it_is_asked_is_503(api, monkeypatch):
    run_of(api, items_of([1.0] * 10))
    now = run_of(api, items_of([1.0] * 10))
    wait_for_verdicts(api)
    process_of(api)._forget()
    monkeypatch.setattr(comparison_process, "_MODULE", "no.such.module")

    assert gate(api, now, alpha=0.01).status_code == 503
    monkeypatch.undo()
    assert verdict(api, now, alpha=0.01)["status"] == "PASS"


def test_a_process_that_died_while_idle_is_started_again(api):
    run_of(api, items_of([1.0] * 10))
    now = run_of(api, items_of([1.0] * 10))
    wait_for_verdicts(api)
    process = process_of(api)
    os.kill(process.pid, signal.SIGKILL)
    process._process.wait()

    assert verdict(api, now, alpha=0.01)["status"] == "PASS"


def test_a_comparison_that_fails_is_an_error_and_never_a_verdict(api, caplog):
    run_of(api, items_of([1.0] * 10))
    now = start(api)
    send(api, now, items_of([1.0] * 10))
    process = process_of(api)
    use(api, BrokenComparer(RuntimeError("it broke")))
    end(api, now)
    wait_for_verdicts(api)

    answer = gate(api, now)

    assert answer.status_code == 500
    assert "it broke" not in answer.text
    assert api.get("/api/v1/projects").json()[0]["verdicts"][0]["runId"] != now
    assert any(f"verdict on run {now} could not be computed" in text for text in caplog.messages)

    use(api, process)  # and the next request for the gate computes it
    assert verdict(api, now)["status"] == "PASS"
    wait_for_verdicts(api)
    assert api.get("/api/v1/projects").json()[0]["verdicts"][0]["runId"] == now


def test_scores_that_cannot_be_compared_are_an_error_and_leave_the_process_alive(api):
    huge = [item({"a": 1.7e308 * (-1) ** n}) for n in range(10)]
    run_of(api, huge)
    now = run_of(api, huge[1:] + huge[:1])

    answer = gate(api, now)

    assert answer.status_code in (200, 500)
    if answer.status_code == 200:
        assert "NaN" not in answer.text
        assert "Infinity" not in answer.text
    wait_for_verdicts(api)
    assert verdict(api, run_of(api, items_of([1.0]), experiment="other"))["status"] == "NO_BASELINE"


def test_the_pair_is_compared_when_a_run_ends(api):
    before = run_of(api, items_of([1.0] * 20))
    now = run_of(api, items_of([0.0] * 20))
    wait_for_verdicts(api)

    use(api, BrokenComparer(AssertionError("it is stored")))

    assert verdict(api, now)["status"] == "FAIL"
    assert diff(api, before, now).status_code == 200


@pytest.mark.parametrize("what", ["deleted", "opened again"])
def test_a_run_that_is_gone_before_its_verdict_is_no_error(api, caplog, what):
    run_of(api, items_of([1.0] * 10))
    wait_for_verdicts(api)
    comparer = use(api, CountingComparer(engine_of(api)._comparer))
    now = run_of(api, items_of([1.0] * 10))
    while not comparer.jobs:
        pass
    if what == "deleted":
        api.delete(f"/api/v1/runs/{now}")
    else:
        end(api, now, "RUNNING")
    with caplog.at_level(logging.DEBUG, "dokimos.server"):
        comparer.go.set()
        wait_for_verdicts(api)

    (told,) = [record for record in caplog.records if "verdict on run" in record.getMessage()]
    assert (told.levelname, now in told.getMessage()) == ("DEBUG", True)


def test_a_verdict_that_is_missed_is_logged_as_an_error(api, caplog):
    run_of(api, items_of([1.0] * 10))
    wait_for_verdicts(api)
    use(api, BrokenComparer(NotFoundError("One of the runs has been deleted")))
    run_of(api, items_of([1.0] * 10))
    wait_for_verdicts(api)

    (told,) = [record for record in caplog.records if "verdict on run" in record.getMessage()]
    assert told.levelname == "ERROR"


def test_projects_tell_the_last_verdict_of_each_experiment(api):
    run_of(api, items_of([1.0] * 20))
    bad = run_of(api, items_of([0.0] * 20))
    other = run_of(api, items_of([1.0]), experiment="other")
    start(api, experiment="never ended")
    wait_for_verdicts(api)

    (project,) = api.get("/api/v1/projects").json()

    assert [(one["experimentName"], one["runId"], one["status"]) for one in project["verdicts"]] == [
        ("other", other, "NO_BASELINE"),
        ("qa", bad, "FAIL"),
    ]


def strip_of(api):
    return [
        (one["runId"], one["status"])
        for project in api.get("/api/v1/projects").json()
        for one in project["verdicts"]
    ]


def test_the_verdict_before_is_shown_when_a_run_is_opened_again_or_deleted(api):
    first = run_of(api, items_of([1.0] * 20))
    now = run_of(api, items_of([0.0] * 20))
    wait_for_verdicts(api)
    end(api, now, "RUNNING")

    assert strip_of(api) == [(first, "NO_BASELINE")]
    end(api, now)
    wait_for_verdicts(api)
    assert strip_of(api) == [(now, "FAIL")]
    # An earlier run that ends again is not the last one.
    end(api, first, "FAILED")
    wait_for_verdicts(api)
    assert strip_of(api) == [(now, "FAIL")]
    api.delete(f"/api/v1/runs/{now}")
    assert strip_of(api) == [(first, "FAIL")]
    api.delete(f"/api/v1/runs/{first}")
    assert strip_of(api) == []


def test_a_server_that_stops_ends_the_process(serve):
    api = serve()
    run_of(api, items_of([1.0]))
    verdict(api, run_of(api, items_of([1.0])), alpha=0.01)
    process = process_of(api)
    pid = process.pid

    api.portal.call(engine_of(api).close)

    assert process.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert gate(api, run_of(api, items_of([1.0]))).status_code == 503


def test_the_runs_of_other_tenants_are_neither_compared_nor_shown(serve):
    api = serve(api_key="admin-key")

    def tenant_key(tenant):
        body = {"name": tenant, "role": "EDITOR", "tenantId": tenant}
        key = api.post("/api/v1/api-keys", json=body, headers=KEY).json()["key"]
        return {"Authorization": f"Bearer {key}"}

    run_of(api, items_of([1.0]), headers=KEY)  # so that project and experiment are shared
    red, blue = tenant_key("red"), tenant_key("blue")
    theirs = run_of(api, items_of([1.0] * 20), headers=red)
    mine = start(api, headers=blue)
    send(api, mine, items_of([0.0] * 20), headers=blue)
    end(api, mine, headers=blue)
    wait_for_verdicts(api)
    experiment = api.get(f"/api/v1/runs/{mine}", headers=blue).json()["experimentId"]
    path = f"/api/v1/experiments/{experiment}"

    answer = api.post(f"{path}/gate", json={"candidateRunId": mine}, headers=blue).json()
    named = {"candidateRunId": mine, "baselineRunId": theirs}

    assert answer["baselineRunId"] != theirs
    assert api.post(f"{path}/gate", json=named, headers=blue).status_code == 404
    assert api.get(f"{path}/runs/{mine}/diff", params=named, headers=blue).status_code == 404
    assert api.get(f"{path}/runs/{theirs}/baseline", headers=blue).status_code == 404
    verdicts = api.get("/api/v1/projects", headers=red).json()[0]["verdicts"]
    assert mine not in {one["runId"] for one in verdicts}


def test_the_gate_needs_a_key_that_writes_and_the_difference_does_not(serve):
    api = serve(api_key="admin-key")
    before, now = (run_of(api, items_of([1.0]), headers=KEY) for _ in range(2))

    assert gate(api, now).status_code == 401
    assert gate(api, now, headers=KEY).status_code == 200
    assert diff(api, before, now).status_code == 200


@dataclass(frozen=True, kw_only=True)
class Stored(Evaluator):
    """Gives the score that is stored for the answer, which is the position of the item."""

    requires = ("actual_output",)
    scores: tuple[float, ...] = ()
    threshold: float | None = 0.5

    def score(self, case):
        return Score(self.scores[int(case.actual_output)], "as stored")


def random_scores(seed):
    """Scores of two evaluators before and now, of which one may have moved."""
    generate = random.Random(seed)
    shift = generate.choice([0.0, 0.0, -0.2, 0.2, -0.6])
    coarse = generate.random() < 0.5

    def score(mean):
        value = min(1.0, max(0.0, generate.gauss(mean, 0.25)))
        return float(value > 0.5) if coarse else round(value, 2)

    rows = generate.randrange(2, 60)
    return [
        {"before": {"a": score(0.7), "b": score(0.6)}, "now": {"a": score(0.7 + shift), "b": score(0.6)}}
        for _ in range(rows)
    ]


@pytest.mark.parametrize("seed", range(6))
def test_the_verdict_is_that_of_the_library_on_the_same_data(shared_server, tmp_path, seed):
    api = shared_server
    api.experiment = str(uuid4())
    rows = random_scores(seed)
    examples = [Example(inputs={"input": str(n)}) for n in range(len(rows))]
    results = {
        side: evaluate(
            examples,
            lambda question: question,
            [Stored(name=key, scores=tuple(row[side][key] for row in rows)) for key in ("a", "b")],
            name="qa",
            quiet=True,
            journal=False,
        )
        for side in ("before", "now")
    }
    config = GateConfig(severity="off", on_removed_evaluator="warn")
    own = RegressionGate(config=config, root=tmp_path).check_against(
        results["now"], Snapshot.of(results["before"])
    )
    for side in ("before", "now"):
        run = run_of(api, [item(row[side], inputs={"input": str(n)}) for n, row in enumerate(rows)])

    answer = verdict(api, run)

    comparison = own.comparison
    assert answer["passed"] == own.passed
    assert answer["inconclusive"] == (own.status == "INCONCLUSIVE")
    assert answer["pValue"] == pytest.approx(comparison.pass_rate.adjusted_p_value, abs=1e-6)
    assert answer["rawPValue"] == pytest.approx(comparison.pass_rate.p_value, abs=1e-6)
    assert answer["pairedDelta"] == pytest.approx(comparison.pass_rate.delta, abs=1e-6)
    regressed = [metric.name for metric in comparison.regressed_evaluators]
    assert [one["evaluator"] for one in answer["regressedEvaluators"]] == regressed
    for metric in comparison.evaluators:
        stored = next(one for one in answer["metrics"] if one["evaluator"] == metric.name)
        assert stored["pValue"] == pytest.approx(metric.adjusted_p_value, abs=1e-6)
        assert stored["delta"] == pytest.approx(metric.delta, abs=1e-6)
    assert answer["reasons"] == list(own.reasons)


async def simulate(database_settings, simulations, seed):
    """How many of so many comparisons of an unchanged system fail, by the server's own engine."""
    from dokimos.server import ServerSettings
    from dokimos.server._db.database import open_database
    from dokimos.server._services.accounts.principal import SYSTEM
    from dokimos.server._services.comparisons.comparisons import ComparisonRequest, Comparisons, verdict_of
    from dokimos.server._services.runs.items import add_items
    from dokimos.server._services.runs.new_items import NewEvaluation, NewItem
    from dokimos.server._services.runs.runs import NewRun, RunStatus, change_status, create_run, find_run
    from dokimos.server._workers.comparison_process import ComparisonProcess

    settings = ServerSettings(**database_settings)
    database = open_database(settings)
    await database.open()
    engine = Comparisons(database, ComparisonProcess(settings))
    generate = random.Random(seed)

    def draw_scores():
        scores = [generate.choice([0.0, 0.5, 0.75, 1.0]) for _ in range(3)]
        return [NewEvaluation(f"e{n}", score, None, score > 0.4) for n, score in enumerate(scores)]

    def store(connection, experiment):
        run = create_run(connection, SYSTEM, "aa", NewRun(experiment=experiment))
        items = [NewItem(input="{}", actual_output="{}", evaluations=draw_scores()) for _ in range(40)]
        add_items(connection, SYSTEM, run, items)
        change_status(connection, SYSTEM, run, RunStatus.SUCCESS)
        return find_run(connection, SYSTEM, run)

    fails = 0
    for number in range(simulations):
        for _ in range(2):
            run = await database.write(lambda c, name=f"{number}": store(c, name))
        request = ComparisonRequest(experiment_id=run.experiment_id, candidate_id=run.id)
        fails += verdict_of(await engine.compare(SYSTEM, request)) == "FAIL"
    await engine.close()
    await database.close()
    return fails


async def test_an_unchanged_system_rarely_fails(tmp_path):
    # More than 10 of 60 has a chance below 1 in 2,000 where each fails with 5 %.
    assert await simulate({"data_dir": tmp_path}, 60, seed=1) <= 10


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif("DOKIMOS_LONG_TESTS" not in os.environ, reason="set DOKIMOS_LONG_TESTS=1")
async def test_an_unchanged_system_fails_at_most_as_often_as_alpha_says(tmp_path):
    # At 5 %, 72 of 1,000 are 3.2 standard deviations more.
    assert await simulate({"data_dir": tmp_path}, 1000, seed=2) <= 72


def test_an_outcome_of_runs_that_were_deleted_is_not_stored(api):
    before, now = (run_of(api, items_of([1.0])) for _ in range(2))
    wait_for_verdicts(api)

    class Deleter:
        async def compare(self, job):
            from dokimos.server._services.accounts.principal import SYSTEM
            from dokimos.server._services.runs.runs import delete_run

            await api.app.state.database.write(lambda c: delete_run(c, SYSTEM, before))
            return ComparisonOutcome(state="", summary="{}", chunks=(), case_count=0)

    use(api, Deleter())

    assert gate(api, now, alpha=0.01).status_code == 404
