"""Runs that are removed for their age, and those that stay."""

import asyncio

import pytest
from sqlalchemy import func, select, update

from dokimos.server import ServerSettings
from dokimos.server._db.clock import now
from dokimos.server._db.database import open_database
from dokimos.server._db.tables import DATASET_VERSIONS, DATASETS, EXPERIMENTS, ITEMS, PROJECTS, RUNS
from dokimos.server._services.accounts.principal import SYSTEM, Principal, Role
from dokimos.server._services.projects.project_settings import ProjectSettings, change_settings
from dokimos.server._services.runs.items import add_items
from dokimos.server._services.runs.new_items import NewEvaluation, NewItem
from dokimos.server._services.runs.run_retention import REMOVED_AT_ONCE, remove_expired_runs
from dokimos.server._services.runs.runs import NewRun, RunStatus, change_status, create_run, pin_baseline
from dokimos.server._workers import run_retention
from dokimos.server._workers.maintenance import purge
from dokimos.server._workers.run_retention import RunRetention

DAY = 86_400_000_000
DEFAULTS = ProjectSettings()
ADA = Principal("ada", Role.EDITOR, tenant="ada", is_restricted=True)


@pytest.fixture
async def database(database_settings):
    database = open_database(ServerSettings(**database_settings))
    await database.open()
    yield database
    await database.close()


async def add_run(database, days, *, principal=SYSTEM, status="SUCCESS", items=1, project="chat", **new):
    """A run that started, and unless it still runs ended, so many days ago."""
    new = {"experiment": "qa", **new}
    run = await database.write(lambda c: create_run(c, principal, project, NewRun(**new)))
    if items:
        score = NewEvaluation("a", 1.0, None, True)
        items = [NewItem(input="{}", actual_output="{}", evaluations=[score]) for _ in range(items)]
        await database.write(lambda c: add_items(c, principal, run, items))
    if status != "RUNNING":
        await database.write(lambda c: change_status(c, principal, run, RunStatus(status)))
    moment = now() - int(days * DAY)
    times = {"started_at": moment, "last_activity_at": moment}
    if status != "RUNNING":
        times["completed_at"] = moment
    await database.write(lambda c: c.execute(update(RUNS).where(RUNS.c.id == run).values(**times)).rowcount)
    return run


async def keep(database, days, **settings):
    change = {"run_retention_days": days, "keep_latest_runs": 0, **settings}
    await database.write(lambda c: change_settings(c, SYSTEM, "chat", change))


async def left(database):
    query = select(RUNS.c.id).where(RUNS.c.deleted_at.is_(None)).order_by(RUNS.c.started_at)
    return await database.read(lambda c: list(c.execute(query).scalars()))


async def counts(database):
    query = select(PROJECTS.c.run_count, EXPERIMENTS.c.run_count, EXPERIMENTS.c.latest_run_id)
    query = query.join(EXPERIMENTS, EXPERIMENTS.c.project_id == PROJECTS.c.id)
    return await database.read(lambda c: tuple(c.execute(query).one()))


def set_verdict(database, run, verdict):
    change = update(RUNS).where(RUNS.c.id == run).values(verdict=verdict)
    return database.write(lambda c: c.execute(change).rowcount)


async def sweep(database, defaults=DEFAULTS, **clocks):
    return await RunRetention(database, defaults, **clocks).sweep()


async def test_without_a_setting_runs_stay_for_ever(database):
    run = await add_run(database, 3000, status="FAILED")
    assert await sweep(database) == 0
    assert await left(database) == [run]


async def test_old_runs_go_and_the_counts_follow(database):
    old = [await add_run(database, 40 - day, status="FAILED") for day in range(3)]
    young = [await add_run(database, 5 - day, status="FAILED") for day in range(2)]
    await keep(database, 30)

    assert await sweep(database) == 3
    assert await left(database) == young
    assert await counts(database) == (2, 2, young[-1])
    assert await sweep(database) == 0
    await purge(database)
    assert await database.read(lambda c: c.execute(select(func.count()).select_from(ITEMS)).scalar_one()) == 2
    rows = await database.read(lambda c: set(c.execute(select(RUNS.c.id)).scalars()))
    assert rows.isdisjoint(old)


async def test_the_default_of_the_server_holds_where_a_project_says_nothing_else(database):
    await add_run(database, 40, status="FAILED", project="other")
    kept = await add_run(database, 40, status="FAILED")
    await keep(database, -1.0)

    assert await sweep(database, ProjectSettings(run_retention_days=30, keep_latest_runs=0)) == 1
    assert await left(database) == [kept]


async def test_runs_that_have_not_ended_stay(database):
    runs = [await add_run(database, 40, status=status) for status in ("RUNNING", "CANCELLED")]
    change = update(RUNS).values(status="EVALUATING").where(RUNS.c.id == await add_run(database, 40))
    await database.write(lambda c: c.execute(change).rowcount)
    await keep(database, 30)

    assert await sweep(database) == 1
    assert runs[0] in await left(database)
    assert runs[1] not in await left(database)


async def test_the_latest_runs_of_each_experiment_stay(database):
    runs = [await add_run(database, 40 - day, status="CANCELLED") for day in range(5)]
    other = await add_run(database, 50, status="CANCELLED", experiment="other")
    await keep(database, 0, keep_latest_runs=2)

    assert await sweep(database) == 3
    assert await left(database) == [other, *runs[3:]]


async def test_a_pinned_baseline_stays(database):
    pinned = await add_run(database, 300, status="FAILED")
    await add_run(database, 200, status="FAILED")
    experiment = await database.read(lambda c: c.execute(select(EXPERIMENTS.c.id)).scalar_one())
    await database.write(lambda c: pin_baseline(c, SYSTEM, experiment, pinned))
    await keep(database, 30)

    assert await sweep(database) == 1
    assert await left(database) == [pinned]


async def test_what_the_newest_and_the_next_run_are_compared_with_stays(database):
    """All are old: the newest is what the next run is compared with, and itself is with the one before."""
    runs = [await add_run(database, 40 - day) for day in range(4)]
    await add_run(database, 35, status="FAILED")
    await add_run(database, 34, items=0)
    await keep(database, 30)

    await sweep(database)
    assert await left(database) == runs[2:]


async def test_the_baseline_of_a_young_run_stays(database):
    await add_run(database, 60)
    baselines = [await add_run(database, 50), await add_run(database, 40)]
    young = await add_run(database, 1)
    await keep(database, 30)

    await sweep(database)
    assert await left(database) == [*baselines, young]


async def test_the_latest_runs_that_did_not_fail_the_gate_stay(database):
    passed = [await add_run(database, 60 - day) for day in range(3)]
    failed = [await add_run(database, 50 - day) for day in range(3)]
    for run in failed:
        await set_verdict(database, run, "FAIL")
    await keep(database, 30)

    await sweep(database)
    assert await left(database) == [*passed[1:], *failed[1:]]


async def test_the_latest_run_of_a_named_branch_stays(database):
    main = [await add_run(database, 90 - day, git_branch="main") for day in range(3)]
    feature = [await add_run(database, 70 - day, git_branch=f"feature-{day}") for day in range(4)]
    await keep(database, 30)

    await sweep(database)
    assert await left(database) == [*main[1:], *feature[2:]]
    await keep(database, 30, baseline_branches=[])
    await sweep(database)
    assert await left(database) == feature[2:]


async def test_each_version_of_a_dataset_keeps_its_baselines(database):
    first = await add_run(database, 60)
    dataset, versions = "018f0000-0000-7000-8000-000000000001", []
    values = {"name": "capitals", "created_at": now(), "updated_at": now(), "latest_item_count": 0}
    await database.write(lambda c: c.execute(DATASETS.insert().values(id=dataset, **values)).rowcount)
    for number in (1, 2):
        version = f"018f0000-0000-7000-8000-0000000000{number}0"
        values = {"item_count": 0, "content_hash": "", "created_by": "a", "created_at": now()}
        row = DATASET_VERSIONS.insert().values(id=version, dataset_id=dataset, version=number, **values)
        await database.write(lambda c, row=row: c.execute(row).rowcount)
        versions.append(version)
    runs = {
        version: [
            await add_run(database, 50 - day, dataset_name="capitals", dataset_version=number)
            for day in range(3)
        ]
        for number, version in enumerate(versions, 1)
    }
    await keep(database, 30)

    assert await sweep(database) == 2
    assert set(await left(database)) == {first, *(run for each in runs.values() for run in each[1:])}
    count = select(func.count()).select_from(DATASET_VERSIONS)
    assert await database.read(lambda c: c.execute(count).scalar_one()) == 2


async def test_the_baselines_of_a_tenant_are_its_own(database):
    shared = [await add_run(database, 60 - day) for day in range(3)]
    own = [await add_run(database, 50 - day, principal=ADA) for day in range(3)]
    await keep(database, 30)

    await sweep(database)
    assert await left(database) == [*shared[1:], *own[1:]]


async def test_a_clock_that_is_set_forward_removes_nothing(database):
    run = await add_run(database, 5, status="FAILED")
    await keep(database, 30)
    start = now() / 1e6
    time = {"wall": start, "monotonic": 100.0}
    worker = RunRetention(database, DEFAULTS, wall=lambda: time["wall"], monotonic=lambda: time["monotonic"])

    time.update(wall=start + 400 * 86_400 + 60, monotonic=160.0)
    assert await worker.sweep() == 0
    time.update(wall=start - 400 * 86_400, monotonic=200.0)
    assert await worker.sweep() == 0
    time.update(wall=start + 24 * 86_400, monotonic=100.0 + 24 * 86_400)
    assert await worker.sweep() == 0
    assert await left(database) == [run]
    time.update(wall=start + 26 * 86_400, monotonic=100.0 + 26 * 86_400)
    assert await worker.sweep() == 1


async def test_many_runs_go_in_small_transactions(database, monkeypatch):
    monkeypatch.setattr(run_retention, "REMOVED_AT_ONCE", 2)
    for _ in range(5):
        await add_run(database, 40, status="FAILED", items=0)
    await keep(database, 30)
    sizes = []
    write = database.write

    async def count_writes(change, **options):
        sizes.append(await write(change, **options))
        return sizes[-1]

    monkeypatch.setattr(database, "write", count_writes)
    assert await sweep(database) == 5
    assert sizes == [2, 2, 1]
    assert REMOVED_AT_ONCE > 2


async def test_two_servers_that_remove_the_same_runs_count_them_once(database):
    for day in range(7):
        await add_run(database, 40 - day, status="FAILED", items=0)
    young = await add_run(database, 1)
    await keep(database, 30)

    removed = await asyncio.gather(*(sweep(database) for _ in range(4)))
    assert sum(removed) == 7
    assert await counts(database) == (1, 1, young)


async def test_a_run_that_changed_after_it_was_found_stays(database):
    opened, pinned, gone = [await add_run(database, 40 - day, status="FAILED") for day in range(3)]
    experiment = await database.read(lambda c: c.execute(select(EXPERIMENTS.c.id)).scalar_one())
    project = await database.read(lambda c: c.execute(select(PROJECTS.c.id)).scalar_one())
    settings = ProjectSettings(run_retention_days=30.0, keep_latest_runs=0)
    await keep(database, 30.0)
    await database.write(lambda c: change_status(c, SYSTEM, opened, RunStatus.RUNNING))
    await database.write(lambda c: pin_baseline(c, SYSTEM, experiment, pinned))

    def remove(connection):
        runs = [opened, pinned, gone]
        return remove_expired_runs(connection, project, runs, settings, DEFAULTS, now())

    assert await database.write(remove) == 1
    assert set(await left(database)) == {opened, pinned}
    gone = await add_run(database, 39, status="FAILED")
    await keep(database, -1.0)
    assert await database.write(remove) is None


async def test_the_api_tells_how_many_runs_would_go(serve, database_settings):
    api = serve()
    database = api.app.state.database
    call = api.portal.call

    def add(days, **options):
        async def run():
            return await add_run(database, days, **options)

        return call(run)

    for days in (50, 40, 35, 5):
        add(days, status="FAILED")
    path = "/api/v1/projects/chat/settings"
    assert api.get(path).json()["expiredRunCount"] == 0
    preview = api.get(f"{path}?runRetentionDays=30").json()
    assert preview["expiredRunCount"] == 3
    assert preview["effective"]["runRetentionDays"] == 30
    assert api.get(path).json()["effective"]["runRetentionDays"] == -1
    assert api.get(f"{path}?runRetentionDays=30&keepLatestRuns=3").json()["expiredRunCount"] == 1
    for query in ("runRetentionDays=-2", "runRetentionDays=nan", "keepLatestRuns=-1"):
        refused = api.get(f"{path}?{query}")
        assert refused.status_code == 400
        assert refused.json()["message"].startswith(query.partition("=")[0])
    assert api.patch(path, json={"runRetentionDays": 38}).json()["expiredRunCount"] == 2
    assert api.get(path).json()["expiredRunCount"] == 2


def test_the_audit_log_has_a_row_for_each_run_that_was_removed(serve):
    api = serve()
    database, call = api.app.state.database, api.portal.call

    async def remove():
        runs = [await add_run(database, 40 - day, status="FAILED") for day in range(2)]
        await keep(database, 30)
        assert await RunRetention(database, DEFAULTS).sweep() == 2
        return runs

    runs = call(remove)
    rows = api.get("/api/v1/audit-log?action=run.deleted").json()
    assert {row["target"]["id"] for row in rows} == set(runs)
    assert {row["principal"]["kind"] for row in rows} == {"worker"}
