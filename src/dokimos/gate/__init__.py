"""The regression gate: fails a build where a system got worse than its committed baseline."""

from dokimos.gate.gate import RegressionGate, assert_no_regression
from dokimos.gate.gate_config import GateConfig
from dokimos.gate.verdict import GateStatus, GateVerdict

__all__ = ["GateConfig", "GateStatus", "GateVerdict", "RegressionGate", "assert_no_regression"]
