"""Optimizing a suite: parameters and prompts, searched on training cases and accepted on held-out ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dokimos._exports import lazy_exports

if TYPE_CHECKING:
    from dokimos.optimizer._optimization import optimize_suite as optimize_suite

_MODULE_OF: Final = {
    "optimize_suite": "dokimos.optimizer._optimization",
}
__all__ = [
    "optimize_suite",
]

if not TYPE_CHECKING:  # so that type checkers still report a name that does not exist
    __getattr__, __dir__ = lazy_exports(__name__, _MODULE_OF)
