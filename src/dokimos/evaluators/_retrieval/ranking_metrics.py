"""How good a retriever's findings are, given the items that are relevant.

All five read what was retrieved, ids or contexts, and the relevant items from the expected outputs, else from
a column of the data set; a single value stands for a list of it. The relevant items may be graded: a map of
item to gain, of which those with a gain above 0 are relevant. Where nothing is relevant, there is nothing to
miss and the score is 1 (of precision, only where nothing was retrieved either).
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, cast

from dokimos._core.contexts import OF_RANKINGS, items_of
from dokimos._core.keys import RELEVANT, RETRIEVED
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import format_list, pluralize, quote
from dokimos.errors import ConfigurationError, EvaluationError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._case_parts import relevant_items
from dokimos.evaluators._missing_parts import missing_part
from dokimos.evaluators._retrieval.findings import (
    Findings,
    RelevantItems,
    build_findings,
    deduplicate,
    find_hits,
    find_hits_async,
)
from dokimos.evaluators._retrieval.matching import (
    MATCHING_SCHEMA,
    Matching,
    Strategy,
    as_strategy,
    asks_judge,
    compares_fields,
    is_async,
)
from dokimos.evaluators._retrieval.retrieved_items import comparable_items
from dokimos.evaluators._setting_checks import check_text, check_whole


@dataclass(frozen=True, kw_only=True)
class RetrievalEvaluator(Evaluator):
    """The base of the retrieval metrics: reads the items and matches them; a metric only computes."""

    judge_calls = "0; with an `llm` matching, at most 1 for each retrieved item and each relevant one"

    requires: ClassVar[tuple[str, ...]] = (RETRIEVED, RELEVANT)

    contexts_key: str | None = None
    """The key of the retrieved items, best first, in the outputs, the metadata or the inputs, where it is not
    one of the usual names of contexts."""
    expected_key: str = RELEVANT
    """The key of the relevant items in the expected outputs or the metadata."""
    k: int | None = None
    """Look at the first k retrieved items only."""
    matching: Matching = field(default="equality", metadata={"json_schema": MATCHING_SCHEMA})
    """How to tell that a retrieved item is a relevant one: "equality", "ignore_case", "containment" (either
    contains the other), {"field": NAME}, {"fields": [NAME, ...]}, {"llm": MODEL}, {"any_of": [...]},
    {"all_of": [...]}, or in code any function of (retrieved, relevant), sync or async."""
    threshold: float | None = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.contexts_key is not None:
            check_text(self, "contexts_key", self.contexts_key)
        check_text(self, "expected_key", self.expected_key)
        if self.k is not None:
            check_whole(self, "k", self.k, least=1)
        retrieved = RETRIEVED if self.contexts_key is None else f"{RETRIEVED}.{self.contexts_key}"
        relevant = RELEVANT if self.expected_key == RELEVANT else f"{RELEVANT}.{self.expected_key}"
        object.__setattr__(self, "requires", (retrieved, relevant))
        object.__setattr__(self, "is_async", is_async(self._strategy))
        object.__setattr__(self, "deterministic", not asks_judge(self._strategy))

    def score(self, case: EvalTestCase) -> Score | Awaitable[Score]:
        """Match the items, and compute; the result must be awaited where the strategy is async."""
        graded = self._read_relevant(relevant_items(case, self.expected_key))
        retrieved = self._read_retrieved(case, graded.items)[: self.k]
        distinct = deduplicate(retrieved)
        if self.is_async:
            return self._score_async(retrieved, distinct, graded)
        hits = find_hits(self._strategy, list(distinct.values()), list(graded.items))
        return self.compute(build_findings(retrieved, distinct, graded, hits))

    def compute(self, found: Findings) -> Score:
        """Score what was found."""
        raise NotImplementedError(f"{type(self).__name__} must implement compute(found).")

    async def _score_async(
        self, retrieved: Sequence[Any], distinct: Mapping[int, Any], graded: RelevantItems
    ) -> Score:
        hits = await find_hits_async(self._strategy, list(distinct.values()), list(graded.items))
        return self.compute(build_findings(retrieved, distinct, graded, hits))

    @cached_property
    def _strategy(self) -> Strategy:
        try:
            return as_strategy(self.matching)
        except ConfigurationError as error:
            raise ConfigurationError(f"{type(self).__name__}: {error}") from None

    def _read_retrieved(self, case: EvalTestCase, relevant: Sequence[Any]) -> list[Any]:
        names = OF_RANKINGS if self.contexts_key is None else (self.contexts_key,)
        contexts = case.find_contexts(names, texts=False)
        if contexts is None:
            raise missing_part(self.name, self.requires[0], case)
        items = [contexts.value] if isinstance(contexts.value, int | float) else items_of(contexts)
        return comparable_items(items, relevant, self._strategy)

    def _read_relevant(self, value: object) -> RelevantItems:
        strategy = self._strategy
        # A map of numbers grades items by id. Where fields are compared, a single document may look the same.
        if isinstance(value, Mapping) and not compares_fields(strategy) and _are_gains(value.values()):
            _check_gains(value, self.expected_key)
            relevant = {item: float(gain) for item, gain in value.items() if gain > 0}
            return RelevantItems(len(relevant), tuple(relevant), tuple(relevant.values()))
        items = _items(value)
        distinct = tuple(deduplicate(items).values())
        return RelevantItems(len(items), distinct, (1.0,) * len(distinct))


@dataclass(frozen=True, kw_only=True)
class Precision(RetrievalEvaluator):
    """Share of the retrieved items, each counted once, that are relevant; 1 when nothing was retrieved.

    Example:
        >>> retrieved, relevant = {"contexts": ["d3", "d1", "d7"]}, {"relevant": ["d1", "d2"]}
        >>> case = EvalTestCase({}, retrieved, expected_outputs=relevant)
        >>> round(Precision().evaluate(case).score, 3)
        0.333
    """

    method_source = 'Set-based precision: van Rijsbergen, "Information Retrieval" (1979).'
    default_name = "Precision"

    def compute(self, found: Findings) -> Score:
        total = len(found.retrieved)
        if not total:
            return Score(
                1.0, "Nothing was retrieved: precision is 1 by convention.", metadata=_counts(0, found, 0)
            )
        wrong = [item for item, hits in zip(found.retrieved, found.hits, strict=True) if not hits]
        right = total - len(wrong)
        return Score(right / total, _precision_reason(right, wrong), metadata=_counts(total, found, right))


@dataclass(frozen=True, kw_only=True)
class Recall(RetrievalEvaluator):
    """Share of the relevant items, each counted once, that were retrieved; 1 when nothing is relevant.

    Example:
        >>> retrieved, relevant = {"contexts": ["d3", "d1", "d7"]}, {"relevant": ["d1", "d2"]}
        >>> case = EvalTestCase({}, retrieved, expected_outputs=relevant)
        >>> Recall().evaluate(case).score
        0.5
    """

    method_source = 'Set-based recall: van Rijsbergen, "Information Retrieval" (1979).'
    default_name = "Recall"

    def compute(self, found: Findings) -> Score:
        total = len(found.relevant)
        covered = frozenset().union(*found.hits)
        metadata = {"retrieved": found.retrieved_count, "relevant": total, "truePositives": len(covered)}
        if not total:
            return Score(1.0, "Nothing is relevant: recall is 1 by convention.", metadata=metadata)
        missed = [item for index, item in enumerate(found.relevant) if index not in covered]
        return Score(len(covered) / total, _recall_reason(total, missed), metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class HitRate(RetrievalEvaluator):
    """1 if any relevant item was retrieved, else 0; averaged over a data set it is the hit rate.

    Example:
        >>> retrieved, relevant = {"contexts": ["d3", "d1", "d7"]}, {"relevant": ["d1", "d2"]}
        >>> case = EvalTestCase({}, retrieved, expected_outputs=relevant)
        >>> HitRate(k=1).evaluate(case).score
        0.0
    """

    method_source = "The usual success at k of information retrieval."
    default_name = "Hit Rate"

    def compute(self, found: Findings) -> Score:
        rank = _first_hit(found)
        metadata = {"rank": rank}
        if not found.relevant:
            return Score(1.0, "Nothing is relevant: the hit rate is 1 by convention.", metadata=metadata)
        return Score(float(rank is not None), _first_hit_reason(found, rank), metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class MRR(RetrievalEvaluator):
    """1 over the rank of the first relevant item, 0 without one; its average is the mean reciprocal rank.

    Voorhees, "The TREC-8 question answering track report" (1999).

    Example:
        >>> retrieved, relevant = {"contexts": ["d3", "d1", "d7"]}, {"relevant": ["d1", "d2"]}
        >>> case = EvalTestCase({}, retrieved, expected_outputs=relevant)
        >>> MRR().evaluate(case).score
        0.5
    """

    method_source = 'Voorhees, "The TREC-8 question answering track report" (1999).'
    default_name = "MRR"

    def compute(self, found: Findings) -> Score:
        rank = _first_hit(found)
        metadata = {"rank": rank}
        if not found.relevant:
            return Score(
                1.0, "Nothing is relevant: the reciprocal rank is 1 by convention.", metadata=metadata
            )
        return Score(1.0 / rank if rank else 0.0, _first_hit_reason(found, rank), metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class NDCG(RetrievalEvaluator):
    """Normalised discounted cumulative gain: the gain at rank i over log2(i + 1), summed, over the best sum.

    Gains count as they are (not 2^gain - 1); each relevant item is credited once, at the first rank that
    matches it. Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques" (2002).

    Example:
        >>> retrieved, relevant = {"contexts": ["d3", "d1", "d7"]}, {"relevant": ["d1", "d2"]}
        >>> case = EvalTestCase({}, retrieved, expected_outputs=relevant)
        >>> round(NDCG().evaluate(case).score, 3)
        0.387
    """

    method_source = 'Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques" (2002).'
    default_name = "NDCG"

    def compute(self, found: Findings) -> Score:
        if not found.relevant:
            return Score(1.0, "Nothing is relevant: NDCG is 1 by convention.")
        # The ideal ranking is cut at k as well, or a perfect one of k items could not reach 1.
        best = sorted(found.gains, reverse=True)[: self.k]
        ideal = _sum_discounted(best, range(1, len(best) + 1))
        actual = _sum_discounted(_credit_gains(found), found.ranks)
        value = min(1.0, actual / ideal)
        where = f"within the first {self.k}" if self.k else "in all"
        hit_count = pluralize(sum(map(bool, found.hits)), "relevant item")
        reason = (
            f"The ranking gains {actual:.3f} of the {ideal:.3f} of the best one: "
            f"{hit_count} of {len(found.relevant)} {where}."
        )
        return Score(value, reason, metadata={"dcg": actual, "idealDcg": ideal})


def _items(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple | Set) else [value]


def _are_gains(values: Any) -> bool:
    gains = list(values)
    return bool(gains) and all(isinstance(g, int | float) and not isinstance(g, bool) for g in gains)


def _check_gains(gains: Mapping[Any, float], key: str) -> None:
    for item, gain in gains.items():
        if not math.isfinite(gain) or gain < 0:
            raise EvaluationError(
                f"The gain of {quote(item)} in {key!r} must be finite and not below 0, not {gain}."
            )


def _first_hit(findings: Findings) -> int | None:
    return next((rank for rank, hits in zip(findings.ranks, findings.hits, strict=True) if hits), None)


def _credit_gains(findings: Findings) -> list[float]:
    """The gain of each retrieved item: that of the best relevant one it matches that none before it did."""
    credited: set[int] = set()
    gains = []
    for hits in findings.hits:
        # Each relevant item once: duplicates at several ranks must not gain twice.
        best = max(hits - credited, key=lambda j: (findings.gains[j], -j), default=None)
        gains.append(0.0 if best is None else findings.gains[best])
        if best is not None:
            credited.add(best)
    return gains


def _sum_discounted(gains: Sequence[float], ranks: Sequence[int]) -> float:
    return math.fsum(gain / math.log2(rank + 1) for gain, rank in zip(gains, ranks, strict=True))


def _counts(retrieved: int, findings: Findings, right: int) -> dict[str, Any]:
    return {"retrieved": retrieved, "relevant": findings.relevant_count, "truePositives": right}


def _precision_reason(right: int, wrong: Sequence[Any]) -> str:
    total = right + len(wrong)
    if not wrong:
        return f"Everything retrieved ({pluralize(total, 'item')}) is relevant: perfect precision."
    if not right:
        return f"{_none_of(total, 'retrieved')} is relevant: {format_list(tuple(wrong))}."
    return f"{right} of {total} retrieved items are relevant ({len(wrong)} not: {format_list(tuple(wrong))})."


def _recall_reason(total: int, missed: Sequence[Any]) -> str:
    if not missed:
        return f"Everything relevant ({pluralize(total, 'item')}) was retrieved: perfect recall."
    if len(missed) == total:
        return f"{_none_of(total, 'relevant')} was retrieved: {format_list(tuple(missed))}."
    retrieved = total - len(missed)
    return (
        f"Found {retrieved} of {total} relevant items ({len(missed)} missed: {format_list(tuple(missed))})."
    )


def _first_hit_reason(findings: Findings, rank: int | None) -> str:
    if rank is not None:
        item = cast("Any", findings.retrieved[findings.ranks.index(rank)])
        return f"The first relevant item, {quote(item)}, is at rank {rank}."
    return f"{_none_of(findings.retrieved_count, 'retrieved')} is relevant."


def _none_of(count: int, kind: str) -> str:
    return f"No {kind} item" if count == 1 else f"None of the {count} {kind} items"
