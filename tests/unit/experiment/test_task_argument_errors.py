"""Tasks that expected something else than they are called with, and rows that lack what a task needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from dokimos._core.example import Example
from dokimos._core.results import ExperimentResult, RunStatus
from dokimos.datasets._dataset import Dataset, DatasetStream
from dokimos.errors import ConfigurationError
from dokimos.evaluators._text import ExactMatch
from dokimos.experiment._experiment import Experiment
from dokimos.experiment._run_part import Part, hash_examples

ONE = [Example.of("What?", "That", id="a"), Example.of("Who?", "She", id="b")]
TWO = [
    Example({"question": "What?", "lang": "en"}, {"output": "That"}, id="a"),
    Example({"question": "Was?"}, {"output": "Das"}, id="b"),
]


def run(task: Any, examples: Any = ONE, **settings: Any) -> ExperimentResult:
    settings = {"journal": False, "quiet": True, **settings}
    return Experiment(examples, task, [ExactMatch()], **settings).run()


def errors_of(result: ExperimentResult) -> list[str | None]:
    return [item.error for item in result.item_results]


def takes_attribute(row: Any) -> Any:
    return row.metadata["topic"]


def takes_key(row: Any) -> Any:
    return row["input"]


def uses_as_text(example):
    return example.upper()


def adds_text(example):
    return "You asked: " + example


def uses_mapping_as_text(row):
    return row.upper()


def joins_mapping(row):
    return "You asked: " + row


@pytest.mark.parametrize(
    ("task", "examples", "called_with", "remedy"),
    [
        (
            takes_attribute,
            ONE,
            "with the value under 'input' (type str)",
            "takes_attribute(example: Example)",
        ),
        (takes_key, ONE, "with the value under 'input' (type str)", "def takes_key(example: Example)"),
        (lambda row: row.inputs, ONE, "under 'input' (type str)", "write lambda example: ..."),
        (uses_as_text, ONE, "with the whole example", "def uses_as_text(question)"),
        (adds_text, ONE, "with the whole example", "takes_input"),
        (uses_mapping_as_text, TWO, "a mapping of the inputs 'question', 'lang'", "(question, lang)"),
        (joins_mapping, TWO, "a mapping of the inputs 'question', 'lang'", "joins_mapping(example: Example)"),
    ],
)
def test_the_first_error_of_a_wrong_guess_explains_it_once(
    task: Any, examples: list[Example], called_with: str, remedy: str
) -> None:
    result = run(task, examples)
    first, second = errors_of(result)
    assert first is not None
    assert second is not None
    assert called_with in first
    assert remedy in first
    assert "The task was called" not in second
    assert result.status is RunStatus.BROKEN
    assert sum(called_with in warning for warning in result.warnings) == 1
    assert result.warnings[0].count("The task was called") == 1


def test_a_run_that_goes_on_says_it_in_a_warning() -> None:
    def careless(row):
        return row.metadata["topic"] if row == "Who?" else "That"

    result = run(careless)
    assert result.pass_count == 1
    assert [warning.partition(" under")[0] for warning in result.warnings] == [
        "The task was called with the value"
    ]


@pytest.mark.parametrize(
    "error",
    [
        AttributeError("'str' object has no attribute 'input'"),  # of an object of its own
        TypeError("bad operand type for abs(): 'str'"),
        KeyError("input"),
        ValueError("Example"),
    ],
)
def test_other_errors_are_told_as_they_are(error: Exception) -> None:
    def fail(question: str) -> str:
        raise error

    assert not any("called with" in (text or "") for text in errors_of(run(fail)))


def test_a_wrong_guess_is_not_repeated_by_retries() -> None:
    calls = []

    def count(row):
        calls.append(row)
        return row.metadata

    result = run(count, retries=5)
    assert len(calls) == 2
    assert "The task was called" in (errors_of(result)[0] or "")


def test_a_row_that_lacks_an_input_is_an_error_that_names_both() -> None:
    def answer(question, lang):
        return {"en": "That"}[lang]

    first, second = errors_of(run(answer, TWO, retries=3))
    assert first is None
    assert second == "DatasetError: The task needs the input 'lang', which the example 'b' lacks."


def test_a_row_without_an_id_is_named_by_its_inputs() -> None:
    rows = [Example({"question": "What?", "lang": "en"}), Example({"question": "Was?"})]
    error = errors_of(run(lambda question, lang: "That", rows))[1]
    assert (
        error
        == """DatasetError: The task needs the input 'lang', which the example {"question": "Was?"} lacks."""
    )


def test_a_default_stands_in_for_an_input_that_a_row_lacks() -> None:
    def answer(question, lang="de"):
        return {"en": "That", "de": "Das"}[lang]

    assert run(answer, TWO).pass_rate == 1.0


def test_all_rows_are_called_alike_whatever_each_of_them_holds() -> None:
    rows = [Example({"input": "a"}), Example({"input": "b", "lang": "en"}), Example({"lang": "en"})]
    items = run(lambda text: text, rows).item_results
    assert [item.actual_outputs.get("output") for item in items] == ["a", "b", None]
    assert "needs the input 'input'" in (items[2].error or "")


class Answer:
    def __call__(self, first: str, second: str) -> str:
        return first + second


@pytest.mark.parametrize(
    ("task", "inputs", "problem"),
    [
        (lambda question, lang: "", {"input": "q"}, "needs 'question', 'lang', and the examples have only"),
        (lambda text, context: "", {"input": "q", "context": []}, "have the inputs 'context', 'input'"),
        (Answer(), {"input": "q"}, "The task Answer(first, second)"),
        (lambda *, a=1, b=2: "", {"input": "q"}, "takes none of them"),
        (lambda example, client: "", {"input": "q"}, "takes the example and also needs 'client'"),
    ],
)  # fmt: skip
def test_a_task_that_cannot_be_called_is_refused_before_anything_runs(
    task: Any, inputs: Mapping[str, Any], problem: str, tmp_path: Any
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        run(task, [Example(inputs)], journal=True, run_dir=tmp_path)
    assert problem in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def stream_of(rows: list[Mapping[str, Any]], read: list[int], *, waits: bool = False) -> DatasetStream:
    def examples() -> Iterator[Example]:
        for number, inputs in enumerate(rows):
            read.append(number)
            yield Example(inputs)

    return DatasetStream(examples, waits=waits)


def by_language(question, lang="de"):
    return f"{question} {lang}"


@pytest.mark.parametrize(("waits", "called"), [(False, "What? en"), (True, "What? de")])
def test_the_first_rows_of_a_stream_decide_and_each_is_read_once(waits: bool, called: str) -> None:
    read: list[int] = []
    rows = [{"question": "Was?"}, *[{"question": "What?", "lang": "en"}] * 3]
    result = run(by_language, stream_of(rows, read, waits=waits))
    outputs = [item.actual_outputs["output"] for item in result.item_results]
    assert read == [0, 1, 2, 3]
    assert outputs == ["Was? de", called, called, called]


def test_rows_of_a_stream_that_come_late_are_called_like_the_first() -> None:
    rows = [*[{"question": "What?"}] * 150, {"question": "What?", "lang": "en"}]
    result = run(by_language, stream_of(rows, []))
    assert {item.actual_outputs["output"] for item in result.item_results} == {"What? de"}


def test_a_stream_that_breaks_off_early_still_runs_what_came_before() -> None:
    def examples() -> Iterator[Example]:
        yield from ONE
        raise OSError("the disk is gone")

    plan = Experiment(DatasetStream(examples), str.upper, [ExactMatch()], journal=False, quiet=True)
    with pytest.raises(Exception, match="failed after 2 examples: OSError: the disk is gone") as broken:
        plan.run()
    assert broken.value.result.summary.total == 2


def test_the_form_is_the_same_in_repeats_and_after_a_resume(tmp_path: Any) -> None:
    fail = [True]

    def answer(question, lang="de"):
        if fail[0] and question == "Was?":
            raise ConnectionError("gone")
        return {"en": "That", "de": "Das"}[lang]

    plan = Experiment(TWO, answer, [ExactMatch()], runs=2, quiet=True, run_dir=tmp_path)
    first = plan.run()
    assert (first.runs[0].error_count, first.runs[1].error_count) == (1, 1)
    fail[0] = False
    [folder] = [path for path in tmp_path.iterdir() if path.is_dir()]
    again = plan.run(resume=folder, retry_errors=True)
    assert [item.error for one in again.runs for item in one.item_results] == [None] * 4
    assert again.pass_rate == 1.0


def test_a_part_of_a_data_set_is_called_like_the_whole(tmp_path: Any) -> None:
    data = Dataset(TWO)
    assert data.input_keys == {"question", "lang"}

    def answer(inputs):
        return sorted(inputs)

    for part in (data.subset(data.examples[1:]), part_with(data, 1)):
        [item] = run(answer, part).item_results
        assert item.actual_outputs == {"output": ["question"]}
    [item] = run(answer, data[1:]).item_results
    assert item.actual_outputs == {"output": sorted("Was?")}


def part_with(data: Dataset, position: int) -> Dataset:
    """Return what `dokimos run --failed` runs again where one item had failed."""
    [*hashes] = [mark for _, mark in hash_examples(data)]
    return Part(reason="failed", total=len(data), hashes=(hashes[position],)).select(data)


def returns_nothing(question: str) -> None:
    question.upper()


def test_a_task_that_returns_none_is_asked_whether_it_lacks_a_return() -> None:
    result = run(returns_nothing)

    line = returns_nothing.__code__.co_firstlineno
    for error in errors_of(result):
        assert error is not None
        assert "the task returned None" in error
        assert "Does returns_nothing (" in error
        assert f"test_task_argument_errors.py:{line}) lack a return?" in error
    assert "(2 times)" in result.warnings[0]


def test_a_task_that_returned_none_once_is_tried_again() -> None:
    answers = iter([None, "a"])

    def flaky(question: str) -> str | None:
        return next(answers)

    assert errors_of(run(flaky, ONE[:1], retries=1)) == [None]
