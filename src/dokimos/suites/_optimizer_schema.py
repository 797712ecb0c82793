"""What a suite says about its optimization: `evaluations.optimizer`, as pydantic models."""

from __future__ import annotations

import math
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, FiniteFloat, model_validator

from dokimos.suites._metric_schema import Block, ModelBlock, Text
from dokimos.suites._value_paths import parse_path

_COUNT: Final = Field(ge=1)


def _is_path(path: str) -> str:
    parse_path(path)
    return path


class NumericAxis(Block):
    """A number, or one of several values, that the optimizer may set."""

    path: Annotated[Text, AfterValidator(_is_path)]
    """Where the value is, such as `model.temperature` or `tools[name=docs].top_k`."""
    type: Literal["float", "int", "categorical"]
    """Whether the value is a number, a whole number, or one of a list."""
    range: list[Any]
    """The smallest and the largest value; for a categorical axis, all values."""

    @model_validator(mode="after")
    def _range_fits(self) -> NumericAxis:
        if self.type == "categorical":
            if not self.range:
                raise ValueError("the range of a categorical axis must have at least one value.")
            # By repr(): values may be lists, and 1, 1.0 and True are different settings.
            if len({repr(value) for value in self.range}) < len(self.range):
                raise ValueError("the range of a categorical axis must not repeat a value.")
            return self
        kinds = int if self.type == "int" else (int, float)
        if len(self.range) != 2 or not all(_is_number(value, kinds) for value in self.range):
            what = "whole numbers" if self.type == "int" else "numbers"
            raise ValueError(f"the range of this axis is two {what}: the least and the greatest value.")
        if not self.range[0] < self.range[1]:
            raise ValueError(
                f"the first value of the range must be smaller than the second, not {self.range[0]}."
            )
        return self


def _is_number(value: Any, kinds: Any) -> bool:
    # bool is a subclass of int.
    return isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value)


class TextualAxis(Block):
    """A text that the optimizer may rewrite."""

    path: Annotated[Text, AfterValidator(_is_path)]
    """Where the text is, such as `instructions`, inline or in a file."""
    max_chars: Annotated[int, _COUNT] = 8000
    """The most characters of a rewritten text."""


class Axes(Block):
    """What the optimizer may change."""

    numeric: list[NumericAxis] = Field(default_factory=list)
    """Numbers, or values from a list."""
    textual: list[TextualAxis] = Field(default_factory=list)
    """Texts."""

    @model_validator(mode="after")
    def _unique(self) -> Axes:
        paths = [axis.path for axis in self.numeric] + [axis.path for axis in self.textual]
        twice = sorted({path for path in paths if paths.count(path) > 1})
        if twice:
            raise ValueError(f"two axes have the path {', '.join(twice)}.")
        return self


class NumericPhase(Block):
    """How long numbers are searched in one cycle."""

    max_trials: Annotated[int, _COUNT] = 10
    """The most trials of the phase."""
    patience: Annotated[int, _COUNT] = 5
    """The phase ends after this many trials in a row that are no better."""


class TextualPhase(Block):
    """How long texts are rewritten in one cycle."""

    max_trials: Annotated[int, _COUNT] = 5
    """The most trials of the phase."""
    patience: Annotated[int, _COUNT] = 3
    """The phase ends after this many trials in a row that are no better."""


class OptimizerBudget(Block):
    """What all trials together may spend, judges included; the search ends when it is spent."""

    max_cost_usd: Annotated[FiniteFloat, Field(gt=0)] | None = None
    """The most dollars."""
    max_tokens: Annotated[int, Field(gt=0)] | None = None
    """The most tokens, in and out."""
    max_calls: Annotated[int, Field(gt=0)] | None = None
    """The most calls of models."""

    @model_validator(mode="after")
    def _require_limit(self) -> OptimizerBudget:
        if all(limit is None for limit in (self.max_cost_usd, self.max_tokens, self.max_calls)):
            raise ValueError("a budget needs max_cost_usd, max_tokens or max_calls.")
        return self


class OptimizerBlock(Block):
    """How a suite is optimized."""

    loss: Annotated[dict[str, Annotated[FiniteFloat, Field(gt=0)]], Field(min_length=1)]
    """Metrics with their weights; the loss is 1 minus the weighted mean of their scores."""
    axes: Annotated[Axes, BeforeValidator(lambda axes: {} if axes is None else axes)] = Field(
        default_factory=Axes
    )
    """What may change; only `dokimos test optimize` needs any."""
    max_cycles: Annotated[int, _COUNT] = 3
    """Cycles of a numeric and a textual phase."""
    numeric_phase: NumericPhase = Field(default_factory=NumericPhase)
    """How long numbers are searched."""
    textual_phase: TextualPhase = Field(default_factory=TextualPhase)
    """How long texts are rewritten."""
    min_delta: Annotated[FiniteFloat, Field(ge=0)] = 0.01
    """The loss has to fall by more than this, on the training cases and on the held-out cases."""
    seed: int = 42
    """For the split of the cases and the proposals."""
    holdout: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """The share of the cases that only decide whether a change is accepted; with 0, the training cases
    decide."""
    alpha: Annotated[float, Field(gt=0, le=0.5)] = 0.05
    """The probability that the whole search accepts anything although nothing is better."""
    repeats: Annotated[int, _COUNT] = 1
    """How often each case is run in a trial."""
    max_cost_usd: Annotated[FiniteFloat, Field(gt=0)] | None = None
    """The mean cost of a case; more expensive candidates are not accepted."""
    max_latency_ms: Annotated[FiniteFloat, Field(gt=0)] | None = None
    """The median latency of a case; slower candidates are not accepted."""
    budget: OptimizerBudget | None = None
    """What all trials together may spend."""
    model: ModelBlock | Text | None = None
    """The model that rewrites texts: a model block, the name of a judge such as `openai:gpt-5-mini`, or
    `file.py:function`; by default the judge of the suite."""
    parallel_trials: Annotated[int, _COUNT] = 1
    """How many trials run at once."""
