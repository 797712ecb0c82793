"""The JSON of results in the journal is that of `wire_json`, whichever way it is written."""

from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos import CallMetrics, EvalResult
from dokimos._core.error_detail import ErrorDetail
from dokimos._core.jsonable import wire_json
from dokimos.experiment import _result_json
from dokimos.experiment._result_json import ResultJson

USUAL = EvalResult("A", 0.25, threshold=0.5, success=False, reason="One of four.")

OTHER_VALUES: dict[str, Any] = {
    "name": 'B "quoted" é',
    "score": 1.0,
    "threshold": None,
    "success": True,
    "reason": "Größe\n\ud800",
    "metadata": {"claims": ["a", 1, None]},
    "metrics": CallMetrics(3, 4),
    "error": "ValueError: no",
    "skipped": "has no context",
    "fail_on_error": False,
    "error_kind": "contested",
    "decides": True,
    "score_range": (0, 5),
    "error_detail": ErrorDetail("ValueError", "no"),
    "label": "partly right",
    "part_of": "A",
    "parts": (EvalResult("A.b", 1.0),),
}


class NumpyFalse:
    """As NumPy's own, it equals False, and the JSON encoder of Python refuses it."""

    def __eq__(self, other: object) -> bool:
        return other is False

    def __hash__(self) -> int:
        return hash(False)

    def item(self) -> bool:
        return False


class Text(str):
    """Equals a text, and is written as the JSON encoder of Python writes it."""


def test_there_is_another_value_for_each_field() -> None:
    assert set(OTHER_VALUES) == {field.name for field in fields(EvalResult)}


@pytest.mark.parametrize("name", OTHER_VALUES)
def test_a_result_that_differs_in_one_field_is_written_with_it(name: str) -> None:
    write = ResultJson()
    assert write(USUAL) == wire_json(USUAL)
    other = replace(USUAL, **{name: OTHER_VALUES[name]})
    assert write(other) == wire_json(other) != wire_json(USUAL)
    assert write(USUAL) == wire_json(USUAL)


@given(
    st.lists(
        st.builds(
            EvalResult,
            st.sampled_from(["A", "B", "C.d"]),
            st.none() | st.floats(0, 1) | st.sampled_from([0, 1, -0.0]),
            threshold=st.none() | st.floats(0, 1) | st.sampled_from([0, 1, -0.0, True]),
            success=st.none() | st.booleans() | st.sampled_from([0, 1]),
            reason=st.text(),
            metadata=st.dictionaries(st.text(max_size=3), st.integers() | st.text(), max_size=2),
            metrics=st.none()
            | st.builds(
                CallMetrics,
                st.none() | st.integers(0, 2**70),
                cost_usd=st.none() | st.floats(0, 1e300),
                latency_ms=st.none() | st.floats(0, 1e9),
                model=st.none() | st.text(max_size=5),
            ),
        )
    )
)
def test_results_of_any_order_are_written_as_if_alone(results: list[EvalResult]) -> None:
    write = ResultJson()
    assert [write(result) for result in results] == [wire_json(result) for result in results]


@given(
    st.lists(
        st.builds(
            EvalResult,
            st.sampled_from(["A", "B"]),
            st.sampled_from([0.0, -0.0, 1.0, 0.5, float("0.5"), 1, True, None]),
            threshold=st.sampled_from([None, 0.5, 0.0, -0.0]),
            success=st.sampled_from([True, False, None, 1]),
            reason=st.sampled_from(["", "Right.", "Wr" + "ong.", "Größe\n\ud800", Text("Right."), 5]),
            metadata=st.sampled_from([{}, {"claims": [1]}]),
            metrics=st.sampled_from([None, CallMetrics(3, 4)]),
        ),
        max_size=30,
    )
)
def test_results_that_come_again_are_written_as_at_first(results: list[EvalResult]) -> None:
    write = ResultJson()
    for _ in range(2):
        assert write.join(results) == ",".join(map(wire_json, results))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"score": 0.0}, {"score": -0.0}),
        ({"score": 1.0}, {"score": 1}),
        ({"threshold": 0.0}, {"threshold": -0.0}),
        ({"threshold": 1.0}, {"threshold": 1}),
        ({"success": True}, {"success": 1}),
        ({"success": False}, {"success": NumpyFalse()}),
        ({"fail_on_error": True}, {"fail_on_error": 1}),
        ({"metadata": {}}, {"metadata": MappingProxyType({})}),
        ({"parts": ()}, {"parts": []}),
    ],
)
def test_values_that_are_only_equal_are_written_as_what_they_are(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    for changes in ([first, second], [second, first]):
        write = ResultJson()
        for result in [replace(USUAL, **each) for each in changes]:
            assert write(result) == wire_json(result)


def test_names_without_end_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_result_json, "MOST_TEMPLATES", 3)
    write = ResultJson()
    for index in range(10):
        result = replace(USUAL, name=f"A.{index}")
        assert write(result) == wire_json(result)
    assert len(write._failed) <= 3


def test_scores_without_end_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_result_json, "MOST_SCORES", 3)
    write = ResultJson()
    for result in 2 * [replace(USUAL, score=index / 10) for index in range(10)]:
        assert write(result) == wire_json(result)
    assert [len(template.texts) for template in write._failed.values()] == [3]
