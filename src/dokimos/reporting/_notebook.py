"""Notebooks: whether this is one, and what has been shown in the cell that is running."""

from __future__ import annotations

import sys
from typing import Any


def notebook() -> Any:
    """Return IPython where this runs in a notebook, else None; nothing is imported to find that out."""
    ipython = sys.modules.get("IPython")
    shell = _shell(ipython)
    # IPython in a terminal has a shell as well, but no kernel.
    return ipython if hasattr(shell, "kernel") else None


def show(value: Any) -> None:
    """Show a value below the cell, which its last line does not show once more."""
    ipython = notebook()
    ipython.display.display(value)
    # The id alone is not enough: after the value is gone, another may get it.
    _Shown.last = (id(value), _cell(ipython))


def is_shown(value: Any) -> bool:
    """Return whether `show` has shown a value below the cell that is running."""
    ipython = notebook()
    return ipython is not None and _Shown.last == (id(value), _cell(ipython))


class _Shown:
    """The value that was shown last, and the number of the cell."""

    last: tuple[int, int] | None = None


def _shell(ipython: Any) -> Any:
    return getattr(ipython, "get_ipython", lambda: None)()


def _cell(ipython: Any) -> int:
    return int(getattr(_shell(ipython), "execution_count", 0))
