"""What a task returns when it has more to tell than its output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from dokimos._core.agent import ToolCall
from dokimos._core.error_detail import ErrorDetail
from dokimos._core.keys import OUTPUT, outputs_of
from dokimos._core.metrics import CallMetrics


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The outputs of one task call and, where they are known, its tokens, cost and time.

    A task that can tell how far it came before it failed returns that with an `error`, instead of raising:
    `TaskResult({"toolCalls": calls}, error="TurnLimitError: no answer after 10 turns")`.

    Example:
        >>> TaskResult({"output": "Rome"}, CallMetrics(12, 3, cost_usd=0.0001)).outputs
        {'output': 'Rome'}
    """

    outputs: Mapping[str, Any]
    metrics: CallMetrics | None = None
    _: KW_ONLY
    error: str | None = None
    """Why there is no answer, as `Type: message`; the item is errored and keeps the outputs so far."""
    error_detail: ErrorDetail | None = field(default=None, repr=False, compare=False)
    """Where that error came from, if it was an exception: `ErrorDetail.of(exception)`."""

    @classmethod
    def of(
        cls,
        output: object,
        *,
        tool_calls: Iterable[ToolCall | Mapping[str, Any]] | None = None,
        contexts: Iterable[Any] | None = None,
        metrics: CallMetrics | None = None,
        error: str | None = None,
    ) -> TaskResult:
        """Make a result of one output, or of a mapping of outputs.

        Args:
            output: What the application answered.
            tool_calls: The calls that it made, in order; they are under "toolCalls" in the outputs.
            contexts: What it retrieved, texts or chunks; they are under "contexts" in the outputs.
            metrics: Its tokens, cost and time.
            error: Why there is no answer.

        Raises:
            TypeError: where tool calls or contexts are one text instead of several, or given twice.
        """
        outputs = output if isinstance(output, Mapping) else {OUTPUT: output}
        return cls(outputs_of(outputs, tool_calls, contexts), metrics, error=error)
