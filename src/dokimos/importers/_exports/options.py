"""What the user says about an export, and what follows for its maps of inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dokimos._core.keys import INPUT, OUTPUT
from dokimos.importers._exports.row import Row
from dokimos.importers._promptfoo.conversion_notes import Notes


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Which keys are the input and the output, and scores that stand in another file."""

    input_key: str | None = None
    """The key of inputs that becomes `input`."""
    output_key: str | None = None
    """The key of outputs, expected and recorded ones, that becomes `output`."""
    scores: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Scores by the id of their trace."""

    def name_inputs(self, row: Row, values: dict[str, Any]) -> dict[str, Any]:
        """Return the inputs with the chosen one as `input`."""
        return _rename_key(row, values, self.input_key, INPUT)

    def name_outputs(self, row: Row, values: dict[str, Any]) -> dict[str, Any]:
        """Return the outputs with the chosen one as `output`."""
        return _rename_key(row, values, self.output_key, OUTPUT)

    def name_expected(self, row: Row, values: dict[str, Any], notes: Notes) -> dict[str, Any]:
        """Return the expected outputs likewise, and note where evaluators would not find one."""
        expected = self.name_outputs(row, values)
        if expected and OUTPUT not in expected:
            names = ", ".join(map(repr, expected))
            notes.change(
                f"expected outputs have no 'output' but {names}; --output-key names the one to compare"
            )
        return expected


def _rename_key(row: Row, values: dict[str, Any], key: str | None, conventional: str) -> dict[str, Any]:
    if key is None or not values or key == conventional:
        return values
    if key not in values or conventional in values:
        found = ", ".join(map(repr, values))
        row.fail(f"The key {key!r} cannot become {conventional!r}: there is {found}.")
    return {conventional if name == key else name: value for name, value in values.items()}
