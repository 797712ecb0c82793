"""The noise of a system on the terminal: how its scores vary, and what a gate would make of that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dokimos._core.number_format import format_score, percent
from dokimos._core.text import pluralize
from dokimos.comparison._wording import share
from dokimos.gate._noise_report import NoiseReport
from dokimos.reporting._blocks import Block, Detail, Line, View
from dokimos.reporting._tables import Column, Table

_COLUMNS: Final = (
    Column("evaluator", left=True, most=34),
    Column("deviation"),
    Column("items that differ"),
    Column("with the same output"),
)


def noise_blocks(report: NoiseReport, detail: Detail) -> Iterator[Block]:
    """Yield what a measurement of noise shows."""
    yield Line(f"{report.items} items x {report.runs} runs of the same system", "bold")
    yield Line(f"  {percent(report.pass_flips)} of the items do not always get the same verdict", fit="wrap")
    yield Line()
    yield _evaluators_table(report)
    yield Line()
    if detail != "summary":
        yield from _guard_blocks(report)
    for sentence in _proposal(report):
        yield Line(sentence, fit="wrap")


def _evaluators_table(report: NoiseReport) -> Table:
    rows = [
        [
            one.name,
            format_score(one.deviation),
            f"{one.unstable_items} of {one.items}",
            f"{one.unstable_scorings}" if one.unstable_scorings else "",
        ]
        for one in report.evaluators
    ]
    return Table(_COLUMNS, rows)


def _guard_blocks(report: NoiseReport) -> Iterator[Block]:
    if report.errored:
        text = f"  ! {report.errored} of {report.items} items errored in some run: to guard 2 that is a drop"
        yield Line(text, "yellow", fit="wrap")
    low, high = percent(report.guard1_interval.low), percent(report.guard1_interval.high)
    yield Line(
        f"Guard 1 (regression) fired on {percent(report.guard1_rate)} of {report.pairs} unchanged pairs "
        f"(95 % interval {low} to {high}); it should stay below {share(report.alpha)}",
        fit="wrap",
    )
    margin = format_score(report.severity_margin)
    yield Line(
        f"The documented guard 2 (any drop of a single item by more than {margin}) fired on", fit="wrap"
    )
    for two in report.guard2:
        errors = f", on {percent(two.error_rate)} for an error" if two.error_rate else ""
        yield Line(
            f"  {percent(two.fire_rate)} with {pluralize(two.repeats, 'run')} on each side{errors}; "
            f"{'scores alone need' if errors else 'it takes'} a margin of {format_score(two.margin)} "
            f"for {share(report.alpha)}",
            fit="wrap",
        )
    if report.confirmed_rate is not None:
        yield Line(f"  {percent(report.confirmed_rate)} with 1 run on each side and confirm=3", fit="wrap")
    yield Line()


def _proposal(report: NoiseReport) -> Iterator[str]:
    if report.guard2[0].error_rate:
        yield "No margin helps against errors: fix what fails, or let confirm=3 run those items again."
    if report.margin <= report.severity_margin:
        quiet = "" if report.errored else ": guard 2 stays quiet on an unchanged system"
        yield f"The margin in use is enough for the scores{quiet}."
        return
    if report.margin >= 1:
        yield (
            "Proposed: GateConfig.calibrated(), since here a score falls from 1 to 0 by chance and no margin "
            "helps; or confirm=3 where its rate above is low enough."
        )
        return
    yield (
        f"Proposed: severity_margin={report.margin:.2f} with one run on each side, or about {report.repeats} "
        f"runs with severity_margin={report.severity_margin:.2f}, or GateConfig.calibrated(). The default "
        'gate (severity="auto") judges by such noise itself: run both sides 3 times, or keep these figures '
        "beside the baseline (-o NAME.noise.json)."
    )


VIEW: Final = View.of_blocks(
    lambda report: f"{report.items} items x {report.runs} runs: {' '.join(_proposal(report))}", noise_blocks
)
