"""What an evaluator sees: an example together with what the application gave for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Generic, TypeVar, cast

from dokimos._core.agent import ToolCall
from dokimos._core.contexts import OF_ANSWERS, ContextsEntry, chunks_of, find_contexts
from dokimos._core.convert import convert_entry
from dokimos._core.jsonable import WIRE_CONFIG, text_form
from dokimos._core.keys import INPUT, OUTPUT, TOOL_CALLS, input_of, outputs_of, value_of
from dokimos._core.metrics import CallMetrics
from dokimos._core.printable import Printable
from dokimos._core.tool_lists import tool_calls_from
from dokimos._core.type_parameters import DefaultsToAny, In, In_co, Out, Out_co
from dokimos.errors import MissingInputError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class EvalTestCase(Printable, DefaultsToAny, Generic[In_co, Out_co]):
    """One case to be scored.

    `input`, `actual_output` and `expected_output` are text forms of the conventional keys (strings verbatim,
    other values as compact JSON, None when absent). `input_value`, `output` and `expected` are the values
    themselves, of the types of an `EvalTestCase[Question, Answer]`; the `..._as` accessors convert them.

    Example:
        >>> case = EvalTestCase.of("Capital of Italy?", "Rome", "Rome")
        >>> case.input, case.actual_output, case.expected_output
        ('Capital of Italy?', 'Rome', 'Rome')
    """

    __dokimos_view__ = "dokimos.reporting._data_views:CASE"

    inputs: Mapping[str, Any] = field(default_factory=dict)
    actual_outputs: Mapping[str, Any] = field(default_factory=dict)
    _: KW_ONLY
    expected_outputs: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None
    metrics: CallMetrics | None = None
    """What the task measured, for limits on latency, cost and tokens."""
    run_index: int = 0
    error: str | None = None
    """Why the application gave no answer, as `Type: message`; no evaluator scores such a case."""

    __pydantic_config__ = WIRE_CONFIG

    @classmethod
    def of(
        cls,
        input: In,
        output: Out,
        expected: Out | None = None,
        *,
        tool_calls: Iterable[ToolCall | Mapping[str, Any]] | None = None,
        contexts: Iterable[Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        id: str | None = None,
    ) -> EvalTestCase[In, Out]:
        """Make a case of one input, one actual output and, unless None, one expected output.

        Args:
            input: What the application was asked.
            output: What it answered.
            expected: What it should have answered.
            tool_calls: The calls that it made, in order; they are under "toolCalls" in the outputs.
            contexts: What it had retrieved, texts or chunks; they are under "contexts" in the outputs.
            metadata: What is known about the case.
            id: Names the case.

        Raises:
            TypeError: where tool calls or contexts are one text instead of several.
        """
        case: Any = cls(
            {INPUT: input},
            outputs_of({OUTPUT: output}, tool_calls, contexts),
            expected_outputs={} if expected is None else {OUTPUT: expected},
            metadata=dict(metadata or {}),
            id=id,
        )
        return cast("EvalTestCase[In, Out]", case)

    @property
    def input_value(self) -> In_co:
        """The input as it is: the value under "input", the only one there is, else the mapping of all."""
        return cast("In_co", value_of(self.inputs, INPUT))

    @property
    def output(self) -> Out_co:
        """The output as it is: the value under "output".

        Raises:
            MissingInputError: where there is none, which is an error of an evaluator that asks for it.
        """
        if OUTPUT not in self.actual_outputs:
            raise MissingInputError(
                f"The case has no {OUTPUT!r}; its outputs are {list(self.actual_outputs)}."
            )
        return cast("Out_co", self.actual_outputs[OUTPUT])

    @property
    def expected(self) -> Out_co | None:
        """The expected output as it is: the value under "output", None when absent."""
        return cast("Out_co | None", self.expected_outputs.get(OUTPUT))

    @property
    def input(self) -> str | None:
        return text_form(input_of(self.inputs))

    @property
    def actual_output(self) -> str | None:
        return text_form(self.actual_outputs.get(OUTPUT))

    @property
    def expected_output(self) -> str | None:
        return text_form(self.expected_outputs.get(OUTPUT))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...] | None:
        """The calls under "toolCalls", given as `ToolCall`s or as maps; None when absent.

        Raises `EvaluationError` where an element is neither.
        """
        value = self.actual_outputs.get(TOOL_CALLS)
        return None if value is None else tool_calls_from(value, key=TOOL_CALLS)

    @property
    def contexts(self) -> tuple[str, ...] | None:
        """The texts of what was retrieved; None when absent, an empty tuple where nothing was found.

        They are under "contexts" or one of its other names (`context`, `retrieved`, `retrievalContext`,
        `retrieved_contexts` ...) in the actual outputs, else in the metadata, else in the inputs. Raises
        `EvaluationError` where they cannot be read.
        """
        entry = self.find_contexts()
        return None if entry is None else tuple(chunk.text for chunk in chunks_of(entry))

    def find_contexts(self, names: Sequence[str] = OF_ANSWERS, *, texts: bool = True) -> ContextsEntry | None:
        """Return what was retrieved as it is, and where it is: under the first of the names that is there."""
        return find_contexts(self.actual_outputs, self.metadata, self.inputs, names, texts=texts)

    def input_as(self, target: type[T] | str, key: str | type[T] = INPUT) -> T | None:
        """Return an input as `target`; None when absent. Raises `TypeConversionError`."""
        # "query" stands for "input" here as well.
        inputs = self.inputs if INPUT in self.inputs else {**self.inputs, INPUT: input_of(self.inputs)}
        return convert_entry(inputs, target, key, what="input")

    def actual_output_as(self, target: type[T] | str, key: str | type[T] = OUTPUT) -> T | None:
        """Return an actual output as `target`; None when absent. Raises `TypeConversionError`."""
        return convert_entry(self.actual_outputs, target, key, what="actual output")

    def expected_output_as(self, target: type[T] | str, key: str | type[T] = OUTPUT) -> T | None:
        """Return an expected output as `target`; None when absent. Raises `TypeConversionError`."""
        return convert_entry(self.expected_outputs, target, key, what="expected output")

    def metadata_as(self, target: type[T] | str, key: str | type[T]) -> T | None:
        """Return a metadata value as `target`; None when absent. Raises `TypeConversionError`."""
        return convert_entry(self.metadata, target, key, what="metadata")
