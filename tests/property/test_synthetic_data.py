"""Faults, noise and passages for any text and any output: nothing raises, and what is said of them holds."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from dokimos import Example, ItemResult
from dokimos.generation._duplicates import KnownTexts
from dokimos.generation._passages import find_passage
from dokimos.mutation import make_mutants
from dokimos.mutation._text_change import show_change
from dokimos.perturbation._text_noise import TEXT_NOISE

words = st.sampled_from(
    ["It", "is", "not", "42", "3.5", "Rome", "yes", "no.", "can't", "a", "日本。", "and", "\n", "1."]
)
texts = st.one_of(st.text(max_size=80), st.lists(words, max_size=20).map(" ".join))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=10,
)
calls = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(["search", "book"]),
            "arguments": st.dictionaries(st.text(max_size=4), values, max_size=3),
        }
    ),
    max_size=3,
)
outputs = st.one_of(
    st.fixed_dictionaries(
        {"output": values}, optional={"toolCalls": calls, "trajectory": values, "turns": values}
    ),
    st.dictionaries(st.text(max_size=8), values, max_size=4),
)


@given(st.lists(outputs, max_size=3), st.integers(0, 5))
def test_mutants_of_any_outputs_differ_and_are_the_same_for_the_same_seed(recorded, seed):
    items = [ItemResult(n, Example.of("q"), actual_outputs=one) for n, one in enumerate(recorded)]
    before = repr(recorded)
    mutants = make_mutants(items, seed=seed)
    assert repr(recorded) == before
    for mutant in mutants:
        assert mutant.before.split() != mutant.after.split()
        show_change(mutant.before, mutant.after)
    assert [m.after for m in mutants] == [m.after for m in make_mutants(items, seed=seed)]


@given(texts, st.sampled_from(list(TEXT_NOISE)), st.integers(0, 50))
def test_noise_is_made_by_its_seed_alone(text, kind, seed):
    changed = TEXT_NOISE[kind](text, Random(seed))
    assert changed == TEXT_NOISE[kind](text, Random(seed))
    assert changed is None or changed.strip() or not text.strip()


@given(texts, texts)
def test_a_passage_is_a_part_of_its_document(document, quote):
    span = find_passage(document, quote)
    if span is not None:
        assert "".join(document[slice(*span)].split()) in "".join(document.split())
    whole = find_passage(f"before {quote} after", quote)
    assert whole is not None or len("".join(quote.split())) < 8


@given(texts, texts)
def test_a_text_is_the_same_as_another_or_near_it_whichever_is_known(first, second):
    one, other = KnownTexts([first]), KnownTexts([second])
    assert (one.find_same(second) is None) == (other.find_same(first) is None)
    assert (one.find_similar(second) is None) == (other.find_similar(first) is None)
    assert one.find_same(first) == first
