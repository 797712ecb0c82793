"""The JSON text of items that one repeat answered without an error, as most are, written without a tree.

A report of 100,000 items takes 1.9 s of CPU (`benchmarks/finished_runs.py json`),
and three times that without it.
What is not plain is left to the general way, which writes the same text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from json.encoder import encode_basestring as quote
from typing import Any, Final, NamedTuple, TypeAlias

from dokimos._core.example import Example
from dokimos._core.jsonable import (
    MAX_DEPTH,
    JsonValue,
    compact_json,
    jsonable,
    map_json,
    wire_json,
    wire_writer,
    with_escapes,
)
from dokimos._core.keys import OUTPUT
from dokimos._core.means import exact_mean
from dokimos._core.number_format import round_half_up
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult
from dokimos.exporters._item_runs import ItemRuns, render_expected, render_inputs, render_value
from dokimos.exporters._shared_texts import SHARED_FROM_LENGTH, TextSharing

HALF_PAIR: Final = "\\ud"
"""In JSON text that has half a surrogate pair: `jsonable` joins the halves that belong together."""
LEVELS_AROUND_ITEM: Final = 5
"""Containers of the document that an item under `result` is in."""
MAX_REMEMBERED: Final = 1024
"""Results whose texts are remembered: deterministic evaluators give few that differ."""

_Path: TypeAlias = tuple[Any, ...]
_WORDS: Final = {None: "null", True: "true", False: "false"}
_THRESHOLDS: Final = (float, type(None))
_VERDICTS: Final = (bool, type(None))
_write_example: Final = wire_writer(Example)
_write_result: Final = wire_writer(EvalResult)


class ResultTexts(NamedTuple):
    """One result of an evaluator as JSON."""

    summary: str
    """As it stands in an item of the report."""
    whole: str
    """All of it, to be read back."""


class _Joined(NamedTuple):
    """Results that items have together, as JSON."""

    texts: Sequence[ResultTexts]
    """Of each, so that none of them is freed and another one gets its `id`."""
    summaries: str
    wholes: str
    success: bool | None
    """What they make of an item whose task answered."""


class _Ready(NamedTuple):
    """Parts of an item that are written the same way once more."""

    item: ItemResult
    scores: str
    """Shared by all items that have these, so that a long run needs no room for them."""
    metrics: str


class PlainItems:
    """Writes the items of one result: under `items`, and again under `result`."""

    def __init__(self, result: ExperimentResult, sharing: TextSharing) -> None:
        self._names = list(result.evaluator_names)
        self._sharing = sharing
        self._remembered: dict[tuple[Any, ...], ResultTexts] = {}
        self._joined: dict[tuple[int, ...], _Joined] = {}
        self._ready: deque[_Ready] = deque()
        """What `summarize` knows of the items that `write` comes to next."""

    def summarize(self, item: ItemRuns, path: _Path) -> str | None:
        """Return the text of an item under `items`, and learn its long texts; None if it is not plain."""
        run = item.runs[0] if len(item.runs) == 1 else None
        if run is None or run.error is not None or run.error_detail is not None:
            return None
        results = order_results(run, self._names)
        texts = list(map(self._remember, results))
        joined = self._join(run, texts) if results is run.eval_results else None
        if joined is None and not _is_answered(run):
            return None
        id_, inputs, expected = item.example.id, render_inputs(item), render_expected(item)
        outputs = render_value(run.actual_outputs, OUTPUT)
        trees: dict[int, JsonValue] = {}
        try:
            evaluations = _summarize_results(results, texts, trees) if joined is None else joined.summaries
        except ValueError:  # a number that JSON does not have
            return None
        success = run.success if joined is None else joined.success
        metrics = "null" if run.metrics is None else wire_json(run.metrics)
        text = (
            f'{{"id":{_quote(id_)},"index":{item.index},"input":{_quote(inputs)},'
            f'"expectedOutput":{_quote(expected)},"actualOutput":{_quote(outputs)},'
            f'"success":{_WORDS[success]},"evaluations":[{evaluations}],"metrics":{metrics}}}'
        )
        if len(metrics) >= SHARED_FROM_LENGTH or _has_half_pair(text):
            return None
        named = {"id": id_, "input": inputs, "expectedOutput": expected, "actualOutput": outputs}
        self._learn(named, trees, path)
        if joined is not None and type(run.actual_outputs) is dict:
            self._ready.append(_Ready(run, joined.wholes, metrics))
        return text

    def write(self, item: ItemResult) -> str | None:
        """Return the text of an item under `result`; None if it is not plain or may have references."""
        if self._ready and self._ready[0].item is item:
            _, scores, metrics = self._ready.popleft()
            metrics = "" if item.metrics is None else f',"metrics":{metrics}'
            unsure_scores = ""
        elif not _is_answered(item) or type(item.actual_outputs) is not dict or not item.eval_results:
            return None
        else:
            remembered = [self._remember(result) for result in item.eval_results]
            results = [
                _write_result(result) if texts is None else texts.whole
                for result, texts in zip(item.eval_results, remembered, strict=True)
            ]
            scores = ",".join(results)
            metrics = "" if item.metrics is None else f',"metrics":{wire_json(item.metrics)}'
            # What is remembered has neither long texts nor levels: in most items, it is the larger part.
            unsure_scores = "".join(results) if None in remembered else ""
        example = _write_example(item.example)
        outputs = f',"actualOutputs":{map_json(item.actual_outputs)}' if item.actual_outputs else ""
        unsure = f"{example}{outputs}{metrics}{unsure_scores}"
        if may_be_cut(unsure, MAX_DEPTH - LEVELS_AROUND_ITEM - 2) or self._sharing.may_change(unsure):
            return None
        return f'{{"index":{item.index},"example":{example}{outputs},"evalResults":[{scores}]{metrics}}}'

    def _join(self, item: ItemResult, texts: Sequence[ResultTexts | None]) -> _Joined | None:
        """Return the texts of an item's results, if an earlier one had all of them, too."""
        if not texts or None in texts:
            return None
        key = tuple(map(id, texts))
        joined = self._joined.get(key)
        if joined is None:
            if len(self._joined) >= MAX_REMEMBERED:
                self._joined.clear()
            known = [each for each in texts if each is not None]
            summaries = ",".join([each.summary for each in known])
            wholes = ",".join([each.whole for each in known])
            self._joined[key] = _Joined(known, summaries, wholes, item.success)
        return joined

    def _learn(self, texts: dict[str, str | None], trees: dict[int, JsonValue], path: _Path) -> None:
        for name, text in texts.items():
            if text is not None and len(text) >= SHARED_FROM_LENGTH:
                self._sharing.learn(text, (*path, name))
        for place, tree in trees.items():
            self._sharing.learn(tree, (*path, "evaluations", place))

    def _remember(self, result: EvalResult) -> ResultTexts | None:
        """Return the texts of a result that is only a score, and short; None for any other."""
        score, threshold, success = result.score, result.threshold, result.success
        # Equal values of other types are other texts: 1, 1.0 and True, and -0.0 as well.
        if (
            type(score) is not float
            or type(threshold) not in _THRESHOLDS
            or type(success) not in _VERDICTS
            or result.fail_on_error is not True
            or type(result.metadata) is not dict
            or _has_more(result)
        ):
            return None
        signature = (result.name, score or str(score), threshold or str(threshold), success, result.reason)
        texts = self._remembered.get(signature)
        if texts is None and (texts := _texts_of_short(result)) is not None:
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered[signature] = texts
        return texts


def _summarize_results(
    results: Sequence[EvalResult], texts: Sequence[ResultTexts | None], trees: dict[int, JsonValue]
) -> str:
    """Return the results of an item, without brackets; `trees` gets those that are not remembered."""
    written = []
    for place, (result, known) in enumerate(zip(results, texts, strict=True)):
        if known is None:
            trees[place] = summarize_result(result)
            written.append(compact_json(trees[place]))
        else:
            written.append(known.summary)
    return ",".join(written)


def summarize_result(result: EvalResult) -> dict[str, JsonValue]:
    """Return a result as an item of one repeat shows it; one of several repeats takes five times as long."""
    tree: dict[str, JsonValue] = {
        "evaluator": result.name,
        "averageScore": None if result.score is None else _round_score(result.score),
        "score": result.score,
    }
    if result.threshold is not None:
        tree["threshold"] = result.threshold
    tree["success"] = False if result.fails_item else (True if result.success else None)
    members = (
        ("label", result.label),
        ("reason", result.reason),
        ("error", result.error),
        ("errorKind", result.error_kind),
        ("errorDetail", jsonable(result.error_detail)),
        ("skipped", result.skipped),
    )
    for name, content in members:
        if content is not None and content != "":
            tree[name] = content
    return tree


def _has_more(result: EvalResult) -> bool:
    """Say whether a result has any other field than a score has with its reason and its verdict."""
    # One after another: to get all at once takes twice as long, and this runs for each score of a report.
    return bool(
        result.metadata
        or result.metrics is not None
        or result.error is not None
        or result.skipped is not None
        or result.decides is not None
        or result.score_range is not None
        or result.error_kind is not None
        or result.error_detail is not None
        or result.label is not None
        or result.part_of is not None
        or result.parts != ()
    )


def order_results(item: ItemResult, names: list[str]) -> Sequence[EvalResult]:
    """Return the results of an item in the order of the evaluators, the first one of each name."""
    if [each.name for each in item.eval_results] == names:
        return item.eval_results
    by_name = {each.name: each for each in reversed(item.eval_results)}
    return [by_name[name] for name in names if name in by_name]


def may_be_cut(text: str, depth: int) -> bool:
    """Say whether a value may be nested so deep, or in itself, that `jsonable` cuts it where it stands."""
    return '"..."' in text or text.count("{") + text.count("[") > depth


def _has_half_pair(json_text: str) -> bool:
    # A single character is found 20 times faster than several, and most texts have none of these.
    return ("\\" in json_text or not json_text.isascii()) and HALF_PAIR in with_escapes(json_text)


def _is_answered(item: ItemResult) -> bool:
    """Say whether there is no error, neither of the task nor of an evaluator."""
    return (
        item.error is None
        and item.error_detail is None
        and all([result.error is None for result in item.eval_results])
    )


def _texts_of_short(result: EvalResult) -> ResultTexts | None:
    try:
        texts = ResultTexts(compact_json(summarize_result(result)), _write_result(result))
    except ValueError:  # a number that JSON does not have
        return None
    is_short = len(result.name) < SHARED_FROM_LENGTH and len(result.reason) < SHARED_FROM_LENGTH
    return texts if is_short and texts.whole.isascii() and not may_be_cut(texts.whole, 1) else None


@lru_cache(maxsize=1024, typed=True)
def _round_score(score: float) -> float:
    return round_half_up(exact_mean([score]))


def _quote(text: str | None) -> str:
    return "null" if text is None else quote(text)
