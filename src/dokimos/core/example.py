"""One row of a data set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, TypeVar

from dokimos.core.convert import convert_entry
from dokimos.core.jsonable import WIRE_CONFIG, text_form
from dokimos.core.keys import INPUT, OUTPUT, input_of
from dokimos.core.metrics import CallMetrics
from dokimos.core.test_case import EvalTestCase
from dokimos.core.views import Printable

T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class Example(Printable):
    """What goes into the application, what should come out, and what is known about the row."""

    __dokimos_view__ = "dokimos.reporting.data_views:EXAMPLE"

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

    __pydantic_config__ = WIRE_CONFIG

    def __post_init__(self) -> None:
        for name in ("inputs", "expected_outputs", "metadata"):
            object.__setattr__(self, name, _copied(name, getattr(self, name)))
        if self.actual_outputs is not None:
            object.__setattr__(self, "actual_outputs", _copied("actual_outputs", self.actual_outputs))
        if self.id is not None and not isinstance(self.id, str):
            raise TypeError(f"The id of an Example must be text, not {self.id!r:.80}.")

    @classmethod
    def of(cls, input: Any, expected: Any = None, *, id: str | None = None, **metadata: Any) -> Example:
        """Make an example of one input and, unless None, one expected output."""
        outputs = {} if expected is None else {OUTPUT: expected}
        return cls({INPUT: input}, outputs, metadata=metadata, id=id)

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
        outputs: Any,
        *,
        metrics: CallMetrics | None = None,
        run_index: int = 0,
        error: str | None = None,
    ) -> EvalTestCase:
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


def _copied(name: str, content: Any) -> dict[str, Any]:
    try:
        return dict(content)
    except (TypeError, ValueError):
        kind = type(content).__name__
        hint = "Example.of(input, expected) takes single values"
        raise TypeError(f"{name} of an Example must be a mapping, not {kind}; {hint}.") from None
