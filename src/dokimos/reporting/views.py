"""What results show of themselves: as text, on the terminal, and in a notebook."""

from __future__ import annotations

import html
import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from dokimos.core.endings import describe_counts
from dokimos.core.figures import one_line, percent
from dokimos.core.results import ExperimentResult, ItemResult
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
    for result in item.eval_results:
        score = "" if result.score is None else f" {result.score:.2f}"
        limit = "" if result.threshold is None else f" (threshold {result.threshold:g})"
        said = result.problem if result.error is not None else result.skipped or result.reason
        sign = "!" if result.error is not None else _SIGNS.get(result.success, "-")
        lines.append(f"{sign} {result.name}{score}{limit}{f': {said}' if said else ''}")
    return "\n  ".join(visible(one_line(line, LONGEST_REASON)) for line in lines)


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
