"""Plain items are written without a tree, and as the general way writes them."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos import CallMetrics, EvalResult, Example, ExperimentResult, render
from dokimos._core.results import ItemResult, RunResult
from dokimos.exporters import _plain_items
from dokimos.exporters._item_runs import items_of
from dokimos.exporters._plain_items import PlainItems
from dokimos.exporters._shared_texts import SHARED_FROM_LENGTH, TextSharing

LONG = "a" * SHARED_FROM_LENGTH

texts = st.sampled_from(
    ["", "short", "...", '{"$text": 1}', LONG, f"[{LONG}", "é\x7f\u202e", "\ud83d\ude00 \ud83d", "\\ud"]
)
values = texts | st.sampled_from([None, 1, True, [], {"a": LONG}, {"$text": ["items"]}, math.nan])
maps = st.dictionaries(st.sampled_from(["input", "output", "$text", LONG]), values, max_size=2)
scores = st.builds(
    EvalResult,
    st.sampled_from(["Judge", "Match", "Gleich ✓", LONG]),
    st.sampled_from([0.0, -0.0, 1.0, 0.123456789, 0, 1, True, None]),
    threshold=st.sampled_from([None, 0.0, -0.0, 0, 1, 1.0, True, math.nan, math.inf]),
    success=st.sampled_from([None, True, False]),
    reason=texts,
    metadata=st.just({}) | maps,
    metrics=st.sampled_from([None, CallMetrics(1, 2, model=LONG)]),
    error=st.none() | st.just("E: broke"),
    skipped=st.none() | texts,
    fail_on_error=st.booleans(),
    label=st.none() | texts,
)
items = st.builds(
    ItemResult,
    st.integers(0, 3),
    st.builds(Example, maps, maps, metadata=st.just({}) | maps, id=st.none() | texts),
    actual_outputs=maps,
    eval_results=st.lists(scores, max_size=3).map(tuple),
    metrics=st.sampled_from([None, CallMetrics(latency_ms=1e-7), CallMetrics(1, model=LONG)]),
    error=st.none() | st.just("E: broke"),
)


@given(st.lists(items, min_size=1, max_size=3))
def test_plain_items_are_written_as_any_other(items):
    result = result_of(*items)

    assert render(result, "json") == render_in_general(result)


@given(st.lists(items, min_size=1, max_size=3), st.permutations(range(6)), st.booleans())
def test_items_with_the_same_results_are_written_as_any_other(drawn, order, are_sorted):
    """What they have in common is written once more as it was, whatever the order of the items."""
    twice = [*drawn, *(replace(item, index=item.index + 4) for item in drawn)]
    shuffled = [twice[place] for place in order if place < len(twice)]
    result = result_of(*(sorted(shuffled, key=lambda item: item.index) if are_sorted else shuffled))

    assert render(result, "json") == render_in_general(result)


def test_what_the_first_part_of_a_report_has_of_an_item_is_written_again_in_the_second(monkeypatch):
    items = [ItemResult(n, Example.of(f"q{n}"), eval_results=(make_pass(),)) for n in range(5)]
    result = result_of(*items)
    writer = PlainItems(result, TextSharing())
    for item in items_of(result):
        writer.summarize(item, ("items", item.index))
    monkeypatch.setattr(PlainItems, "_remember", lambda *_: None)

    written = [writer.write(item) for item in items[1:]]  # the first one was not yet known to repeat

    assert [json.loads(text)["evalResults"][0]["name"] for text in written] == ["Match"] * 4
    assert not writer._ready


@pytest.mark.parametrize(
    ("first", "second"),
    [(1.0, 1), (1, 1.0), (0.0, -0.0), (-0.0, 0.0), (1.0, True), (0.0, False)],
)
@pytest.mark.parametrize("field", ["score", "threshold"])
def test_equal_numbers_of_other_types_are_told_apart(field, first, second):
    results = [EvalResult("Match", **{"score": 1.0, field: number}) for number in (first, second)]
    items = [ItemResult(place, Example.of("q"), eval_results=(each,)) for place, each in enumerate(results)]

    document = json.loads(render(result_of(*items), "json"))

    written = [item["evaluations"][0][field] for item in document["items"]]
    whole = [item["evalResults"][0][field] for item in document["result"]["runs"][0]["itemResults"]]
    assert repr(written) == repr(whole) == repr([first, second])


def test_an_item_with_scores_and_reasons_is_plain_and_one_with_an_error_is_not():
    plain = ItemResult(0, Example.of("q", "a"), actual_outputs={"output": "a"}, eval_results=(make_pass(),))
    erring = ItemResult(1, Example.of("q"), error="E: broke", eval_results=(make_pass(),))
    result = result_of(plain, erring)
    writer = PlainItems(result, TextSharing())

    summaries = [writer.summarize(item, ("items", item.index)) for item in items_of(result)]

    assert [text is None for text in summaries] == [False, True]
    assert [writer.write(item) is None for item in (plain, erring)] == [False, True]


def test_remembered_results_are_bounded(monkeypatch):
    monkeypatch.setattr(_plain_items, "MAX_REMEMBERED", 3)
    items = [ItemResult(n, Example.of("q"), eval_results=(make_pass(reason=f"{n}"),)) for n in range(10)]
    result = result_of(*items)
    writer = PlainItems(result, TextSharing())

    for item, runs in zip(items, items_of(result), strict=True):
        writer.summarize(runs, ("items", item.index))
        writer.write(item)
        assert len(writer._remembered) <= 3
        assert len(writer._joined) <= 3

    assert render(result, "json") == render_in_general(result)


def make_pass(reason="The output is the expected one."):
    return EvalResult("Match", 1.0, threshold=1.0, success=True, reason=reason)


def result_of(*items):
    return ExperimentResult(runs=(RunResult(item_results=items),))


def render_in_general(result):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlainItems, "summarize", lambda *_: None)
        patch.setattr(PlainItems, "write", lambda *_: None)
        return render(result, "json")
