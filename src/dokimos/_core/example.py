"""One row of a data set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Final, Generic, TypeVar, cast

from dokimos._core.convert import convert_entry
from dokimos._core.jsonable import WIRE_CONFIG, text_form
from dokimos._core.keys import INPUT, OUTPUT, input_of, value_of
from dokimos._core.metrics import CallMetrics
from dokimos._core.printable import Printable
from dokimos._core.test_case import EvalTestCase
from dokimos._core.type_parameters import DefaultsToAny, In, In_co, Out, Out_co
from dokimos.errors import TypeConversionError

T = TypeVar("T")

_NOT_METADATA: Final = {
    "inputs": "give one input, or write Example({...})",
    "output": "the expected output is the second argument",
    "expected_output": "the expected output is the second argument",
    "expected_outputs": "write Example({...}, {...})",
    "actual": 'write Example({...}, actual_outputs={"output": ...})',
    "actual_output": 'write Example({...}, actual_outputs={"output": ...})',
    "actual_outputs": "write Example({...}, actual_outputs={...})",
    "actual_error": "write Example({...}, actual_error=...)",
    "metadata": "give each key of the metadata as a keyword of its own",
}
"""Keywords of `Example.of` that would be taken for metadata although they are meant as a field."""


@dataclass(frozen=True, slots=True, repr=False)
class Example(Printable, DefaultsToAny, Generic[In_co, Out_co]):
    """What goes into the application, what should come out, and what is known about the row.

    `Example[Question, Answer]` tells type checkers what the input and the expected output are.

    Example:
        >>> example = Example.of("Capital of Italy?", "Rome")
        >>> example.inputs, example.expected_outputs
        ({'input': 'Capital of Italy?'}, {'output': 'Rome'})
    """

    __dokimos_view__ = "dokimos.reporting._data_views:EXAMPLE"

    inputs: Mapping[str, Any] = field(default_factory=dict)
    expected_outputs: Mapping[str, Any] = field(default_factory=dict)
    _: KW_ONLY
    metadata: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None
    """Names the row across versions of the data set; unique within one."""
    actual_outputs: Mapping[str, Any] | None = None
    """Outputs that were recorded earlier; `recorded_task()` returns them."""
    metrics: CallMetrics | None = None
    """Metrics that were recorded with them."""
    actual_error: str | None = None
    """Why the recorded run gave no answer, as `Type: message`; `recorded_task()` gives it on."""
    dataset_item_id: str | None = field(default=None, compare=False)
    """Names the item of a server's data set that it was loaded from. It is not content: examples that differ
    in nothing else are equal, and files of data sets do not hold it."""

    __pydantic_config__ = WIRE_CONFIG

    def __post_init__(self) -> None:
        # The outermost maps alone: what is inside is copied before code of users gets it.
        keep = object.__setattr__
        keep(self, "inputs", _copy_content("inputs", self.inputs))
        keep(self, "expected_outputs", _copy_content("expected_outputs", self.expected_outputs))
        keep(self, "metadata", _copy_content("metadata", self.metadata))
        if self.actual_outputs is not None:
            keep(self, "actual_outputs", _copy_content("actual_outputs", self.actual_outputs))
        if self.id is not None and not isinstance(self.id, str):
            raise TypeError(f"The id of an Example must be text, not {self.id!r:.80}.")

    @classmethod
    def of(
        cls, input: In, expected: Out | None = None, *, id: str | None = None, **metadata: Any
    ) -> Example[In, Out]:
        """Make an example of one input and, unless None, one expected output; other keywords are metadata.

        Raises:
            TypeError: for a keyword that is a field of an example, which nobody means as metadata.
        """
        for name in metadata.keys() & _NOT_METADATA.keys():
            raise TypeError(f"Example.of() takes no {name}=: {_NOT_METADATA[name]}.")
        outputs = {} if expected is None else {OUTPUT: expected}
        example: Any = cls({INPUT: input}, outputs, metadata=metadata, id=id)
        return cast("Example[In, Out]", example)

    @property
    def input_value(self) -> In_co:
        """The input as it is: the value under "input", the only one there is, else the mapping of all."""
        return cast("In_co", value_of(self.inputs, INPUT))

    @property
    def expected(self) -> Out_co | None:
        """The expected output as it is: the value under "output", None when absent."""
        return cast("Out_co | None", self.expected_outputs.get(OUTPUT))

    @property
    def input(self) -> str | None:
        """The text form of `inputs["input"]`, None when absent."""
        return text_form(input_of(self.inputs))

    @property
    def expected_output(self) -> str | None:
        """The text form of `expected_outputs["output"]`, None when absent."""
        return text_form(self.expected_outputs.get(OUTPUT))

    def input_as(self, target: type[T] | str, key: str | type[T] = INPUT) -> T | None:
        """Return an input as `target`; None when absent. Raises `TypeConversionError`."""
        # "query" stands for "input" here as well.
        inputs = self.inputs if INPUT in self.inputs else {**self.inputs, INPUT: input_of(self.inputs)}
        return convert_entry(inputs, target, key, what="input")

    def expected_output_as(self, target: type[T] | str, key: str | type[T] = OUTPUT) -> T | None:
        """Return an expected output as `target`; None when absent. Raises `TypeConversionError`."""
        return convert_entry(self.expected_outputs, target, key, what="expected output")

    def metadata_as(self, target: type[T] | str, key: str | type[T]) -> T | None:
        """Return a metadata value as `target`; None when absent. Raises `TypeConversionError`."""
        return convert_entry(self.metadata, target, key, what="metadata")

    def to_test_case(
        self,
        outputs: object,
        *,
        metrics: CallMetrics | None = None,
        run_index: int = 0,
        error: str | None = None,
    ) -> EvalTestCase[In_co, Out_co]:
        """Join the example with what the application gave: a mapping of outputs, or one value."""
        return EvalTestCase(
            self.inputs,
            outputs if isinstance(outputs, Mapping) else {OUTPUT: outputs},
            expected_outputs=self.expected_outputs,
            metadata=self.metadata,
            id=self.id,
            metrics=metrics,
            run_index=run_index,
            error=error,
        )


def convert_types(example: Example, input: type[Any], output: type[Any] | None) -> Example[Any, Any]:
    """Return an example with its input, and its expected output, converted to types.

    Raises:
        TypeConversionError: naming the example.
    """
    try:
        input_value = convert_entry({INPUT: example.input_value}, input, INPUT, what="input")
        expected = example.expected
        if expected is None or output is None:
            return replace(example, inputs={INPUT: input_value})
        expected = convert_entry({OUTPUT: expected}, output, OUTPUT, what="expected output")
    except TypeConversionError as error:
        where = "" if example.id is None else f"Example {example.id!r:.80}: "
        raise TypeConversionError(f"{where}{error}", target=error.target, key=error.key) from error
    expected_outputs = {**example.expected_outputs, OUTPUT: expected}
    return replace(example, inputs={INPUT: input_value}, expected_outputs=expected_outputs)


def _copy_content(name: str, content: Any) -> dict[str, Any]:
    if type(content) is dict:  # the usual case, in half the time
        copied: dict[str, Any] = content.copy()
        return copied
    try:
        return dict(content)
    except (TypeError, ValueError):
        kind = type(content).__name__
        hint = "Example.of(input, expected) takes single values"
        raise TypeError(f"{name} of an Example must be a mapping, not {kind}; {hint}.") from None
