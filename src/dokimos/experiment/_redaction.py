"""Applying a user's `redact` to every string of an item before it is stored or reported."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from dokimos._core.error_detail import ErrorDetail
from dokimos._core.example import Example
from dokimos._core.jsonable import jsonable
from dokimos._core.provenance import EvaluatorInfo
from dokimos._core.results import EvalResult, ItemResult
from dokimos._core.tracebacks import format_located_error

Redact: TypeAlias = Callable[[str], str]

REDACTED: Final = "[could not be redacted]"


class Redaction:
    """A user's `redact`, which hides a text completely if it fails on it."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self._problem = ""

    def __call__(self, text: str) -> str:
        try:
            redacted = self._redact(text)
        except Exception as error:
            self._problem = f"raised {format_located_error(error)}"
            return REDACTED
        if not isinstance(redacted, str):
            self._problem = f"gave {type(redacted).__name__} instead of text"
            return REDACTED
        return redacted

    def warnings(self) -> list[str]:
        if not self._problem:
            return []
        return [f"redact {self._problem}; such texts were replaced by {REDACTED!r}."]


def redact_value(value: object, redact: Redact) -> Any:
    """Return the JSON form of a value with every string in it redacted; keys stay."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {key: redact_value(element, redact) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [redact_value(element, redact) for element in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return redact_value(jsonable(value), redact)


def redact_map(value: Mapping[str, Any], redact: Redact) -> dict[str, Any]:
    """Return a map with every string in its values redacted."""
    return {key: redact_value(element, redact) for key, element in value.items()}


def redact_example(example: Example, redact: Redact) -> Example:
    """Return an example with everything but its keys redacted."""
    outputs = example.actual_outputs
    return replace(
        example,
        id=None if example.id is None else redact(example.id),
        inputs=redact_map(example.inputs, redact),
        expected_outputs=redact_map(example.expected_outputs, redact),
        metadata=redact_map(example.metadata, redact),
        actual_outputs=None if outputs is None else redact_map(outputs, redact),
        actual_error=None if example.actual_error is None else redact(example.actual_error),
    )


def redact_result(result: EvalResult, redact: Redact) -> EvalResult:
    """Return a result with its reason, metadata and messages redacted."""
    return replace(
        result,
        reason=redact(result.reason),
        metadata=redact_map(result.metadata, redact),
        error=None if result.error is None else redact(result.error),
        skipped=None if result.skipped is None else redact(result.skipped),
        error_detail=redact_detail(result.error_detail, redact),
        label=None if result.label is None else redact(result.label),
    )


def redact_detail(detail: ErrorDetail | None, redact: Redact) -> ErrorDetail | None:
    """Return where an error came from with its message, the files and the lines of source redacted."""
    if detail is None:
        return None
    frames = (
        replace(frame, file=redact(frame.file), source=redact(frame.source) if frame.source else "")
        for frame in detail.frames
    )
    return replace(
        detail,
        message=redact(detail.message) if detail.message else "",
        frames=tuple(frames),
        traceback=None if detail.traceback is None else redact(detail.traceback),
    )


def redact_info(info: EvaluatorInfo, redact: Redact) -> EvaluatorInfo:
    """Return how an evaluator was configured, its parameters redacted; the fingerprint stays."""
    return replace(info, parameters=redact_map(info.parameters, redact))


def redact_item(
    item: ItemResult, redact: Redact, *, known_outputs: bool = False, known_results: Container[str] = ()
) -> ItemResult:
    """Redact an item, except what was read from a journal and hence is redacted already."""
    outputs, error, detail = item.actual_outputs, item.error, item.error_detail
    # Once only: applied again, it could cut into what it has put in the place of a secret.
    if not known_outputs:
        outputs = redact_map(outputs, redact)
        error = None if error is None else redact(error)
        detail = redact_detail(detail, redact)
    return replace(
        item,
        example=redact_example(item.example, redact),
        actual_outputs=outputs,
        eval_results=tuple(
            result if result.name in known_results else redact_result(result, redact)
            for result in item.eval_results
        ),
        error=error,
        error_detail=detail,
    )
