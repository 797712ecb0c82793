"""The page on sizing has each preset and each unit cost."""

import re
from pathlib import Path

import pytest

from dokimos._sizing.load import PRESETS
from dokimos._sizing.unit_costs import UNIT_COSTS, UnitCosts

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "sizing.md"
ROOT = PAGE.parents[2]
CLICKHOUSE = "docs/guide/server-clickhouse.md"


def test_the_tables_of_the_page_are_made_from_the_code(docs_modules):
    text = PAGE.read_text(encoding="utf-8")
    with docs_modules("sizing_tables") as (module,):
        assert all(mark in text for mark in (module.LOADS_MARK, module.SIZES_MARK, module.COSTS_MARK))
        loads, sizes, costs = module.make_loads(), module.make_sizes(), module.make_costs()

    assert all(f"`{name}`" in loads and f"`{name}`" in sizes for name in PRESETS)
    assert all(f"`{each.name}`" in costs for each in UNIT_COSTS)


def test_each_benchmark_that_a_figure_names_exists():
    scripts = [each.command.split()[1] for each in UNIT_COSTS if each.command.startswith("python ")]

    assert len(scripts) >= 10
    assert [script for script in scripts if not (ROOT / script).is_file()] == []


@pytest.mark.parametrize(
    ("name", "page", "figure", "per"),
    [
        ("run-item-cpu-ms", "docs/guide/performance.md", r"with the journal, as by default \| (\d+) µs", 1e3),
        (
            "judge-call-cpu-ms",
            "docs/guide/performance.md",
            r"judge over HTTP, and the journal \| (\d+) µs",
            1e3,
        ),
        ("compare-item-cpu-ms", "docs/guide/performance.md", r"runs of 100,000 items \| ([\d.]+) s", 100),
        (
            "compare-item-bytes",
            "docs/guide/performance.md",
            r"of 100,000 items \|[^|]+\| (\d+) MB",
            1e5 / 2**20,
        ),
        ("span-cpu-ms-clickhouse", CLICKHOUSE, r"CPU of the server \| (\d+) µs", 1e3),
        ("insert-cpu-ms-clickhouse", CLICKHOUSE, r"CPU of ClickHouse[^|]* \| (\d+) µs", 1e3),
        ("span-rows-cpu-ms-clickhouse", CLICKHOUSE, r"CPU of PostgreSQL[^|]* \| (\d+) µs", 1e3),
        ("span-disk-factor-clickhouse", CLICKHOUSE, r"disk of ClickHouse \| 388 bytes, ([\d.]+) times", 1),
        ("span-rows-bytes-clickhouse", CLICKHOUSE, r"disk of PostgreSQL beside it \| (\d+) bytes", 1),
        ("measured-spans-clickhouse", CLICKHOUSE, r"\((\d+),000 spans of 1,763 bytes", 1e-3),
        ("span-cpu-ms", "ARCHITECTURE.md", r"\((\d+) and 128 ms on a loaded machine", 1e3),
        ("span-disk-factor", "ARCHITECTURE.md", r"140 MB, ([\d.]+) times", 1),
    ],
)
def test_a_figure_is_the_one_that_another_page_gives_for_its_benchmark(name, page, figure, per):
    [found] = re.findall(figure, (ROOT / page).read_text(encoding="utf-8"))
    assert UnitCosts()[name] == pytest.approx(float(found) / per, rel=0.001)
