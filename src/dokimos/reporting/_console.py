"""A result on the terminal: verdict, evaluators, and what to look at first."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from dokimos._core.endings import EVERYTHING_ERRORED
from dokimos._core.error_groups import TASK
from dokimos._core.number_format import duration, percent, to_single_line, usd
from dokimos._core.results import ExperimentResult, RunStatus
from dokimos._core.summary import describe_labels, judge_cost
from dokimos.reporting._tables import Cell, Column, Table, cell_width, cut_middle, pad, print_table
from dokimos.reporting._terminal import safe_console
from dokimos.reporting._worst_items import Entry, first_tracebacks, worst_entries, wrong_results

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from dokimos._core.error_detail import ErrorDetail
    from dokimos._core.evaluator_summary import EvaluatorSummary

WIDTH: Final = 100
LOOK_FIRST: Final = 5
LONGEST_REASON: Final = 400
_LINES_OF_REASON: Final = 3
"""Lines that the reason of a score takes; a longer one loses its middle."""
_LINES_OF_ERROR: Final = 6
_BEFORE_REASON: Final = 6
"""Columns of a row beside the item's label: an indent and a gap."""
_NARROWEST: Final = 20
_LONGEST_NAME: Final = 34
_BARS: Final = "▁▂▃▄▅▆▇█"
_ASCII_BARS: Final = "._-=+*#@"
_PASS, _FAIL, _WARN, _QUIET = "blue", "dark_orange", "yellow", "dim"


@dataclass(frozen=True, slots=True)
class Signs:
    """The signs that go with every colour; ASCII where the terminal has no UTF-8."""

    passed: str = "✓"
    failed: str = "✗"
    none: str = "–"
    dot: str = "·"
    spread: str = "±"
    line: str = "─"
    bars: str = _BARS


ASCII_SIGNS: Final = Signs("+", "x", "-", "|", "+/-", "-", _ASCII_BARS)


def make_console(*, stderr: bool = False) -> Console:
    """Return a console that is at most 100 columns wide, and exactly 100 where the output is not a terminal.

    `COLUMNS` says how wide it is instead, for a terminal as for a pipe. With `NO_COLOR` it writes no control
    characters at all.
    """
    console = safe_console(stderr=stderr)
    width = read_columns_variable() or (min(console.width, WIDTH) if console.is_terminal else WIDTH)
    # rich itself only drops the colours then, and still writes bold and dim.
    colors: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return safe_console(stderr=stderr, width=width, color_system=colors)


def read_columns_variable() -> int | None:
    """Return the width in the environment variable `COLUMNS`, None unless it is a usable number."""
    value = os.environ.get("COLUMNS", "")
    # "²" is a digit to Python, but int() refuses it.
    return int(value) if value.isascii() and value.isdigit() and int(value) >= _NARROWEST else None


def signs_for(console: Console) -> Signs:
    """Choose the signs that the console can show."""
    return Signs() if console.encoding.lower().startswith("utf") else ASCII_SIGNS


def print_result(
    result: ExperimentResult,
    console: Console,
    *,
    misses: Sequence[str] = (),
    requirement: str | None = None,
    verbose: bool = False,
    debug: bool = False,
) -> None:
    """Print the summary of a result; `misses` are the levels missed, `requirement` the levels required.

    With `debug`, the whole traceback of the first error of each kind comes last.
    """
    view = _View(result, console, signs_for(console))
    view.print_head()
    view.print_evaluators()
    view.print_verdict(misses, requirement)
    view.print_worst(one_by_one=verbose)
    view.print_warnings()
    if debug:
        view.print_tracebacks()


def print_summary(result: ExperimentResult, console: Console) -> None:
    """Print what a result is of, its evaluators and its verdict, without any items."""
    view = _View(result, console, signs_for(console))
    view.print_head()
    view.print_evaluators()
    view.print_verdict((), None)


def verdict_line(
    result: ExperimentResult, misses: Sequence[str], requirement: str | None, console: Console
) -> Text:
    """Return the one line that says whether it passed."""
    return _View(result, console, signs_for(console)).verdict(misses, requirement)


class _View:
    """One result on one console."""

    def __init__(self, result: ExperimentResult, console: Console, signs: Signs) -> None:
        self.result = result
        self.console = console
        self.signs = signs
        self.summary = result.summary

    def print_head(self) -> None:
        separator = f" {self.signs.dot} "
        self.line(separator.join(self._head()), "bold")
        self.line()

    def print_evaluators(self) -> None:
        summaries = [self.summary.evaluator(name) for name in self.result.evaluator_names]
        rows = [self._evaluator_row(summary) for summary in summaries if summary is not None]
        if not rows:
            return
        print_table(Table(self._columns(), rows), self.console)
        for summary in summaries:
            if summary is not None and summary.labels:
                self.line(f"  {summary.name}: {describe_labels(summary.labels)}", _QUIET)
        self.line()

    def _columns(self) -> list[Column]:
        return [
            Column("evaluator", left=True, most=_LONGEST_NAME),
            Column("mean", least=5),
            Column(self.signs.spread, least=5),
            Column("pass", least=7),
            Column("", left=True, least=7),
            Column("errors", left=True),
            Column(f"0 {self.signs.line * 6} 1", left=True, spare=True),
        ]

    def _evaluator_row(self, summary: EvaluatorSummary) -> list[Cell]:
        none, rate = self.signs.none, summary.pass_rate
        mean = self.result.average_score(summary.name)
        spread = f"{self.result.score_std_dev(summary.name):.2f}" if self.result.run_count > 1 else none
        style = "" if rate is None else (_PASS if summary.failed == 0 else _FAIL)
        return [
            summary.name,
            none if mean is None else f"{mean:.2f}",
            spread,
            (none if rate is None else percent(rate), style),
            ("" if rate is None else f"{summary.passed}/{summary.judged}", style),
            (f"{summary.errors} !", _WARN) if summary.errors else none,
            (spark(summary.histogram, self.signs.bars), _QUIET) if summary.scored else none,
        ]

    def print_verdict(self, misses: Sequence[str], requirement: str | None) -> None:
        self.console.print(self.verdict(misses, requirement), soft_wrap=True)
        for miss in misses:
            self.line(f"    {miss}", _FAIL)
        self.line()

    def verdict(self, misses: Sequence[str], requirement: str | None) -> Text:
        from rich.text import Text

        text = Text("  ")
        rate = self.result.pass_rate
        judged = self.summary.judged
        if rate is None:
            words = "informational" if self.summary.informational else "not judged"
            text.append(f"{self.signs.none} {words}", _QUIET)
        else:
            # Required levels decide where there are some; otherwise any failed item does.
            good = not misses if requirement is not None or misses else self.summary.failed == 0
            sign, style = (self.signs.passed, _PASS) if good else (self.signs.failed, _FAIL)
            if good and self.result.status is not RunStatus.COMPLETED:
                sign, style = self.signs.none, _WARN  # items that were not reached may fail
            text.append(f"{sign} {percent(rate)} passed ({self.summary.passed}/{judged})", f"bold {style}")
        if requirement is not None:
            text.append(f" {self.signs.dot} required {requirement}")
        for note in self._notes():
            text.append(f" {self.signs.dot} ")
            text.append(note, _WARN)
        return text

    def print_worst(self, *, one_by_one: bool = False) -> None:
        entries = worst_entries(self.result, one_by_one=one_by_one)
        if not entries:
            return
        listed = entries if one_by_one else entries[:LOOK_FIRST]
        left = sum(len(entry.items) for entry in entries[len(listed) :])
        self.line("  Look first at" if left else "  Not passed", "bold")
        room = min(max(cell_width(entry.label) for entry in listed), 24)
        for entry in listed:
            for line in self._entry_lines(entry, room):
                self._print_row(line, room + _BEFORE_REASON)
        if left:
            self.line(f"    ... and {left} more", _QUIET)
        self.line()

    def _print_row(self, line: Text, indent: int) -> None:
        """Print a row on several lines where it is long, the further ones below the reason."""
        from rich.text import Text

        width = self.console.width
        # A deep indent would leave a narrow terminal no room for the text.
        indent = indent if indent < width // 2 else _BEFORE_REASON
        head, body = line.divide([indent])
        for number, part in enumerate(body.wrap(self.console, width - indent)):
            part.rstrip()
            fitted = Text.assemble(head if number == 0 else " " * indent, part)
            self.console.print(fitted, no_wrap=True, overflow="ellipsis", crop=True)

    def _shorten_reason(self, reason: str, indent: int, lines: int) -> str:
        """Return a reason that takes so few lines, with its end, which often says most."""
        width = max(self.console.width - indent, _NARROWEST)
        return cut_middle(to_single_line(reason, LONGEST_REASON), lines * width - _BEFORE_REASON)

    def print_tracebacks(self) -> None:
        """Print the whole traceback of the first error of each kind."""
        from rich.text import Text

        for headline, traceback in first_tracebacks(self.result):
            self.line(f"  {headline}", "bold")
            self.console.print(Text(traceback), soft_wrap=True)
            self.line()

    def print_warnings(self) -> None:
        from rich.text import Text

        notices = self._notices()
        for warning in notices:
            self._print_long(Text(f"  ! {warning}", _WARN))
        if notices:
            self.line()

    def _notices(self) -> list[str]:
        """Return the warnings, without those that repeat the rows of a broken run."""
        entry_count = len(worst_entries(self.result))
        if self.result.status is not RunStatus.BROKEN or not 0 < entry_count <= LOOK_FIRST:
            return list(self.result.notices)
        # With all errors listed above, a notice about them would say the same thing twice.
        repeated = (EVERYTHING_ERRORED, *(f"{name} errored on " for name in self.result.evaluator_names))
        return [notice for notice in self.result.notices if not notice.startswith(repeated)]

    def _print_long(self, text: Text) -> None:
        """Print a sentence, wrapped where there is a width to keep; a pipe gets it on one line."""
        from rich.padding import Padding

        if not self.console.is_terminal and read_columns_variable() is None:
            self.console.print(text, soft_wrap=True)
            return
        self.console.print(Padding(text[2:], (0, 0, 0, 2)))

    def line(self, text: str = "", style: str = "") -> None:
        from rich.text import Text

        self.console.print(Text(text, style), no_wrap=True, overflow="ellipsis", crop=True)

    def _head(self) -> Iterator[str]:
        result, metrics = self.result, self.summary.metrics
        yield _cut(result.name, 40)
        yield f"{result.total_count} item{'' if result.total_count == 1 else 's'}"
        if result.run_count > 1:
            yield f"{result.run_count} runs"
        if metrics.model is not None:
            yield metrics.model
        seconds = duration_seconds(result)
        if seconds is not None:
            yield duration(seconds * 1000)
        if metrics.cost_usd is not None:
            yield usd(metrics.cost_usd) + self._pricing_note()
        elif self.summary.tokenized:
            yield f"{metrics.tokens or 0:,} tokens, unpriced"
        judging = judge_cost(self.summary)
        if judging is not None:
            yield f"judge {judging}"

    def _pricing_note(self) -> str:
        summary = self.summary
        partly = summary.priced < summary.tokenized
        return f" ({summary.priced}/{summary.tokenized} priced)" if partly else ""

    def _notes(self) -> Iterator[str]:
        summary = self.summary
        if summary.errored:
            yield f"{summary.errored} item{'' if summary.errored == 1 else 's'} errored"
        if summary.warned:
            yield f"{summary.warned} item{'' if summary.warned == 1 else 's'} with warnings"
        if summary.informational and self.result.pass_rate is not None:
            yield f"{summary.informational} informational"
        if summary.not_judged and (self.result.pass_rate is not None or summary.informational):
            yield f"{summary.not_judged} not judged"
        if self.result.status is not RunStatus.COMPLETED:
            yield self.result.status.in_words

    def _entry_lines(self, entry: Entry, room: int) -> Iterator[Text]:
        from rich.text import Text

        item = entry.first
        head = f"    {pad(cut_middle(entry.label, room), room)}  "
        if item.error is not None:
            yield from self._error_lines(Text(head), TASK, item.error, item.error_detail)
            return
        wrong = wrong_results(item, self.result.lower_is_better)
        for number, result in enumerate(wrong[:2] if len(entry.items) == 1 else wrong[:1]):
            text = Text(head if number == 0 else " " * cell_width(head))
            if result.error is not None:
                yield from self._error_lines(text, result.name, result.problem, result.error_detail)
                continue
            score = "" if result.score is None else f" {result.score:.2f}"
            text.append(f"{result.name}{score}  ", _FAIL)
            yield text.append(self._shorten_reason(result.reason, cell_width(head), _LINES_OF_REASON))

    def _error_lines(self, text: Text, source: str, error: str, detail: ErrorDetail | None) -> Iterator[Text]:
        """Yield an error with its location, in one line where both have room, else in two."""
        from rich.text import Text

        indent = " " * text.cell_len
        text.append(f"! {source}  ", _WARN)
        text.append(self._shorten_reason(error, len(indent), _LINES_OF_ERROR))
        location = "" if detail is None else detail.place
        if location and text.cell_len + cell_width(location) + 3 <= self.console.width:
            yield text.append(f" ({location})", _QUIET)
            return
        yield text
        if location:
            yield Text(f"{indent}  {location}", _QUIET)


def duration_seconds(result: ExperimentResult) -> float | None:
    """Return the seconds from start (or the last resume) to end, None where one of them is not known."""
    start = result.provenance.resumed_at or result.provenance.started_at
    end = result.provenance.ended_at
    if start is None or end is None:
        return None
    return (datetime.datetime.fromisoformat(end) - datetime.datetime.fromisoformat(start)).total_seconds()


def spark(histogram: Sequence[int], bars: str = _BARS) -> str:
    """Return a histogram as one character a bin, the fullest one highest."""
    top = max(histogram, default=0)
    if not top:
        return bars[0] * len(histogram)
    last = len(bars) - 1
    # A bin with a few items must not look like an empty one.
    return "".join(bars[max(1 if count else 0, round(count / top * last))] for count in histogram)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
