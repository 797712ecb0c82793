"""A run of a watch: it reports which files it has read and written to the process that started it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

REPORT_VARIABLE: Final = "DOKIMOS_WATCH_REPORT"
"""Names the file to write them to."""


def is_watched() -> bool:
    """Say whether this process is one of the runs of a watch."""
    return bool(os.environ.get(REPORT_VARIABLE))


@contextlib.contextmanager
def reporting_files(target: str) -> Iterator[None]:
    """Report which files were read in the block, however it ends, if somebody watches."""
    try:
        yield
    finally:
        if is_watched():
            _report(target)


def _report(target: str) -> None:
    import json

    from dokimos._runtime.file_access import files_read
    from dokimos.experiment._code_record import list_watched_paths

    source = target.rpartition(":")[0] if ".py:" in target else target
    # Also where the run broke off before it was read: mending it must start the next run.
    own = [os.path.abspath(source)] if os.path.splitext(source)[1] else []
    with open(os.environ[REPORT_VARIABLE], "w", encoding="utf-8") as file:
        json.dump({"paths": sorted({*list_watched_paths(), *own}), "written": list(files_read.written)}, file)


def check_watch(extra: Mapping[str, Any], target: str) -> None:
    """Refuse what cannot be done again and again."""
    if extra.get("resume") is not None:
        raise click.UsageError("--watch starts runs of its own, so --resume cannot be combined with it.")
    if target == "-":
        raise click.UsageError("--watch reads the data again, which standard input does not allow.")
