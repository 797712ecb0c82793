"""What results show of themselves: as text, on the terminal, and in a notebook."""

from __future__ import annotations

import html
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from dokimos.core.endings import describe_counts
from dokimos.core.figures import duration, one_line, percent, usd
from dokimos.core.jsonable import jsonable
from dokimos.core.keys import INPUT, OUTPUT
from dokimos.core.metrics import CallMetrics
from dokimos.core.results import EvalResult, ExperimentResult, ItemResult
from dokimos.core.visible import visible
from dokimos.reporting import console
from dokimos.reporting.terminal import safe_console

LONGEST_REASON: Final = 400
_NONE: Final = "–"
_SIGNS: Final[Mapping[bool | None, str]] = {True: "+", False: "x"}


def result_text(result: ExperimentResult) -> str:
    """Return the head of a result, the table of its evaluators and its verdict, without styles."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    text = _Text(encoding)
    console.print_summary(result, safe_console(file=text, width=console.WIDTH, color_system=None))
    return text.getvalue().rstrip()


def print_result(result: ExperimentResult, *, verbose: bool = False) -> None:
    """Print a result as the command does."""
    console.print_result(result, console.make_console(), verbose=verbose)


def item_text(item: ItemResult) -> str:
    """Return what became of an item, and what each of its evaluators says, a line each."""
    lines = [f"{item.key}: {item.outcome.value}"]
    if item.error is not None:
        lines.append(f"! task: {item.error}")
    lines += map(_told, item.eval_results)
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
    example = item.example
    parts = [
        *_entries("input", example.inputs, INPUT),
        *_entries("expected", example.expected_outputs, OUTPUT),
        *_entries("output", item.actual_outputs, OUTPUT),
        *_entries("metadata", example.metadata, None),
    ]
    if item.error is not None:
        parts.append(("error", item.error))
    room = max((len(name) for name, _ in parts), default=0)
    lines = [" | ".join(filter(None, head)), ""]
    lines += [f"  {name:<{room}}  {_indented(text, room + 4)}" for name, text in parts]
    lines += ["", *(f"  {_indented(_told(result), 4)}" for result in item.eval_results)]
    return visible("\n".join(lines).rstrip())


def _entries(title: str, content: Mapping[str, Any], usual: str | None) -> Iterator[tuple[str, str]]:
    """Yield each entry of a map; the usual one is called by the title alone."""
    for key, value in content.items():
        text = value if isinstance(value, str) else json.dumps(jsonable(value), ensure_ascii=False, indent=2)
        yield title if key == usual else f"{title}.{key}", text


def _told(result: EvalResult) -> str:
    score = "" if result.score is None else f" {result.score:.2f}"
    limit = "" if result.threshold is None else f" (threshold {result.threshold:g})"
    said = result.problem if result.error is not None else result.skipped or result.reason
    sign = "!" if result.error is not None else _SIGNS.get(result.success, "-")
    return f"{sign} {result.name}{score}{limit}{f': {said}' if said else ''}"


def _indented(text: str, room: int) -> str:
    return text.replace("\n", "\n" + " " * room)


def result_html(result: ExperimentResult) -> str:
    """Return a result as a fragment of HTML: verdict, evaluators and the items to look at first.

    It has no colours of its own, so that it can be read in light and in dark notebooks.
    """
    worst = console.worst_items(result)
    parts = [
        f"<p><b>{_escaped(result.name)}</b>: {_escaped(describe_counts(result))}</p>",
        _table(("evaluator", "mean", "passed", "errors"), _evaluator_rows(result)),
    ]
    if worst:
        title = "Look first at" if len(worst) > console.LOOK_FIRST else "Not passed"
        parts.append(f"<p><b>{title}</b></p>")
        parts.append(_table(("item", "evaluator", "why"), _item_rows(worst[: console.LOOK_FIRST])))
    parts += [f"<p>! {_escaped(notice)}</p>" for notice in result.notices]
    return f"<div>{''.join(parts)}</div>"


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


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    body = "".join(f"<tr>{''.join(f'<td>{_escaped(cell)}</td>' for cell in row)}</tr>" for row in rows)
    cells = "".join(f"<th>{_escaped(name)}</th>" for name in head)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>" if body else ""


def _escaped(text: str) -> str:
    return html.escape(visible(text))


class _Text(io.StringIO):
    """A text that is written for a stream of another encoding, which decides on the signs."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override] # None in a text without a stream
        return self._encoding
