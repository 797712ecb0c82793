"""Judge jobs, their ledgers and a judge that counts, for tests of what a call costs."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

from sqlalchemy import insert, select, update

from dokimos._core.metrics import CallMetrics
from dokimos.judges import JudgeReply, Prices, Rate
from dokimos.judges._judge_calls import complete
from dokimos.judges._run_scope import RunScope, enter_scope
from dokimos.server import ServerSettings
from dokimos.server._db.clock import now
from dokimos.server._db.database import open_database
from dokimos.server._db.ids import new_id
from dokimos.server._db.judge_call_tables import JUDGE_BUDGETS, JUDGE_CALLS
from dokimos.server._db.judge_tables import JUDGE_JOBS
from dokimos.server._db.tables import RUNS
from dokimos.server._services.accounts.principal import SYSTEM
from dokimos.server._services.judging.judge_budgets import Limits, day_of, sums_of
from dokimos.server._services.judging.judge_call_bounds import CallBounds
from dokimos.server._services.judging.judge_leases import LeasedJob
from dokimos.server._services.judging.judge_ledger import JudgeLedger
from dokimos.server._services.runs.runs import NewRun, create_run

PRICES = Prices({"scripted": Rate(1.0, 10.0)})
"""A dollar for a million tokens in, ten for a million out."""
BOUNDS = CallBounds(model="scripted", prices=PRICES, max_output_tokens=100)
NO_LIMITS = Limits()
UNITS = ("calls", "tokens", "nano_usd")


class CountingJudge:
    """Answers what it is told to, and remembers what it was asked."""

    identity = "scripted judge"

    def __init__(self, answer=None):
        self.prompts = []
        self.answer = answer or (lambda prompt: f"answer to {prompt}")
        self.metrics = CallMetrics(50, 10, model="scripted", cost_usd=0.00015)
        self.holds = None
        """An event to wait for before answering."""
        self.asked = asyncio.Event()

    async def complete(self, prompt, *, schema=None):
        self.prompts.append(prompt)
        self.asked.set()
        if self.holds is not None:
            await self.holds.wait()
        answer = self.answer(prompt)
        if isinstance(answer, BaseException):
            raise answer
        return answer if isinstance(answer, JudgeReply) else JudgeReply(answer, self.metrics)


async def ask(ledger, judge, *prompts):
    """Ask all prompts at once, as a run does; return the replies, or the errors in their places."""
    scope = RunScope(budget=ledger, call_stores=(ledger,), in_flight={}, run_index=0)

    async def run():
        enter_scope(scope)
        calls = (asyncio.ensure_future(complete(judge, prompt)) for prompt in prompts)
        return await asyncio.gather(*calls, return_exceptions=True)

    return await asyncio.create_task(run())


@asynccontextmanager
async def opened(settings):
    """A database of settings."""
    database = open_database(ServerSettings(**settings))
    await database.open()
    try:
        yield database
    finally:
        await database.close()


async def new_job(database, project="chat", *, lease="first", tenant=None):
    """A job that a worker has claimed."""

    def change(connection):
        run = create_run(connection, SYSTEM, project, NewRun(experiment="qa"))
        project_id = connection.execute(select(RUNS.c.project_id).where(RUNS.c.id == run)).scalar_one()
        job = new_id()
        connection.execute(
            insert(JUDGE_JOBS).values(
                id=job,
                run_id=run,
                project_id=project_id,
                tenant_id=tenant,
                evaluator_name="right",
                evaluator="{}",
                replaces=False,
                concurrency=8,
                status="CLAIMED",
                created_by="test",
                created_at=now(),
                scheduled_at=now(),
                next_attempt_at=now(),
                lease=lease,
            )
        )
        return LeasedJob(job_id=job, project_id=project_id, tenant_id=tenant, lease=lease)

    return await database.write(change)


async def give_to(database, job, lease):
    """Give a job to another worker; return it as that one has it."""
    change = update(JUDGE_JOBS).where(JUDGE_JOBS.c.id == job.job_id).values(lease=lease)
    await database.write(lambda connection: connection.execute(change) and None)
    return replace(job, lease=lease)


async def open_ledger(database, job, limits=NO_LIMITS, bounds=BOUNDS):
    ledger = JudgeLedger(database, job, limits, bounds)
    await ledger.open()
    return ledger


async def calls_of(database, job=None):
    """The rows of calls, in the order in which they were reserved."""
    query = select(JUDGE_CALLS).order_by(JUDGE_CALLS.c.id)
    if job is not None:
        query = query.where(JUDGE_CALLS.c.job_id == job.job_id)
    return await database.read(lambda connection: connection.execute(query).all())


async def budgets_of(database):
    """The rows of budgets, by their scopes."""
    query = select(JUDGE_BUDGETS)
    rows = await database.read(lambda connection: connection.execute(query).all())
    return {row.scope: row for row in rows}


async def check_sums(database):
    """Make sure that each budget is the sum of the rows of calls."""
    expected = {}
    for call in await calls_of(database):
        kind = "reserved" if call.status == "RESERVED" else "spent"
        for each in sums_of(call.job_id, call.project_id, day_of(call.created_at)):
            sums = expected.setdefault(each.scope, dict.fromkeys(_names(), 0))
            for unit in UNITS:
                sums[f"{kind}_{unit}"] += getattr(call, unit) or 0
            sums["lost_calls"] += call.status == "LOST"
    budgets = await budgets_of(database)
    empty = dict.fromkeys(_names(), 0)
    for scope in expected.keys() | budgets.keys():
        row = budgets.get(scope)
        found = empty if row is None else {name: getattr(row, name) for name in _names()}
        assert found == expected.get(scope, empty), (scope, found, expected.get(scope))
    return budgets


def _names():
    return [f"{kind}_{unit}" for kind in ("spent", "reserved") for unit in UNITS] + ["lost_calls"]
