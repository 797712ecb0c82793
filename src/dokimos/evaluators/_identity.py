"""How an evaluator was configured, the same from run to run."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from dokimos._core.jsonable import jsonable, text_form
from dokimos._core.provenance import EvaluatorInfo
from dokimos.evaluators.registry import name_of

if TYPE_CHECKING:
    from dokimos.evaluators._base import Evaluator

HIGHER_IS_BETTER: Final = "higher_is_better"
LOWER_IS_BETTER: Final = "lower_is_better"
_NOT_MEASURED: Final = ("name", "threshold", "thresholds", "fail_on_error", "blocking", "serial")
"""Fields that do not change what an evaluator measures, or are recorded beside its parameters."""


def describe_evaluator(evaluator: Evaluator) -> EvaluatorInfo:
    """Describe a configuration, with a fingerprint of what decides about scores."""
    parameters = {
        f.name: describe_value(getattr(evaluator, f.name))
        for f in fields(evaluator)
        if f.name not in _NOT_MEASURED and getattr(evaluator, f.name) != f.default
    }
    kind = name_of(type(evaluator)) or f"{type(evaluator).__module__}:{type(evaluator).__qualname__}"
    declared = [] if evaluator.own_range is None else [evaluator.own_range]
    # With the threshold, which decides about verdicts, although it is not among the parameters.
    identity = json.dumps([kind, parameters, evaluator.threshold, *declared], sort_keys=True)
    return EvaluatorInfo(
        name=evaluator.name,
        registry_name=name_of(type(evaluator)),
        parameters=parameters,
        threshold=evaluator.threshold,
        direction=LOWER_IS_BETTER if evaluator.lower_is_better else HIGHER_IS_BETTER,
        deterministic=evaluator.deterministic,
        fingerprint=hashlib.sha256(identity.encode()).hexdigest()[:16],
        score_range=evaluator.own_range,
        thresholds=evaluator.thresholds,
    )


def describe_value(value: Any) -> Any:
    """Return a parameter as JSON: a judge by its identity and a callable by its name."""
    from dokimos.evaluators._base import Evaluator  # which imports this module

    identity = getattr(value, "identity", None)
    if isinstance(identity, str):
        return identity  # never the judge's fields: one of them may be a key
    if isinstance(value, Evaluator):
        info = value.info()
        return {info.registry_name or info.name: dict(info.parameters)}
    if callable(value) or hasattr(value, "complete"):
        return (
            f"{getattr(value, '__module__', '?')}:{getattr(value, '__qualname__', type(value).__qualname__)}"
        )
    if isinstance(value, list | tuple):
        return [describe_value(element) for element in value]
    if isinstance(value, dict):
        return {text_form(key): describe_value(element) for key, element in value.items()}
    return jsonable(value)
