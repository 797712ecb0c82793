"""Sphinx extension: puts the presets and unit costs of `dokimos size` where a page asks for them."""

from generated import add_part
from tables import code, table

from dokimos._sizing.load import PRESETS
from dokimos._sizing.sizing import size_load
from dokimos._sizing.sizing_view import format_deployment, format_disk, format_exactly, format_number
from dokimos._sizing.unit_costs import UNIT_COSTS

LOADS_MARK = "<!-- loads of the presets -->"
SIZES_MARK = "<!-- sizes of the presets -->"
COSTS_MARK = "<!-- unit costs -->"


def setup(app):
    for mark, make in ((LOADS_MARK, make_loads), (SIZES_MARK, make_sizes), (COSTS_MARK, make_costs)):
        add_part(app, mark, make)
    return {"version": "1", "parallel_read_safe": True}


def make_loads():
    """Return a table of what comes in a day, and on what machines."""
    head = ["", "runs", "items", "judge calls", "spans", "peak", "a machine has"]
    return table(head, [make_load_row(name, preset) for name, preset in PRESETS.items()])


def make_load_row(name, preset):
    load, machine = preset.load, preset.machine
    counts = [f"{count:,.0f}" for count in (load.runs, load.items, load.judge_calls, load.spans)]
    has = f"{machine.cores} cores, {machine.memory_gib:g} GiB, {machine.disk_gb:,.0f} GB"
    return [code(name), *counts, f"{load.peak:g} times the mean", has]


def make_sizes():
    """Return a table of what the presets take."""
    head = ["", "deployment", "machines", "disk", "runs out first", "then add"]
    return table(head, [make_size_row(name, preset) for name, preset in PRESETS.items()])


def make_size_row(name, preset):
    sizing = size_load(preset.load, preset.machine)
    first = sizing.first
    return [
        code(name),
        format_deployment(sizing.deployment),
        f"{sizing.machines.total:,}",
        format_disk(sizing.machines.disk_gb),
        f"{first.name}, at {format_number(first.growth)} times the load",
        first.remedy,
    ]


def make_costs():
    """Return a table of the unit costs, and where each is from."""
    rows = [
        [
            code(each.name),
            f"{format_exactly(each.value)} {each.unit}",
            each.meaning,
            each.origin,
            find_source(each),
        ]
        for each in UNIT_COSTS
    ]
    return table(["Name", "Value", "What it is", "", "From"], rows)


def find_source(cost):
    return cost.command if cost.origin == "assumed" else code(cost.command)
