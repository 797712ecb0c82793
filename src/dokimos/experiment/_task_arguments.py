"""What a task is called with: the example, its input, or its inputs by name. Decided once for a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from inspect import Parameter
from typing import Any, Final, TypeAlias

from dokimos._core.example import Example
from dokimos._core.keys import INPUT
from dokimos._core.text import format_list, quote
from dokimos.errors import ConfigurationError, DatasetError
from dokimos.experiment._task import unwrap
from dokimos.experiment._task_parameters import Parameters, keyword_of, read_parameters

Call: TypeAlias = Callable[[Example], Any]
"""Calls a task for an example."""


class ArgumentForm(Enum):
    """The forms in which a task gets an example."""

    EXAMPLE = "the whole example"
    SINGLE_VALUE = "the value of the only input"
    KEYWORDS = "the inputs that its parameters name"
    INPUT_KEY = 'the value of the input "input"'
    MAPPING = "all inputs as a mapping"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskArguments:
    """How a task is called for each example of a run."""

    form: ArgumentForm
    key: str = ""
    """`SINGLE_VALUE`, `INPUT_KEY`: the input whose value is given."""
    parameter: str | None = None
    """The keyword under which the one argument is given; None gives it positionally."""
    positional: tuple[str, ...] = ()
    """`KEYWORDS`: the inputs that are given positionally, since their parameters take nothing else."""
    keywords: tuple[str, ...] = ()
    """`KEYWORDS`: the inputs that are given by keyword."""
    required: tuple[str, ...] = ()
    """`KEYWORDS`: those of both whose parameters have no default."""
    bound: frozenset[str] | None = None
    """`KEYWORDS`: all other inputs but these are given by keyword, too; None gives no others."""

    def bind(self, task: Callable[..., Any]) -> Call:
        """Return what calls the task for an example.

        It raises `DatasetError` for an example that lacks an input that the task needs.
        """
        match self.form:
            case ArgumentForm.NOTHING:
                return lambda example: task()
            case ArgumentForm.EXAMPLE:
                return (
                    task if self.parameter is None else _with_argument(task, self.parameter, _example_itself)
                )
            case ArgumentForm.MAPPING:
                return _with_argument(task, self.parameter, _inputs_of)
            case ArgumentForm.KEYWORDS:
                return self._bind_keywords(task)
        return _with_argument(task, self.parameter, _input_called(self.key))

    def _bind_keywords(self, task: Callable[..., Any]) -> Call:
        positional, keywords, required = self.positional, self.keywords, self.required
        given = None if self.bound is None else {*positional, *keywords, *self.bound}

        def call(example: Example) -> Any:
            inputs = example.inputs
            for key in required:
                if key not in inputs:
                    raise _missing_input_error(example, key)
            first = [inputs[key] for key in _select_leading(positional, inputs)]
            named = {key: inputs[key] for key in keywords if key in inputs}
            if given is not None:
                named |= {key: value for key, value in inputs.items() if key not in given}
            return task(*first, **named)

        return call


_NOTHING: Final = TaskArguments(form=ArgumentForm.NOTHING)


def example_arguments(task: Callable[..., Any]) -> TaskArguments | None:
    """Return how a task is called that takes the example, None for one that takes the input.

    A task takes the example where it is marked with `takes_example`, or where its first parameter is
    annotated with `Example`, or has no annotation and is called `example`.

    Raises:
        ConfigurationError: where the task needs more than the example.
    """
    parameters = read_parameters(task)
    if not parameters.takes_example:
        return None
    first = parameters.first
    more = [parameter.name for parameter in parameters.mandatory if parameter is not first]
    if more and not parameters.is_wrapped:
        raise ConfigurationError(
            f"The task {_format_signature(task, parameters)} takes the example and also needs "
            f"{format_list(more)}, which nothing provides. Give it a default, or bind it with "
            "functools.partial."
        )
    return TaskArguments(form=ArgumentForm.EXAMPLE, parameter=keyword_of(first))


def input_arguments(task: Callable[..., Any], keys: Collection[str]) -> TaskArguments:
    """Return how a task that takes the input is called, where the examples of a data set have these inputs.

    One input is given as it is, whatever it is called. Several are given by keyword where all required
    parameters are called like inputs; else the one called "input", to a task with one required parameter
    that asks for no mapping; else all of them as a mapping.

    Raises:
        ConfigurationError: where the task cannot be called like that.
    """
    parameters = read_parameters(task)
    if not parameters.is_known:
        return _value_or_mapping(keys)
    if not parameters.mandatory and (not keys or not parameters.takes_something):
        return _NOTHING
    find = _for_one_input if len(keys) == 1 else _for_several_inputs
    arguments = find(parameters, keys)
    if arguments is not None:
        return arguments
    if parameters.is_wrapped:  # what is around it may fill in some of its parameters
        return _value_or_mapping(keys)
    raise ConfigurationError(_explain_misfit(task, parameters, keys))


def _for_one_input(parameters: Parameters, keys: Collection[str]) -> TaskArguments | None:
    [key] = keys
    first, required = parameters.first, parameters.mandatory
    # One value cannot go to several parameters, nor past an optional one: the input has to be named.
    if len(required) > 1 or (required and required[0] is not first):
        return _keywords(parameters, keys)
    if first is None and not parameters.takes_more:
        return _keywords(parameters, keys)
    keywords_only = parameters.takes_any_keyword and keyword_of(first) is not None
    if not required and (keywords_only or key in _names_for_keywords(parameters)):
        return _keywords(parameters, keys)
    return TaskArguments(form=ArgumentForm.SINGLE_VALUE, key=key, parameter=keyword_of(first))


def _for_several_inputs(parameters: Parameters, keys: Collection[str]) -> TaskArguments | None:
    by_name = _keywords(parameters, keys)
    if by_name is not None:
        return by_name
    required = parameters.mandatory
    if len(required) > 1:
        return None
    taker = required[0] if required else parameters.first
    if taker is None and not parameters.takes_more:
        return None
    wants_all = taker is not None and parameters.asks_for_mapping(taker)
    return _value_or_mapping(() if wants_all else keys, parameter=keyword_of(taker))


def _keywords(parameters: Parameters, keys: Collection[str]) -> TaskArguments | None:
    """Return how to give inputs by name, None where that leaves a parameter open or gives nothing."""
    named = [parameter for parameter in parameters.all if parameter.name in keys]
    required = tuple(parameter.name for parameter in parameters.mandatory)
    first = parameters.first
    if not set(required) <= set(keys) or not (named or parameters.takes_any_keyword):
        return None
    is_first_open = first is not None and keyword_of(first) is None and first.name not in keys
    if not required and is_first_open and _find_single_key(keys) not in _names_for_keywords(parameters):
        return None  # the input belongs there, though there is a default
    return TaskArguments(
        form=ArgumentForm.KEYWORDS,
        positional=_select_leading(
            [p.name for p in parameters.all if p.kind is Parameter.POSITIONAL_ONLY], keys
        ),
        keywords=tuple(p.name for p in named if p.kind is not Parameter.POSITIONAL_ONLY),
        required=required,
        bound=parameters.bound if parameters.takes_any_keyword else None,
    )


def _names_for_keywords(parameters: Parameters) -> set[str]:
    return {p.name for p in parameters.all if p.kind is not Parameter.POSITIONAL_ONLY}


def _value_or_mapping(keys: Collection[str], parameter: str | None = None) -> TaskArguments:
    """Return how to give the input to a task of which nothing more is known."""
    key = _find_single_key(keys)
    if key is None:
        return TaskArguments(form=ArgumentForm.MAPPING, parameter=parameter)
    form = ArgumentForm.SINGLE_VALUE if len(keys) == 1 else ArgumentForm.INPUT_KEY
    return TaskArguments(form=form, key=key, parameter=parameter)


def _find_single_key(keys: Collection[str]) -> str | None:
    """Return the input that stands for all: the only one, or the one called "input"; None without."""
    return next(iter(keys)) if len(keys) == 1 else INPUT if INPUT in keys else None


def _with_argument(
    task: Callable[..., Any], parameter: str | None, argument: Callable[[Example], Any]
) -> Call:
    if parameter is None:
        return lambda example: task(argument(example))
    return lambda example: task(**{parameter: argument(example)})


def _example_itself(example: Example) -> Example:
    return example


def _inputs_of(example: Example) -> Any:
    return example.inputs


def _input_called(key: str) -> Callable[[Example], Any]:
    def value_of(example: Example) -> Any:
        try:
            return example.inputs[key]
        except KeyError:
            raise _missing_input_error(example, key) from None

    return value_of


def _select_leading(names: Sequence[str], inputs: Collection[str]) -> tuple[str, ...]:
    """Return the names up to the first one that is not an input: nothing after it can be positional."""
    count = next((index for index, name in enumerate(names) if name not in inputs), len(names))
    return tuple(names[:count])


def _missing_input_error(example: Example, key: str) -> DatasetError:
    which = quote(dict(example.inputs)) if example.id is None else repr(example.id)
    return DatasetError(f"The task needs the input {key!r}, which the example {which} lacks.")


def _explain_misfit(task: Callable[..., Any], parameters: Parameters, keys: Collection[str]) -> str:
    required = [parameter.name for parameter in parameters.mandatory]
    available = (
        f"only the input {next(iter(keys))!r}"
        if len(keys) == 1
        else f"the inputs {format_list(sorted(keys))}"
    )
    needs = f"needs {format_list(required)}" if required else "takes none of them as its first argument"
    return (
        f"The task {_format_signature(task, parameters)} {needs}, and the examples have {available}. "
        "Name its parameters after the inputs, bind the others with functools.partial, or let it take the "
        "whole example: "
        f"{format_header(task, 'example: Example')}."
    )


def _format_signature(task: Callable[..., Any], parameters: Parameters) -> str:
    inner = unwrap(task)
    name = getattr(inner, "__name__", None) or type(inner).__name__
    return f"{name}({', '.join(parameters.names)})"


def format_header(task: object, parameters: str) -> str:
    """Return the head of a task's function as it would be written with other parameters."""
    inner = unwrap(task)
    name = getattr(inner, "__name__", None)
    if name == "<lambda>":
        return f"lambda {parameters.partition(':')[0]}: ..."
    if name is None:
        return f"def __call__(self, {parameters})"
    return f"def {name if name.isidentifier() else 'answer'}({parameters})"
