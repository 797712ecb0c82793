"""Runs that went quiet, and rows that were deleted."""

import asyncio
import threading

import pytest
from sqlalchemy import PrimaryKeyConstraint, UniqueConstraint, func, select, update

from dokimos.server import ServerSettings
from dokimos.server._db.clock import now
from dokimos.server._db.database import DatabaseUnavailable, open_database
from dokimos.server._db.schema import METADATA
from dokimos.server._db.tables import EVALUATIONS, EXPERIMENTS, ITEMS, PROJECTS, RUNS
from dokimos.server._services.accounts.principal import SYSTEM
from dokimos.server._services.errors import NotFoundError
from dokimos.server._services.projects import projects
from dokimos.server._services.projects.projects import (
    delete_experiment,
    delete_project,
    find_experiment,
    find_project,
)
from dokimos.server._services.runs import maintenance
from dokimos.server._services.runs.items import add_items
from dokimos.server._services.runs.new_items import NewEvaluation, NewItem
from dokimos.server._services.runs.runs import NewRun, create_run, delete_run, find_run
from dokimos.server._workers.maintenance import Reaper, purge

HOUR = 3_600_000_000


@pytest.fixture
async def database(database_settings):
    database = open_database(ServerSettings(**database_settings))
    await database.open()
    yield database
    await database.close()


async def start(database, experiment="qa", items=0):
    run = await database.write(lambda c: create_run(c, SYSTEM, "chat", NewRun(experiment=experiment)))
    if items:
        score = NewEvaluation("a", 1.0, None, True)
        new = [NewItem(input="{}", actual_output="{}", evaluations=[score]) for _ in range(items)]
        await database.write(lambda c: add_items(c, SYSTEM, run, new))
    return run


async def make_quiet(database, run, hours):
    quiet = update(RUNS).where(RUNS.c.id == run).values(last_activity_at=now() - int(hours * HOUR))
    await database.write(lambda c: c.execute(quiet).rowcount)


async def count(database, table):
    return await database.read(lambda c: c.execute(select(func.count()).select_from(table)).scalar_one())


async def test_a_run_that_went_quiet_is_failed_and_says_why(database):
    quiet, busy, ended = [await start(database) for _ in range(3)]
    await make_quiet(database, quiet, 25)
    await make_quiet(database, busy, 23)
    await make_quiet(database, ended, 25)
    await database.write(
        lambda c: c.execute(update(RUNS).where(RUNS.c.id == ended).values(status="SUCCESS")).rowcount
    )

    reaped = await Reaper(database, 24).sweep()

    assert reaped == [quiet]
    row = await database.read(lambda c: find_run(c, SYSTEM, quiet))
    assert row.status == "FAILED"
    assert row.status_reason == "No items and no status arrived for 24 hours; the client has probably ended."
    assert row.completed_at is not None


async def test_a_clock_that_is_set_forward_ends_no_run(database):
    run = await start(database)
    time = {"wall": 1_000.0, "monotonic": 0.0}
    reaper = Reaper(database, 24, wall=lambda: time["wall"], monotonic=lambda: time["monotonic"])
    await make_quiet(database, run, 25)  # what a step of the clock by 25 hours makes of a run

    time.update(wall=1_000.0 + 25 * 3600 + 300, monotonic=300.0)
    assert await reaper.sweep() == []
    time.update(wall=time["wall"] + 23 * 3600, monotonic=300.0 + 23 * 3600)
    assert await reaper.sweep() == []
    time.update(wall=time["wall"] + 2 * 3600, monotonic=300.0 + 25 * 3600)
    assert await reaper.sweep() == [run]


async def test_deleted_rows_are_removed_in_small_steps(database, monkeypatch):
    monkeypatch.setattr(maintenance, "PURGE_ROWS", 4)
    kept, gone = await start(database, items=3), await start(database, items=10)
    await database.write(lambda c: delete_run(c, SYSTEM, gone))
    steps = []
    while removed := await database.write(maintenance.purge_deleted_rows):
        steps.append(removed)

    assert steps == [4, 4, 2, 1]
    assert await count(database, ITEMS) == await count(database, EVALUATIONS) == 3
    assert (await database.read(lambda c: find_run(c, SYSTEM, kept))).item_count == 3


async def test_a_deleted_project_leaves_nothing_behind(database):
    for experiment in ("a", "b"):
        await start(database, experiment, items=2)
    await database.write(lambda c: delete_project(c, SYSTEM, "chat"))

    await purge(database)

    for table in METADATA.sorted_tables:
        assert await count(database, table) == 0, table.name


async def test_the_latest_run_is_known_also_after_it_was_deleted(database):
    first, second = await start(database), await start(database)

    async def latest():
        return await database.read(lambda c: c.execute(select(EXPERIMENTS.c.latest_run_id)).scalar_one())

    assert await latest() == second
    await database.write(lambda c: delete_run(c, SYSTEM, second))
    assert await latest() == first
    await database.write(lambda c: delete_run(c, SYSTEM, first))
    assert await latest() is None


async def test_changes_that_share_a_commit_fail_alone(database):
    """Ten changes at once, of which some raise: those are undone, and the others stored."""

    def change(number):
        def run(connection):
            create_run(connection, SYSTEM, f"project {number}", NewRun(experiment="qa"))
            if number % 3 == 0:
                raise ValueError(number)
            return number

        return run

    outcomes = await asyncio.gather(*(database.write(change(n)) for n in range(10)), return_exceptions=True)

    assert [repr(each) for each in outcomes] == [
        f"ValueError({number})" if number % 3 == 0 else str(number) for number in range(10)
    ]
    names = await database.read(lambda c: sorted(c.execute(select(PROJECTS.c.name)).scalars()))
    assert names == [f"project {number}" for number in (1, 2, 4, 5, 7, 8)]


def test_every_reference_to_a_table_has_an_index():
    """Without one, deleting a row reads the whole table that refers to it."""
    missing = []
    for table in METADATA.sorted_tables:
        leading = _leading_columns(table)
        for key in table.foreign_keys:
            if key.parent.name not in leading:
                missing.append(f"{table.name}.{key.parent.name}")
    assert missing == []


def _leading_columns(table):
    whole = [index for index in table.indexes if index.dialect_options["sqlite"]["where"] is None]
    keys = [each for each in table.constraints if isinstance(each, PrimaryKeyConstraint | UniqueConstraint)]
    return {next(iter(each.columns)).name for each in (*whole, *keys)}


@pytest.mark.parametrize("table", [RUNS, EXPERIMENTS])
async def test_what_started_below_a_project_while_it_was_deleted_is_removed_too(database, table):
    run = await start(database, items=1)
    experiment = (await database.read(lambda c: find_run(c, SYSTEM, run))).experiment_id
    await database.write(lambda c: delete_project(c, SYSTEM, "chat"))
    # As two transactions of PostgreSQL leave it, of which neither has seen the other.
    revive = update(table).where(table.c.id.in_([run, experiment])).values(deleted_at=None)
    await database.write(lambda c: c.execute(revive).rowcount)

    await purge(database)

    assert [await count(database, each) for each in (PROJECTS, EXPERIMENTS, RUNS, ITEMS)] == [0, 0, 0, 0]


async def test_an_experiment_that_two_requests_delete_is_counted_once(database, monkeypatch):
    run = await start(database)
    await start(database, experiment="other")
    seen = await database.read(lambda c: find_experiment(c, SYSTEM, find_run(c, SYSTEM, run).experiment_id))
    # Both have found it before either deletes it.
    monkeypatch.setattr(projects, "find_experiment", lambda *_: seen)
    await database.write(lambda c: delete_experiment(c, SYSTEM, seen.id))
    with pytest.raises(NotFoundError):
        await database.write(lambda c: delete_experiment(c, SYSTEM, seen.id))

    project = await database.read(lambda c: find_project(c, SYSTEM, "chat"))
    assert (project.experiment_count, project.run_count) == (1, 1)


async def test_a_change_that_comes_while_the_database_closes_is_refused(tmp_path):
    database = open_database(ServerSettings(data_dir=tmp_path))
    await database.open()
    may_go_on = threading.Event()
    first = asyncio.create_task(database.write(lambda _: may_go_on.wait()))
    await asyncio.sleep(0)  # it is in the queue
    closing = asyncio.create_task(database.close())
    await asyncio.sleep(0)
    late = [database.write(lambda _: 1), database.read(lambda _: 1)]
    try:
        answers = await asyncio.wait_for(asyncio.gather(*late, return_exceptions=True), 10)
    finally:
        may_go_on.set()
        await closing
    assert [type(answer) for answer in answers] == [DatabaseUnavailable, DatabaseUnavailable]
    assert await first is True
