"""Long writes do not hold up others: changes in the background give way, and lookups use their indexes."""

import asyncio
import itertools
import sqlite3
import threading

import pytest
from sqlalchemy import create_engine, event

from dokimos.server import ServerSettings
from dokimos.server._db import sqlite_database
from dokimos.server._db.database import DatabaseUnavailable, open_database
from dokimos.server._db.schema import METADATA
from dokimos.server._db.tables import DATASET_ITEMS
from dokimos.server._services.datasets.dataset_items import find_items, find_lineages


@pytest.fixture
async def database(tmp_path):
    database = open_database(ServerSettings(data_dir=tmp_path))
    await database.open()
    yield database
    await database.close()


class Log:
    """In which order changes ran, and with which settings."""

    def __init__(self):
        self.names = []
        self.syncs = {}

    def change(self, name):
        def run(connection):
            self.names.append(name)
            self.syncs[name] = connection.exec_driver_sql("PRAGMA synchronous").scalar()
            return name

        return run


async def put_while_the_writer_is_busy(database, *changes):
    """Let the changes wait together, each with whether it is in the background, and then run."""
    is_free = threading.Event()
    first = asyncio.create_task(database.write(lambda _: is_free.wait(60)))
    await asyncio.sleep(0)  # lets the task put its change, with no time passing
    tasks = [
        asyncio.create_task(database.write(change, background=background)) for change, background in changes
    ]
    await asyncio.sleep(0)
    is_free.set()
    await first
    return tasks


async def test_ordinary_changes_go_before_those_in_the_background_which_still_have_their_turn(database):
    log = Log()
    changes = [(log.change(f"long {number}"), True) for number in range(3)]
    changes += [(log.change(f"short {number}"), False) for number in range(100)]

    tasks = await put_while_the_writer_is_busy(database, *changes)

    assert await asyncio.gather(*tasks) == [f"long {n}" for n in range(3)] + [
        f"short {n}" for n in range(100)
    ]
    # Each change in the background had one turn between two groups of the others, as long as there were any.
    ordinary = [f"short {n}" for n in range(100)]
    assert [name for name in log.names if name in ordinary] == ordinary
    last = log.names.index(ordinary[-1])
    turns = [log.names.index(f"long {n}") for n in range(3)]
    assert turns == sorted(turns)
    assert turns[0] < last
    assert all(later - turn > 1 for turn, later in itertools.pairwise(turns) if turn < last)
    full, normal = 2, 1
    assert {log.syncs[f"long {n}"] for n in range(3)} == {normal}
    assert {log.syncs[f"short {n}"] for n in range(100)} == {full}


async def test_what_waits_in_the_background_is_finished_before_the_database_closes(tmp_path):
    database = open_database(ServerSettings(data_dir=tmp_path))
    await database.open()
    log = Log()
    tasks = await put_while_the_writer_is_busy(
        database, *((log.change(str(number)), number % 2 == 0) for number in range(10))
    )

    await database.close()

    assert [task.result() for task in tasks] == [str(number) for number in range(10)]


@pytest.mark.parametrize("column", ["id", "lineage_id", "inputs_hash", "external_id", "source_item_id"])
def test_a_lookup_never_goes_through_a_whole_version(column):
    """It did, by the index that has the ordinals in order, for each batch of an upload."""
    engine = create_engine("sqlite://")
    METADATA.create_all(engine)
    statements = []

    @event.listens_for(engine, "before_cursor_execute")
    def _note(connection, cursor, statement, parameters, *rest):
        statements.append((statement, parameters))

    version = "018f0000-0000-7000-8000-000000000000"
    with engine.connect() as connection:
        assert list(find_items(connection, version, DATASET_ITEMS.c[column], [version])) == []
        assert list(find_lineages(connection, version, [version])) == []
        for statement, parameters in list(statements):
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
            (step,) = [row.detail for row in plan]
            assert "SEARCH" in step
            assert not step.endswith("(version_id=?)"), step


@pytest.mark.parametrize("background", [True, False])
async def test_a_writer_that_cannot_choose_how_to_commit_refuses_the_change_and_goes_on(
    database, monkeypatch, background
):
    """It ended, and whoever waited for a change waited for ever."""

    def fail(*arguments, **options):
        monkeypatch.undo()
        raise sqlite3.OperationalError("disk I/O error")

    if not background:
        await database.write(lambda _: None, background=True)
    monkeypatch.setattr(sqlite_database, "sync_commits", fail)

    async with asyncio.timeout(60):
        with pytest.raises(DatabaseUnavailable, match="disk I/O error"):
            await database.write(lambda _: 1, background=background)
        assert await database.write(lambda _: 2, background=background) == 2
