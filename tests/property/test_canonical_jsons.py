"""The canonical JSON of several examples is that of each of them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dokimos._core.example import Example
from dokimos._core.metrics import CallMetrics
from dokimos.datasets._fingerprint import canonical_json, canonical_jsons


class Word(StrEnum):
    YES = "yes"


PLAIN = st.sampled_from(["a question", "an answer: ~", "", " ", "{}[],:"])
TEXTS = PLAIN | st.text(max_size=4) | st.sampled_from(['"', "\\", "\x7f", "\x1f", "é", "\ud800"])
VALUES = st.none() | st.integers(0, 3) | st.lists(PLAIN, max_size=1) | st.just(Word.YES)


def examples_of(texts: st.SearchStrategy[str], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Example]:
    return st.builds(
        Example,
        st.dictionaries(texts, values, min_size=1, max_size=1),
        st.dictionaries(texts, values, max_size=1),
        metadata=st.dictionaries(texts, values | VALUES | TEXTS, max_size=2),
        id=st.none() | texts.filter(bool),
    )


USUAL = examples_of(PLAIN, PLAIN)
UNUSUAL = examples_of(TEXTS, TEXTS | VALUES) | st.sampled_from([
    Example({"a": "b", "c": "d"}), Example({"a": "b"}, {"c": "d", "e": "f"}), Example({}),
    Example({"a": "b"}, actual_outputs={"output": "c"}), Example({"a": "b"}, actual_error="It broke."),
    Example({"a": "b"}, {}, metrics=CallMetrics(3)),
])  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(USUAL, max_size=5), st.none() | UNUSUAL)
@example([Example({"input": "a"}, {"output": "b"}, metadata={"m": '"'}, id="1")] * 2, None)
def test_it_is_that_of_each(usual: list[Example], unusual: Example | None) -> None:
    examples = usual if unusual is None else [*usual, unusual, *usual]
    assert canonical_jsons(examples) == [canonical_json(each) for each in examples]
