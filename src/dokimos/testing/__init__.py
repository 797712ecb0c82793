"""Evaluations as tests: assertions, data sets as parameters, and the pytest plugin."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dokimos.gate.gate import assert_no_regression as assert_no_regression
    from dokimos.testing.assertions import assert_eval as assert_eval
    from dokimos.testing.assertions import assert_scores as assert_scores
    from dokimos.testing.cases import dataset_source as dataset_source
    from dokimos.testing.recorder import ItemRecorder as ItemRecorder

# Lazy, as pytest imports this package with the plugin, in suites that have nothing to do with dokimos too.
_MODULE_OF: Final = {
    "ItemRecorder": "testing.recorder",
    "assert_eval": "testing.assertions",
    "assert_no_regression": "gate.gate",
    "assert_scores": "testing.assertions",
    "dataset_source": "testing.cases",
}
__all__ = ["ItemRecorder", "assert_eval", "assert_no_regression", "assert_scores", "dataset_source"]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"dokimos.{_MODULE_OF[name]}"), name)
