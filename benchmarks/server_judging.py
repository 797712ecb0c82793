"""Judged items with the ledger of a judge job: its CPU beside that of the library alone, and throughput.

Run with `python benchmarks/server_judging.py [--rounds N] [--database sqlite|postgresql]`. An endpoint that
answers after 20 ms is asked once for each item, at a concurrency of 32: by a run of the library, which keeps
nothing, and by the same evaluator in the scope of a job, whose calls and replies are rows on disk before they
are used. The CPU is that of this process; with PostgreSQL that is without what the database takes. The ratio
is taken for each pair of rounds, since a loaded machine slows both; the middle one has the budget. What the
worker of the server adds, which reads the items and stores their scores, is in the second line: whole jobs
of a server in a process of its own, from the request to its end, after one that imports what judging needs.
There the library beside it runs the evaluator of the jobs.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

import judged
from _server_databases import Place, add_database_option, make_places
from _server_process import ServerProcess, request, start_dokimos
from sqlalchemy import Connection, insert, select

from dokimos._core.test_case import EvalTestCase
from dokimos.evaluators import LLMJudge
from dokimos.experiment._experiment import Experiment
from dokimos.judges import Budget, judge
from dokimos.judges._run_scope import RunScope, enter_scope
from dokimos.server import ServerSettings
from dokimos.server._db.clock import now
from dokimos.server._db.database import Database, open_database
from dokimos.server._db.ids import new_id
from dokimos.server._db.judge_tables import JUDGE_JOBS
from dokimos.server._db.tables import RUNS
from dokimos.server._services.accounts.principal import SYSTEM
from dokimos.server._services.judging.judge_budgets import Limits
from dokimos.server._services.judging.judge_call_bounds import CallBounds
from dokimos.server._services.judging.judge_leases import LeasedJob
from dokimos.server._services.judging.judge_ledger import JudgeLedger
from dokimos.server._services.runs.runs import NewRun, create_run

CONCURRENCY: Final = 32
ITEMS: Final = 1000
WARM_UP_ITEMS: Final = 100
CRITERIA: Final = "Is the answer right?"
RATIO_BUDGET: Final = 2.5
RATE_BUDGET: Final = 150
LIMITS: Final = Limits(
    job=Budget(max_calls=10**9), project_day=Budget(max_tokens=10**12), server_day=Budget(max_calls=10**9)
)


def settings_of(place: Place) -> ServerSettings:
    if place.kind == "sqlite":
        return ServerSettings(data_dir=Path(place.address).parent)
    return ServerSettings(database_url=place.address)


async def claim_job(database: Database) -> LeasedJob:
    """Store a job that this process works on."""

    def change(connection: Connection) -> LeasedJob:
        run = create_run(connection, SYSTEM, "judged", NewRun(experiment="judged"))
        project = connection.execute(select(RUNS.c.project_id).where(RUNS.c.id == run)).scalar_one()
        job = LeasedJob(job_id=new_id(), project_id=project, tenant_id=None, lease="this")
        connection.execute(
            insert(JUDGE_JOBS).values(
                id=job.job_id,
                run_id=run,
                project_id=project,
                evaluator_name="right",
                evaluator="{}",
                replaces=False,
                concurrency=CONCURRENCY,
                status="CLAIMED",
                created_by="benchmark",
                created_at=now(),
                scheduled_at=now(),
                next_attempt_at=now(),
                lease=job.lease,
            )
        )
        return job

    return await database.write(change)


async def judge_with_ledger(database: Database, url: str) -> tuple[float, float]:
    """Judge the items of a new job; return the milliseconds of CPU per item and the items per second."""
    model = judge(f"{url}/v1#scripted", max_tokens=500)
    evaluator = judged.Right(judge=model, threshold=0.5)
    ledger = JudgeLedger(database, await claim_job(database), LIMITS, CallBounds.of(model))
    await ledger.open()
    cases = iter([EvalTestCase.of(f"What is {i} + {i}?", str(2 * i) * 3, str(2 * i)) for i in range(ITEMS)])
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    enter_scope(RunScope(budget=ledger, call_stores=(ledger,), in_flight={}))
    await asyncio.gather(*(work(evaluator, cases) for _ in range(CONCURRENCY)))
    await ledger.close()
    spent = time.process_time() - cpu
    return spent / ITEMS * 1000, ITEMS / (time.perf_counter() - wall)


async def work(evaluator: judged.Right, cases: Iterator[EvalTestCase]) -> None:
    for case in cases:
        result = await evaluator.evaluate_async(case)
        if result.error is not None or not result.success:
            raise SystemExit(f"an item did not pass: {result.error}")


async def measure(place: Place, url: str, rounds: int) -> bool:
    database = open_database(settings_of(place))
    await database.open()
    try:
        ours, ratios, rates = [], [], []
        for _ in range(rounds):
            alone, _ = await asyncio.to_thread(judged.measured, lambda: judged.judged(url, ITEMS))
            cpu, rate = await asyncio.create_task(judge_with_ledger(database, url))
            ours.append(cpu)
            ratios.append(cpu / alone)
            rates.append(rate)
    finally:
        await database.close()
    ratio, rate = statistics.median(ratios), statistics.median(rates)
    print(
        f"{place.kind}: {min(ours):.2f} ms of CPU per judged item, {ratio:.2f} times the library alone "
        f"(budget {RATIO_BUDGET}); {rate:.0f} items/s (budget {RATE_BUDGET})"
    )
    return ratio <= RATIO_BUDGET and rate >= RATE_BUDGET


def judge_on_server(place: Place, url: str, rounds: int) -> bool:
    """Score runs by jobs of a server, beside the library with the same evaluator; print the figures."""
    server = start_dokimos(**place.variables, DOKIMOS_ENCRYPTION_KEY="a passphrase of a benchmark")
    try:
        api = server.connect()
        connection = add_connection(api, url)
        first, _ = measure_job(server, api, connection, WARM_UP_ITEMS)  # imports, connections, statements
        judge_in_library(url, WARM_UP_ITEMS)
        costs, ratios, rates = [], [], []
        for _ in range(rounds):
            alone, _ = judged.measured(lambda: judge_in_library(url, ITEMS))
            cost, rate = measure_job(server, api, connection, ITEMS)
            costs.append(cost)
            ratios.append(cost / alone)
            rates.append(rate)
    finally:
        server.stop()
    ratio, rate = statistics.median(ratios), statistics.median(rates)
    print(
        f"{place.kind}: a whole job {min(costs):.2f} ms of the server's CPU per item, {ratio:.2f} times the "
        f"library alone (budget {RATIO_BUDGET}); {rate:.0f} items/s (budget {RATE_BUDGET}); the first job of "
        f"a server takes {first * WARM_UP_ITEMS:.0f} ms for {WARM_UP_ITEMS} items, most of it for imports"
    )
    return ratio <= RATIO_BUDGET and rate >= RATE_BUDGET


def judge_in_library(url: str, count: int) -> None:
    """Judge so many items as a job of the server does, by a run of the library that keeps nothing."""
    evaluator = LLMJudge(
        criteria=CRITERIA,
        evaluation_params=("inputs", "outputs", "expected_outputs"),
        judge=judge(f"{url}/v1#scripted"),
        threshold=0.5,
    )
    plan = Experiment(
        name="judged",
        dataset=judged.dataset(count),
        task=judged.answer,
        evaluators=[evaluator],
        parallelism=CONCURRENCY,
    )
    result = plan.run(journal=False)
    if result.pass_rate != 1.0 or result.error_count:
        raise SystemExit(f"not all items passed: {result.pass_rate}, {result.error_count} errors")


def add_connection(api: HTTPConnection, url: str) -> str:
    """Store how the server reaches the endpoint; return the id."""
    body = {
        "name": "scripted",
        "baseUrl": f"{url}/v1",
        "model": "scripted",
        "apiKey": "sk-not-real-123",
        "protocol": "CHAT_COMPLETIONS",
        "maxConcurrency": CONCURRENCY,
    }
    return str(send(api, "POST", "/llm-connections", body)["id"])


def measure_job(
    server: ServerProcess, api: HTTPConnection, connection: str, count: int
) -> tuple[float, float]:
    """Score a new run; return the milliseconds of the server's CPU per item and the items per second."""
    run = report_run(api, count)
    job = {
        "connectionId": connection,
        "evaluatorName": "right",
        "criteria": CRITERIA,
        "evaluationParams": ["INPUT", "ACTUAL_OUTPUT", "EXPECTED_OUTPUT"],
        "minScore": 0,
        "maxScore": 1,
        "threshold": 0.5,
        "concurrency": CONCURRENCY,
    }
    cpu, wall = server.cpu(), time.perf_counter()
    path = f"/runs/{run}/judge-jobs"
    path = f"{path}/{send(api, 'POST', path, job)['id']}"
    while (found := send(api, "GET", path))["status"] in ("PENDING", "CLAIMED"):
        time.sleep(0.2)
    seconds, spent = time.perf_counter() - wall, server.cpu() - cpu
    if (found["status"], found["scoredCount"]) != ("SUCCEEDED", count):
        raise SystemExit(f"the job ended as {found}")
    return spent / count * 1000, count / seconds


def report_run(api: HTTPConnection, count: int) -> str:
    """Store a run whose items nothing has scored; return its id."""
    run = str(send(api, "POST", "/projects/judged/runs", {"experimentName": "judged"})["runId"])
    for first in range(0, count, 100):
        items = [
            {
                "inputs": {"input": f"What is {i} + {i}?"},
                "actualOutputs": {"output": str(2 * i) * 3},
                "expectedOutputs": {"output": str(2 * i)},
            }
            for i in range(first, first + 100)
        ]
        send(api, "POST", f"/runs/{run}/items", {"items": items})
    send(api, "PATCH", f"/runs/{run}", {"status": "SUCCESS"})
    return run


def send(api: HTTPConnection, method: str, path: str, body: object = None) -> Any:
    """Send a request of the API and return the parsed answer."""
    content = None if body is None else json.dumps(body).encode()
    return request(api, method, f"/api/v1{path}", content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_database_option(parser)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    judged.CONCURRENCY = CONCURRENCY  # type: ignore[misc] # of the run beside it
    is_kept = True
    with judged.serving() as url:
        judged.judged(url, 100)  # imports, connections
        for [place] in make_places(options.database):
            is_kept = asyncio.run(measure(place, url, options.rounds)) and is_kept
            is_kept = judge_on_server(place, url, options.rounds) and is_kept
    sys.exit(0 if is_kept else 1)


if __name__ == "__main__":
    main()
