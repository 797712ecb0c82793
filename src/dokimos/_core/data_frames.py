"""Convert rows to pandas data frames."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from dokimos._core.extras import require
from dokimos._core.rows import Row

if TYPE_CHECKING:
    import pandas

_LARGEST: Final = 2**63 - 1


def frame_of(rows: Sequence[Row]) -> pandas.DataFrame:
    """Return rows of the same columns as a data frame.

    Columns of numbers are numeric and verdicts are booleans, also where some are missing; anything else stays
    what it is.

    Raises:
        MissingExtraError: where pandas is not installed.
    """
    pandas = require("pandas", extra="pandas")
    names = list(rows[0]) if rows else []
    columns = (_column(pandas, [row[name] for row in rows]) for name in names)
    frame = pandas.DataFrame(dict(enumerate(columns)))
    frame.columns = _texts(pandas.Index, names)
    return frame


def _column(pandas: Any, values: list[Any]) -> Any:
    types = {type(value) for value in values if value is not None}
    missing = any(value is None for value in values)
    if types == {bool}:
        return pandas.array(values, dtype="boolean") if missing else values
    if types == {int} and all(value is None or abs(value) <= _LARGEST for value in values):
        return pandas.array(values, dtype="Int64") if missing else values
    if types and types <= {int, float} and all(map(_fits_float, values)):
        return pandas.Series([float("nan") if value is None else float(value) for value in values])
    if types == {str}:
        return _texts(pandas.Series, values)
    return pandas.Series(values, dtype=object)


def _texts(make: Callable[..., Any], values: Sequence[str | None]) -> Any:
    """Return texts in the type that pandas has for them; half a character does not fit into that."""
    try:
        return make(values)
    except UnicodeEncodeError:
        return make(values, dtype=object)


def _fits_float(value: object) -> bool:
    return not isinstance(value, int) or abs(value) <= sys.float_info.max
