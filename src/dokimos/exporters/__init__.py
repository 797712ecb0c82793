"""Reports: HTML, Markdown, JSON, CSV and JUnit, and exporters from other packages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dokimos._exports import lazy_exports

if TYPE_CHECKING:
    from dokimos.exporters._base import Exporter as Exporter
    from dokimos.exporters._base import export as export
    from dokimos.exporters._base import render as render
    from dokimos.exporters._json import load_result as load_result

_MODULE_OF: Final = {
    "Exporter": "dokimos.exporters._base",
    "export": "dokimos.exporters._base",
    "load_result": "dokimos.exporters._json",
    "render": "dokimos.exporters._base",
}
__all__ = [
    "Exporter",
    "export",
    "load_result",
    "render",
]

if not TYPE_CHECKING:  # so that type checkers still report a name that does not exist
    __getattr__, __dir__ = lazy_exports(__name__, _MODULE_OF)
