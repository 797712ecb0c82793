"""What a task returns when it has more to tell than its output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from dokimos.core.error_detail import ErrorDetail
from dokimos.core.metrics import CallMetrics
from dokimos.core.quick_init import quick_init


@quick_init
@dataclass(frozen=True, slots=True)
class TaskResult:
    """The outputs of one task call and, where they are known, its tokens, cost and time.

    A task that can tell how far it came before it failed returns that with an `error`, instead of raising:
    `TaskResult({"toolCalls": calls}, error="TurnLimitError: no answer after 10 turns")`.
    """

    outputs: Mapping[str, Any]
    metrics: CallMetrics | None = None
    _: KW_ONLY
    error: str | None = None
    """Why there is no answer, as `Type: message`; the item is errored and keeps the outputs so far."""
    error_detail: ErrorDetail | None = field(default=None, repr=False, compare=False)
    """Where that error came from, if it was an exception: `ErrorDetail.of(exception)`."""

    @classmethod
    def of(cls, outputs: Mapping[str, Any]) -> TaskResult:
        """Make a result without metrics."""
        return cls(outputs)
