"""How values show themselves: `print(result)`, `result.print()`, and the last line of a notebook's cell.

What they look like is decided above, by the module that a value's class names; it is loaded when something is
first shown.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar, Final

_PRINTING: Final = "dokimos.reporting._printing"


class Printable:
    """A value that says in one line what it is, and prints itself as the commands do."""

    __slots__ = ()

    __dokimos_view__: ClassVar[str]
    """Where its view is: `module:NAME`."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {_printing().headline_of(self)}>"

    def __str__(self) -> str:
        text: str = _printing().text_of(self)
        return text

    def _repr_html_(self) -> str | None:
        html: str | None = _printing().html_of(self)
        return html

    def print(self, *, verbose: bool = False) -> None:
        """Print it as the command does that shows such values.

        Args:
            verbose: Whether to print all that there is, and not only what to look at first.
        """
        _printing().print_value(self, verbose=verbose)


def _printing() -> Any:
    return import_module(_PRINTING)
