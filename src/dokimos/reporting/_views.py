"""Results and items as text, on the terminal, and in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from dokimos._core.endings import describe_counts
from dokimos._core.error_detail import ErrorDetail, append_place
from dokimos._core.error_groups import TASK
from dokimos._core.keys import INPUT, OUTPUT
from dokimos._core.markup import tag
from dokimos._core.metrics import CallMetrics
from dokimos._core.number_format import duration, percent, to_single_line, usd
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult
from dokimos._runtime.terminal_text import escape_control_characters
from dokimos.reporting import _console as console
from dokimos.reporting._blocks import Detail, Line, View, print_blocks, table_html
from dokimos.reporting._data_views import LONGEST_REASON, entries, result_line
from dokimos.reporting._worst_items import Entry, worst_entries, wrong_results

if TYPE_CHECKING:
    from rich.console import Console

_NONE: Final = "–"


def item_text(item: ItemResult) -> str:
    """Return the outcome of an item and of each of its evaluators, one line each."""
    lines = [f"{item.key}: {item.outcome.value}"]
    if item.error is not None:
        lines.append(f"! task: {append_place(item.error, item.error_detail)}")
    lines += map(result_line, item.eval_results)
    return "\n  ".join(escape_control_characters(to_single_line(line, LONGEST_REASON)) for line in lines)


def item_details(item: ItemResult, *, run: int | None = None) -> str:
    """Return all of an item: inputs, outputs, evaluations, and cost.

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
    lines += [f"  {name:<{room}}  {_indent(text, room + 4)}" for name, text in parts]
    lines += ["", *(f"  {_indent(_whole_line(result), 4)}" for result in item.eval_results)]
    return escape_control_characters("\n".join(lines).rstrip())


def _parts(item: ItemResult) -> Iterator[tuple[str, str]]:
    """Yield the inputs and outputs, each with its title."""
    example = item.example
    yield from entries("input", example.inputs, INPUT)
    yield from entries("expected", example.expected_outputs, OUTPUT)
    yield from entries("output", item.actual_outputs, OUTPUT)
    yield from entries("metadata", example.metadata, None)
    if item.error is not None:
        yield "error", item.error
    if item.error_detail is not None and item.error_detail.frames:
        yield "where", _frames(item.error_detail)


def _frames(detail: ErrorDetail) -> str:
    """Return the frames of an error's traceback, one line each, the innermost last."""
    return "\n".join(f"{frame}  {frame.source}".rstrip() for frame in detail.frames)


def _whole_line(result: EvalResult) -> str:
    """Return the result of an evaluator, with the frames of its error where there are several."""
    detail = result.error_detail
    several = detail is not None and len(detail.frames) > 1
    line = result_line(result)
    return f"{line}\n{_frames(detail)}" if detail is not None and several else line


def _indent(text: str, room: int) -> str:
    return text.replace("\n", "\n" + " " * room)


def result_html(result: ExperimentResult) -> str:
    """Return a result as a fragment of HTML: verdict, evaluators and the items to look at first.

    It has no colours of its own, so that it can be read in light and in dark notebooks.
    """
    worst = worst_entries(result)
    title = "Look first at" if len(worst) > console.LOOK_FIRST else "Not passed"
    first = (
        tag("p", tag("b", title)),
        table_html(
            ("item", "evaluator", "why"), _worst_rows(worst[: console.LOOK_FIRST], result.lower_is_better)
        ),
    )
    return tag(
        "div",
        tag(
            "p",
            tag("b", escape_control_characters(result.name)),
            f": {escape_control_characters(describe_counts(result))}",
        ),
        table_html(("evaluator", "mean", "passed", "errors"), _evaluator_rows(result)),
        first if worst else None,
        [tag("p", f"! {escape_control_characters(notice)}") for notice in result.notices],
    ).markup


def _evaluator_rows(result: ExperimentResult) -> Iterable[Sequence[str]]:
    for name in result.evaluator_names:
        summary = result.evaluator_summary(name)
        if summary is None:
            continue
        mean = result.average_score(name)
        rate = summary.pass_rate
        passed = _NONE if rate is None else f"{percent(rate)} ({summary.passed}/{summary.judged})"
        yield name, _NONE if mean is None else f"{mean:.2f}", passed, str(summary.errors or _NONE)


def _worst_rows(entries: Iterable[Entry], lower_is_better: frozenset[str]) -> Iterable[Sequence[str]]:
    for entry in entries:
        item, label = entry.first, entry.label
        if item.error is not None:
            yield label, TASK, _render_error(item.error, item.error_detail)
        wrong = wrong_results(item, lower_is_better)
        # Items that share a line share their first error; what else is wrong differs from item to item.
        for result in wrong[:2] if len(entry.items) == 1 else wrong[:1]:
            if result.error is not None:
                yield label, result.name, _render_error(result.problem, result.error_detail)
                continue
            score = "" if result.score is None else f" {result.score:.2f}"
            yield label, f"{result.name}{score}", to_single_line(result.reason, LONGEST_REASON)


def _render_error(error: str, detail: ErrorDetail | None) -> str:
    return append_place(to_single_line(error, LONGEST_REASON), detail)


def _print_result(result: ExperimentResult, target: Console, detail: Detail) -> None:
    if detail == "summary":
        console.print_summary(result, target)
    else:
        console.print_result(result, target, verbose=detail == "verbose")


def _print_item(item: ItemResult, target: Console, detail: Detail) -> None:
    text = item_text(item) if detail == "summary" else item_details(item)
    print_blocks((Line(line, fit="wrap") for line in text.split("\n")), target)


def item_html(item: ItemResult) -> str:
    """Return an item as a fragment of HTML: inputs, outputs, and the result of each evaluator."""
    parts = [*_parts(item), *((result.name, result_line(result)) for result in item.eval_results)]
    head = tag("p", tag("b", escape_control_characters(item.key)), f": {item.outcome.value}")
    return tag("div", head, table_html(("", ""), parts)).markup


RESULT: Final = View(
    lambda result: f"{result.name!r:.60}: {describe_counts(result)}", _print_result, result_html
)
ITEM: Final = View(lambda item: f"{item.key!r:.60}: {item.outcome.value}", _print_item, item_html)
