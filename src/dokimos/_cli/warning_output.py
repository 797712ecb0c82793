"""Warnings of Python, as commands show them: each once, in one line."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from dokimos._core.number_format import to_single_line
from dokimos._core.traceback_entries import shorten_path
from dokimos._runtime.terminal_text import print_line

_LONGEST = 300


@contextmanager
def warnings_in_one_line() -> Iterator[None]:
    """Show what an application and its packages warn of without their source, and nothing of it twice.

    Which warnings are shown, and which are errors, stays as set for Python: `-W`, `PYTHONWARNINGS`.
    """
    printed: set[tuple[str, str]] = set()

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        kind, text = category.__name__, to_single_line(str(message), _LONGEST)
        if (kind, text) not in printed:
            printed.add((kind, text))
            print_line(f"! {kind}: {text} ({shorten_path(filename, os.getcwd())}:{lineno})")

    before = warnings.showwarning
    # The hook that the standard library documents for this; filters and -W apply before it is called.
    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before
