import marshal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos import CallMetrics
from dokimos._core.jsonable import jsonable
from dokimos._core.wire import from_json
from dokimos.datasets._fingerprint import _sort_tree
from dokimos.datasets._row_metrics import order_metrics, read_metrics
from dokimos.errors import TypeConversionError

NAMES = st.sampled_from(["tokensIn", "tokens_in", "tokensOut", "costUsd", "latencyMs", "model", "other"])
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["gpt", "ü", "\ud800", "12", float("inf"), 10**400, -0.0, [], {}]),
)


def _outcome(read, tree):
    try:
        return repr(read(tree))
    except TypeConversionError as error:
        return str(error)


@given(st.one_of(VALUES, st.dictionaries(NAMES, VALUES, max_size=4)))
def test_metrics_are_read_as_from_json_reads_them(tree):
    assert _outcome(read_metrics, tree) == _outcome(lambda tree: from_json(CallMetrics, tree), tree)


@given(st.dictionaries(st.sampled_from(["tokensIn", "costUsd", "model", "cachedTokensIn"]), VALUES))
def test_metrics_are_ordered_as_their_tree_is(tree):
    try:
        metrics = from_json(CallMetrics, tree)
    except TypeConversionError:
        return
    assert marshal.dumps(order_metrics(metrics), 2) == marshal.dumps(_sort_tree(jsonable(metrics)), 2)


def test_usual_metrics_are_read_without_pydantic(monkeypatch):
    monkeypatch.setattr("dokimos._core.wire.adapter", lambda kind: pytest.fail("pydantic was asked"))
    metrics = read_metrics({"tokensIn": 3, "costUsd": 0.5, "model": "gpt"})
    assert metrics == CallMetrics(3, cost_usd=0.5, model="gpt")
    assert type(metrics) is CallMetrics
