"""What a load takes where spans are in ClickHouse, and when that is proposed."""

from dataclasses import replace

import pytest

from dokimos._sizing.load import Load, Machine
from dokimos._sizing.sizing import size_load
from dokimos._sizing.unit_costs import UnitCosts

MACHINE = Machine(cores=4, memory_gib=16, disk_gb=100_000)
ON_POSTGRESQL = UnitCosts().with_values({"postgresql-spans": 1e12, "insert-cpu-ms-clickhouse": 1e6})


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def resource(sizing, name):
    return next(each for each in sizing.resources if each.name == name)


def test_more_spans_than_one_postgresql_holds_are_in_clickhouse():
    few, many = (size_load(Load(spans=spans, trace_days=100, peak=1), MACHINE) for spans in (10e6, 10.1e6))

    assert (few.deployment.store, few.deployment.clickhouses) == ("postgresql", 0)
    assert (many.deployment.store, many.deployment.clickhouses, many.deployment.databases) == (
        "clickhouse",
        1,
        1,
    )
    # 22 % of a span are in ClickHouse, and 176 bytes beside it.
    assert resource(many, "ClickHouse disk").needed == pytest.approx(1.01e9 * 1800 * 0.22 / 1e9)
    assert resource(many, "disk").needed == pytest.approx(1.01e9 * 176 / 1e9)
    assert many.machines.disk_gb == pytest.approx(1.01 * (1800 * 0.22 + 176))
    assert many.machines.for_databases == 2
    assert many.spans_beyond_measured == pytest.approx(1.01e9 / 200_000)
    assert "ClickHouse disk" not in [each.name for each in few.resources]


def test_larger_spans_than_one_disk_holds_are_in_clickhouse_where_that_takes_fewer_installations():
    load = Load(spans=1e6, span_bytes=1e6, trace_days=100, peak=1)  # 160 TB in PostgreSQL, 22 in ClickHouse

    assert size_load(load, MACHINE).deployment.store == "clickhouse"
    assert size_load(load, MACHINE, costs=ON_POSTGRESQL).deployment.installations == 2


def test_the_cpu_of_clickhouse_and_of_the_database_beside_it_are_those_of_their_share():
    load = Load(runs=1, items=86_400, spans=864e6, peak=1)
    sizing = size_load(load, replace(MACHINE, cores=32), store="clickhouse", servers=4)

    assert resource(sizing, "ClickHouse CPU").needed == pytest.approx(10_000 * 0.000268)
    assert resource(sizing, "database CPU").needed == pytest.approx(0.0003 * 0.77 + 10_000 * 0.000046)
    assert resource(sizing, "server CPU").needed == pytest.approx(0.0003 + 10_000 * 0.000198)
    assert sizing.deployment.clickhouse_disk_gb == MACHINE.disk_gb


def test_a_clickhouse_that_is_full_is_said_with_its_day(capsys):
    load = Load(spans=100e6, peak=1)  # 39.6 GB a day in ClickHouse
    sizing = size_load(load, replace(MACHINE, disk_gb=1000), store="clickhouse")

    assert not sizing.is_enough
    assert sizing.days_until_disk_full == pytest.approx(1000 / 39.6)
    sizing.print()
    text = capsys.readouterr().out
    assert "ClickHouse disk, not enough: once it is full" in text
    assert sizing.would_be_enough is not None
    assert sizing.would_be_enough.clickhouse_disk_gb == 2000
