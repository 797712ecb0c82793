"""A result on the terminal: verdict, evaluators, and what to look at first."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from dokimos.core.figures import duration, one_line, percent, usd
from dokimos.core.results import EvalResult, ExperimentResult, ItemResult, RunStatus, lowest_score
from dokimos.core.summary import judge_cost
from dokimos.reporting.tables import Cell, Column, Table, cell_width, cut_middle, padded, print_table
from dokimos.reporting.terminal import safe_console

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from dokimos.core.summary import EvaluatorSummary

WIDTH: Final = 100
LOOK_FIRST: Final = 5
LONGEST_REASON: Final = 400
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
    """Return a console that is at most 100 columns wide, and 100 where the output is no terminal.

    `COLUMNS` says how wide it is instead, for a terminal as for a pipe. With `NO_COLOR` it writes no control
    characters at all.
    """
    console = safe_console(stderr=stderr)
    width = columns_asked() or (min(console.width, WIDTH) if console.is_terminal else WIDTH)
    colors: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return safe_console(stderr=stderr, width=width, color_system=colors)


def columns_asked() -> int | None:
    """Return the width that `COLUMNS` asks for, None where it is no number of columns to write in."""
    asked = os.environ.get("COLUMNS", "")
    return int(asked) if asked.isascii() and asked.isdigit() and int(asked) >= _NARROWEST else None


def signs_for(console: Console) -> Signs:
    """Choose the signs that the console can show."""
    return Signs() if console.encoding.lower().startswith("utf") else ASCII_SIGNS


def print_result(
    result: ExperimentResult,
    console: Console,
    *,
    misses: Sequence[str] = (),
    wanted: str | None = None,
    verbose: bool = False,
) -> None:
    """Print the summary of a result; `misses` are what it falls short of, `wanted` what was asked for."""
    view = _View(result, console, signs_for(console))
    view.print_head()
    view.print_evaluators()
    view.print_verdict(misses, wanted)
    view.print_worst(len(result.item_results) if verbose else LOOK_FIRST)
    view.print_warnings()


def print_summary(result: ExperimentResult, console: Console) -> None:
    """Print what a result is of, its evaluators and its verdict, without any items."""
    view = _View(result, console, signs_for(console))
    view.print_head()
    view.print_evaluators()
    view.print_verdict((), None)


def verdict_line(
    result: ExperimentResult, misses: Sequence[str], wanted: str | None, console: Console
) -> Text:
    """Return the one line that says whether it passed."""
    return _View(result, console, signs_for(console)).verdict(misses, wanted)


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
        found = [self.summary.evaluator(name) for name in self.result.evaluator_names]
        rows = [self._evaluator_row(summary) for summary in found if summary is not None]
        if not rows:
            return
        print_table(Table(self._columns(), rows), self.console)
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
            (spark(summary.histogram, self.signs.bars), _QUIET),
        ]

    def print_verdict(self, misses: Sequence[str], wanted: str | None) -> None:
        self.console.print(self.verdict(misses, wanted), soft_wrap=True)
        for miss in misses:
            self.line(f"    {miss}", _FAIL)
        self.line()

    def verdict(self, misses: Sequence[str], wanted: str | None) -> Text:
        from rich.text import Text

        text = Text("  ")
        rate = self.result.pass_rate
        judged = self.summary.judged
        if rate is None:
            words = "informational" if self.summary.informational else "not judged"
            text.append(f"{self.signs.none} {words}", _QUIET)
        else:
            good = not misses if wanted is not None or misses else self.summary.failed == 0
            sign, style = (self.signs.passed, _PASS) if good else (self.signs.failed, _FAIL)
            text.append(f"{sign} {percent(rate)} passed ({self.summary.passed}/{judged})", f"bold {style}")
        if wanted is not None:
            text.append(f" {self.signs.dot} wanted {wanted}")
        for note in self._notes():
            text.append(f" {self.signs.dot} ")
            text.append(note, _WARN)
        return text

    def print_worst(self, most: int) -> None:
        worst = worst_items(self.result)
        if not worst:
            return
        self.line("  Look first at" if len(worst) > most else "  Not passed", "bold")
        room = min(max(cell_width(item.key) for item in worst[:most]), 24)
        for item in worst[:most]:
            for line in self._item_lines(item, room):
                self.console.print(line, no_wrap=True, overflow="ellipsis", crop=True)
        if len(worst) > most:
            self.line(f"    ... and {len(worst) - most} more", _QUIET)
        self.line()

    def print_warnings(self) -> None:
        from rich.text import Text

        for warning in self.result.notices:
            self.console.print(Text(f"  ! {warning}", _WARN), soft_wrap=True)
        if self.result.notices:
            self.line()

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
        seconds = elapsed_seconds(result)
        if seconds is not None:
            yield duration(seconds * 1000)
        if metrics.cost_usd is not None:
            yield usd(metrics.cost_usd) + self._priced()
        elif self.summary.tokenized:
            yield f"{metrics.tokens or 0:,} tokens, unpriced"
        judging = judge_cost(self.summary)
        if judging is not None:
            yield f"judge {judging}"

    def _priced(self) -> str:
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

    def _item_lines(self, item: ItemResult, room: int) -> Iterator[Text]:
        from rich.text import Text

        key = padded(cut_middle(item.key, room), room)
        if item.error is not None:
            text = Text(f"    {key}  ")
            text.append("! task  ", _WARN)
            yield text.append(one_line(item.error, LONGEST_REASON))
            return
        wrong = sorted(
            item.culprits,
            key=lambda r: (r.error is None, lowest_score([r], self.result.lower_is_better)),
        )
        for number, result in enumerate(wrong[:2]):
            text = Text(f"    {key if number == 0 else ' ' * room}  ")
            yield self._result_text(text, result)

    def _result_text(self, text: Text, result: EvalResult) -> Text:
        if result.error is not None:
            text.append(f"! {result.name}  ", _WARN)
            return text.append(one_line(result.problem, LONGEST_REASON))
        score = "" if result.score is None else f" {result.score:.2f}"
        text.append(f"{result.name}{score}  ", _FAIL)
        return text.append(one_line(result.reason, LONGEST_REASON))


def worst_items(result: ExperimentResult) -> list[ItemResult]:
    """Return the items that did not pass, in the order of the reports: errors, then the lowest score."""
    lower = result.lower_is_better

    def place(item: ItemResult) -> tuple[bool, bool, float, int]:
        return not item.errored, not item.warnings, lowest_score(item.eval_results, lower), item.index

    return sorted((item for item in result.item_results if item.success is False), key=place)


def elapsed_seconds(result: ExperimentResult) -> float | None:
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
    return "".join(bars[max(1 if count else 0, round(count / top * last))] for count in histogram)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
