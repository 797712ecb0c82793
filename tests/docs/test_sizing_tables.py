"""The page on sizing has each preset and each unit cost."""

from pathlib import Path

from dokimos._sizing.load import PRESETS
from dokimos._sizing.unit_costs import UNIT_COSTS

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "sizing.md"
ROOT = PAGE.parents[2]


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
