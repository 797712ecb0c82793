"""Convert rows to pandas data frames."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from dokimos._core.extras import require
from dokimos._core.rows import Row

if TYPE_CHECKING:
    import pandas

_LARGEST: Final = 2**63 - 1
"""What Int64 holds; a column with a larger number keeps Python's own."""


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
    # By number at first: a name with half a character in it would fail in this constructor.
    frame = pandas.DataFrame(dict(enumerate(columns)))
    frame.columns = _texts(pandas.Index, names)
    return frame


def _column(pandas: Any, values: list[Any]) -> Any:
    present = [value for value in values if value is not None]
    types = {type(value) for value in present}
    is_full = len(present) == len(values)
    if types == {bool}:
        return values if is_full else pandas.array(values, dtype="boolean")
    if types == {int} and max(map(abs, present)) <= _LARGEST:
        return values if is_full else pandas.array(values, dtype="Int64")
    if types and types <= {int, float} and all(map(_fits_float, present)):
        return pandas.Series(list(map(_float_or_nan, values)))
    if types == {str}:
        return _texts(pandas.Series, values)
    return pandas.Series(values, dtype=object)


def _texts(make: Callable[..., Any], values: Sequence[str | None]) -> Any:
    """Return texts in the type that pandas has for them; half a character does not fit into that."""
    try:
        return make(values)
    except UnicodeEncodeError:
        return make(values, dtype=object)


def _float_or_nan(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _fits_float(value: object) -> bool:
    return not isinstance(value, int) or abs(value) <= sys.float_info.max
