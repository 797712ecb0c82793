"""What an evaluator of the library said about an item, as a judge job stores it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from dokimos._core.jsonable import jsonable
from dokimos.errors import EndpointDownError, JudgeUnavailableError, MissingInputError
from dokimos.server._services.judging.judge_evaluators import EvaluatorSpec
from dokimos.server._services.judging.judge_results import SKIPPED, ItemError, ItemOutcome, ItemScore

if TYPE_CHECKING:
    from dokimos._core.results import EvalResult

UNAVAILABLE: Final = "unavailable"
"""The kind of an error that may pass: the model gave no answer."""
REFUSED: Final = "refused"
"""The kind of an error that does not pass: the endpoint refuses this very request."""


class RequestRejected(JudgeUnavailableError):
    """An endpoint refuses what it is asked, such as a prompt that is too long for the model."""


_KINDS: Final = {
    kind.__name__: name
    for kind, name in (
        (TimeoutError, "timeout"),
        (RequestRejected, REFUSED),
        (MissingInputError, "missing"),
        (JudgeUnavailableError, UNAVAILABLE),
        (EndpointDownError, UNAVAILABLE),
    )
}
"""By the name of its class, with which the text of each error begins, the kind of an error."""
_RAW_SCORE: Final = "rawScore"


def outcome_of(item_id: str, result: EvalResult, spec: EvaluatorSpec) -> ItemOutcome:
    """Return what is stored of a result."""
    if result.error is not None or result.score is None:
        if result.skipped is not None:
            return ItemError(item_id=item_id, kind=SKIPPED, message=result.skipped)
        return _error_of(item_id, result.error or "It gave no score.", result.error_kind)
    score, threshold, success = result.score, result.threshold, result.success
    metadata = dict(result.metadata)
    if spec.criteria is not None:
        # On the scale of the request; as documented, a score without a threshold is a success.
        score = float(metadata.pop(_RAW_SCORE, score))
        metadata.pop("scoreRange", None)
        threshold = spec.criteria.threshold
        success = threshold is None or score >= threshold
    return ItemScore(
        item_id=item_id,
        score=score,
        threshold=threshold,
        success=success,
        reason=json.dumps(result.reason) if result.reason else None,
        label=None if result.label is None else json.dumps(result.label),
        metadata=_dump(metadata),
    )


def _error_of(item_id: str, error: str, kind: str | None) -> ItemError:
    name, _, rest = error.partition(": ")
    known = _KINDS.get(name)
    return ItemError(item_id=item_id, kind=kind or known or "error", message=rest if known else error)


def _dump(metadata: Mapping[str, Any]) -> str | None:
    if not metadata:
        return None
    try:
        return json.dumps(jsonable(metadata), allow_nan=False)
    except ValueError:  # a number that JSON has no form of
        return None
