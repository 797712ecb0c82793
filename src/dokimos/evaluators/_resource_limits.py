"""Limits on length, time, cost and tokens: 1 within the limit, 0 beyond; metadata have the measurement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from dokimos._core.metrics import CallMetrics
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError, EvaluationError, MissingInputError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._setting_checks import check_not_negative, check_option, check_whole

_TOKENS: Final[dict[str, Callable[[CallMetrics], int | None]]] = {
    "total": lambda metrics: _sum(metrics.tokens_in, metrics.tokens_out),
    "input": lambda metrics: metrics.tokens_in,
    "output": lambda metrics: metrics.tokens_out,
    "cached_input": lambda metrics: metrics.cached_tokens_in,
    "reasoning": lambda metrics: metrics.reasoning_tokens_out,
}


@dataclass(frozen=True, kw_only=True)
class Length(Evaluator):
    """Passes when the output is neither too short nor too long; give `min`, `max` or both.

    Example:
        >>> Length(max=5, unit="words").evaluate(EvalTestCase.of("Summarise.", "All is well.")).reason
        'The output has 3 words, which is within the limits.'
    """

    method_source = "Defined by dokimos."
    default_name = "Length"
    requires: ClassVar[tuple[str, ...]] = ("actual_output",)
    schema_extra: ClassVar[dict[str, Any]] = {"anyOf": [{"required": ["min"]}, {"required": ["max"]}]}

    min: int | None = None
    """The least length that passes."""
    max: int | None = None
    """The greatest length that passes."""
    unit: Literal["characters", "words"] = "characters"
    """What is counted: Unicode characters, or words between white space."""
    threshold: float | None = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min is None and self.max is None:
            raise ConfigurationError("Length: give min, max or both.")
        for field, value in (("min", self.min), ("max", self.max)):
            if value is not None:
                check_whole(self, field, value, least=0)
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ConfigurationError(f"Length: min ({self.min}) must not exceed max ({self.max}).")
        check_option(self, "unit", self.unit, ("characters", "words"))

    def score(self, case: EvalTestCase) -> Score:
        text = case.actual_output or ""
        length = len(text) if self.unit == "characters" else len(text.split())
        metadata = {"length": length, "unit": self.unit}
        statement = f"The output has {length} {self.unit if length != 1 else self.unit[:-1]}"
        if self.min is not None and length < self.min:
            return Score(0.0, f"{statement}, fewer than the {self.min} required.", metadata=metadata)
        if self.max is not None and length > self.max:
            return Score(0.0, f"{statement}, more than the {self.max} allowed.", metadata=metadata)
        return Score(1.0, f"{statement}, which is within the limits.", metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Latency(Evaluator):
    """Passes when the task took no longer than the limit.

    Example:
        >>> case = EvalTestCase({}, {"output": "Hi"}, metrics=CallMetrics(latency_ms=850.0))
        >>> Latency(max_ms=1000).evaluate(case).success
        True
    """

    method_source = "Defined by dokimos."
    default_name = "Latency"
    requires: ClassVar[tuple[str, ...]] = ("metrics",)

    max_ms: float
    """The longest time that passes, in milliseconds."""
    kind: Literal["total", "first_chunk"] = "total"
    """The whole call, or the time to the first piece of a streamed answer."""
    threshold: float | None = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative(self, "max_ms", self.max_ms)
        check_option(self, "kind", self.kind, ("total", "first_chunk"))

    def score(self, case: EvalTestCase) -> Score:
        metrics = _metrics(case)
        measured = metrics.latency_ms if self.kind == "total" else metrics.first_chunk_ms
        if measured is None:
            what = "latency" if self.kind == "total" else "time to the first chunk"
            raise EvaluationError(
                f"{self.name}: the task's {what} was not measured; return it in its metrics."
            )
        metadata = {"latencyMs": measured, "maxMs": self.max_ms, "kind": self.kind}
        return _within(measured <= self.max_ms, f"{measured:,.0f} ms", f"{self.max_ms:,.0f} ms", metadata)


@dataclass(frozen=True, kw_only=True)
class Cost(Evaluator):
    """Passes when the task cost no more than the limit.

    Example:
        >>> case = EvalTestCase({}, {"output": "Hi"}, metrics=CallMetrics(cost_usd=0.002))
        >>> Cost(max_usd=0.01).evaluate(case).success
        True
    """

    method_source = "Defined by dokimos."
    default_name = "Cost"
    requires: ClassVar[tuple[str, ...]] = ("metrics",)

    max_usd: float
    """The highest cost that passes, in US dollars."""
    threshold: float | None = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative(self, "max_usd", self.max_usd)

    def score(self, case: EvalTestCase) -> Score:
        measured = _metrics(case).cost_usd
        if measured is None:
            raise EvaluationError(
                f"{self.name}: the task's cost is not known; give the experiment prices, or return cost_usd."
            )
        metadata = {"costUsd": measured, "maxUsd": self.max_usd}
        return _within(measured <= self.max_usd, f"${measured:.4f}", f"${self.max_usd:.4f}", metadata)


@dataclass(frozen=True, kw_only=True)
class Tokens(Evaluator):
    """Passes when the task used no more tokens than the limit.

    Example:
        >>> case = EvalTestCase({}, {"output": "Hi"}, metrics=CallMetrics(tokens_in=900, tokens_out=300))
        >>> Tokens(max_tokens=1000).evaluate(case).reason
        'The task took 1,200 input and output tokens, more than the limit of 1,000.'
    """

    method_source = "Defined by dokimos."
    default_name = "Tokens"
    requires: ClassVar[tuple[str, ...]] = ("metrics",)

    max_tokens: int
    """The most tokens that pass."""
    kind: Literal["total", "input", "output", "cached_input", "reasoning"] = "total"
    """Which tokens are counted; the total is input and output."""
    threshold: float | None = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self, "max_tokens", self.max_tokens, least=0)
        check_option(self, "kind", self.kind, tuple(_TOKENS))

    def score(self, case: EvalTestCase) -> Score:
        measured = _TOKENS[self.kind](_metrics(case))
        what = {"total": "input and output", "cached_input": "cached input"}.get(self.kind, self.kind)
        if measured is None:
            raise EvaluationError(
                f"{self.name}: the task's {what} tokens were not counted; return them in its metrics."
            )
        metadata = {"tokens": measured, "maxTokens": self.max_tokens, "kind": self.kind}
        statement = f"{measured:,} {what} tokens"
        return _within(measured <= self.max_tokens, statement, f"{self.max_tokens:,}", metadata)


def _metrics(case: EvalTestCase) -> CallMetrics:
    if case.metrics is None:
        raise MissingInputError(
            "The case has no metrics measured by the task; give it metrics=CallMetrics(...)."
        )
    return case.metrics


def _sum(left: int | None, right: int | None) -> int | None:
    # A sum of which one part is unknown would pass limits that the whole exceeds.
    return None if left is None or right is None else left + right


def _within(passed: bool, measured: str, limit: str, metadata: dict[str, Any]) -> Score:
    if passed:
        return Score(1.0, f"The task took {measured}, within the limit of {limit}.", metadata=metadata)
    return Score(0.0, f"The task took {measured}, more than the limit of {limit}.", metadata=metadata)
