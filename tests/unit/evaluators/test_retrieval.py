from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass
from typing import Any

import pytest

from dokimos._core.contexts import NAMES
from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError
from dokimos.evaluators._retrieval.matching import (
    all_of,
    any_of,
    as_strategy,
    by_field,
    by_fields,
    by_identifier,
    containment,
    equality,
    ignore_case,
)
from dokimos.evaluators._retrieval.ranking_metrics import MRR, NDCG, HitRate, Precision, Recall


def result(kind: type, retrieved: Any, relevant: Any, **options: Any):
    case = EvalTestCase({}, {"retrieved": retrieved}, expected_outputs={"relevant": relevant})
    return kind(**options).evaluate(case)


def score(kind: type, retrieved: Any, relevant: Any, **options: Any) -> float | None:
    found = result(kind, retrieved, relevant, **options)
    assert found.error is None
    return found.score


class TestPrecision:
    @pytest.mark.parametrize(
        ("retrieved", "relevant", "options", "value"),
        [
            (["a", "b"], ["a", "b", "c"], {}, 1.0),
            (["a", "x"], ["a"], {}, 0.5),
            (["a", "a", "x"], ["a"], {}, 0.5),
            (["x"], ["a"], {}, 0.0),
            ([], ["a"], {}, 1.0),
            ([], [], {}, 1.0),
            (["x"], [], {}, 0.0),
            ("a", "a", {}, 1.0),
            (["a", "x", "y"], ["a"], {"k": 1}, 1.0),
            ([1], [True], {}, 0.0),
            ([1], [1.0], {}, 1.0),
        ],
    )
    def test_scores(self, retrieved, relevant, options, value):
        assert score(Precision, retrieved, relevant, **options) == pytest.approx(value)

    def test_reasons_and_metadata(self):
        found = result(Precision, ["a", "a", "x"], ["a", "b"])
        assert found.reason == "1 of 2 retrieved items are relevant (1 not: 'x')."
        assert found.metadata == {"retrieved": 2, "relevant": 2, "truePositives": 1}
        assert "perfect precision" in result(Precision, ["a"], ["a"]).reason
        assert "No retrieved item" in result(Precision, ["x"], ["a"]).reason
        assert "by convention" in result(Precision, [], ["a"]).reason


class TestRecall:
    @pytest.mark.parametrize(
        ("retrieved", "relevant", "options", "value"),
        [
            (["a", "b", "x"], ["a", "b"], {}, 1.0),
            (["a"], ["a", "b"], {}, 0.5),
            (["a"], ["a", "a", "b"], {}, 0.5),
            ([], ["a"], {}, 0.0),
            (["a"], [], {}, 1.0),
            (["x", "a"], ["a"], {"k": 1}, 0.0),
            (["a"], {"a": 2, "b": 1, "c": 0}, {}, 0.5),
        ],
    )
    def test_scores(self, retrieved, relevant, options, value):
        assert score(Recall, retrieved, relevant, **options) == pytest.approx(value)

    def test_reasons_and_metadata(self):
        found = result(Recall, ["a", "x", "x"], ["a", "b", "c"])
        assert found.reason == "Found 1 of 3 relevant items (2 missed: 'b', 'c')."
        assert found.metadata == {"retrieved": 3, "relevant": 3, "truePositives": 1}
        assert "perfect recall" in result(Recall, ["a"], ["a"]).reason


class TestRanks:
    @pytest.mark.parametrize(
        ("retrieved", "options", "hit", "reciprocal"),
        [
            (["a", "x"], {}, 1.0, 1.0),
            (["x", "y", "b"], {}, 1.0, 1 / 3),
            (["x", "x", "b"], {}, 1.0, 1 / 3),
            (["x", "y", "b"], {"k": 2}, 0.0, 0.0),
            (["x"], {}, 0.0, 0.0),
            ([], {}, 0.0, 0.0),
        ],
    )
    def test_hit_rate_and_reciprocal_rank(self, retrieved, options, hit, reciprocal):
        assert score(HitRate, retrieved, ["a", "b"], **options) == hit
        assert score(MRR, retrieved, ["a", "b"], **options) == pytest.approx(reciprocal)

    def test_the_reason_names_the_item_and_its_rank(self):
        found = result(MRR, ["x", "x", "b"], ["b"])
        assert found.reason == "The first relevant item, 'b', is at rank 3."
        assert found.metadata == {"rank": 3}

    @pytest.mark.parametrize("kind", [Recall, HitRate, MRR, NDCG])
    def test_where_nothing_is_relevant_there_is_nothing_to_miss(self, kind):
        assert score(kind, ["x"], []) == 1.0


class TestNdcg:
    @pytest.mark.parametrize(
        ("retrieved", "relevant", "options", "value"),
        [
            (["a", "b"], ["a", "b"], {}, 1.0),
            (["x", "a"], ["a"], {}, 1 / math.log2(3)),
            (["a", "x", "b"], ["a", "b"], {}, (1 + 1 / 2) / (1 + 1 / math.log2(3))),
            (["a", "a", "b"], ["a", "b"], {}, (1 + 1 / 2) / (1 + 1 / math.log2(3))),
            (["a"], ["a", "b"], {"k": 1}, 1.0),
            (["x"], ["a"], {}, 0.0),
            (["b", "a"], {"a": 3, "b": 1}, {}, (1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3))),
            (["a", "b"], {"a": 3, "b": 1, "c": 0}, {}, 1.0),
        ],
    )
    def test_scores(self, retrieved, relevant, options, value):
        assert score(NDCG, retrieved, relevant, **options) == pytest.approx(value)

    def test_no_relevant_item_is_credited_twice(self):
        assert score(NDCG, ["a", "A"], ["a", "b"], matching="ignore_case") == pytest.approx(
            1 / (1 + 1 / math.log2(3))
        )

    @pytest.mark.parametrize("gain", [-1, float("nan"), float("inf")])
    def test_a_gain_that_makes_no_sense_is_an_error(self, gain):
        assert "The gain of 'a'" in (result(NDCG, ["a"], {"a": gain}).error or "")


TRIPLE = {"subject": "Bill Gates", "predicate": "founded", "object": "Microsoft"}


class TestMatching:
    @pytest.mark.parametrize(
        ("strategy", "retrieved", "relevant", "matches"),
        [
            (equality, {"a": 1}, {"a": 1.0}, True),
            (equality, {"a": 1}, {"a": True}, False),
            (equality, "a", "A", False),
            (ignore_case, "Straße", "STRASSE", True),
            (ignore_case, 1, 1.0, True),
            (by_field("id"), {"id": 1, "x": 2}, {"id": 1}, True),
            (by_field("id"), {"id": "a"}, "a", True),
            (by_field("id"), {"x": 1}, {"x": 1}, False),
            (by_field("id"), {"id": None}, {"id": None}, False),
            (by_fields("subject", "object"), {**TRIPLE, "predicate": "left"}, TRIPLE, True),
            (by_fields("subject", "object"), {"subject": "Bill Gates"}, {"subject": "Bill Gates"}, False),
            (by_fields("subject"), "x", "x", True),
            (by_identifier(lambda item: item["n"] % 10), {"n": 13}, {"n": 3}, True),
            (by_identifier(lambda item: None), 1, 1, False),
            (containment(), "The  Cat sat", "the cat", True),
            (containment(), "cat", "THE CAT SAT", True),
            (containment(normalize=False), "The Cat", "the cat", False),
            (containment(), "", "cat", False),
            (containment(), "", "", True),
            (containment(), " ", "", True),
            (any_of("ignore_case", by_field("id")), "A", "a", True),
            (any_of(), "a", "a", False),
            (all_of(), "a", "b", True),
            (all_of("containment", lambda a, b: len(a) == len(b)), "cats", "cat", False),
        ],
    )
    def test_strategies(self, strategy, retrieved, relevant, matches):
        assert strategy(retrieved, relevant) is matches

    @pytest.mark.parametrize(
        "data",
        [
            "ignore_case",
            {"field": "id"},
            {"fields": ["id", "page"]},
            {"any_of": ["equality", {"field": "id"}]},
            {"all_of": [{"any_of": ["containment"]}]},
        ],
    )
    def test_data_forms_are_strategies(self, data):
        assert callable(as_strategy(data))

    @pytest.mark.parametrize(
        "data", ["same", {"field": 1}, {"field": ""}, {"fields": []}, {"field": "a", "k": 1}, 3, {}]
    )
    def test_other_data_is_refused(self, data):
        with pytest.raises(ConfigurationError, match=r"matching|by_fields"):
            Recall(matching=data)

    def test_field_matching_takes_one_map_for_one_item(self):
        assert score(Recall, [{"id": 7, "text": "x"}], {"id": 7}, matching={"field": "id"}) == 1.0

    def test_an_object_that_is_callable_and_not_hashable_is_a_strategy(self):
        @dataclass
        class SamePrefix:
            length: int

            def __call__(self, retrieved: str, relevant: str) -> bool:
                return retrieved[: self.length] == relevant[: self.length]

        assert score(Recall, ["doc-1b"], ["doc-1a"], matching=SamePrefix(5)) == 1.0

    def test_a_strategy_that_matches_many_never_exceeds_1(self):
        def always(retrieved: Any, relevant: Any) -> bool:
            return True

        for kind in (Precision, Recall, HitRate, MRR, NDCG):
            assert score(kind, ["x", "y", "z"], ["a", "b"], matching=always) == 1.0

    @pytest.mark.parametrize("kind", [Precision, Recall, HitRate, MRR, NDCG])
    async def test_async_strategies_give_the_same_scores(self, kind):
        async def same(retrieved: Any, relevant: Any) -> bool:
            await asyncio.sleep(0)
            return bool(retrieved == relevant)

        retrieved, relevant = ["x", "a", "a", "b"], ["a", "b", "c"]
        case = EvalTestCase({}, {"retrieved": retrieved}, expected_outputs={"relevant": relevant})
        for matching in (same, any_of(same, "equality")):
            evaluator = kind(matching=matching)
            assert evaluator.is_async
            assert (await evaluator.evaluate_async(case)).score == score(kind, retrieved, relevant)
        assert not kind().is_async

    def test_an_async_strategy_works_from_sync_code_and_its_failure_is_an_error(self):
        async def broken(retrieved: Any, relevant: Any) -> bool:
            raise RuntimeError("no judge")

        assert result(Recall, ["a", "b"], ["a"], matching=broken).error == "RuntimeError: no judge"


@pytest.mark.parametrize("kind", [Precision, Recall, HitRate, MRR, NDCG])
def test_a_missing_key_is_an_error_that_names_it(kind):
    evaluator = kind(contexts_key="docs", expected_key="gold")
    assert "requires contexts under 'docs'; the case has: nothing" in (
        evaluator.evaluate(EvalTestCase()).error or ""
    )
    case = EvalTestCase({}, {"docs": []})
    assert "the relevant items under 'gold' in the expected outputs; the case has: outputs.docs" in (
        evaluator.evaluate(case).error or ""
    )


@pytest.mark.parametrize("k", [0, -1, 1.5, True])
def test_k_must_be_a_whole_number_of_at_least_1(k):
    with pytest.raises(ConfigurationError, match="k must be a whole number"):
        Recall(k=k)


def test_long_lists_take_no_pairwise_comparison():
    items = [{"id": i} for i in range(5_000)]
    start = time.process_time()
    assert score(Recall, items, items, matching={"field": "id"}) == 1.0
    assert time.process_time() - start < 10


DOCUMENTS = [
    {"id": "refunds", "text": "Goods can be returned within 30 days.", "score": 0.9},
    {"id": "shipping", "text": "Shipping takes 5 days.", "score": 0.4},
]


class TestContexts:
    @pytest.mark.parametrize("name", sorted(NAMES))
    def test_every_name_of_contexts_is_understood(self, name):
        case = EvalTestCase({}, {name: ["a", "b"]}, expected_outputs={"relevant": ["a"]})

        assert Precision().evaluate(case).score == 0.5

    def test_ids_come_before_texts_where_both_are_given(self):
        outputs = {"contexts": ["some text", "other text"], "retrieved": ["a", "b"]}

        assert Recall().evaluate(EvalTestCase({}, outputs, expected_outputs={"relevant": ["b"]})).score == 1

    @pytest.mark.parametrize(
        ("relevant", "matching", "score"),
        [
            (["refunds"], "equality", 0.5),
            (["REFUNDS"], "ignore_case", 0.5),
            (["Shipping takes 5 days."], "equality", 0.5),
            (["warranty"], "equality", 0.0),
            (["within 30 days"], "containment", 0.5),
            (["refunds", "Shipping takes 5 days."], "equality", 1.0),
            ({"refunds": 2, "shipping": 0}, "equality", 0.5),
            (["refunds"], {"field": "id"}, 0.5),
            ([DOCUMENTS[0]], "equality", 0.5),
            (["Within 30 days"], any_of("ignore_case", "containment"), 0.5),
        ],
    )
    def test_documents_are_compared_by_their_id_or_their_text(self, relevant, matching, score):
        case = EvalTestCase({}, {"contexts": DOCUMENTS}, expected_outputs={"relevant": relevant})

        assert Precision(matching=matching).evaluate(case).score == score

    def test_chunks_of_one_document_count_once(self):
        chunks = [{"id": "refunds", "text": f"part {n}"} for n in range(3)]
        case = EvalTestCase({}, {"contexts": chunks}, expected_outputs={"relevant": ["refunds"]})

        assert [kind().evaluate(case).score for kind in (Precision, Recall, MRR, NDCG)] == [1, 1, 1, 1]

    @pytest.mark.parametrize("relevant", [["a"], "a", '["a"]'])
    def test_relevant_items_may_be_a_column_of_the_data_set(self, relevant):
        case = EvalTestCase({}, {"contexts": ["b", "a"]}, metadata={"relevant": relevant})

        assert MRR().evaluate(case).score == 0.5

    def test_an_empty_list_is_data(self):
        case = EvalTestCase({}, {"contexts": []}, expected_outputs={"relevant": ["a"]})

        assert (Recall().evaluate(case).score, Recall().evaluate(case).error) == (0, None)

    def test_a_function_of_the_users_own_gets_the_documents(self):
        case = EvalTestCase({}, {"contexts": DOCUMENTS}, expected_outputs={"relevant": [0.9]})

        assert Precision(matching=lambda found, score: found["score"] == score).evaluate(case).score == 0.5
