"""Results of evaluators as JSON for the journal: what those of one evaluator share is encoded once."""

from __future__ import annotations

import json
from json.encoder import encode_basestring as _quoted
from typing import Final, TypeAlias

from dokimos._core.jsonable import leaf_json, wire_writer
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import EvalResult

MOST_TEMPLATES: Final = 1024
"""Evaluators that give scores under keys of the user may have results of any number of names."""
MOST_SCORES: Final = 16
"""Of one template: most evaluators give few different scores, and those of others are not given again."""

_Template: TypeAlias = tuple[float | None, str, str, dict[float | str, str]]
"""The threshold, and what stands before and after the score, in results of one name and verdict; and both
with a score between them, by that score."""

_write_any: Final = wire_writer(EvalResult)
_write_metrics: Final = wire_writer(CallMetrics)


class ResultJson:
    """Writes results as `wire_json` does; the usual one, a score with its reason, in half the time.

    With many evaluators that is a tenth of what a score costs (`benchmarks/scoring.py`).
    """

    def __init__(self) -> None:
        self._templates: dict[tuple[str, bool | None], _Template] = {}

    def __call__(self, result: EvalResult) -> str:
        name, score, reason, metrics = result.name, result.score, result.reason, result.metrics
        success: object = result.success  # whatever an evaluator of a user's own made it
        if (
            type(score) is not float
            or type(name) is not str
            # What only equals a key of the templates, as 1 and the booleans of NumPy do, is another text.
            or (success is not True and success is not False and success is not None)
            or type(reason) is not str
            or (reason and not reason.isascii())
            or type(result.metadata) is not dict
            or result.fail_on_error is not True
            or (metrics is not None and type(metrics) is not CallMetrics)
            or result.error is not None
            or result.skipped is not None
            or result.error_kind is not None
            or result.decides is not None
            or result.score_range is not None
            or result.error_detail is not None
            or result.label is not None
            or result.part_of is not None
            or result.parts != ()
        ):
            return _write_any(result)
        template = self._templates.get((name, result.success))
        # An evaluator has one threshold object, and equal ones may be other texts: 0.0 and -0.0, 1 and 1.0.
        if template is None or template[0] is not result.threshold:
            template = self._add_template(result)
        texts = template[3]
        text = texts.get(score or repr(score))  # since 0.0 and -0.0 are equal
        if text is None:
            text = f"{template[1]}{score!r}{template[2]}"
            if len(texts) < MOST_SCORES:
                texts[score or repr(score)] = text
        if reason:
            text = f'{text},"reason":{_quoted(reason)}'
        if result.metadata:
            text = f'{text},"metadata":{leaf_json(result.metadata)}'
        if metrics is not None:
            text = f'{text},"metrics":{_write_metrics(metrics)}'
        return text + "}"

    def _add_template(self, result: EvalResult) -> _Template:
        if len(self._templates) >= MOST_TEMPLATES:
            self._templates.clear()
        after = "" if result.threshold is None else f',"threshold":{leaf_json(result.threshold)}'
        if result.success is not None:
            after += f',"success":{json.dumps(result.success)}'
        template: _Template = (result.threshold, f'{{"name":{leaf_json(result.name)},"score":', after, {})
        self._templates[result.name, result.success] = template
        return template
