"""How results show themselves: `print(result)`, `result.print()`, and the last line of a notebook's cell.

What they look like is decided above, in `reporting`, which is loaded when something is first shown.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

VIEWS: Final = "dokimos.reporting.views"


def views() -> Any:
    """Return the module that shows values of this package."""
    return import_module(VIEWS)
