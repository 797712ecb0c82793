"""Runs and items as the API of a server takes them.

What the library holds and the wire refuses is escaped or shortened, and told once: NaN and infinities become
texts, values nested too deeply are cut, keys and names are escaped.
"""

from __future__ import annotations

import logging
import math
import re
import threading
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from dokimos._core.eval_result import EvalResult, flatten
from dokimos._core.item_result import ItemResult
from dokimos._core.jsonable import MAX_DEPTH, JsonValue, compact_json, jsonable, wire_object
from dokimos._core.metrics import CallMetrics
from dokimos._core.provenance import EvaluatorInfo, Provenance
from dokimos._runtime.terminal_text import escape_control_characters
from dokimos.client._names import fit_name, shorten_text
from dokimos.reporting._reported_run import RunStart

OWN_KEY: Final = "dokimos"
"""The member of an item's metadata that has what the wire has no field for."""
MOST_TOKENS: Final = 2**31 - 1
MOST_MILLISECONDS: Final = 2**40
MOST_EVALUATORS: Final = 1000
_REMOTE: Final = re.compile(r"dataset://(?P<name>.+)@[^@]+", re.IGNORECASE | re.DOTALL)
_ODD_KEY: Final = re.compile("[\0\ud800-\udfff]")
_SUSPICIOUS: Final = re.compile(r'\\u0000|\\ud[89a-f]|"(?:NaN|-?Infinity|\.\.\.)"')
"""What JSON text has where a value may have been replaced, or a key be one that a server refuses."""
_log: Final = logging.getLogger("dokimos")


@dataclass(slots=True)
class Escapes:
    """Warns once about each kind of change that values needed."""

    _warned: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, what: str) -> None:
        with self._lock:
            if what in self._warned:
                return
            self._warned.add(what)
        _log.warning("For the server, %s.", escape_control_characters(what))


def item_body(
    item: ItemResult, repeat_index: int, escapes: Escapes, *, has_tracebacks: bool = False
) -> dict[str, JsonValue]:
    """Return an item as `POST /runs/{id}/items` takes it.

    Args:
        item: The item.
        repeat_index: The repeat that it belongs to.
        escapes: Warns about what had to be changed.
        has_tracebacks: Whether to say where errors came from: lines of code, which stay on this machine
            unless the server is there too.
    """
    example = item.example
    about: dict[str, Any] = {}
    body: dict[str, JsonValue] = {
        "inputs": jsonable(example.inputs),
        "expectedOutputs": jsonable(example.expected_outputs),
        "actualOutputs": jsonable(item.actual_outputs),
        "evalResults": [],
        "success": item.success is True,
        "ordinal": item.index,
        "repetition": repeat_index,
    }
    for result in flatten(item.eval_results):
        if result.score is not None and math.isfinite(result.score):
            body["evalResults"].append(_score_body(result, escapes))
        elif result.skipped is not None:
            about.setdefault("skipped", {})[result.name] = result.skipped
        else:
            about.setdefault("errors", {})[result.name] = result.problem or "It gave no score."
            if has_tracebacks and result.error_detail is not None:
                about.setdefault("errorDetails", {})[result.name] = wire_object(result.error_detail)
    if item.errored:
        body["error"] = "\n".join(item.errors)
    if has_tracebacks and item.error_detail is not None:
        about["errorDetail"] = wire_object(item.error_detail)
    if example.id is not None:
        about["id"] = example.id
    metadata = {**example.metadata, OWN_KEY: about} if about else example.metadata
    if metadata:
        body["metadata"] = jsonable(metadata)
    if example.dataset_item_id is not None and _is_uuid(example.dataset_item_id):
        body["datasetItemId"] = example.dataset_item_id
    return body if item.metrics is None else body | _metrics_body(item.metrics)


def _score_body(result: EvalResult, escapes: Escapes) -> dict[str, JsonValue]:
    body: dict[str, JsonValue] = {
        "name": fit_name(result.name, empty="unnamed", note=escapes.note),
        "score": result.score,
        # The documented field cannot say that there is no verdict: like one without a threshold, such a score
        # fails nothing. Other servers ignore `judged`.
        "success": result.success is not False,
    }
    if result.success is None:
        body["judged"] = False
    if result.threshold is not None and math.isfinite(result.threshold):
        body["threshold"] = result.threshold
    if result.reason:
        body["reason"] = jsonable(result.reason)
    if result.label is not None:
        body["label"] = jsonable(result.label)
    if result.metadata:
        body["metadata"] = jsonable(result.metadata)
    return body


def _metrics_body(metrics: CallMetrics) -> dict[str, JsonValue]:
    latency = None if metrics.latency_ms is None else round(metrics.latency_ms)
    values = {
        "tokensIn": _at_most(metrics.tokens_in, MOST_TOKENS),
        "tokensOut": _at_most(metrics.tokens_out, MOST_TOKENS),
        "costUsd": metrics.cost_usd,
        "latencyMs": _at_most(latency, MOST_MILLISECONDS),
    }
    return {name: value for name, value in values.items() if value is not None}


def _at_most(value: int | None, limit: int) -> int | None:
    return None if value is None else min(int(value), limit)


def run_body(start: RunStart, escapes: Escapes) -> dict[str, JsonValue]:
    """Return a run as `POST /projects/{name}/runs` takes it; all its repeats are one run of the server."""
    origin = start.provenance
    planned = None if start.planned_items is None else start.planned_items * start.repeat_count
    body: dict[str, JsonValue] = {
        "experimentName": fit_name(start.name, empty="unnamed", note=escapes.note),
        "metadata": _escape_keys(jsonable(start.metadata), escapes),
        "name": shorten_text(start.run_id),
        "clientRunId": shorten_text(start.run_id),
        "gitSha": shorten_text(origin.git_commit),
        "gitBranch": shorten_text(origin.git_branch),
        "triggeredBy": shorten_text(origin.trigger),
        "pullRequest": shorten_text(origin.pull_request),
        "provenance": _escape_keys(jsonable(origin), escapes),
        "plannedItems": planned,
        "evaluators": evaluator_bodies(start.evaluators, escapes),
        **_dataset_members(origin),
    }
    return {name: value for name, value in body.items() if value not in (None, [], {})}


def _dataset_members(origin: Provenance) -> dict[str, JsonValue]:
    """Name the version of the data set where it came from a server."""
    match = _REMOTE.fullmatch(origin.dataset_uri or "")
    if match is None or origin.dataset_version is None:
        return {}
    return {"datasetName": match["name"], "datasetVersion": origin.dataset_version}


def evaluator_bodies(infos: Iterable[EvaluatorInfo], escapes: Escapes) -> list[dict[str, JsonValue]]:
    """Return what is known of the evaluators of a run, one for each score that is known to come."""
    bodies = {}
    for info in infos:
        for one in [info.part(key) for key in info.thresholds or ()] or [replace(info, thresholds=None)]:
            body = _evaluator_body(one, escapes)
            bodies[body["name"]] = body
    return list(bodies.values())[:MOST_EVALUATORS]


def _evaluator_body(info: EvaluatorInfo, escapes: Escapes) -> dict[str, JsonValue]:
    low, high = info.score_range or (0.0, 1.0)
    threshold = info.threshold if info.threshold is not None and math.isfinite(info.threshold) else None
    body = {
        "name": fit_name(info.name, empty="unnamed", note=escapes.note),
        "rangeLow": low,
        "rangeHigh": high,
        "direction": "LOWER_IS_BETTER" if info.lower_is_better else "HIGHER_IS_BETTER",
        "threshold": threshold,
        "fingerprint": shorten_text(info.fingerprint),
        "deterministic": info.deterministic,
    }
    return {name: value for name, value in body.items() if value is not None}


def encode_item(
    item: ItemResult, repeat_index: int, escapes: Escapes, *, has_tracebacks: bool = False
) -> bytes:
    """Return an item as JSON that a server accepts; its arguments are those of `item_body`."""
    body = item_body(item, repeat_index, escapes, has_tracebacks=has_tracebacks)
    text = compact_json(body)
    # One search of the text is much cheaper than a walk through every value, and odd values are rare.
    if _SUSPICIOUS.search(text) is None:
        return text.encode()
    example = item.example
    if any(map(_holds_odd_value, (example.inputs, example.expected_outputs, example.metadata))):
        escapes.note("NaN, infinities and values nested too deeply in the data were sent as texts")
    if _holds_odd_value(item.actual_outputs):
        escapes.note("NaN, infinities and values nested too deeply in outputs were sent as texts")
    return compact_json(_escape_keys(body, escapes)).encode()


def _holds_odd_value(value: object, depth: int = 0) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if depth >= MAX_DEPTH:
        return True
    if isinstance(value, Mapping):
        return any(_holds_odd_value(part, depth + 1) for part in value.values())
    return isinstance(value, list | tuple) and any(_holds_odd_value(part, depth + 1) for part in value)


def _escape_keys(tree: JsonValue, escapes: Escapes) -> JsonValue:
    """Escape in keys what a server refuses there: NUL and halves of characters."""
    if isinstance(tree, list):
        return [_escape_keys(part, escapes) for part in tree]
    if not isinstance(tree, dict):
        return tree
    escaped = {}
    for key, part in tree.items():
        fitting = _ODD_KEY.sub(lambda match: f"\\u{ord(match[0]):04x}", key)
        if fitting != key:
            escapes.note("keys with NUL or half a character were escaped")
        escaped[fitting] = _escape_keys(part, escapes)
    return escaped


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
