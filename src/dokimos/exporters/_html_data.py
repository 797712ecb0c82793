"""The items of a result as compact data for the HTML report: every text once, everything else by position."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from dokimos._core import number_format
from dokimos._core.agent import ToolCall
from dokimos._core.conversation import arguments_text
from dokimos._core.error_detail import ErrorDetail
from dokimos._core.jsonable import JsonValue, jsonable, pretty_json
from dokimos._core.keys import TOOL_CALLS
from dokimos._core.metrics import CallMetrics
from dokimos._core.number_format import round_half_up
from dokimos._core.outcome import Outcome
from dokimos._core.provenance import EvaluatorInfo
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult
from dokimos._core.tool_lists import tool_calls_from
from dokimos.errors import DokimosError
from dokimos.exporters._item_runs import ItemRuns, tags_of

MAX_TEXT: Final = 50_000
NONE: Final = -1

_OUTCOMES: Final = {outcome: position for position, outcome in enumerate(Outcome)}
_READS: Final = ("matching", "expected_key", "contexts_key")
"""Parameters that say where an evaluator finds chunks, and how it compares them."""
_RETRIEVAL: Final = frozenset(("precision", "recall", "hit_rate", "mrr", "ndcg"))
_SUCCESS: Final = {True: 1, False: 0, None: NONE}


def pack_items(
    result: ExperimentResult, items: tuple[ItemRuns, ...], tag_keys: tuple[str, ...]
) -> dict[str, JsonValue]:
    """Return the items as data for the page's script."""
    return Packer(result, tag_keys).pack(items)


class Packer:
    """Collects the texts while the items are packed; a text is then a position in `strings`.

    What several results have in common (inputs, expected outputs, metadata) goes to `shared` where that is
    given; its position n is encoded as -2 - n.
    """

    def __init__(
        self,
        result: ExperimentResult,
        tag_keys: tuple[str, ...],
        *,
        longest: int = MAX_TEXT,
        shared: dict[str, int] | None = None,
    ) -> None:
        self._longest = longest
        self._shared = shared
        self._result = result
        self._tag_keys = tag_keys
        self._strings: dict[str, int] = {}
        self._keys: set[str] = set()
        self._evaluators = {name: position for position, name in enumerate(result.evaluator_names)}

    def pack(self, items: tuple[ItemRuns, ...]) -> dict[str, JsonValue]:
        packed = [self._item(item) for item in items]
        infos = {info.name: info for info in self._result.evaluators}
        return {
            "runs": self._result.run_count,
            "evaluators": [_evaluator(name, infos.get(name)) for name in self._evaluators],
            "tagKeys": jsonable(self._tag_keys),
            "items": packed,
            "strings": list(self._strings),
        }

    def _item(self, item: ItemRuns) -> list[JsonValue]:
        return [
            self._key(item),
            item.index,
            _OUTCOMES[item.outcome],
            self._common_pairs(item.example.inputs),
            self._common_pairs(item.example.expected_outputs),
            self._common_pairs(item.example.metadata),
            [[self._string(tag) for tag in tags_of(item.example, key)] for key in self._tag_keys],
            [0 if run is None else self._run(run) for run in item.runs],
        ]

    def _key(self, item: ItemRuns) -> str:
        """The item's key; with its position where another item of a stream has the same id."""
        # jsonable() replaces lone surrogates, after which two keys may be equal.
        key = str(jsonable(item.key))
        if key in self._keys:
            key = f"{key} (item {item.index})"
        self._keys.add(key)
        return key

    def _run(self, item: ItemResult) -> list[JsonValue]:
        culprits = {id(result) for result in item.culprits}
        calls = _tool_calls(item)
        outputs = dict(item.actual_outputs)
        if calls:
            outputs.pop(TOOL_CALLS)
        return [
            _OUTCOMES[item.outcome],
            self._pairs(outputs),
            [self._call(call) for call in calls],
            self._optional(item.error),
            self._metrics(item.metrics),
            [self._evaluation(result, id(result) in culprits) for result in item.eval_results],
            *self._origin(item.error_detail),
        ]

    def _origin(self, detail: ErrorDetail | None) -> list[JsonValue]:
        """Return where an error came from, as the last part of what it is the error of; nothing without."""
        if detail is None:
            return []
        frames = "\n".join(f"{frame}  {frame.source}".rstrip() for frame in detail.frames)
        texts = (detail.place or None, frames or None, detail.traceback)
        return [[self._optional(text) for text in texts]]

    def _call(self, call: ToolCall) -> list[int]:
        return [self._string(call.name), self._string(arguments_text(call)), self._optional(call.result)]

    def _metrics(self, metrics: CallMetrics | None) -> list[JsonValue]:
        if metrics is None:
            return []
        rounded = [
            round_half_up(value) if value is not None and math.isfinite(value) else None
            for value in (metrics.latency_ms, metrics.first_chunk_ms, metrics.cost_usd)
        ]
        return [*rounded, metrics.tokens_in, metrics.tokens_out, self._optional(metrics.model)]

    def _evaluation(self, result: EvalResult, is_culprit: bool) -> list[JsonValue]:
        return [
            self._evaluators[result.name],
            result.score if result.score is None else round_half_up(result.score),
            _SUCCESS[result.success],
            result.threshold,
            self._optional(result.reason or None),
            self._optional(result.problem or None),
            self._optional(result.skipped),
            self._optional(_compact(result.metadata) if result.metadata else None),
            # Whether the error fails the item, which the page cannot know: an error may also be a warning.
            int(result.error is not None and is_culprit),
            self._optional(result.label),
            *self._origin(result.error_detail),
        ]

    def _pairs(self, values: Mapping[str, Any]) -> list[int]:
        return [
            part for key, value in values.items() for part in (self._string(key), self._string(_text(value)))
        ]

    def _common_pairs(self, values: Mapping[str, Any]) -> list[int]:
        if self._shared is None:
            return self._pairs(values)
        texts = [text for key, value in values.items() for text in (key, _text(value))]
        return [-2 - self._shared.setdefault(self._clean(text), len(self._shared)) for text in texts]

    def _optional(self, text: str | None) -> int:
        return NONE if text is None else self._string(text)

    def _string(self, text: str) -> int:
        known = self._strings.get(text)  # as it is, which nearly all texts stay
        return self._strings.setdefault(self._clean(text), len(self._strings)) if known is None else known

    def _clean(self, text: str) -> str:
        return str(jsonable(number_format.truncate_middle(text, self._longest)))


def _tool_calls(item: ItemResult) -> tuple[ToolCall, ...]:
    try:
        return tool_calls_from(item.actual_outputs.get(TOOL_CALLS, ()), key=TOOL_CALLS)
    except DokimosError:
        # Anything that is not a list of calls is rendered as it is, among the outputs.
        return ()


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return pretty_json(jsonable(value))


def _compact(value: object) -> str:
    """Return what the page indents itself, which is much faster than doing it here."""
    return json.dumps(jsonable(value), ensure_ascii=False)


def _evaluator(name: str, info: EvaluatorInfo | None) -> dict[str, JsonValue]:
    tree: dict[str, JsonValue] = {"name": jsonable(name), "lower": info is not None and info.lower_is_better}
    if info is None:
        return tree
    if info.score_range is not None:
        tree["range"] = list(info.score_range)
    if info.registry_name is not None:
        tree["kind"] = info.registry_name
    reads = {key: jsonable(info.parameters[key]) for key in _READS if key in info.parameters}
    if info.registry_name in _RETRIEVAL:
        reads["retrieves"] = True
    return {**tree, "reads": reads} if reads else tree
