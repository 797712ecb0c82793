"""What an evaluator sees: an example together with what the application gave for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, TypeVar

from dokimos.core.agent import ToolCall
from dokimos.core.convert import convert_entry
from dokimos.core.jsonable import WIRE_CONFIG, text_form
from dokimos.core.keys import CONTEXT, INPUT, OUTPUT, TOOL_CALLS, input_of
from dokimos.core.metrics import CallMetrics
from dokimos.core.quick_init import quick_init
from dokimos.core.tool_lists import tool_calls_from
from dokimos.core.views import Printable

T = TypeVar("T")


@quick_init
@dataclass(frozen=True, slots=True, repr=False)
class EvalTestCase(Printable):
    """One case to be scored.

    `input`, `actual_output` and `expected_output` are text forms of the conventional keys (strings verbatim,
    other values as compact JSON, None when absent); the `..._as` accessors give the values themselves.
    """

    __dokimos_view__ = "dokimos.reporting.data_views:CASE"

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
    def of(cls, input: Any, actual: Any, expected: Any = None) -> EvalTestCase:
        """Make a case of one input, one actual output and, unless None, one expected output."""
        outputs = {} if expected is None else {OUTPUT: expected}
        return cls({INPUT: input}, {OUTPUT: actual}, expected_outputs=outputs)

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
    def context(self) -> tuple[str, ...] | None:
        """The chunks under "context" in the actual outputs, else in the metadata; None when absent."""
        value = self.actual_outputs.get(CONTEXT)
        if value is None:
            value = self.metadata.get(CONTEXT)
        if value is None:
            return None
        chunks = value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else [value]
        return tuple(text_form(chunk) or "" for chunk in chunks)

    def input_as(self, target: type[T] | str, key: str | type[T] = INPUT) -> T | None:
        """Return an input as `target`; None when absent. Raises `TypeConversionError`."""
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
