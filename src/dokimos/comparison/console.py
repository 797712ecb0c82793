"""A comparison on the terminal: the verdict, the metrics, and the items to look at first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from dokimos.comparison.diff import Change, ItemChange, MetricChange, RunComparison, title
from dokimos.comparison.markdown import verdict_text
from dokimos.comparison.wording import change, coverage_note, evidence_sentence, interval, level, p_text
from dokimos.core.figures import known, one_line, score

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

LOOK_FIRST: Final = 10
_STYLES: Final = {Change.REGRESSED: "dark_orange", Change.IMPROVED: "blue"}
_SIGNS: Final = {Change.REGRESSED: "worse", Change.IMPROVED: "better"}


def print_comparison(comparison: RunComparison, console: Console, *, verbose: bool = False) -> None:
    """Print a comparison; `verbose` shows every changed item."""
    _line(console, f"{comparison.baseline_label} -> {comparison.candidate_label}", "bold")
    _line(console)
    _print_metrics(comparison, console)
    _line(console, f"  {verdict_text(comparison)}", f"bold {_verdict_style(comparison)}".strip())
    counts = (f"{comparison.count(kind):,} {kind.value.lower()}" for kind in Change if comparison.count(kind))
    pairing = comparison.pairing.value.replace("_", " ")
    _line(console, f"  {', '.join(counts) or 'no items'}; paired by {pairing}")
    if comparison.leading is not None:
        text = evidence_sentence(comparison.leading, len(comparison.metrics))
        console.print(f"  {text}", style="dim", soft_wrap=True, markup=False)
    _line(console)
    _print_items(comparison, console, None if verbose else LOOK_FIRST)
    for warning in comparison.warnings:
        console.print(f"  ! {warning}", style="yellow", soft_wrap=True, markup=False)


def _verdict_style(comparison: RunComparison) -> str:
    changes = {metric.change for metric in comparison.metrics}
    return next((style for change, style in _STYLES.items() if change in changes), "")


def _print_metrics(comparison: RunComparison, console: Console) -> None:
    room = min(max([len(title(metric)) for metric in comparison.metrics] + [6]), 26)
    head = f"  {'metric':<{room}}  {'before':>8}  {'now':>8}  {'change':>10}"
    _line(console, f"{head}  {'95 % interval':>20}  {'adj. p':>8}", "dim")
    for metric in comparison.metrics:
        console.print(_metric_line(metric, room), no_wrap=True, overflow="ellipsis", crop=True)
    for note, names in _coverage_notes(comparison).items():
        console.print(f"  {note} ({', '.join(names)})", style="dim", soft_wrap=True, markup=False)
    _line(console)


def _coverage_notes(comparison: RunComparison) -> dict[str, list[str]]:
    """Return what is to be said of the intervals of few items, with the metrics that it holds for."""
    notes: dict[str, list[str]] = {}
    for metric in comparison.metrics:
        if note := coverage_note(metric):
            notes.setdefault(note.replace("covers", "the 95 % interval covers"), []).append(title(metric))
    return notes


def _metric_line(metric: MetricChange, room: int) -> Text:
    from rich.text import Text

    text = Text(f"  {one_line(title(metric), room):<{room}}  ")
    text.append(f"{level(metric, metric.baseline_mean):>8}  {level(metric, metric.candidate_mean):>8}  ")
    text.append(f"{change(metric):>10}", _STYLES.get(metric.change, ""))
    text.append(f"  {interval(metric):>20}  {p_text(metric.adjusted_p_value).removeprefix('= '):>8}", "dim")
    if metric.change in _SIGNS:
        text.append(f"  {_SIGNS[metric.change]}", _STYLES[metric.change])
    return text


def _print_items(comparison: RunComparison, console: Console, most: int | None) -> None:
    found = [*comparison.most_moved(Change.REGRESSED), *comparison.most_moved(Change.IMPROVED)]
    if not found:
        found = [item for item in comparison.cases(Change.UNCHANGED) if item.pass_flip]
    shown = found if most is None else found[:most]
    for item in shown:
        console.print(_item_line(item), no_wrap=True, overflow="ellipsis", crop=True)
    if len(found) > len(shown):
        _line(console, f"    ... and {len(found) - len(shown):,} more", "dim")
    if found:
        _line(console)


def _item_line(item: ItemChange) -> Text:
    from rich.text import Text

    text = Text(f"    {one_line(item.key, 20):<20}  ")
    text.append(f"{_SIGNS.get(item.change, 'flip'):<6}  ", _STYLES.get(item.change, "dim"))
    return text.append("; ".join(_scores(item)))


def _scores(item: ItemChange) -> Iterator[str]:
    for one in item.evaluators:
        if one.baseline_mean != one.candidate_mean:
            yield f"{one.name} {known(score, one.baseline_mean)} -> {known(score, one.candidate_mean)}"


def _line(console: Console, text: str = "", style: str = "") -> None:
    from rich.text import Text

    console.print(Text(text, style), no_wrap=True, overflow="ellipsis", crop=True)
