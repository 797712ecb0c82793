"""Results of evaluators as JSON for the journal: what those of one evaluator share is encoded once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from json.encoder import encode_basestring as _quoted
from typing import Any, Final

from dokimos._core.jsonable import leaf_json, wire_writer
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import EvalResult

MOST_TEMPLATES: Final = 1024
"""Evaluators that give scores under keys of the user may have results of any number of names."""
MOST_SCORES: Final = 16
"""Of one template: most evaluators give few different scores, and those of others are not given again."""

_NO_PARTS: Final = ()

_write_any: Final = wire_writer(EvalResult)
_write_metrics: Final = wire_writer(CallMetrics)


class _Template:
    """What results of one name and verdict have in common."""

    __slots__ = ("after", "before", "last", "texts", "threshold")

    def __init__(self, result: EvalResult) -> None:
        self.threshold = result.threshold
        after = "" if result.threshold is None else f',"threshold":{leaf_json(result.threshold)}'
        if result.success is not None:
            after += f',"success":{json.dumps(result.success)}'
        self.before, self.after = f'{{"name":{leaf_json(result.name)},"score":', after
        """What stands before and after the score."""
        self.texts: dict[float | str, str] = {}
        """Both with a score between them, by that score."""
        self.last: tuple[float | None, str, str] = (None, "", "")
        """Score, reason and JSON of the last one that has nothing else: the next one often has the same.

        Together, as results are written from several threads.
        """

    def write(self, score: float, reason: str) -> str:
        """Return the JSON of such a result, up to its reason and without the closing brace."""
        text = self.texts.get(score or repr(score))  # since 0.0 and -0.0 are equal
        if text is None:
            text = f"{self.before}{score!r}{self.after}"
            if len(self.texts) < MOST_SCORES:
                self.texts[score or repr(score)] = text
        if not reason:
            return text
        return f'{text},"reason":{_quoted(reason) if reason.isascii() else leaf_json(reason)}'


class ResultJson:
    """Writes results as `wire_json` does; the usual one, a score with its reason, in a fifth of the time.

    That saves more than a quarter of what a score costs with the journal (`benchmarks/scoring.py`).
    """

    def __init__(self) -> None:
        self._passed: dict[str, _Template] = {}
        self._failed: dict[str, _Template] = {}
        self._undecided: dict[str, _Template] = {}

    def __call__(self, result: EvalResult) -> str:
        return self.join((result,))

    def join(self, results: Iterable[EvalResult]) -> str:
        """Return the JSON of results with commas between them."""
        texts = []
        passed, failed, undecided = self._passed, self._failed, self._undecided
        for result in results:
            name, score, reason = result.name, result.score, result.reason
            metadata, metrics = result.metadata, result.metrics
            success: object = result.success  # whatever an evaluator of a user's own made it
            # What only equals one of these, as 1 and the booleans of NumPy do, is another text.
            templates = passed if success is True else failed if success is False else undecided
            if (
                type(score) is not float
                or type(name) is not str
                or type(reason) is not str
                or type(metadata) is not dict
                or (templates is undecided and success is not None)
                or (metrics is not None and type(metrics) is not CallMetrics)
                or result.fail_on_error is not True
                or result.error is not None
                or result.skipped is not None
                or result.error_kind is not None
                or result.decides is not None
                or result.score_range is not None
                or result.error_detail is not None
                or result.label is not None
                or result.part_of is not None
                or result.parts is not _NO_PARTS
            ):
                texts.append(_write_any(result))
                continue
            template = templates.get(name)
            # An evaluator has one threshold object, and equal ones may be other texts: 0.0 and -0.0, 1, 1.0.
            if template is None or template.threshold is not result.threshold:
                template = self._add_template(templates, result)
            if metadata or metrics is not None:
                texts.append(_write_more(template.write(score, reason), metadata, metrics))
                continue
            last_score, last_reason, text = template.last
            # Both zeros are equal, and have other texts.
            if reason != last_reason or (score is not last_score and (score != last_score or not score)):
                text = template.write(score, reason) + "}"
                template.last = (score, reason, text)
            texts.append(text)
        return ",".join(texts)

    def _add_template(self, templates: dict[str, _Template], result: EvalResult) -> _Template:
        if len(templates) >= MOST_TEMPLATES:
            templates.clear()
        template = templates[result.name] = _Template(result)
        return template


def _write_more(text: str, metadata: Mapping[str, Any], metrics: CallMetrics | None) -> str:
    """Return the JSON of a result that begins with `text`, and has metadata or what its calls cost."""
    if metadata:
        text = f'{text},"metadata":{leaf_json(metadata)}'
    if metrics is not None:
        text = f'{text},"metrics":{_write_metrics(metrics)}'
    return text + "}"
