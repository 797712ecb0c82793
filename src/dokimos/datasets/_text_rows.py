"""Make the examples of many records of a table at once, whose cells are texts, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Final, Self, TypeAlias

from dokimos._core.keys import INPUT, OUTPUT
from dokimos.datasets._columns import SECTIONS
from dokimos.datasets._json_columns import Column
from dokimos.datasets._row_batches import UsualExamples, make_examples

Target: TypeAlias = tuple[str, str | None]
"""A member of a row and, for a map, the key in it."""

_SHORT: Final = {
    ("inputs", INPUT): "input",
    ("expectedOutputs", OUTPUT): "expectedOutput",
    ("actualOutputs", OUTPUT): "actualOutput",
}
"""Names for sections that have this key alone."""


class TextRowReader:
    """Reads records of ids and values of single keys; `RowReader.read` makes the same of each."""

    def __init__(self, targets: Sequence[Target | None], *, skip_empty: bool) -> None:
        self._targets = targets
        self._skip_empty = skip_empty
        self._sections: dict[str, list[str]] = {}
        """The keys of each section, in the order of their columns."""
        for section, key in filter(None, targets):
            if key is not None:
                self._sections.setdefault(section, []).append(key)

    @classmethod
    def of(cls, targets: Sequence[Target | None], *, skip_empty: bool) -> Self | None:
        """Return a reader, None where a column has to be parsed: the JSON of maps and metrics, and errors."""
        is_usual = all(name == "id" or (name in SECTIONS and key) for name, key in filter(None, targets))
        return cls(targets, skip_empty=skip_empty) if is_usual else None

    def read(self, records: Sequence[Sequence[str]]) -> UsualExamples | None:
        """Return the examples of records, None where they have to be read one by one."""
        if set(map(len, records)) != {len(self._targets)}:
            return None
        cells = dict(zip(self._targets, zip(*records, strict=True), strict=True))
        if self._skip_empty and any("" in column for target, column in cells.items() if target is not None):
            return None
        columns: dict[str, Column] = {}
        if ("id", None) in cells:
            columns["id"] = Column([id or None for id in cells["id", None]])
        for section, keys in self._sections.items():
            members = {key: Column.of_kind(str, cells[section, key]) for key in keys}
            short = _SHORT.get((section, keys[0])) if len(keys) == 1 else None
            if short is not None:
                columns[short] = members[keys[0]]
                continue
            values = zip(*[member.values for member in members.values()], strict=True)
            maps = list(map(dict, map(zip, repeat(keys), values)))
            columns[section] = Column.of_kind(dict, maps, members)
        return make_examples(columns, len(records))
