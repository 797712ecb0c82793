"""A report that a command measured: on the terminal, as JSON, and in files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from dokimos._cli.echo import echo


class MeasuredReport(Protocol):
    """What `dokimos mutate` and `dokimos invariance` make."""

    def to_dict(self) -> dict[str, Any]: ...

    def print(self, *, verbose: bool = False) -> None: ...


def show_report(
    report: MeasuredReport,
    headline: str,
    outputs: Sequence[str],
    *,
    as_json: bool,
    verbose: bool,
    quiet: bool,
) -> None:
    """Print a report, or its headline only where it is `quiet`, and write it to files."""
    from dokimos.exporters._base import write_report

    text = json.dumps(report.to_dict(), indent=2, ensure_ascii=False)
    if as_json:
        echo(text)
    elif quiet:
        echo(headline)
    else:
        report.print(verbose=verbose)
    for output in outputs:
        path = write_report(Path(output), text + "\n")
        if not quiet and not as_json:
            echo(f"  report   {path}")
