"""Production traces as `dokimos db export` and `dokimos db import` move them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dokimos._cli.echo import echo
from dokimos._core.text import format_size, pluralize

if TYPE_CHECKING:
    from dokimos.server._settings import ServerSettings


def read_times(start: str | None, end: str | None) -> tuple[int | None, int | None]:
    """Return the times that traces are chosen by, in microseconds; days begin at midnight, UTC.

    Raises:
        click.UsageError: One of them is not a time, or the second is not after the first.
    """
    first, last = _read_time("--from", start), _read_time("--to", end)
    if first is not None and last is not None and first >= last:
        raise click.UsageError("--from must be before --to.")
    return first, last


def _read_time(option: str, text: str | None) -> int | None:
    from dokimos.server._db.clock import parse_time

    if text is None:
        return None
    try:
        return parse_time(text if "T" in text else f"{text}T00:00:00Z")
    except (ValueError, OverflowError):
        raise click.UsageError(
            f"{option}: '{text}' is not a time such as 2026-11-01 or 2026-11-01T12:00:00Z."
        ) from None


def write_traces(
    settings: ServerSettings,
    file: Path,
    projects: Sequence[str],
    times: tuple[int | None, int | None],
    force: bool,
    progress: Callable[[str, int], None],
) -> int:
    """Write traces to a file, and say how many."""
    from dokimos.server._admin.trace_export import TraceSelection, export_traces

    selection = TraceSelection(tuple(dict.fromkeys(projects)), *times)
    counts = export_traces(settings, file, selection, replaces=force, progress=progress)
    size = format_size(file.stat().st_size)
    echo(
        f"wrote {file} ({size}): {pluralize(counts.traces, 'trace')}, {pluralize(counts.spans, 'span')}, "
        f"{pluralize(counts.logs, 'log record')}"
    )
    return 0


def load_traces(settings: ServerSettings, file: Path, progress: Callable[[str, int], None]) -> int:
    """Add the traces of a file to the database, and say how many spans were not there."""
    from dokimos.server._admin.trace_import import import_traces

    try:
        done = import_traces(settings, file, progress=progress)
    except KeyboardInterrupt:
        echo("Interrupted. Repeat the import: the spans that are there already are skipped.", err=True)
        raise
    echo(f"imported {file}: {pluralize(done.added, 'span')} in {pluralize(done.traces, 'trace')}")
    there = done.spans - done.added - done.expired
    if there:
        echo(f"  were there already: {pluralize(there, 'span')}")
    if done.expired:
        echo(f"  not imported, as the time of their traces is over here: {pluralize(done.expired, 'span')}")
    if done.rejected:
        echo(
            "  not imported, as the redaction rules take too long for them: "
            f"{pluralize(done.rejected, 'span or log record', 'spans and log records')}"
        )
    return 0
