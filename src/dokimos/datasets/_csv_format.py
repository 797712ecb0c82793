"""Parse CSV by RFC 4180: record by record, and many usual ones together."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from dokimos._core.example import Example
from dokimos._core.keys import INPUT, OUTPUT
from dokimos.datasets._columns import SECTIONS, WIRE_NAMES, parse_target, suggestion
from dokimos.datasets._csv_records import MANY_RECORDS, CsvRecords
from dokimos.datasets._json_format import loads
from dokimos.datasets._limits import read_bounded_lines
from dokimos.datasets._row_names import UnknownNames, metrics_in
from dokimos.datasets._rows import RowReader
from dokimos.datasets._source import Source
from dokimos.datasets._text_rows import Target, TextRowReader
from dokimos.errors import DatasetError

_TARGETS: Final[dict[str, Target]] = {
    "input": ("inputs", INPUT),
    "id": ("id", None),
    "actualoutput": ("actualOutputs", OUTPUT),
    "actual_output": ("actualOutputs", OUTPUT),
    "actualerror": ("actualError", None),
    "actual_error": ("actualError", None),
    "metrics": ("metrics", None),
}
_EXPECTED: Final = ("expectedoutput", "expected_output", "output")


def read_csv(
    source: Source,
    columns: Mapping[str, str] | None = None,
    delimiter: str = ",",
    *,
    skip_empty: bool = False,
    rows: RowReader | None = None,
) -> Iterator[Example]:
    """Yield one example per record. Raises `DatasetError` with the line on which the record starts.

    The arguments are those of `read_csv_batches`.
    """
    return chain.from_iterable(read_csv_batches(source, columns, delimiter, skip_empty=skip_empty, rows=rows))


def read_csv_batches(
    source: Source,
    columns: Mapping[str, str] | None = None,
    delimiter: str = ",",
    *,
    skip_empty: bool = False,
    rows: RowReader | None = None,
) -> Iterator[Sequence[Example]]:
    """Yield what `read_csv` does, some at a time.

    Args:
        source: The file.
        columns: What its columns are called, where not as usual.
        delimiter: What stands between cells.
        skip_empty: Whether an empty cell is a key that the example does not have, instead of an empty text.
        rows: What turns each record into an example; without it, many are made together.
    """
    check_delimiter(delimiter)
    with source.open() as stream:
        # newline="": a line break inside quotes is part of the cell, whichever it is.
        lines = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        try:
            yield from _examples(
                CsvRecords(read_bounded_lines(lines, source.label), delimiter, source.label),
                RowReader(source.label) if rows is None else rows,
                columns,
                skip_empty=skip_empty,
                most=1 if source.waits or rows is not None else MANY_RECORDS,
            )
        except UnicodeDecodeError:
            raise source.utf8_error() from None


def check_delimiter(delimiter: object) -> None:
    """Raise `DatasetError` unless the delimiter is one usable character."""
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
        raise DatasetError(
            f"The delimiter must be one character other than a quote or line break, not {delimiter!r}."
        )


def _examples(
    records: CsvRecords,
    rows: RowReader,
    columns: Mapping[str, str] | None,
    *,
    skip_empty: bool,
    most: int,
) -> Iterator[Sequence[Example]]:
    label = rows.label
    header = next(iter(records), None)
    if header is None:
        raise DatasetError("There is no header line: the text is empty.", path=label)
    targets = _Header(header, label, records.line, columns or {}).targets()
    together = TextRowReader.of(targets, skip_empty=skip_empty)
    while lines := records.take_lines(most):
        parsed = None if together is None else records.parse_together(lines)
        examples = None if together is None or parsed is None else together.read(parsed)
        if examples is not None:
            records.pass_over(lines)
            yield examples
            del parsed, examples  # before the next ones are made: in memory that is in the caches
            continue
        for cells in records.read_singly(lines):
            row = _row(cells, targets, label, records.line, skip_empty=skip_empty)
            yield (rows.read(row, records.line),)


def _row(
    cells: list[str], targets: list[Target | None], label: str | None, line: int, *, skip_empty: bool
) -> dict[str, Any]:
    row: dict[str, Any] = {"inputs": {}}
    maps: list[tuple[str, str]] = []
    # A short record lacks its last cells, and what a long one has too many is nowhere described.
    for cell, target in zip(cells, targets, strict=False):
        if target is None:
            continue
        name, key = target
        if key is not None:
            if cell or not skip_empty:
                row.setdefault(name, {})[key] = cell
        elif name in ("id", "actualError"):
            row[name] = cell
        elif name in SECTIONS and cell:
            maps.append((name, cell))
        elif cell:
            metrics = _parse_metrics(cell, label, line)
            if metrics is cell:
                row.setdefault("metadata", {})[name] = cell
            else:
                row[name] = metrics
    for name, cell in maps:  # after the columns of single keys, which may be empty for what a map has
        _add_map(row, name, cell, label, line)
    return row


def _parse_metrics(cell: str, label: str | None, line: int) -> Any:
    try:
        return metrics_in(cell)
    except ValueError as error:
        raise _not_an_object("metrics", str(error), label, line) from None


def _add_map(row: dict[str, Any], name: str, cell: str, label: str | None, line: int) -> None:
    """Add the keys of a JSON object, such as the column `inputs` holds."""
    values, problem = None, "it is another value"
    try:
        values = loads(cell)
    except ValueError as error:
        problem = str(error)
    if not isinstance(values, dict):
        if name != "metadata":
            raise _not_an_object(name, problem, label, line)
        values = {name: cell}  # a text of the user's, whose column happens to be called so
    keys = row.setdefault(name, {})
    for key, value in values.items():
        if keys.get(key, "") != "":
            message = f"The columns {name!r} and '{name}.{key}' both have the key {key!r}."
            raise DatasetError(message, path=label, line=line)
        keys[key] = value


def _not_an_object(name: str, problem: str, label: str | None, line: int) -> DatasetError:
    return DatasetError(f"The column {name!r} must hold a JSON object: {problem}", path=label, line=line)


@dataclass(frozen=True, slots=True)
class _Header:
    """The first record, and what its columns mean."""

    names: list[str]
    label: str | None
    line: int
    columns: Mapping[str, str]

    def targets(self) -> list[Target | None]:
        """Return the target of each column; None for one without a name."""
        names = [name.strip() for name in self.names]
        lowered = [name.lower() for name in names]
        mapped = self._map_columns(names, lowered)
        by_user = frozenset(mapped.values())
        expected = None
        if ("expectedOutputs", OUTPUT) not in by_user:
            expected = next((n for i, n in enumerate(lowered) if n in _EXPECTED and i not in mapped), None)
        targets = [
            mapped[i] if i in mapped else self._default(names[i], lowered[i], expected, by_user)
            for i in range(len(names))
        ]
        self._check(names, targets)
        unknown = [
            name for i, name in enumerate(names) if i not in mapped and targets[i] == ("metadata", name)
        ]
        UnknownNames(self.label).check([*names, *self.columns.values()], unknown, self.line)
        return targets

    def _default(
        self, name: str, lowered: str, expected: str | None, by_user: frozenset[Target]
    ) -> Target | None:
        if not name:
            return None
        if lowered == expected:
            return "expectedOutputs", OUTPUT
        head, dot, key = name.partition(".")
        section = WIRE_NAMES.get(head)
        if section in SECTIONS and (key or not dot):
            return section, key or None
        target = _TARGETS.get(lowered, ("metadata", name))
        is_taken = target in by_user and target[0] in ("actualOutputs", "actualError", "metrics")
        # The user has named the column of the outputs, so one that only has our name for them is metadata.
        return ("metadata", name) if is_taken else target

    def _map_columns(self, names: list[str], lowered: list[str]) -> dict[int, Target]:
        mapped: dict[int, Target] = {}
        for source, target in self.columns.items():
            column = source.strip()
            if column in names:
                mapped[names.index(column)] = parse_target(source, target)
            elif column.lower() in lowered:
                mapped[lowered.index(column.lower())] = parse_target(source, target)
            else:
                hint = self._other_delimiter() or f"There are: {self._describe_columns()}."
                self._fail(f"columns= names {source!r}, which is not a column. {hint}")
        return mapped

    def _check(self, names: list[str], targets: list[Target | None]) -> None:
        seen: dict[Target, str] = {}
        for name, target in zip(names, targets, strict=True):
            if target is None:
                continue
            if target in seen:
                member = ".".join(part for part in target if part)
                self._fail(f"The columns {seen[target]!r} and {name!r} both mean {member!r}.")
            seen[target] = name
        if not any(section == "inputs" for section, _ in seen):
            self._fail(
                f"There is no column 'input'. {self._other_delimiter() or suggestion(filter(None, names))}"
            )

    def _other_delimiter(self) -> str:
        if len(self.names) > 1:
            return ""
        separator = next((mark for mark in ";\t|" if mark in self.names[0]), None)
        if separator is None:
            return ""
        return (
            f"The cells are divided by {separator!r}: read the file with Dataset.from_csv(path, "
            f"delimiter={separator!r}), or save it with commas."
        )

    def _describe_columns(self) -> str:
        return ", ".join(repr(name.strip()) for name in self.names)

    def _fail(self, message: str) -> None:
        raise DatasetError(message, path=self.label, line=self.line)
