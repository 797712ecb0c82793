"""What a task is called with, for every kind of callable: the example, its input, its inputs by name."""

from __future__ import annotations

import abc
import asyncio
import functools
import operator
import typing
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NewType, Optional, TypedDict, TypeVar
from unittest import mock

import pytest

import dokimos
from dokimos import takes_example, takes_input
from dokimos._core.example import Example
from dokimos.datasets._dataset import Dataset
from dokimos.evaluators._text import ExactMatch
from dokimos.experiment._experiment import Experiment

EXAMPLE = "the example"
ONE: Mapping[str, Any] = {"question": "What?"}
TWO: Mapping[str, Any] = {"question": "What?", "lang": "en"}
WITH_INPUT: Mapping[str, Any] = {"input": "What?", "lang": "en"}


def given(*arguments: Any, **named: Any) -> dict[str, Any]:
    """Return what a task was called with, in a form that can be compared."""
    shown = [EXAMPLE if isinstance(value, Example) else value for value in arguments]
    told: dict[str, Any] = {}
    if shown:
        told["args"] = shown
    if named:
        told["named"] = {key: EXAMPLE if isinstance(v, Example) else v for key, v in named.items()}
    return {"output": told}


def called_with(task: Any, inputs: Mapping[str, Any]) -> Any:
    """Return what a task is called with in a run over one example."""
    data = Dataset([Example(inputs, id="row")])
    plan = Experiment(data, task, [ExactMatch()], journal=False, quiet=True)
    [item] = plan.run().item_results
    assert item.error is None, item.error
    return item.actual_outputs["output"]


class OtherExample:
    """Somebody else's class of the same name would be resolved, so it is no Example of ours."""


class OwnExample(Example):
    pass


class Turn(TypedDict):
    question: str


Row = NewType("Row", Example)
E = TypeVar("E", bound=Example)


def retry(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def again(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return again


def retry_with_options(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def again(*args: Any, attempts: int = 3, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return again


def anonymous(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: function(*args, **kwargs)


def with_client(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def filled(*args: Any, **kwargs: Any) -> Any:
        return function("client", *args, **kwargs)

    return filled


def on_its_input(function: Callable[..., Any]) -> Callable[..., Any]:
    """An adapter of a user: it takes the example, and what it wraps takes the input."""

    @functools.wraps(function)
    def adapter(example):
        return function(example.input)

    return adapter


@retry
def retried(question, lang="de"):
    return given(question, lang)


@retry
@retry_with_options
def retried_twice(row: Example):
    return given(row)


@with_client
def needs_client(client, question):
    return given(client, question)


@takes_example
def marked(row):
    return given(row)


@takes_input
def marked_input(example):
    return given(example)


@retry
@takes_example
def retried_marked(row):
    return given(row)


@takes_example
@retry
def marked_retried(question):
    return given(question)


@functools.singledispatch
def dispatched(question):
    return given(question)


@functools.lru_cache
def cached(question):
    return given(question)


class Agent:
    def __call__(self, question):
        return given(question)

    def answer(self, question, lang="de"):
        return given(question, lang)

    def on_example(self, example):
        return given(example)

    @retry
    def retried(self, question):
        return given(question)

    @retry
    def retried_example(self, row: Example):
        return given(row)

    @takes_example
    def marked(self, row):
        return given(row)

    @classmethod
    def of_class(cls, example: Example | None):
        return given(example)

    @staticmethod
    def static(question):
        return given(question)

    async def wait(self, question):
        return given(question)


class ExampleAgent:
    def __call__(self, example):
        return given(example)


class RetriedAgent:
    @retry
    def __call__(self, row: Example):
        return given(row)


@takes_example
class MarkedAgent:
    def __call__(self, row):
        return given(row)


class MarkedCall:
    @takes_example
    async def __call__(self, row):
        return given(row)


@dataclass(frozen=True)
class FrozenAgent:
    name: str = "a"

    def __call__(self, row):
        return given(row)


@dataclass
class Asked:
    question: str
    lang: str = "de"


class AbstractAgent(abc.ABC):
    @abc.abstractmethod
    def __call__(self, example): ...


class ConcreteAgent(AbstractAgent):
    def __call__(self, text):
        return given(text)


async def async_example(example: Example):
    await asyncio.sleep(0)
    return given(example)


async def async_named(question, lang):
    await asyncio.sleep(0)
    return given(question, lang)


def chunks(question) -> Iterator[str]:
    yield "got "
    yield question


async def async_chunks(example: Example) -> AsyncIterator[str]:
    yield "got "
    yield example.inputs["question"]


def annotated(annotation: Any) -> Callable[..., Any]:
    def task(value):
        return given(value)

    task.__annotations__ = {"value": annotation, "return": "Missing"}
    return task


def example_of_text(example: str):
    return given(example)


def example_of_any(example: Any):
    return given(example)


def mapping(row: dict[str, Any]):
    return given(row)


def mapping_by_name(inputs):
    return given(inputs)


def inputs_of_text(inputs: str):
    return given(inputs)


def one(text):
    return given(text)


def one_optional(text=None, model="m"):
    return given(text, model)


def by_name(question, lang):
    return given(question, lang)


def by_name_positional(lang, question, /):
    return given(lang, question)


def by_name_only(*, lang, question):
    return given(lang=lang, question=question)


def keyword_only(*, text):
    return given(text=text)


def example_only(*, example):
    return given(example=example)


def some_options(question, model="m", *, lang="de"):
    return given(question, model, lang)


def anything_by_name(**inputs):
    return given(**inputs)


def more_by_name(question, **more):
    return given(question, **more)


def more_options(text, **options):
    return given(text, **options)


def any_arguments(*args):
    return given(*args)


def nothing():
    return given()


def optional_example(example=None):
    return given(example)


def example_first(example, /, temperature=0.5):
    return given(example, temperature)


def example_last(question, example=None):
    return given(question, example)


def mocked() -> Any:
    return mock.Mock(side_effect=given)


TABLE: list[Any] = [
    # the example
    (annotated(Example), ONE, {"args": [EXAMPLE]}),
    (annotated("Example"), ONE, {"args": [EXAMPLE]}),
    (annotated("dokimos.Example"), ONE, {"args": [EXAMPLE]}),
    (annotated(Annotated[Example, "a note"]), ONE, {"args": [EXAMPLE]}),
    (annotated("Annotated[Example, 'a note']"), ONE, {"args": [EXAMPLE]}),
    (annotated(Example | None), ONE, {"args": [EXAMPLE]}),
    (annotated("Example | None"), ONE, {"args": [EXAMPLE]}),
    (annotated(Optional[Example]), ONE, {"args": [EXAMPLE]}),  # noqa: UP045 - users write it
    (annotated("typing.Optional['Example']"), ONE, {"args": [EXAMPLE]}),
    (annotated("Example | Missing"), ONE, {"args": [EXAMPLE]}),
    (annotated("Annotated[Example | None, Missing]"), ONE, {"args": [EXAMPLE]}),
    (annotated("unknown.Example[str, str]"), ONE, {"args": [EXAMPLE]}),
    (annotated(OwnExample), ONE, {"args": [EXAMPLE]}),
    (annotated(Row), ONE, {"args": [EXAMPLE]}),
    (annotated(E), ONE, {"args": [EXAMPLE]}),
    (optional_example, ONE, {"args": [EXAMPLE]}),
    (example_first, ONE, {"args": [EXAMPLE, 0.5]}),
    (example_only, ONE, {"named": {"example": EXAMPLE}}),
    (lambda example: given(example), TWO, {"args": [EXAMPLE]}),
    (functools.partial(example_last, example=None), ONE, {"args": ["What?", None]}),
    (functools.partial(lambda suffix, example: given(suffix, example), "!"), ONE, {"args": ["!", EXAMPLE]}),
    (functools.partial(lambda suffix, example: given(suffix, example), suffix="!"), ONE,
     {"args": ["!", EXAMPLE]}),
    (async_example, ONE, {"args": [EXAMPLE]}),
    (async_chunks, ONE, "got What?"),
    (Agent().on_example, ONE, {"args": [EXAMPLE]}),
    (Agent.of_class, ONE, {"args": [EXAMPLE]}),
    (ExampleAgent(), ONE, {"args": [EXAMPLE]}),
    (RetriedAgent(), ONE, {"args": [EXAMPLE]}),
    (retried_twice, ONE, {"args": [EXAMPLE]}),
    (Agent().retried_example, ONE, {"args": [EXAMPLE]}),
    (functools.partial(retried_twice), ONE, {"args": [EXAMPLE]}),
    # marks
    (marked, TWO, {"args": [EXAMPLE]}),
    (functools.partial(marked), ONE, {"args": [EXAMPLE]}),
    (retried_marked, ONE, {"args": [EXAMPLE]}),
    (marked_retried, ONE, {"args": [EXAMPLE]}),
    (Agent().marked, ONE, {"args": [EXAMPLE]}),
    (MarkedAgent(), ONE, {"args": [EXAMPLE]}),
    (MarkedCall(), ONE, {"args": [EXAMPLE]}),
    (takes_example(FrozenAgent()), ONE, {"args": [EXAMPLE]}),
    (takes_example(Agent().answer), ONE, {"args": [EXAMPLE, "de"]}),
    (takes_example(mocked()), ONE, {"args": [EXAMPLE]}),
    (takes_example(anonymous(one)), ONE, {"args": [EXAMPLE]}),
    (marked_input, ONE, {"args": ["What?"]}),
    (takes_input(Agent().on_example), ONE, {"args": ["What?"]}),
    (on_its_input(takes_input(lambda text: given(text))), {"input": "What?"}, {"args": ["What?"]}),
    # one input: as it is
    (one, ONE, {"args": ["What?"]}),
    (one, {"input": 5}, {"args": [5]}),
    (one, {"question": {"text": "What?"}}, {"args": [{"text": "What?"}]}),
    (mapping, ONE, {"args": ["What?"]}),
    (mapping_by_name, ONE, {"args": ["What?"]}),
    (example_of_text, ONE, {"args": ["What?"]}),
    (example_of_any, ONE, {"args": ["What?"]}),
    (annotated(OtherExample), ONE, {"args": ["What?"]}),
    (annotated("Missing"), ONE, {"args": ["What?"]}),
    (annotated("not a type ("), ONE, {"args": ["What?"]}),
    (one_optional, ONE, {"args": ["What?", "m"]}),
    (functools.partial(by_name, lang="fr"), ONE, {"args": ["What?", "fr"]}),
    (keyword_only, ONE, {"named": {"text": "What?"}}),
    (anything_by_name, ONE, {"named": {"question": "What?"}}),
    (any_arguments, ONE, {"args": ["What?"]}),
    (chunks, ONE, "got What?"),
    (cached, ONE, {"args": ["What?"]}),
    (dispatched, ONE, {"args": ["What?"]}),
    (retried, ONE, {"args": ["What?", "de"]}),
    (needs_client, ONE, {"args": ["client", "What?"]}),
    (anonymous(one), ONE, {"args": ["What?"]}),
    (Agent(), ONE, {"args": ["What?"]}),
    (Agent().retried, ONE, {"args": ["What?"]}),
    (Agent().wait, ONE, {"args": ["What?"]}),
    (Agent.static, ONE, {"args": ["What?"]}),
    (ConcreteAgent(), ONE, {"args": ["What?"]}),
    (mocked(), ONE, {"args": ["What?"]}),
    (mock.AsyncMock(side_effect=given), ONE, {"args": ["What?"]}),
    (mock.create_autospec(one, side_effect=given), ONE, {"args": ["What?"]}),
    (mock.Mock(spec=one, side_effect=given), ONE, {"args": ["What?"]}),
    (str.upper, ONE, "WHAT?"),
    (len, ONE, 5),
    (int, {"input": "12"}, 12),
    ("{}!".format, ONE, "What?!"),
    ({"What?": "That."}.get, ONE, "That."),
    (operator.itemgetter("text"), {"input": {"text": "What?"}}, "What?"),
    (operator.methodcaller("lower"), ONE, "what?"),
    (Asked, ONE, Asked("What?")),
    # several inputs
    (by_name, TWO, {"args": ["What?", "en"]}),
    (by_name_positional, TWO, {"args": ["en", "What?"]}),
    (by_name_only, TWO, {"named": {"lang": "en", "question": "What?"}}),
    (some_options, TWO, {"args": ["What?", "m", "en"]}),
    (async_named, TWO, {"args": ["What?", "en"]}),
    (retried, TWO, {"args": ["What?", "en"]}),
    (functools.partial(by_name, lang="fr"), TWO, {"args": ["What?", "fr"]}),
    (functools.partial(by_name, "Who?"), TWO, {"args": ["Who?", "en"]}),
    (anything_by_name, TWO, {"named": TWO}),
    (functools.partial(anything_by_name, lang="fr"), TWO, {"named": {"lang": "fr", "question": "What?"}}),
    (more_by_name, TWO, {"args": ["What?"], "named": {"lang": "en"}}),
    (Asked, TWO, Asked("What?", "en")),
    (Agent().answer, TWO, {"args": ["What?", "en"]}),
    (one, WITH_INPUT, {"args": ["What?"]}),
    (more_options, WITH_INPUT, {"args": ["What?"]}),
    (one_optional, WITH_INPUT, {"args": ["What?", "m"]}),
    (keyword_only, WITH_INPUT, {"named": {"text": "What?"}}),
    (inputs_of_text, WITH_INPUT, {"args": ["What?"]}),
    (needs_client, WITH_INPUT, {"args": ["client", "What?"]}),
    (mocked(), WITH_INPUT, {"args": ["What?"]}),
    (str.upper, WITH_INPUT, "WHAT?"),
    (mapping, WITH_INPUT, {"args": [WITH_INPUT]}),
    (mapping_by_name, WITH_INPUT, {"args": [WITH_INPUT]}),
    (annotated("Mapping[str, Any]"), WITH_INPUT, {"args": [WITH_INPUT]}),
    (annotated("Mapping[str, Missing]"), WITH_INPUT, {"args": [WITH_INPUT]}),
    (annotated(typing.Optional[dict]), WITH_INPUT, {"args": [WITH_INPUT]}),  # noqa: UP045 - users write it
    (annotated(Turn), WITH_INPUT, {"args": [WITH_INPUT]}),
    (one, TWO, {"args": [TWO]}),
    (any_arguments, TWO, {"args": [TWO]}),
    (operator.itemgetter("lang"), TWO, "en"),
    (mocked(), TWO, {"args": [TWO]}),
    # none
    (nothing, TWO, {}),
    (functools.partial(one, "fixed"), TWO, {"args": ["fixed"]}),
    (functools.partial(one, text="fixed"), ONE, {"args": ["fixed"]}),
    (one, {}, {"args": [{}]}),
    (one_optional, {}, {"args": [None, "m"]}),
    (anything_by_name, {}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("task", "inputs", "expected"), TABLE)
def test_a_task_is_called_with_what_it_names(task: Any, inputs: Mapping[str, Any], expected: Any) -> None:
    assert called_with(task, inputs) == expected


def test_the_table_holds_at_least_forty_callables() -> None:
    assert len({id(task) for task, _, _ in TABLE}) >= 40
    assert dokimos.takes_example is takes_example


def only_defaults(model="small", input="", *, style="short"):
    return given(model, input, style)


@pytest.mark.parametrize("inputs", [{"input": "What?"}, {"input": "What?", "topic": "shop"}])
def test_the_input_goes_to_the_parameter_of_its_name_and_not_to_a_setting_before_it(inputs):
    assert called_with(only_defaults, inputs) == {"args": ["small", "What?", "short"]}


def test_an_only_input_goes_to_the_first_of_settings_that_are_called_otherwise():
    assert called_with(only_defaults, ONE) == {"args": ["What?", "", "short"]}


def only_positional_defaults(model="small", input="", /):
    return given(model, input)


def test_an_input_that_cannot_be_named_goes_to_the_first_parameter():
    assert called_with(only_positional_defaults, {"input": "What?"}) == {"args": ["What?", ""]}


def with_gap(question, style="short", lang="de", /):
    return given(question, style, lang)


def test_an_input_after_a_gap_of_positional_parameters_takes_no_place_of_another():
    assert called_with(with_gap, TWO) == {"args": ["What?", "short", "de"]}
