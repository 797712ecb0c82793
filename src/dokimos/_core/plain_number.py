"""Numbers of any library as Python's own, without importing the library."""

from __future__ import annotations

import math
import numbers
from typing import Any


def plain_number(value: Any) -> bool | int | float | None:
    """Return a number or a boolean as Python's own, None for what is neither.

    NumPy's, PyTorch's and JAX's scalars, their arrays of one element, `Decimal` and `Fraction` are numbers.
    A text is not one, whatever it says, nor is a complex number.

    Raises:
        OverflowError: for a number that is too large for a float.
    """
    if isinstance(value, bool | int | float):
        return value
    if hasattr(value, "dtype") and callable(getattr(value, "item", None)):
        try:
            value = value.item()
        except Exception:  # an array of several elements; each library has an error of its own for it
            return None
        if isinstance(value, bool | int | float):
            return value
    if not isinstance(value, numbers.Number):  # not `__float__`: the mocks of tests have it, too
        return None
    try:
        return float(value)  # type: ignore[arg-type] # complex numbers have no __float__: TypeError
    except TypeError:
        return None
    except ValueError:  # a signaling NaN of `decimal`
        return math.nan
