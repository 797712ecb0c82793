"""Values that show themselves: by the view that each class names."""

from __future__ import annotations

import io
import sys
from importlib import import_module
from typing import Any

from dokimos._core.number_format import to_single_line
from dokimos._core.printable import Printable
from dokimos._runtime.terminal_text import escape_control_characters
from dokimos.reporting._blocks import View
from dokimos.reporting._console import WIDTH, make_console, read_columns_variable
from dokimos.reporting._notebook import is_shown
from dokimos.reporting._terminal import safe_console

_LONGEST_REPR = 160


def view_of(value: Printable) -> View[Any]:
    """Return what the value's class is shown with."""
    # Named by text: the classes are in layers below their views, and printing should not import them.
    module, _, name = type(value).__dokimos_view__.partition(":")
    view: View[Any] = getattr(import_module(module), name)
    return view


def headline_of(value: Printable) -> str:
    """Return what a value says in one line; it raises nothing, since a repr is read in search of faults."""
    try:
        return escape_control_characters(to_single_line(view_of(value).headline(value), _LONGEST_REPR))
    except Exception as error:
        return f"that cannot be shown ({type(error).__name__})"


def text_of(value: Printable) -> str:
    """Return the verdict and the table of a value, without styles, in signs that standard output can show."""
    text = _Text(getattr(sys.stdout, "encoding", None) or "utf-8")
    view_of(value).print_on(
        value, safe_console(file=text, width=read_columns_variable() or WIDTH, color_system=None), "summary"
    )
    return text.getvalue().rstrip()


def html_of(value: Printable) -> str | None:
    """Return a value as a fragment of HTML; None where it stands below this cell of a notebook already."""
    return None if is_shown(value) else view_of(value).html(value)


def print_value(value: Printable, *, verbose: bool = False) -> None:
    """Print a value as the command does."""
    view_of(value).print_on(value, make_console(), "verbose" if verbose else "full")


class _Text(io.StringIO):
    """A text that is written for a stream of another encoding, which decides on the signs."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override] # None in a text without a stream
        return self._encoding
