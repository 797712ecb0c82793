"""Check unknown member names of rows: they become metadata, unless they are misspelt."""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Collection, Iterable
from dataclasses import fields
from typing import Any, Final

from dokimos._core.jsonable import camel_case
from dokimos._core.metrics import CallMetrics
from dokimos._core.misspellings import find_resemblance
from dokimos._runtime.terminal_text import escape_control_characters
from dokimos.datasets._columns import WIRE_NAMES
from dokimos.errors import DatasetError

_METRICS: Final = frozenset(
    name for field in fields(CallMetrics) for name in (field.name, camel_case(field.name))
)
_MEAN_EXPECTED: Final = frozenset((
    "expected", "expectedanswer", "expectedresult", "expectedresponse", "expectedvalue", "correctanswer",
    "goldanswer", "idealanswer", "referenceanswer",
))  # fmt: skip
"""Names of metadata, in letters, that say what an expected output is."""
_TABLE_NAMES: Final = frozenset(("expectedoutput", "output"))
"""What tables call the expected output as well."""
_MOST_COMBINATIONS: Final = 1000


class UnknownNames:
    """Looks at the names in the rows of one source; rows with the same names are looked at once."""

    def __init__(self, label: str | None) -> None:
        self._label = label
        self._seen: set[frozenset[Any]] = set()
        self._warned: set[str] = set()

    def check(self, names: Iterable[Any], unknown: Collection[Any], line: int | None) -> None:
        """Refuse what is probably a misspelt name, and warn of what may be one.

        Args:
            names: All names of the row.
            unknown: Those of them that become metadata.
            line: Where the row is.

        Raises:
            DatasetError: saying which name was probably meant, and how to keep this one.
        """
        combination = frozenset(names)
        if combination in self._seen:
            return
        texts = [name for name in combination if isinstance(name, str)]
        for name in sorted(name for name in texts if name in unknown):
            resemblance = find_resemblance(name, texts)
            if resemblance is not None and resemblance.kind == "slip":
                raise DatasetError(_refusal(name, resemblance.key), path=self._label, line=line)
            if resemblance is not None:
                self._warn(name, f"; it is similar to {resemblance.key!r}.")
        self._warn_of_expected(texts, unknown)
        # Rows that each have keys of their own would fill memory with combinations that never come again.
        if len(self._seen) < _MOST_COMBINATIONS:
            self._seen.add(combination)

    def _warn_of_expected(self, names: Iterable[str], unknown: Collection[Any]) -> None:
        """Warn of a name that says that it is the expected output, in a row that has none."""
        if any(_is_expected(name) for name in names):
            return
        for name in sorted(name for name in names if name in unknown and _letters_of(name) in _MEAN_EXPECTED):
            option = shlex.quote(f"{name}=expected_output")
            self._warn(
                name,
                ", and the row has no expected output. If it is one, call it 'expected_output' or pass "
                f"columns={{{name!r}: 'expected_output'}} (--columns {option}).",
            )

    def _warn(self, name: str, problem: str) -> None:
        if name not in self._warned:
            self._warned.add(name)
            where = f"{self._label}: " if self._label else ""
            message = f"{where}{name!r} becomes metadata{problem}"
            warnings.warn(escape_control_characters(message), stacklevel=2)


def _letters_of(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def _is_expected(name: str) -> bool:
    """Whether a name of a row, or a column such as `expected_outputs.answer`, holds what is expected."""
    return (
        WIRE_NAMES.get(name.partition(".")[0], "").startswith("expected") or _letters_of(name) in _TABLE_NAMES
    )


def _refusal(name: str, key: str) -> str:
    columns = {name: f"metadata.{name}"}
    option = shlex.quote(f"{name}=metadata.{name}")
    return (
        f"{name!r} is not a known name. Did you mean {key!r}? To keep it as metadata, pass "
        f"columns={columns!r} (--columns {option})."
    )


def are_metrics(value: object) -> bool:
    """Whether a member `metrics` holds what a call has measured, and not something of the user's."""
    if value is None:
        return True
    return type(value) is dict and (not value or not _METRICS.isdisjoint(value))


def metrics_in(cell: str) -> Any:
    """Return the metrics in a cell, or the cell itself where it holds something of the user's.

    Raises:
        ValueError: for a cell that begins like an object and is not JSON.
    """
    from dokimos.datasets._json_format import loads

    try:
        value = loads(cell)
    except ValueError:
        if cell.lstrip().startswith("{"):
            raise
        return cell
    return value if are_metrics(value) else cell
