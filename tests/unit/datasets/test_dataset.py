from __future__ import annotations

import pytest

from dokimos import Dataset, Example
from dokimos.errors import ConfigurationError, DatasetError

TEN = Dataset(
    [Example.of(f"q{i}", f"a{i}", id=str(i), even=i % 2 == 0) for i in range(10)], "ten", "Ten rows"
)


def test_an_empty_dataset_has_the_documented_defaults():
    dataset = Dataset()
    assert (len(dataset), dataset.name, dataset.description) == (0, "unnamed", "")


def test_examples_may_be_any_iterable():
    assert [e.input for e in Dataset(Example.of(text) for text in "ab")] == ["a", "b"]


def test_datasets_can_be_combined_by_unpacking():
    combined = Dataset([*TEN, Example.of("", "Please ask a question")])
    assert len(combined) == 11
    assert combined[-1].input == ""


def test_indexing_gives_an_example_and_slicing_a_dataset():
    assert TEN[3].id == "3"
    part = TEN[2:4]
    assert isinstance(part, Dataset)
    assert [e.id for e in part] == ["2", "3"]
    assert part.name == "ten"


def test_equal_content_and_name_make_equal_datasets():
    assert Dataset([Example.of("a")], "x") == Dataset((Example.of("a"),), "x")
    assert Dataset([Example.of("a")], "x") != Dataset([Example.of("b")], "x")
    assert Dataset([Example.of("a")], "x") != Dataset([Example.of("a")], "y")


def test_a_dataset_cannot_be_changed():
    with pytest.raises(AttributeError):
        TEN.name = "other"


def test_the_repr_is_short():
    assert repr(TEN) == "<Dataset 'ten': 10 examples>"
    assert repr(TEN[:1]) == "<Dataset 'ten': 1 example>"


def test_duplicate_ids_name_both_positions():
    with pytest.raises(DatasetError, match=r"'x' is given twice .* examples 0 and 2 "):
        Dataset([Example.of("a", id="x"), Example.of("b"), Example.of("c", id="x")])


def test_something_else_than_examples_is_refused_with_the_way_out():
    with pytest.raises(DatasetError, match=r"item 1 is a dict.*from_rows"):
        Dataset([Example.of("a"), {"input": "b"}])


def test_filter_keeps_what_is_wanted_and_the_name():
    even = TEN.filter(lambda example: example.metadata["even"])
    assert [e.id for e in even] == ["0", "2", "4", "6", "8"]
    assert even.name == "ten"


def test_a_sample_depends_on_the_seed_only_and_keeps_the_order():
    sample = TEN.sample(4, seed=1)
    ids = [int(e.id) for e in sample]
    assert len(ids) == 4
    assert ids == sorted(ids)
    assert sample == TEN.sample(4, seed=1)
    assert any(sample != TEN.sample(4, seed=seed) for seed in range(2, 6))


def test_a_sample_is_the_same_in_every_version_of_python():
    assert [e.id for e in TEN.sample(3, seed=0)] == ["3", "5", "7"]


def test_a_sample_of_all_is_all():
    assert TEN.sample(10, seed=5) == TEN


@pytest.mark.parametrize("n", [-1, 11])
def test_a_sample_that_is_too_large_is_refused(n):
    with pytest.raises(ConfigurationError, match=r"0\.\.10"):
        TEN.sample(n)


@pytest.mark.parametrize(
    ("parts", "sizes"),
    [
        (0.8, [8, 2]),
        (3, [3, 7]),
        ([0.5, 0.3, 0.2], [5, 3, 2]),
        ([7, 2, 1], [7, 2, 1]),
        (1.0, [10, 0]),
        (0, [0, 10]),
    ],
)
def test_split_gives_parts_of_the_sizes_asked_for_that_cover_everything(parts, sizes):
    pieces = TEN.split(parts, seed=3)
    assert [len(piece) for piece in pieces] == sizes
    assert sorted(e.id for piece in pieces for e in piece) == sorted(e.id for e in TEN)
    assert pieces == TEN.split(parts, seed=3)


def test_rounding_shares_loses_no_example():
    assert [len(p) for p in TEN[:7].split([1 / 3, 1 / 3, 1 / 3])] == [2, 3, 2]


def test_the_parts_of_a_split_have_names():
    assert [piece.name for piece in TEN.split(0.5)] == ["ten 1/2", "ten 2/2"]


@pytest.mark.parametrize("parts", [1.5, -0.1, 11, -1, [0.5, 0.2], [5, 4], [0.5, 5]])
def test_parts_that_do_not_add_up_are_refused(parts):
    with pytest.raises(ConfigurationError, match="split"):
        TEN.split(parts)


def test_a_path_and_a_text_together_are_refused():
    with pytest.raises(ConfigurationError, match="not both"):
        Dataset.from_json("a.json", text="[]")
    with pytest.raises(ConfigurationError, match="path or text"):
        Dataset.from_jsonl()


def test_a_dataset_has_no_duplicate_ids():
    assert TEN.duplicate_ids == 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Dataset(3), "A Dataset holds Examples, not int"),
        (lambda: Dataset([], name=3), "name must be text, not 3"),
        (lambda: Dataset([], description=None), "description must be text, not None"),
        (lambda: Dataset.load(3), "Give the path or URI of a data set, not 3"),
        (lambda: Dataset.stream(None), "Give the path or URI of a data set, not None"),
        (lambda: Dataset.load(b"a.json"), "Give the path or URI of a data set, not b'a.json'"),
        (lambda: Dataset.from_json(3), "Give the path of a file, not 3"),
        (lambda: Dataset.from_json(text=b"[]"), "text must be text, not bytes"),
        (lambda: Dataset.from_jsonl(text="{}", columns="q=input"), "columns must be a mapping such as"),
        (lambda: Dataset.from_csv(text="q", columns={"q": None}), "columns must map names to names"),
        (lambda: Dataset.from_rows([], columns=[]), "columns must be a mapping such as"),
        (lambda: TEN.sample("2"), "needs n in 0..10, .* not '2'"),
        (lambda: TEN.sample(True), "needs n in 0..10, .* not True"),
        (lambda: TEN.sample(2, seed=None), "seed must be a whole number, not None"),
        (lambda: TEN.split(0.5, seed="x"), "seed must be a whole number, not 'x'"),
        (lambda: TEN.split("0.5"), "takes shares and whole numbers, not '0.5'"),
        (lambda: TEN.split(None), "takes shares and whole numbers, not None"),
    ],
)
def test_arguments_of_a_wrong_type_are_configuration_errors(wrong, message):
    with pytest.raises(ConfigurationError, match=message):
        wrong()


def test_a_path_that_is_too_long_is_an_error_with_its_beginning():
    with pytest.raises(DatasetError, match=r"^x{200}….*: Cannot be read: File name too long"):
        Dataset.load("x" * 5000)


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_a_table_that_another_mark_divides_says_how_to_read_it(mark):
    text = f"input{mark}output\na{mark}b\n"
    with pytest.raises(DatasetError) as caught:
        Dataset.from_csv(text=text)
    assert f"delimiter={mark!r}" in str(caught.value)
    assert list(Dataset.from_csv(text=text, delimiter=mark)) == [Example.of("a", "b")]
    with pytest.raises(DatasetError) as caught:
        Dataset.from_csv(text=text, columns={"input": "input"})
    assert f"delimiter={mark!r}" in str(caught.value)
