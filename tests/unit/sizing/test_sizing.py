"""What a load takes, what runs out first, and what is lost."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from random import Random

import pytest

from dokimos._core.wire import to_json
from dokimos._sizing.load import PRESETS, Load, Machine
from dokimos._sizing.losses import WAITING_TRACES_BYTES
from dokimos._sizing.sizing import size_load
from dokimos._sizing.sizing_tree import build_tree
from dokimos._sizing.unit_costs import UNIT_COSTS, UnitCosts
from dokimos.errors import ConfigurationError

SPANS_OF_ONE_CORE = 86_400 / 0.000104
"""Spans of a day that keep one serving process busy all the time, by the unit cost."""
SPANS_OF_ONE_CORE_ON_POSTGRESQL = 86_400 / 0.000149
MACHINE = Machine(cores=4, memory_gib=16, disk_gb=100_000)
ON_POSTGRESQL = UnitCosts().with_values({"postgresql-spans": 1e12, "insert-cpu-ms-clickhouse": 1e6})
"""With them, ClickHouse is never what takes fewer installations."""
SHARES = {
    # Milliseconds of an item and of a span, bytes of an item, of a span beside it and of one in ClickHouse.
    "sqlite": (0.225, 0.104, 2490, 1800 * 1.6, 0),
    "postgresql": (0.3, 0.149, 2841, 1800 * 1.6, 0),
    "clickhouse": (0.3, 0.198, 2841, 176, 1800 * 0.22),
}


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch):
    """Keep sentences on one line, whatever the terminal of the tests is."""
    monkeypatch.setenv("COLUMNS", "200")


def resource(sizing, name):
    return next(each for each in sizing.resources if each.name == name)


def test_a_team_has_one_server_on_sqlite():
    sizing = size_load(PRESETS["team"].load, PRESETS["team"].machine)

    assert sizing.deployment.store == "sqlite"
    assert sizing.machines.total == 1
    assert sizing.is_enough
    # 30 days of a million spans of 1.8 KB, times 1.5; a year of 10,000 items of 2.49 KB.
    assert sizing.machines.disk_gb == pytest.approx(30 * 1e6 * 1800 * 1.5 / 1e9 + 365 * 1e4 * 2490 / 1e9)
    assert sizing.first is not None
    assert sizing.first.name == "SQLite file"


@pytest.mark.parametrize("name", PRESETS)
def test_what_is_proposed_is_enough_and_loses_nothing(name):
    sizing = size_load(PRESETS[name].load, PRESETS[name].machine)

    assert sizing.is_enough
    assert sizing.peak.utilisation < 1
    assert sizing.peak.refused_share == 0
    assert sizing.peak.delay_seconds == 0
    assert sizing.days_until_disk_full is None


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("times", [0.3, 1, 2.7, 10])
def test_each_installation_that_is_proposed_has_servers_and_disk_for_its_share(name, times):
    load, machine = PRESETS[name].load.multiply(times), PRESETS[name].machine
    made = size_load(load, machine).deployment

    # From the unit costs and the load alone; servers and databases are whole.
    item_ms, span_ms, item_bytes, span_bytes, apart_bytes = SHARES[made.store]
    cores = (load.items * item_ms + load.spans * span_ms) / 1000 / 86_400 * load.peak / made.installations
    gigabytes = (load.items * 365 * item_bytes + load.spans * 30 * span_bytes) / 1e9 / made.installations
    assert cores <= 0.7 * made.servers
    assert gigabytes <= 0.8 * made.disk_gb
    assert load.spans * 30 * apart_bytes / 1e9 / made.installations <= 0.8 * made.clickhouse_disk_gb
    assert made.servers == max(1, math.ceil(cores / 0.7))
    assert made.store != "sqlite" or gigabytes <= 200
    assert (load.spans * 30 > 1e9) is (made.store == "clickhouse")


@pytest.mark.parametrize("name", PRESETS)
def test_the_resources_come_in_the_order_in_which_they_run_out(name):
    resources = size_load(PRESETS[name].load, PRESETS[name].machine).resources
    growths = [each.growth for each in resources if each.growth]

    assert growths == sorted(growths)
    assert [each.growth for each in resources[len(growths) :]] == [None] * (len(resources) - len(growths))


def test_disk_grows_with_the_retention():
    load = PRESETS["team"].load
    month, week = (size_load(replace(load, trace_days=days, run_days=0)) for days in (30, 7))

    assert month.machines.disk_gb == pytest.approx(week.machines.disk_gb * 30 / 7)


def test_more_than_a_core_of_spans_takes_postgresql_and_several_servers():
    load = Load(spans=3 * SPANS_OF_ONE_CORE_ON_POSTGRESQL, peak=1, trace_days=1)
    sizing = size_load(load, replace(MACHINE, cores=16), costs=ON_POSTGRESQL)

    assert sizing.deployment.store == "postgresql"
    assert sizing.deployment.databases == 1
    assert sizing.deployment.servers == 5  # 3 cores at 70 %
    assert resource(sizing, "server CPU").used == pytest.approx(3 / 3.5)


def test_more_than_one_database_holds_is_divided_among_installations():
    load = Load(spans=1e9, trace_days=100, peak=1)  # 288 TB
    sizing = size_load(load, MACHINE, costs=ON_POSTGRESQL)

    assert sizing.deployment.installations == 4
    assert sizing.deployment.databases == 4
    assert resource(sizing, "disk").used == pytest.approx(288 / 320)


def test_a_larger_disk_is_proposed_before_another_installation():
    load = Load(spans=1e7, trace_days=20, peak=1)  # 576 GB
    sizing = size_load(load, replace(MACHINE, disk_gb=500))

    assert sizing.deployment.installations == 1
    assert sizing.deployment.disk_gb == 1000
    assert "a disk of 1.00 TB; that of a machine (--disk-gb) is 500 GB" in str(sizing)


def test_one_run_is_not_divided_among_installations():
    sizing = size_load(Load(runs=1, items=1e11), MACHINE)

    assert sizing.deployment.installations == 1
    assert not sizing.is_enough


def test_installations_share_machines_and_databases_do_not():
    load = Load(spans=3 * SPANS_OF_ONE_CORE_ON_POSTGRESQL, trace_days=70, peak=1)
    sizing = size_load(load, replace(MACHINE, cores=16, usd_per_hour=0.5), costs=ON_POSTGRESQL)

    assert (sizing.deployment.installations, sizing.deployment.servers) == (5, 1)
    assert (sizing.machines.for_servers_and_runs, sizing.machines.for_databases) == (1, 5)
    assert sizing.machine_usd_per_day == pytest.approx(6 * 24 * 0.5)
    wider = size_load(replace(load, peak=2), replace(MACHINE, cores=16), costs=ON_POSTGRESQL).deployment
    assert (wider.installations, wider.servers, wider.all_servers) == (5, 2, 10)


def test_a_database_for_traces_alone_is_named_where_it_helps():
    even = Load(runs=1, items=70e3 * 1e9 / 2490, run_days=1, spans=70e3 * 1e9 / 2880, trace_days=1, peak=1)
    uneven = replace(even, items=1)
    remedies = [
        resource(size_load(load, MACHINE, store="postgresql"), "disk").remedy for load in (even, uneven)
    ]

    assert ["DOKIMOS_TRACE_DATABASE_URL" in remedy for remedy in remedies] == [True, False]


def test_a_server_that_gets_twice_what_it_can_take_refuses_half_of_the_spans():
    load = Load(spans=2 * SPANS_OF_ONE_CORE / 10, peak=10, peak_hours=2)
    peak = size_load(load, MACHINE, store="sqlite").peak

    assert peak.utilisation == pytest.approx(2)
    assert peak.refused_share == pytest.approx(0.5)
    assert peak.p95_answer_seconds is None
    # The surplus, one core's worth of spans of 1.8 KB, fills 128 MiB; then so many are always in front.
    full = WAITING_TRACES_BYTES / 1800 * 0.000104
    assert peak.seconds_until_refused == pytest.approx(full, rel=0.01)
    assert peak.delay_seconds == pytest.approx(full, rel=0.01)
    assert peak.seconds_until_drained == pytest.approx(full / 0.8, rel=0.01)


def simulate_overload(item_work, span_work, *, limit, seconds):
    """Let items and spans come to one server; return the last item's delay, and the share of spans refused.

    Both kinds take 10 ms. A span is refused where spans of `limit` seconds wait.
    """
    random, each = Random(7), 0.01
    free_at, now, delay, refused, spans, waiting = 0.0, 0.0, 0.0, 0, 0, []
    while now < seconds:
        now += random.expovariate((item_work + span_work) / each)
        while waiting and waiting[0] <= now:
            waiting.pop(0)
        is_item = random.random() < item_work / (item_work + span_work)
        spans += not is_item
        if not is_item and len(waiting) * each >= limit:
            refused += 1
            continue
        free_at = max(free_at, now)
        if is_item:
            delay = free_at - now
        else:
            waiting.append(free_at)
        free_at += each
    return delay, refused / spans


@pytest.mark.parametrize(
    ("item_work", "span_work"), [(0.05, 2.0), (0.5, 1.5), (0.7, 0.6), (1.0, 0.1), (1.2, 0.5)]
)
def test_an_overloaded_server_delays_items_and_refuses_spans_as_simulated(item_work, span_work):
    load = Load(
        items=item_work * 86_400 / 0.000225, spans=span_work * SPANS_OF_ONE_CORE, peak=1, peak_hours=1
    )
    peak = size_load(load, MACHINE, store="sqlite").peak
    limit = WAITING_TRACES_BYTES / 1800 * 0.000104
    delay, refused = simulate_overload(item_work, span_work, limit=limit, seconds=3600)

    refused_of_peak = peak.refused_share * (1 - peak.seconds_until_refused / 3600)
    assert peak.delay_seconds == pytest.approx(delay, rel=0.07)
    assert refused_of_peak == pytest.approx(refused, rel=0.05)


def test_a_peak_that_ends_before_the_queue_is_full_refuses_nothing():
    load = Load(spans=2 * SPANS_OF_ONE_CORE / 10, peak=10, peak_hours=0.001)
    peak = size_load(load, MACHINE, store="sqlite").peak

    assert peak.refused_share == 0
    assert peak.seconds_until_refused is None
    assert peak.delay_seconds == pytest.approx(3.6)


def test_a_mean_load_that_is_too_much_is_never_drained():
    peak = size_load(Load(spans=2 * SPANS_OF_ONE_CORE, peak=1), MACHINE, store="sqlite").peak

    assert peak.seconds_until_drained is None


def test_items_alone_are_delayed_and_none_is_refused():
    load = Load(runs=1, items=2 * 86_400 / 0.000225, peak=1)
    peak = size_load(load, MACHINE, store="sqlite").peak

    assert peak.utilisation > 1
    assert peak.refused_share == 0
    assert peak.seconds_until_refused is None


def test_exports_of_spans_keep_items_waiting_for_longer_than_items_alone():
    items = Load(items=0.3 * 86_400 / 0.000225, peak=1)
    mixed = Load(items=0.15 * 86_400 / 0.000225, spans=0.15 * SPANS_OF_ONE_CORE, peak=1)
    alone, both = (size_load(each, MACHINE, store="sqlite").peak for each in (items, mixed))

    assert both.p95_answer_seconds > 1.5 * alone.p95_answer_seconds


def test_spans_larger_than_what_may_wait_leave_place_for_one_export():
    peak = size_load(Load(spans=1e5, span_bytes=2e6, trace_days=1, peak=1), MACHINE, store="sqlite").peak

    assert peak.refused_share == pytest.approx(peak.utilisation / (1 + peak.utilisation))


def test_a_disk_that_is_too_small_is_full_after_some_days():
    load = Load(spans=1e6, trace_days=100)
    sizing = size_load(load, replace(MACHINE, disk_gb=36), store="sqlite")

    assert not sizing.is_enough
    assert sizing.days_until_disk_full == pytest.approx(36 / 2.7)


def test_traces_stop_growing_when_their_retention_has_passed():
    # 2.88 GB of spans a day for 10 days, 2.841 GB of items a day for a year.
    load = Load(spans=1e6, trace_days=10, items=1e6, run_days=365)
    sizing = size_load(load, replace(MACHINE, disk_gb=100), store="postgresql")

    assert sizing.days_until_disk_full == pytest.approx((100 - 28.8) / 2.841)


def test_a_disk_between_its_reserve_and_its_end_is_never_full():
    sizing = size_load(Load(spans=1e6, trace_days=30), replace(MACHINE, disk_gb=100), store="sqlite")

    assert not sizing.is_enough  # 86.4 GB
    assert sizing.days_until_disk_full is None
    text = str(sizing)
    assert "Disk: this takes part of its reserve (20.0 %), and nothing stops yet." in text
    assert "503" not in text
    assert "Nothing is refused" not in text


def test_an_sqlite_file_that_is_larger_than_proposed_fills_no_disk():
    sizing = size_load(Load(spans=1e7, trace_days=30), replace(MACHINE, disk_gb=4000), store="sqlite")

    assert [each.name for each in sizing.resources if not each.is_enough] == ["SQLite file"]
    assert sizing.days_until_disk_full is None
    text = str(sizing)
    assert "nothing stops" in text
    assert "full after" not in text
    assert "503" not in text


def test_a_server_has_memory_for_the_comparison_of_a_run():
    load = Load(runs=1, items=200_000)
    sizing = size_load(load, replace(MACHINE, memory_gib=0.75))

    need = (250 + 55 + 200_000 * 3544 / 2**20) / 1024
    assert sizing.machines.memory_gib == pytest.approx(need)
    assert resource(sizing, "server memory").used == pytest.approx(need / 0.75)
    assert not sizing.is_enough


def test_a_comparison_takes_no_more_memory_than_the_setting():
    load, machine = Load(runs=1, items=1e6), replace(MACHINE, comparison_memory_mib=512)
    sizing = size_load(load, machine)

    assert sizing.machines.memory_gib == pytest.approx((250 + 512) / 1024)
    assert not resource(sizing, "comparison memory").is_enough


def test_a_server_is_not_spread_over_machines():
    sizing = size_load(PRESETS["team"].load, replace(MACHINE, cores=1))

    assert not sizing.is_enough
    assert sizing.first.name == "machine cores"
    assert sizing.first.remedy == "a machine with more cores"


def test_judges_cost_tokens_times_prices_and_are_unpriced_without_one():
    load = Load(items=10, judge_calls=1e6, judge_tokens_in=1000, judge_tokens_out=100)
    priced = replace(load, judge_usd_in=0.15, judge_usd_out=0.6)

    assert size_load(load).judge_usd_per_day is None
    assert size_load(priced).judge_usd_per_day == pytest.approx(150 + 60)
    assert size_load(Load(items=10)).judge_usd_per_day == 0


def test_machines_cost_what_an_hour_of_each_costs():
    load = Load(runs=1, items=1, spans=3 * SPANS_OF_ONE_CORE, peak=1, trace_days=1)
    sizing = size_load(load, replace(MACHINE, cores=8, usd_per_hour=0.5), costs=ON_POSTGRESQL)

    # Five servers of two cores and one core of runs, and three cores of PostgreSQL at 70 % of eight.
    assert sizing.machines.total == 2 + 1
    assert sizing.is_enough
    assert sizing.machine_usd_per_day == pytest.approx(3 * 24 * 0.5)


def test_a_limit_of_the_provider_can_run_out_first():
    load = replace(PRESETS["team"].load, judge_calls_per_minute=100)
    first = size_load(load, PRESETS["team"].machine).first

    assert first is not None
    assert first.name == "judge calls"
    assert first.used == pytest.approx(30_000 / 1440 * 10 / 100)


@pytest.mark.parametrize("calls", [1000, 1e5, 1e7, 1e12])
def test_95_percent_of_the_calls_of_judges_wait_for_at_most_half_a_call(calls):
    judging = size_load(Load(judge_calls=calls, judge_seconds=2)).judging

    assert judging.at_once > judging.in_flight
    assert 0 <= judging.p95_wait_seconds <= 1


def test_what_was_never_measured_is_counted():
    sizing = size_load(Load(spans=1e6, trace_days=30), MACHINE)

    assert sizing.spans_beyond_measured == pytest.approx(3)


def test_each_figure_says_where_it_is_from():
    assert len({each.name for each in UNIT_COSTS}) == len(UNIT_COSTS)
    for each in UNIT_COSTS:
        is_benchmark = each.command.startswith("python benchmarks/") or each.command == "make soak"
        assert is_benchmark == (each.origin != "assumed"), each.name
        assert each.meaning


def test_a_unit_cost_that_is_given_replaces_the_one_that_was_measured():
    costs = UnitCosts().with_values({"span-cpu-ms": 0.05})

    assert costs["span-cpu-ms"] == 0.05
    assert next(each for each in costs.figures if each.name == "span-cpu-ms").origin == "given"
    assert UnitCosts()["span-cpu-ms"] == 0.104


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"span-cpu": 1.0}, "Did you mean 'span-cpu-ms'"),
        ({"span-cpu-ms": 0.0}, "must be a number over 0, not 0"),
        ({"span-cpu-ms": float("nan")}, "must be a number over 0, not nan"),
        ({"lone-request-factor": 0.5}, "at least 1, not 0.5"),
        ({"full-cpu": 1.5}, "must be at most 1 and at least 0, not 1.5"),
    ],
)
def test_a_unit_cost_that_cannot_be_is_refused(values, message):
    with pytest.raises(ConfigurationError, match=message):
        UnitCosts().with_values(values)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("items", -1),
        ("spans", float("inf")),
        ("spans", 1e16),
        ("trace_days", float("nan")),
        ("peak", 0.5),
        ("peak_hours", 2.5),
        ("judge_calls_per_minute", 0),
    ],
)
def test_a_load_that_cannot_be_is_refused(field, value):
    with pytest.raises(ConfigurationError, match=field):
        Load(**{field: value})


@pytest.mark.parametrize("name", PRESETS)
def test_a_size_is_json(name):
    tree = json.loads(to_json(build_tree(size_load(PRESETS[name].load, PRESETS[name].machine, name=name))))

    assert tree["name"] == name
    assert tree["isEnough"] is True
    assert tree["first"] == tree["resources"][0]["name"]
    assert tree["load"]["judgeCalls"] == PRESETS[name].load.judge_calls


def test_a_load_of_nothing_is_refused():
    with pytest.raises(ConfigurationError, match="The load is empty"):
        size_load(Load())


@pytest.mark.parametrize("field", ["cores", "disk_gb", "memory_gib"])
def test_a_machine_without_anything_is_refused(field):
    with pytest.raises(ConfigurationError, match=field):
        Machine(**{field: 0})


def test_a_size_says_first_whether_it_is_enough():
    text = str(size_load(Load(spans=1e9), MACHINE, store="sqlite", servers=None))

    assert text.index("not enough: one server on SQLite") < text.index("SQLite file: ")
    assert "get 503" in text
