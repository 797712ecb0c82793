"""Progress while a run goes on: one line that stays in place, or a plain line now and then."""

from __future__ import annotations

import logging
import os
import secrets
import sys
import time
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from dokimos._core.markup import tag
from dokimos._core.number_format import duration
from dokimos._core.text import pluralize
from dokimos._runtime.terminal_text import print_line
from dokimos.experiment._pace import Pace
from dokimos.reporting._notebook import notebook
from dokimos.reporting._terminal import safe_console

if TYPE_CHECKING:
    from dokimos._core.summary import Tally
    from dokimos.experiment._experiment import Experiment
    from dokimos.experiment._run_options import RunOptions

PLAIN_SECONDS: Final = 10.0
"""How often a plain line is written where there is no terminal."""
NOTEBOOK_SECONDS: Final = 0.25
"""How often a notebook's bar is drawn: each time is a message to the browser."""
BAR_WIDTH: Final = 16

_log = logging.getLogger("dokimos")


class Progress(Protocol):
    """Told by the runner how far it is."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc_info: object) -> None: ...

    def start_repeat(self, run_index: int, example_count: int | None, tally: Tally) -> None:
        """Begin a repeat; `tally` goes on counting while it runs."""
        ...

    def start_item(self, index: int) -> None:
        """Called before every item, so it must be cheap."""
        ...

    def end_item(self, index: int, *, ran: bool) -> None:
        """Called after every item; `ran` is false where its output was recorded earlier."""
        ...

    def pass_over_items(self) -> None:
        """Called after items, one or several, that an earlier process has finished; they have not begun."""
        ...


class Silent:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None: ...

    def start_repeat(self, run_index: int, example_count: int | None, tally: Tally) -> None: ...

    def start_item(self, index: int) -> None: ...

    def end_item(self, index: int, *, ran: bool) -> None: ...

    def pass_over_items(self) -> None: ...


class ProgressLine:
    """What there is to say: `61/100 · 4.1/s · 80 % pass · 1 error · $0.0190 · 10 s left`."""

    def __init__(self, runs: int, pace: Pace) -> None:
        self._runs = runs
        self._run_index = 0
        self._expected_count: int | None = None
        self._tally: Tally | None = None
        self.pace: Final = pace

    def start_repeat(self, run_index: int, example_count: int | None, tally: Tally) -> None:
        self._run_index, self._expected_count, self._tally = run_index, example_count, tally
        self.pace.start_repeat()

    def text(self, *, bar: bool) -> str:
        tally = self._tally
        if tally is None:
            return ""
        done, example_count = tally.total, self._expected_count
        parts = [f"run {self._run_index + 1}/{self._runs}"] if self._runs > 1 else []
        parts += [
            str(done) if example_count is None else f"{done}/{example_count}",
            *_format_counts(tally, self.pace.rate),
        ]
        left = None if example_count is None else self.pace.seconds_left(example_count - done)
        if left:
            parts.append(f"{duration(left * 1000)} left")
        line = " · ".join(parts)
        return f"{self._bar()} {line}" if bar and example_count else line

    def _bar(self) -> str:
        done = (
            0.0
            if self._tally is None or not self._expected_count
            else self._tally.total / self._expected_count
        )
        eighths = round(min(done, 1.0) * BAR_WIDTH * 8)
        full, rest = divmod(eighths, 8)
        bar = "█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")
        return f"▕{bar:<{BAR_WIDTH}}▏"


def _format_counts(tally: Tally, rate: float | None) -> list[str]:
    parts = []
    if rate is not None:
        parts.append(_format_rate(rate))
    if tally.pass_rate is not None:
        parts.append(f"{tally.pass_rate:.0%} pass".replace("%", " %"))
    if tally.errored:
        parts.append(pluralize(tally.errored, "error"))
    if tally.spent_usd is not None:
        parts.append(f"${tally.spent_usd:.4f}")
    return parts


def _format_rate(rate: float) -> str:
    if rate < 1:
        return f"{rate * 60:.1f}/min"
    return f"{rate:.1f}/s" if rate < 100 else f"{rate:.0f}/s"


class PlainProgress:
    """Writes a line to standard error at intervals: nothing that breaks a log."""

    def __init__(self, runs: int, parallelism: int, *, every: float = PLAIN_SECONDS) -> None:
        self._line = ProgressLine(runs, Pace(parallelism))
        self._every = every
        self._next = time.monotonic() + every

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None: ...

    def start_repeat(self, run_index: int, example_count: int | None, tally: Tally) -> None:
        self._line.start_repeat(run_index, example_count, tally)

    def start_item(self, index: int) -> None:
        self._line.pace.start_item(index)

    def end_item(self, index: int, *, ran: bool) -> None:
        self._line.pace.end_item(index, ran=ran)
        self.pass_over_items()

    def pass_over_items(self) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._every
            print_line(self._line.text(bar=False))


class LiveProgress:
    """A line that stays in place, drawn by rich from a thread of its own."""

    def __init__(self, runs: int, parallelism: int) -> None:
        self._line = ProgressLine(runs, Pace(parallelism))
        self._live: Any = None

    def __enter__(self) -> Self:
        from rich.live import Live
        from rich.text import Text

        console = safe_console(stderr=True)
        unicode = console.encoding.lower().startswith("utf")

        def draw() -> Text:
            line = self._line.text(bar=unicode)
            return Text(line if unicode else line.replace("·", "|"), no_wrap=True, overflow="ellipsis")

        self._live = Live(get_renderable=draw, console=console, refresh_per_second=8, transient=True)
        self._live.__enter__()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._live.__exit__(*exc_info)

    def start_repeat(self, run_index: int, example_count: int | None, tally: Tally) -> None:
        self._line.start_repeat(run_index, example_count, tally)

    def start_item(self, index: int) -> None:
        self._line.pace.start_item(index)

    def end_item(self, index: int, *, ran: bool) -> None:
        self._line.pace.end_item(index, ran=ran)

    def pass_over_items(self) -> None: ...


class NotebookProgress:
    """A bar below the cell, drawn anew at intervals and taken away at the end."""

    def __init__(self, runs: int, parallelism: int, ipython: Any, *, every: float = NOTEBOOK_SECONDS) -> None:
        self._line = ProgressLine(runs, Pace(parallelism))
        self._ipython = ipython
        self._every = every
        self._next = 0.0
        # An id of its own: bars of other runs in the same notebook stay.
        self._id = f"dokimos-{secrets.token_hex(8)}"

    def __enter__(self) -> Self:
        self._draw("", update=False)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._draw("")

    def start_repeat(self, run_index: int, example_count: int | None, tally: Tally) -> None:
        self._line.start_repeat(run_index, example_count, tally)
        self._draw(self._line.text(bar=True))

    def start_item(self, index: int) -> None:
        self._line.pace.start_item(index)

    def end_item(self, index: int, *, ran: bool) -> None:
        self._line.pace.end_item(index, ran=ran)
        self.pass_over_items()

    def pass_over_items(self) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._every
            self._draw(self._line.text(bar=True))

    def _draw(self, text: str, *, update: bool = True) -> None:
        """Replace what is shown; a run is not lost where that fails."""
        shown = {"text/plain": text, "text/html": tag("pre", text).markup if text else ""}
        try:
            self._ipython.display.display(shown, raw=True, display_id=self._id, update=update)
        except Exception as error:
            _log.debug("Progress could not be shown: %r", error)


def make_progress(plan: Experiment, options: RunOptions, parallelism: int) -> Progress:
    """Choose by the options and by where this runs; `NO_COLOR` asks for plain lines, too."""
    if options.quiet or options.progress is False:
        return Silent()
    ipython = notebook()
    if ipython is not None:
        return NotebookProgress(plan.runs, parallelism, ipython)
    # There is none under pythonw and in Windows services.
    if sys.stderr is None:
        return Silent()
    plain = os.environ.get("TERM") == "dumb" or os.environ.get("NO_COLOR")
    if sys.stderr.isatty() and not plain:
        return LiveProgress(plan.runs, parallelism)
    return PlainProgress(plan.runs, parallelism)
