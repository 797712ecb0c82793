"""What the parts of a configuration of promptfoo have to be, so that those who read them need not ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dokimos.errors import ConfigurationError

Shape = Mapping[str, tuple[type, ...]]

CONFIG: Final[Shape] = {"evaluateOptions": (dict,), "defaultVars": (dict,), "scenarios": (list, str)}
TEST: Final[Shape] = {"vars": (dict, str), "options": (dict,), "metadata": (dict,), "assert": (list,)}
SCENARIO: Final[Shape] = {"config": (list, str), "tests": (list, str)}
ASSERTION: Final[Shape] = {"threshold": (int, float), "assert": (list,)}
PROVIDER: Final[Shape] = {"config": (dict,), "transform": (str,)}
ENDPOINT: Final[Shape] = {
    "headers": (dict,), "method": (str,), "body": (dict, list, str), "queryParams": (dict,),
    "transformResponse": (str,), "responseParser": (str,),
}  # fmt: skip
_NOUNS: Final = {dict: "a map", list: "a list", str: "a text", int: "a number"}


def check_shape(block: object, shape: Shape, what: str) -> dict[str, Any]:
    """Return a block whose parts, as far as they are given, have the shape that they should.

    Raises:
        ConfigurationError: naming the part that has another one.
    """
    if not isinstance(block, dict):
        raise ConfigurationError(f"{what} must be a map, not {block!r:.60}.")
    for key, types in shape.items():
        value = block.get(key)
        # bool is an int to isinstance(), and true is not a threshold.
        if value is not None and (isinstance(value, bool) or not isinstance(value, types)):
            nouns = " or ".join(_NOUNS[kind] for kind in types if kind in _NOUNS)
            raise ConfigurationError(f"{key} of {what} must be {nouns}, not {value!r:.60}.")
    return block


def number(text: str, what: str) -> float:
    """Return the number in a text. Raises `ConfigurationError` where it is none."""
    try:
        return float(text)
    except ValueError:
        raise ConfigurationError(f"{what} must be a number, not {text!r:.60}.") from None
