"""The regression gate: fails a build where a system got worse than its committed baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dokimos._exports import lazy_exports

if TYPE_CHECKING:
    from dokimos.errors import BaselineWarning as BaselineWarning
    from dokimos.errors import InconclusiveWarning as InconclusiveWarning
    from dokimos.gate._gate import RegressionGate as RegressionGate
    from dokimos.gate._gate import assert_no_regression as assert_no_regression
    from dokimos.gate._gate_config import GateConfig as GateConfig
    from dokimos.gate._noise_report import NoiseReport as NoiseReport
    from dokimos.gate._noise_report import noise as noise
    from dokimos.gate._verdict import GateStatus as GateStatus
    from dokimos.gate._verdict import GateVerdict as GateVerdict
    from dokimos.gate._worse_items import DataLine as DataLine

_MODULE_OF: Final = {
    "BaselineWarning": "dokimos.errors",
    "DataLine": "dokimos.gate._worse_items",
    "GateConfig": "dokimos.gate._gate_config",
    "GateStatus": "dokimos.gate._verdict",
    "GateVerdict": "dokimos.gate._verdict",
    "InconclusiveWarning": "dokimos.errors",
    "NoiseReport": "dokimos.gate._noise_report",
    "RegressionGate": "dokimos.gate._gate",
    "assert_no_regression": "dokimos.gate._gate",
    "noise": "dokimos.gate._noise_report",
}
__all__ = [
    "BaselineWarning",
    "DataLine",
    "GateConfig",
    "GateStatus",
    "GateVerdict",
    "InconclusiveWarning",
    "NoiseReport",
    "RegressionGate",
    "assert_no_regression",
    "noise",
]

if not TYPE_CHECKING:  # so that type checkers still report a name that does not exist
    __getattr__, __dir__ = lazy_exports(__name__, _MODULE_OF)
