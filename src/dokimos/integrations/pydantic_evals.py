"""Converts evaluators of pydantic-evals (`pydantic_evals`) to those of dokimos, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dokimos._core.contexts import NAMES, find_contexts
from dokimos._core.extras import require
from dokimos._core.keys import CONTEXTS, INPUT, OUTPUT
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import EvalResult, Score
from dokimos._core.test_case import EvalTestCase
from dokimos._runtime.user_calls import call_user_function
from dokimos.errors import EvaluationError
from dokimos.evaluators._base import Evaluator
from dokimos.integrations._document_texts import extract_texts
from dokimos.integrations._foreign_evaluators import ForeignEvaluator, average_scores, parse_score
from dokimos.integrations._framework_objects import FrameworkObject, get
from dokimos.integrations._token_usage import make_usage

__all__ = [
    "as_evaluator",
    "from_eval_result",
    "from_evaluator",
    "to_context",
    "to_test_case",
]

EXTRA: Final = "pydantic-ai"


def to_test_case(request: object) -> EvalTestCase:
    """Return an `EvaluatorContext` as a case: inputs, outputs, metadata and metrics.

    An input or output that is not a map is under "input" or "output"; documents that the task set as its
    attribute "contexts", or one of its other names, are the contexts.
    """
    outputs = _map(get(request, "output"), OUTPUT)
    attributes = get(request, "attributes", default={})
    contexts = find_contexts(attributes, {}, {}) if isinstance(attributes, Mapping) else None
    if contexts is not None and isinstance(contexts.value, list | tuple) and NAMES.isdisjoint(outputs):
        outputs = {**outputs, CONTEXTS: extract_texts(contexts.value)}
    return EvalTestCase(
        _map(get(request, "inputs"), INPUT),
        outputs,
        expected_outputs=_map(get(request, "expected_output"), OUTPUT),
        metadata=_map(get(request, "metadata"), "metadata"),
        id=get(request, "name"),
        metrics=_metrics(request),
    )


def from_eval_result(result: EvalResult) -> dict[str, Any]:
    """Return a result as pydantic-evals has it: the score with its reason, and the verdict if there is one.

    Raises:
        EvaluationError: for a result with an error, which is not a score.
    """
    reason = require("pydantic_evals.evaluators", EXTRA).EvaluationReason
    if result.parts:
        return {name: each for part in result.parts for name, each in from_eval_result(part).items()}
    if result.error is not None:
        raise EvaluationError(result.error)
    if result.score is None:
        return {}
    scores = {result.name: reason(value=result.score, reason=result.reason or None)}
    if result.success is not None:
        scores[f"{result.name} passed"] = reason(value=result.success, reason=result.reason or None)
    return scores


def as_evaluator(
    evaluator: FrameworkObject, *, name: str = "", threshold: float | None = 0.5
) -> ForeignEvaluator:
    """Return an evaluator of pydantic-evals as one of dokimos.

    A verdict is 1 or 0; several values are their mean. A label, or a number outside 0..1, is an error.
    """

    async def ask(case: EvalTestCase) -> Score:
        return _score(await call_user_function(evaluator.evaluate_async, to_context(case)))

    evaluator_name = name or type(evaluator).__name__
    return ForeignEvaluator(name=evaluator_name, threshold=threshold, ask=ask)


def from_evaluator(evaluator: Evaluator) -> Any:
    """Return an evaluator of dokimos as one of pydantic-evals; its errors are evaluator failures there."""
    types = require("pydantic_evals.evaluators", EXTRA)

    @dataclass(repr=False)
    class DokimosEvaluator(types.Evaluator):  # type: ignore[misc, name-defined] # only there at run time
        evaluator: Any

        async def evaluate(self, ctx: object) -> dict[str, Any]:
            return from_eval_result(await self.evaluator.evaluate_async(to_test_case(ctx)))

    return DokimosEvaluator(evaluator)


def to_context(case: EvalTestCase) -> Any:
    """Return a case as an `EvaluatorContext`; single inputs and outputs stand alone, several are a map."""
    types = require("pydantic_evals.evaluators", EXTRA)
    # A context wants a tree of spans, or the error that says why there is none.
    errors = require("pydantic_evals.otel", EXTRA)
    metrics = case.metrics
    counts = {"input_tokens": metrics and metrics.tokens_in, "output_tokens": metrics and metrics.tokens_out}
    return types.EvaluatorContext(
        name=case.id,
        inputs=_single(case.inputs, INPUT),
        metadata=dict(case.metadata),
        expected_output=_single(case.expected_outputs, OUTPUT),
        output=_single(case.actual_outputs, OUTPUT),
        duration=((metrics and metrics.latency_ms) or 0.0) / 1000,
        _span_tree=errors.SpanTreeRecordingError("dokimos records no spans"),
        attributes={CONTEXTS: list(case.contexts)} if case.contexts is not None else {},
        metrics={key: value for key, value in counts.items() if value is not None},
    )


def _map(value: object, key: str) -> dict[str, Any]:
    if value is None:
        return {}
    return dict(value) if isinstance(value, Mapping) else {key: value}


def _single(values: Mapping[str, Any], key: str) -> Any:
    if key in values:
        return values[key]
    return dict(values) if values else None


def _metrics(request: object) -> CallMetrics | None:
    measured = get(request, "metrics", default={})
    duration = get(request, "duration")
    usage = make_usage(
        get(measured, "input_tokens"),
        get(measured, "output_tokens"),
        cost_usd=get(measured, "cost"),
        latency_ms=duration * 1000 if duration else None,
    )
    return None if usage == CallMetrics() else usage


def _score(output: object) -> Score:
    if isinstance(output, Mapping):
        return average_scores({name: _score(value) for name, value in output.items()})
    value = get(output, "value", default=output)
    return parse_score(value, get(output, "reason"))
