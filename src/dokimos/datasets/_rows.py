"""Parse rows, whatever file they come from, into examples."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NoReturn

from dokimos._core.example import Example
from dokimos._core.keys import INPUT, OUTPUT
from dokimos._core.metrics import CallMetrics
from dokimos.datasets._columns import WIRE_NAMES, ColumnMap, suggestion
from dokimos.datasets._json_columns import Column
from dokimos.datasets._row_batches import UnfinishedExample, UsualExamples, read_usual_rows
from dokimos.datasets._row_metrics import read_metrics
from dokimos.datasets._row_names import UnknownNames, are_metrics
from dokimos.errors import DatasetError, TypeConversionError

_SNAKE_NAMES: Final = frozenset(name for name, wire_name in WIRE_NAMES.items() if name != wire_name)
_USUAL: Final = frozenset({"id", "input", "inputs", "expectedOutput", "expectedOutputs", "metadata"})
_EXAMPLE_FIELDS: Final = frozenset(WIRE_NAMES.values())
_RECORDED: Final = _EXAMPLE_FIELDS - _USUAL
"""Names of what an application has answered already."""


class RowReader:
    """Turns the rows of one source into examples; `label` names the source in errors."""

    def __init__(self, label: str | None = None, columns: Mapping[str, str] | None = None) -> None:
        self.label = label
        self._columns = ColumnMap(columns, label) if columns else None
        self._names = UnknownNames(label)

    def read(self, row: Any, line: int | None = None) -> Example:
        """Return the example of a parsed row, whose maps it takes over. Raises `DatasetError`."""
        actual = metrics = error = None
        # Rows with only names of ours, which most have, skip all that moves and checks.
        names = _find_names(row) if self._columns is None and type(row) is dict else None
        if names is None or (names.has_recorded and not are_metrics(row.get("metrics"))):
            row = self._with_others_as_metadata(self._in_our_names(row, line), line)
        elif names.renamed:
            row = dict(zip(names.renamed, row.values(), strict=True))
        if names is None or names.has_recorded:
            actual, metrics = self._actual(row, line), self._metrics(row.get("metrics"), line)
            error = self._error(row.get("actualError"), line)
        get = row.get
        inputs, expected, metadata, id = get("inputs"), get("expectedOutputs"), get("metadata"), get("id")
        if inputs is None and "input" in row:
            inputs = {INPUT: row["input"]}
        elif type(inputs) is not dict or not inputs:
            inputs = self._inputs(row, inputs, line)
        if expected is None:
            expected = {OUTPUT: row["expectedOutput"]} if "expectedOutput" in row else {}
        elif type(expected) is not dict or not expected:
            expected = self._outputs(row, expected, "expectedOutput", line) or {}
        if type(metadata) is not dict:
            metadata = self._map(metadata, "metadata", line)
        if id is not None and (type(id) is not str or not id):
            id = self._id(id, line)
        example: Any = UnfinishedExample()
        example.inputs = inputs
        example.expected_outputs = expected
        example.metadata = metadata
        example.id = id
        example.actual_outputs = actual
        example.metrics = metrics
        example.actual_error = error
        example.dataset_item_id = None
        example.__class__ = Example
        finished: Example = example
        return finished

    def read_all(self, rows: Column) -> UsualExamples | None:
        """Return what `read` makes of each parsed row, None where they have to be read one by one."""
        return read_usual_rows(rows) if self._columns is None else None

    def _in_our_names(self, row: object, line: int | None) -> dict[str, Any]:
        """Rename what `columns` or snake_case call otherwise."""
        if type(row) is not dict:
            self._fail(f"Expected an object with an input, found {_describe(row)}.", line)
        if self._columns is not None:
            row = self._columns.apply(row, line)
        return row if _SNAKE_NAMES.isdisjoint(row) else self._in_wire_names(row, line)

    def _in_wire_names(self, row: dict[str, Any], line: int | None) -> dict[str, Any]:
        renamed = {WIRE_NAMES.get(key, key): value for key, value in row.items()}
        if len(renamed) < len(row):
            names = [WIRE_NAMES.get(key, key) for key in row]
            twice = next(name for index, name in enumerate(names) if name in names[:index])
            self._fail(f"{twice!r} is given twice, in camelCase and in snake_case.", line)
        return renamed

    def _with_others_as_metadata(self, row: dict[str, Any], line: int | None) -> dict[str, Any]:
        """Move the members that are not ours to the metadata."""
        others = [name for name in row if name not in _EXAMPLE_FIELDS]
        if "metrics" in row and not are_metrics(row["metrics"]):
            others.append("metrics")
        if not others or ("input" not in row and row.get("inputs") is None):
            return row
        self._names.check(row, others, line)
        metadata = self._map(row.get("metadata"), "metadata", line)
        for name in others:
            value = row.pop(name)
            if metadata.setdefault(name, value) != value:
                self._fail(
                    f"{name!r} is a member of this row and of its 'metadata', with other values.", line
                )
        row["metadata"] = metadata
        return row

    def _inputs(self, row: dict[str, Any], inputs: object, line: int | None) -> dict[str, Any]:
        if inputs is not None:
            self._map(inputs, "inputs", line)
        if "input" in row:
            return {INPUT: row["input"]}
        if inputs is None:
            self._fail(f"This row has no 'input' and no 'inputs'. {suggestion(row)}", line)
        return {}

    def _outputs(
        self, row: dict[str, Any], outputs: object, short: str, line: int | None
    ) -> dict[str, Any] | None:
        if outputs is not None:
            self._map(outputs, f"{short}s", line)
        if short in row:
            return {OUTPUT: row[short]}
        return None if outputs is None else {}

    def _actual(self, row: dict[str, Any], line: int | None) -> dict[str, Any] | None:
        """The recorded outputs; a short null means that nothing was recorded."""
        outputs = row.get("actualOutputs")
        if outputs is None:
            output = row.get("actualOutput")
            return None if output is None else {OUTPUT: output}
        if type(outputs) is dict and outputs:
            return outputs
        recorded = self._outputs(row, outputs, "actualOutput", line)
        return None if recorded == {OUTPUT: None} else recorded

    def _map(self, value: object, name: str, line: int | None) -> dict[str, Any]:
        if value is None:
            return {}
        if type(value) is not dict:
            self._fail(f"{name!r} must be an object, not {_describe(value)}.", line)
        return value

    def _id(self, id: object, line: int | None) -> str | None:
        if id == "":
            return None
        # type(), since True is an int, too.
        if type(id) is int:
            return str(id)
        self._fail(f"'id' must be a text or a whole number, not {_describe(id)}.", line)

    def _metrics(self, metrics: Any, line: int | None) -> CallMetrics | None:
        if metrics is None:
            return None
        try:
            return read_metrics(metrics)
        except TypeConversionError as error:
            self._fail(f"'metrics' cannot be read: {error}", line)

    def _error(self, error: object, line: int | None) -> str | None:
        """Why nothing was recorded; an empty text, as in a table, means that nothing failed."""
        if error is None or isinstance(error, str):
            return error or None
        self._fail(f"'actualError' must be a text, not {_describe(error)}.", line)

    def _fail(self, message: str, line: int | None) -> NoReturn:
        raise DatasetError(message, path=self.label, line=line)


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of a row, all of which are ours."""

    renamed: tuple[str, ...]
    """The names as a file has them, () if these are so."""
    has_recorded: bool
    """Whether one is of what an application has answered already."""


def _find_names(row: dict[str, Any]) -> _Names | None:
    """Return the names of a row that has only names of ours, else None."""
    return _read_names(tuple(row)) if len(row) <= len(_EXAMPLE_FIELDS) else None


@lru_cache(maxsize=256)
def _read_names(names: tuple[str, ...]) -> _Names | None:
    """Return names that are all ours and differ, else None.

    The rows of one data set have the same names again and again. What is kept is small, since only rows with
    no more names than we have get here.
    """
    renamed = tuple([WIRE_NAMES.get(name, name) for name in names])
    if not _EXAMPLE_FIELDS.issuperset(renamed) or len(set(renamed)) < len(names):
        return None
    return _Names(() if renamed == names else renamed, not _RECORDED.isdisjoint(renamed))


def duplicate_id(examples: Iterable[Example]) -> tuple[str, int, int] | None:
    """Return the first id that occurs twice, with its two 0-based positions."""
    seen: dict[str, int] = {}
    for index, example in enumerate(examples):
        if example.id is not None and seen.setdefault(example.id, index) != index:
            return example.id, seen[example.id], index
    return None


def _describe(value: object) -> str:
    type_names = {
        dict: "an object",
        list: "an array",
        str: "the text",
        type(None): "null",
        bool: "",
        int: "",
        float: "",
    }
    kind = type_names.get(type(value), f"a {type(value).__name__}")
    if isinstance(value, list | dict) or value is None:
        return kind
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        return kind
    return f"{kind} {text[:60]}".strip()
