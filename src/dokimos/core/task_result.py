"""What a task returns when it has more to tell than its output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dokimos.core.metrics import CallMetrics
from dokimos.core.quick_init import quick_init


@quick_init
@dataclass(frozen=True, slots=True)
class TaskResult:
    """The outputs of one task call and, where they are known, its tokens, cost and time."""

    outputs: Mapping[str, Any]
    metrics: CallMetrics | None = None

    @classmethod
    def of(cls, outputs: Mapping[str, Any]) -> TaskResult:
        """Make a result without metrics."""
        return cls(outputs)
