"""What results show of themselves: as text, on the terminal, and in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from dokimos.core.endings import describe_counts
from dokimos.core.figures import duration, one_line, percent, usd
from dokimos.core.keys import INPUT, OUTPUT
from dokimos.core.markup import tag
from dokimos.core.metrics import CallMetrics
from dokimos.core.results import ExperimentResult, ItemResult
from dokimos.core.visible import visible
from dokimos.reporting import console
from dokimos.reporting.blocks import Detail, Line, View, print_blocks, table_html
from dokimos.reporting.data_views import LONGEST_REASON, entries, result_line

if TYPE_CHECKING:
    from rich.console import Console

_NONE: Final = "–"


def item_text(item: ItemResult) -> str:
    """Return what became of an item, and what each of its evaluators says, a line each."""
    lines = [f"{item.key}: {item.outcome.value}"]
    if item.error is not None:
        lines.append(f"! task: {item.error}")
    lines += map(result_line, item.eval_results)
    return "\n  ".join(visible(one_line(line, LONGEST_REASON)) for line in lines)


def item_details(item: ItemResult, *, run: int | None = None) -> str:
    """Return an item whole: what went in and came out, its evaluators' words, what it cost.

    Args:
        item: The item.
        run: The repeat that it is of, counted from 0, where there are several.
    """
    metrics = item.metrics or CallMetrics()
    head = [
        item.key,
        item.outcome.value,
        "" if run is None else f"run {run + 1}",
        metrics.model or "",
        "" if metrics.latency_ms is None else duration(metrics.latency_ms),
        "" if metrics.cost_usd is None else usd(metrics.cost_usd),
    ]
    parts = list(_parts(item))
    room = max((len(name) for name, _ in parts), default=0)
    lines = [" | ".join(filter(None, head)), ""]
    lines += [f"  {name:<{room}}  {_indented(text, room + 4)}" for name, text in parts]
    lines += ["", *(f"  {_indented(result_line(result), 4)}" for result in item.eval_results)]
    return visible("\n".join(lines).rstrip())


def _parts(item: ItemResult) -> Iterator[tuple[str, str]]:
    """Yield what went in and came out, each with its title."""
    example = item.example
    yield from entries("input", example.inputs, INPUT)
    yield from entries("expected", example.expected_outputs, OUTPUT)
    yield from entries("output", item.actual_outputs, OUTPUT)
    yield from entries("metadata", example.metadata, None)
    if item.error is not None:
        yield "error", item.error


def _indented(text: str, room: int) -> str:
    return text.replace("\n", "\n" + " " * room)


def result_html(result: ExperimentResult) -> str:
    """Return a result as a fragment of HTML: verdict, evaluators and the items to look at first.

    It has no colours of its own, so that it can be read in light and in dark notebooks.
    """
    worst = console.worst_items(result)
    title = "Look first at" if len(worst) > console.LOOK_FIRST else "Not passed"
    first = (
        tag("p", tag("b", title)),
        table_html(("item", "evaluator", "why"), _item_rows(worst[: console.LOOK_FIRST])),
    )
    return tag(
        "div",
        tag("p", tag("b", visible(result.name)), f": {visible(describe_counts(result))}"),
        table_html(("evaluator", "mean", "passed", "errors"), _evaluator_rows(result)),
        first if worst else None,
        [tag("p", f"! {visible(notice)}") for notice in result.notices],
    ).markup


def _evaluator_rows(result: ExperimentResult) -> Iterable[Sequence[str]]:
    for name in result.evaluator_names:
        found = result.evaluator_summary(name)
        if found is None:
            continue
        mean = result.average_score(name)
        rate = found.pass_rate
        passed = _NONE if rate is None else f"{percent(rate)} ({found.passed}/{found.judged})"
        yield name, _NONE if mean is None else f"{mean:.2f}", passed, str(found.errors or _NONE)


def _item_rows(items: Iterable[ItemResult]) -> Iterable[Sequence[str]]:
    for item in items:
        if item.error is not None:
            yield item.key, "task", one_line(item.error, LONGEST_REASON)
        for result in item.culprits[:2]:
            said = result.problem if result.error is not None else result.reason
            score = "" if result.score is None else f" {result.score:.2f}"
            yield item.key, f"{result.name}{score}", one_line(said, LONGEST_REASON)


def _print_result(result: ExperimentResult, target: Console, detail: Detail) -> None:
    if detail == "summary":
        console.print_summary(result, target)
    else:
        console.print_result(result, target, verbose=detail == "verbose")


def _print_item(item: ItemResult, target: Console, detail: Detail) -> None:
    text = item_text(item) if detail == "summary" else item_details(item)
    print_blocks((Line(line, fit="wrap") for line in text.split("\n")), target)


def item_html(item: ItemResult) -> str:
    """Return an item as a fragment of HTML: what went in and came out, and what each evaluator says of it."""
    parts = [*_parts(item), *((result.name, result_line(result)) for result in item.eval_results)]
    head = tag("p", tag("b", visible(item.key)), f": {item.outcome.value}")
    return tag("div", head, table_html(("", ""), parts)).markup


RESULT: Final = View(
    lambda result: f"{result.name!r:.60}: {describe_counts(result)}", _print_result, result_html
)
ITEM: Final = View(lambda item: f"{item.key!r:.60}: {item.outcome.value}", _print_item, item_html)
