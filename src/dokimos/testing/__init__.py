"""Evaluations as tests: assertions, data sets as parameters, and the pytest plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dokimos._exports import lazy_exports

if TYPE_CHECKING:
    from dokimos.gate._gate import assert_no_regression as assert_no_regression
    from dokimos.testing._assertions import assert_eval as assert_eval
    from dokimos.testing._assertions import assert_scores as assert_scores
    from dokimos.testing._cases import dataset_source as dataset_source
    from dokimos.testing._recorder import ItemRecorder as ItemRecorder

_MODULE_OF: Final = {
    "ItemRecorder": "dokimos.testing._recorder",
    "assert_eval": "dokimos.testing._assertions",
    "assert_no_regression": "dokimos.gate._gate",
    "assert_scores": "dokimos.testing._assertions",
    "dataset_source": "dokimos.testing._cases",
}
__all__ = [
    "ItemRecorder",
    "assert_eval",
    "assert_no_regression",
    "assert_scores",
    "dataset_source",
]

if not TYPE_CHECKING:  # so that type checkers still report a name that does not exist
    __getattr__, __dir__ = lazy_exports(__name__, _MODULE_OF)
